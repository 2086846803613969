#!/usr/bin/env bash
# The compiler of scripts/fuzz.sh (RUSTC_WRAPPER): measures coverage in our own crates alone, since what others wrote is
# not what is fuzzed.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
case "${CARGO_MANIFEST_DIR:-} $*" in
  *" --crate-name build_script_"* | *" --crate-type proc-macro"*) exec "$@" ;;
  "$root"/crates/* | "$root/fuzz "*)
    exec "$@" --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
      -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
      -Cllvm-args=-sanitizer-coverage-trace-compares
    ;;
  *) exec "$@" ;;
esac
