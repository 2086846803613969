#!/usr/bin/env bash
# Compares builds of SQLite and keeps the reports in docs/examples:
#   align     all functions aligned to 32 bytes, with the alignment probe
#   changes   a function that is never called, and a hot loop made 2 % slower
#   ipa       gcc without each of its interprocedural optimisations
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh
. scripts/toolchain.sh
need_rust
planish=${CARGO_TARGET_DIR:-$PWD/target}/release/planish
export PATH="$(dirname "$CARGO"):$PATH"
mkdir -p docs/examples
tell() { # NAME ARGUMENTS…
  local name=$1; shift
  "$planish" compare --config "demo/compare/$name.toml" --machine demo --raw "$PWD/demo/compare/.planish/$name.jsonl" \
    --html "$PWD/docs/examples/$name.html" --markdown "$PWD/docs/examples/$name.md" "$@" || case $? in 1 | 4) ;; *) exit 1 ;; esac
}
case ${1:-all} in
  all) tell align --probe-align 64; tell changes --code-metrics; tell ipa --matrix ;;
  align) tell align --probe-align 64 ;;
  changes) tell changes --code-metrics ;;
  ipa) tell ipa --matrix ;;
  *) echo "demo-compare: $1 is none of all, align, changes, ipa" >&2; exit 2 ;;
esac
