#!/usr/bin/env bash
# What it costs to turn off the optimisations that leave no trace, and live patching's modes: SQLite by gcc.
#   scripts/bench-livepatch.sh [NAME]       writes measurements/DATE-NAME.md (NAME defaults to livepatch)
#
# The variants are those that `planish livepatch flags --matrix` prints. BENCH_ROUNDS (default 20) runs of each, in turns.
# BENCH_KERNEL names a kernel tree built by gcc with KCFLAGS="-fdump-ipa-clones -fdump-ipa-icf-details", to time
# the reading of a large build. BENCH_DRIFT=1 also builds SQLite with the profiles of its two workloads and compares closures.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-clones}
rounds=${BENCH_ROUNDS:-20}

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
work=$target/bench-livepatch
mkdir -p "$work" measurements
command -v gcc >/dev/null || { echo "bench: no gcc; run: make setup" >&2; exit 1; }

mapfile -t flags < <("$planish" livepatch flags --matrix | sed -n 's/^ *"\(.*\)",$/\1/p')
flags=("" "${flags[@]}")
binaries=()
for at in "${!flags[@]}"; do
  dir=$work/$at
  binaries+=("v$at=$dir/shop")
  [ -x "$dir/shop" ] && [ "$(cat "$dir/flags")" = "${flags[$at]}" ] && continue
  echo "bench: building SQLite with gcc -O2 ${flags[$at]}"
  rm -rf "$dir"
  PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$dir PLANISH_CC=gcc \
    PLANISH_CFLAGS="-O2 -g -fdump-ipa-clones -fdump-ipa-icf-details ${flags[$at]}" demo/sqlite/build.sh
  printf %s "${flags[$at]}" >"$dir/flags"
done
"$planish" compare "${binaries[@]}" --rounds "$rounds" --metric cpu --format json -- {bin} eval 60 >"$work/compare.json" || case $? in 1 | 4) ;; *) exit 1 ;; esac

# A build with the profile of one workload: the object's name leads gcc to the profile beside it.
drift() { # WORKLOAD
  local dir=$work/drift-$1 flags
  [ -f "$dir/done" ] && return
  rm -rf "$dir"
  for flags in "-fprofile-generate" "-fprofile-use -fprofile-partial-training -fdump-ipa-clones -fdump-ipa-icf-details"; do
    PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$dir PLANISH_CC=gcc PLANISH_CFLAGS="-O2 -g $flags" PLANISH_LDFLAGS=${flags%% *} \
      demo/sqlite/build.sh
    [ "$flags" != -fprofile-generate ] || (cd "$dir" && ./shop "$1" 30)
  done
  touch "$dir/done"
}
if [ -n "${BENCH_DRIFT:-}" ]; then
  drift train
  drift eval
fi

out=measurements/$(date +%F)-$name.md
{
  echo "# What live patching costs SQLite, $(date +%F)"
  echo
  echo "\`scripts/bench-livepatch.sh\` on $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, Linux $(uname -r), $(gcc --version | head -n 1)."
  echo
  echo "Text is that of sqlite3.o. Closure: functions with code that change with a function, itself included, over all"
  echo "functions of the source. CPU: \`shop eval 60\`, ratio to gcc -O2 with its 95 % interval, $rounds rounds in turns, one link each."
  echo
  echo "| flags behind \`gcc -O2 -g\` | text, bytes | closure: mean | 95 % up to | largest | CPU | verdict |"
  echo "|---|---|---|---|---|---|---|"
  for at in "${!flags[@]}"; do
    text=$(size -A "$work/$at/sqlite3.o" | awk '$1 ~ /^\.text/ { sum += $2 } END { print sum }')
    "$planish" livepatch closure "$work/$at" --format json 2>/dev/null >"$work/$at/clones.json"
    python3 - "$work/$at/clones.json" "$work/compare.json" "v$at" "${flags[$at]:-none}" "$text" <<'P'
import json, sys
clones, compare, variant, flags, text = sys.argv[1:]
sizes = json.load(open(clones))["closures"]
row = next((c for c in json.load(open(compare))["comparisons"] if c["variant"] == variant), None)
low, high = (row or {}).get("interval") or (float("nan"), float("nan"))
cpu = "1 | base" if row is None else f"{row['effect']:.4f} ({low:.4f} to {high:.4f}) | {row['verdict']}"
most = sizes["largest"][0]
print(f"| `{flags}` | {text} | {sizes['mean']:.2f} | {sizes['p95']} | {most['with_code']} ({most['name']}) | {cpu} |")
P
  done
  if [ -n "${BENCH_DRIFT:-}" ]; then
    echo
    echo "## Two profiles"
    echo
    echo "\`planish livepatch diff\` of SQLite by gcc -O2 -fprofile-use, with the profile of \`shop train\` and of \`shop eval\`:"
    echo
    "$planish" livepatch diff "$work/drift-train" "$work/drift-eval" | tail -n 1 || [ $? = 1 ]
  fi
  if [ -n "${BENCH_KERNEL:-}" ]; then
    echo
    echo "## Reading a kernel build"
    echo
    echo "$(find "$BENCH_KERNEL" -name '*.ipa-clones' | wc -l) dumps of clones. Seconds of five runs each: the summary, and the closure of one function."
    echo
    for words in "" "--function copy_process"; do
      printf '`planish livepatch TREE %s`:' "$words"
      for _ in 1 2 3 4 5; do
        # shellcheck disable=SC2086  # words
        { time -p "$planish" livepatch closure "$BENCH_KERNEL" $words >/dev/null 2>&1; } 2>&1 | awk '/^real/ { printf " %s", $2 }'
      done
      echo
    done
  fi
} >"$out"
echo "bench: $out"
