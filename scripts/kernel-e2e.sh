#!/usr/bin/env bash
# From Debian's kernel sources to a kernel with a profile and a layout, measured: planish kernel optimize, on a small
# configuration.
#   scripts/kernel-e2e.sh [SERIES [OPTION…]]     SERIES is 6.12 (default) or 6.1; options are those of kernel optimize
#
# The sources are those of the package linux-source-SERIES; it is unpacked in target/kernel-e2e and not installed (1.6 GB, and 1 GB
# of builds). The result is the exit code and the table of planish, kept as report.md there. On two busy cores
# planish's part took 23 minutes; a second run does only what is left to do.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
series=${1:-6.12}
shift || true

. scripts/kernel-tree.sh
kernel_tools kernel-e2e

scripts/build.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
export PLANISH_QEMU_PLUGIN=$target/release/libplanish_qemu_branches.so
work=$target/kernel-e2e
mkdir -p "$work"
kernel_tree "$series" "$work"

began=$(date +%s)
code=0
"$planish" kernel optimize "$tree" --output-dir "$work/$series" "$@" || code=$?
echo "kernel-e2e: Linux $series, exit code $code, $(( ($(date +%s) - began) / 60 )) minutes" >&2
exit "$code"
