#!/usr/bin/env bash
# Does planish compare keep its promises? Simulated and real comparisons of programs with themselves.
#   scripts/bench-compare.sh [NAME]       writes measurements/DATE-NAME.md (NAME defaults to compare)
#
# BENCH_COMPARISONS (default 1000) is the number of simulated comparisons per row, BENCH_AA_ROUNDS (default 4200) the
# rounds of the real ones (ten make one comparison), BENCH_LAYOUTS (default 24) the relinks of each of the two sides.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-compare}
comparisons=${BENCH_COMPARISONS:-1000}
aa_rounds=${BENCH_AA_ROUNDS:-4200}
layouts=${BENCH_LAYOUTS:-24}

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
work=$target/bench-compare
mkdir -p "$work" measurements
"$CARGO" build --release --locked -q -p compare --example aa --example relinked --example overhead
"$CARGO" build --release --locked -q -p statistics --example simulate --example speed

if [ ! -x "$work/shop" ]; then
  echo "bench: building SQLite with the inputs of its link kept"
  cc=$(first_of clang-22 clang-23 clang-21 clang-20 clang-19 clang) || { echo "bench: no clang; run: make setup" >&2; exit 1; }
  PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$work PLANISH_CC=$cc PLANISH_CFLAGS="-O2 -ffunction-sections" \
    PLANISH_LDFLAGS="-fuse-ld=lld -Wl,--reproduce=$work/shop.repro.tar" demo/sqlite/build.sh
fi

out=measurements/$(date +%F)-$name.md
{
  echo "# planish compare against itself, $(date +%F)"
  echo
  echo "\`scripts/bench-compare.sh\` on $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, Linux $(uname -r)."
  echo
  echo "## The harness"
  echo
  echo '```'
  "$target/release/examples/overhead"
  "$target/release/examples/speed"
  echo '```'
  echo
  echo "## The same file under two names: SQLite, \`shop eval 10\`, CPU time"
  echo
} >"$out.new"

echo "bench: $aa_rounds rounds of SQLite against itself"
[ -s "$work/aa.jsonl" ] || "$planish" compare "$work/shop" "$work/shop" --rounds "$aa_rounds" --raw "$work/aa.jsonl" \
  --format json -- '{bin}' eval 10 >/dev/null || case $? in 1 | 4) ;; *) exit 1 ;; esac
"$target/release/examples/aa" "$work/aa.jsonl" 10 >>"$out.new"

echo "bench: 2 x $layouts relinks of SQLite against each other"
[ -s "$work/relinked.jsonl" ] || "$planish" compare "$work/shop" "$work/shop" --layouts "$layouts" --rounds 20 \
  --layout-mode independent --objects "$work/shop.repro.tar" "$work/shop.repro.tar" --raw "$work/relinked.jsonl" \
  --format json -- '{bin}' eval 10 >/dev/null || case $? in 1 | 4) ;; *) exit 1 ;; esac
{
  echo
  echo "## Relinks of the same objects: SQLite, \`shop eval 10\`, CPU time"
  echo
  "$target/release/examples/relinked" "$work/relinked.jsonl" 8
} >>"$out.new"

echo "bench: simulating $comparisons comparisons per row (minutes)"
{
  echo
  echo "## Simulated"
  echo
  "$target/release/examples/simulate" --comparisons "$comparisons"
} >>"$out.new"
mv "$out.new" "$out"
echo "bench: wrote $out"
