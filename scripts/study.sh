#!/usr/bin/env bash
# A study on kernels, by one command:  scripts/study.sh NAME     (make study NAME=align)
#
# studies/NAME/planish.toml says which variants are compared, study.sh in which counts; `planish kernel compare` builds them, links
# them in orders and judges. Writes measurements/DATE-study-NAME.md. What is there from an earlier run is not repeated.
# STUDY_ORDERS (default 20): random orders of each variant.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-}
[ -n "$name" ] && [ -e "studies/$name/study.sh" ] || { echo "study: name one of: $(ls studies | xargs)" >&2; exit 2; }
orders=${STUDY_ORDERS:-20}
. scripts/kernel-tree.sh
kernel_tools study
title="" series="" metrics=()
project=studies/$name/planish.toml
# shellcheck source=/dev/null
. "studies/$name/study.sh"

[ -n "${PLANISH:-}" ] || scripts/build.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=${PLANISH:-$target/release/planish}
export PLANISH_QEMU_PLUGIN=${PLANISH_QEMU_PLUGIN:-$target/release/libplanish_qemu_branches.so}
mkdir -p "$target/kernel-e2e"
kernel_tree "$series" "$target/kernel-e2e"
"$planish" -q kernel prepare "$tree" || { code=$?; [ "$code" -le 1 ] || exit "$code"; }
work=$target/studies/$name
mkdir -p "$work"
for metric in "${metrics[@]}"; do
  rm -f "$work/$metric.jsonl"
  "$planish" kernel compare "$tree" --output-dir "$work/$series" --project "$project" --orders "$orders" --metric "$metric" \
    --raw "$work/$metric.jsonl" --markdown "$work/$metric.md" --html "$work/$metric.html" >"$work/$metric.txt" ||
    { code=$?; case $code in 1 | 4) ;; *) exit "$code" ;; esac; }
done
out=measurements/$(date +%F)-study-$name.md
{
  echo "# $title"
  echo
  echo "\`make study NAME=$name\` on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $(date +%F): Linux $series"
  echo "($(basename "$tree")), small configuration, $(clang-22 --version | head -n 1); $orders random orders of functions and of object files' data of"
  echo "each variant, each counted once on the deterministic machine with planish's workload and simulated caches. Counts, not times."
  echo
  echo "Variants ([kernel.variants] in [planish.toml](../$project)): $(sed -n '/^\[kernel.variants\]/,$ { /=/ s/.*/`&`/p }' "$project" | paste -sd ' ')"
  for metric in "${metrics[@]}"; do
    echo
    echo "## $metric"
    echo
    python3 scripts/study.py "$work/$metric.jsonl" "$metric"
    echo
    # Without the details of each row, which the page has.
    awk '/^### / { details = 1 } /^\| size in bytes/ { sizes = 1 } !details || sizes && !/^- note:/' "$work/$metric.md" |
      sed "s|$target/|target/|g"
  done
} >"$out"
echo "study: $out" >&2
