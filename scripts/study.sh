#!/usr/bin/env bash
# A study on kernels, by one command:  scripts/study.sh NAME     (make study NAME=align)
#
# studies/NAME/planish.toml says which variants are compared, study.sh in which counts and whether in native time, too;
# `planish kernel compare` builds them, links them in orders and judges. Writes measurements/DATE-study-NAME.md. What is there from
# an earlier run is not repeated.
# STUDY_ORDERS: random orders of each variant (default: 20, in native time what the study says).
# STUDY_ROUNDS: rounds of the native time (default: what the study says).
# STUDY_NATIVE=1: only the native time.
# STUDY_SERIES: another series of Debian's sources than the study names (6.1); the result has it in its name.
# STUDY_TREE, STUDY_WORK: another tree, taken as it is, and where builds, runs and the result go in place of target/studies and
# measurements (for tests).
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-}
[ -n "$name" ] && [ -e "studies/$name/study.sh" ] || { echo "study: name one of: $(ls studies | xargs)" >&2; exit 2; }
title="" series="" metrics=() native="" native_orders=8 native_rounds=5 needs_kernel=1 compiler=clang-22
project=studies/$name/planish.toml
# shellcheck source=/dev/null
. "studies/$name/study.sh"
. scripts/kernel-tree.sh
[ -z "$needs_kernel" ] || [ -n "${STUDY_TREE:-}" ] || kernel_tools study
[ -n "${PLANISH:-}" ] || scripts/build.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=${PLANISH:-$target/release/planish}
export PLANISH_QEMU_PLUGIN=${PLANISH_QEMU_PLUGIN:-$target/release/libplanish_qemu_branches.so}
[ -z "${STUDY_NATIVE:-}" ] || metrics=()
of=""
[ -z "${STUDY_SERIES:-}" ] || { series=$STUDY_SERIES of=-$series; }
orders=${STUDY_ORDERS:-20}
native_orders=${STUDY_ORDERS:-$native_orders}
native_rounds=${STUDY_ROUNDS:-$native_rounds}

if [ -n "${STUDY_TREE:-}" ]; then
  tree=$STUDY_TREE
elif [ -n "$needs_kernel" ]; then
  mkdir -p "$target/kernel-e2e"
  kernel_tree "$series" "$target/kernel-e2e"
  "$planish" -q kernel prepare "$tree" || { code=$?; [ "$code" -le 1 ] || exit "$code"; }
fi
work=${STUDY_WORK:-$target/studies}/$name$of
mkdir -p "$work"

# What comes out may be "slower" (1) or undecided (4); all else ends the study.
compared() { "$planish" kernel compare "$tree" --output-dir "$work/$series" "$@" || { code=$?; case $code in 1 | 4) ;; *) exit "$code" ;; esac; }; }

if declare -F make_variants >/dev/null; then
  make_variants
  project=$work/planish.toml
fi
out=${STUDY_WORK:-measurements}/$(date +%F)-study-$name$of.md
about() {
  echo "# $title"
  echo
  echo "\`${STUDY_SERIES:+STUDY_SERIES=$series }make study NAME=$name\` on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $(date +%F): Linux $series"
  echo "($(basename "$tree")), small configuration, $("$compiler" --version | head -n 1)."
  [ -z "$native" ] ||
    echo "CPU time: kernels that are processes (\`--native\`), $native_orders random orders of each variant, $native_rounds rounds."
}
if declare -F run_study >/dev/null; then
  { [ -z "$needs_kernel" ] || about; run_study; } >"$out.new"
  mv "$out.new" "$out"
  echo "study: $out" >&2
  exit
fi
for metric in "${metrics[@]}"; do
  rm -f "$work/$metric.jsonl"
  compared --project "$project" --orders "$orders" --metric "$metric" --raw "$work/$metric.jsonl" \
    --markdown "$work/$metric.md" --html "$work/$metric.html" >"$work/$metric.txt"
done
if [ -n "$native" ]; then
  resume=()
  [ ! -e "$work/cpu-time.jsonl" ] || resume=(--resume)
  compared --native --project "$project" --orders "$native_orders" --rounds "$native_rounds" --raw "$work/cpu-time.jsonl" \
    "${resume[@]}" --markdown "$work/cpu-time.md" --html "$work/cpu-time.html" >"$work/cpu-time.txt"
  metrics+=(cpu-time)
fi
{
  about
  [ "${#metrics[@]}" = 1 ] && [ -n "$native" ] ||
    echo "Counts (no times): $orders random orders of functions and of object files' data of each variant, each counted once on the
deterministic machine with planish's workload and simulated caches."
  echo
  echo "Variants: $(sed -n '/^\[kernel.variants\]/,$ { /=/ s/.*/`&`/p }' "$project" | sed "s|$target/|target/|g" | paste -sd ';' | sed 's/;/; /g')"
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
  ! declare -F more_of_study >/dev/null || more_of_study
} >"$out.new"
mv "$out.new" "$out"
echo "study: $out" >&2
