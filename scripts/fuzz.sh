#!/usr/bin/env bash
# Runs the fuzz targets of fuzz/ with a stable compiler.
#   scripts/fuzz.sh [--seconds N] [--runs N] [TARGET…]
# N seconds each (default 60), and no more than that many runs; 0 seconds only replays fuzz/corpus/TARGET.
#
# cargo-fuzz wants a nightly compiler for the address sanitizer. The readers are safe Rust, so coverage alone is
# enough here, and LLVM's coverage pass is reachable from stable: -Cpasses=sancov-module, for our own crates. Overflow
# checks and debug assertions stay on. It starts from fuzz/corpus/TARGET and the fixtures of that kind; new inputs go to
# fuzz/target/corpus; a crash is written to fuzz/artifacts and named.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
need_rust

seconds=60 most_runs=-1
while :; do
  case ${1:-} in
    --seconds) seconds=$2 ;;
    --runs) most_runs=$2 ;;
    *) break ;;
  esac
  shift 2
done
known=$(sed -n '/^\[\[bin\]\]/,/^$/s/^name = "\(.*\)"/\1/p' fuzz/Cargo.toml)
targets=${*:-$known}
for name in $targets; do
  grep -qx "$name" <<<"$known" || { echo "fuzz: no target $name; there are: $(tr '\n' ' ' <<<"$known")" >&2; exit 2; }
done

# libFuzzer itself is C++; clang brings the headers for it, plain gcc does not.
cxx=$(first_of clang++-22 clang++-23 clang++-21 clang++-20 clang++-19 clang++-18 clang++ g++) || {
  echo "skipped: fuzzing, no C++ compiler to build libFuzzer with (apt-get install clang-22)"
  exit 0
}
# Found inputs and logs. Programs lie where the tests' do, so that what others wrote is built once; our own crates have
# other names there, since fuzz/Cargo.toml asks for another optimisation of them.
fuzz_target=${CARGO_TARGET_DIR:+$CARGO_TARGET_DIR/fuzz}; fuzz_target=${fuzz_target:-fuzz/target}
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} CXX=$cxx
RUSTC_WRAPPER=$PWD/scripts/fuzz-rustc.sh; export RUSTC_WRAPPER
echo "fuzz: building $(wc -w <<<"$targets") targets"
"$CARGO" build --quiet --manifest-path fuzz/Cargo.toml $(printf -- '--bin %s ' $targets)
programs=$CARGO_TARGET_DIR/debug

# One target, in a process of its own.
fuzz_one() {
  local name=$1 kept found log longest seeds dirs dir budget runs covered slow
  kept=fuzz/corpus/$name; found=$fuzz_target/corpus/$name; log=$fuzz_target/$name.log
  mkdir -p "$found" fuzz/artifacts
  # Inputs are as short as what they have to say allows, since the rate falls as they grow.
  case $name in
    kernel | cc_profile | livepatch | perf_map | jitdump | index) longest=2048 ;;
    superpages) longest=3072 ;;
    json | profile | counts_text | exchange | counts_file | arm_spe | lookahead) longest=4096 ;;
    toml) longest=5120 ;;
    perfdata) longest=12288 ;;
    tar) longest=16384 ;;
    *) longest=8192 ;;
  esac
  case $name in
    perfdata) seeds="$kept fixtures/perfdata" ;;
    image) seeds="$kept fixtures/autofdo" ;;
    profile | counts_text) seeds="$kept fixtures/autofdo fixtures/peers" ;;
    *) seeds=$kept ;;
  esac
  dirs=''
  for dir in $seeds; do [ ! -d "$dir" ] || dirs="$dirs $dir"; done
  budget=(-max_total_time="$seconds" -runs="$most_runs" -max_len="$longest")
  # What is kept is replayed whole.
  [ "$seconds" -gt 0 ] || budget=(-runs=0 -max_len=200000)
  # -rss_limit_mb and -timeout are the promise the readers make: bounded memory, seconds at most.
  local limits=(-timeout=10 -rss_limit_mb=1024)
  if "$programs/$name" "${budget[@]}" "${limits[@]}" -print_final_stats=1 \
      -verbosity=1 -artifact_prefix="fuzz/artifacts/$name-" "$found" $dirs >"$log" 2>&1 </dev/null; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    covered=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1)
    echo "fuzz: $name: ${runs:-0} inputs, ${covered:-nothing covered}, no crash"
  elif slow=$(sed -n 's/.*Test unit written to \(.*-timeout-[0-9a-f]*\)$/\1/p' "$log" | tail -n 1) && [ -n "$slow" ] \
      && "$programs/$name" "${limits[@]}" "$slow" >"$log.again" 2>&1 </dev/null; then
    # A machine that stands still for seconds makes any input slow once.
    echo "fuzz: $name: $slow took 10 seconds once, and not when run again; no crash"
  else
    echo "fuzz: $name FAILED" >&2
    return 1
  fi
}

# As many at once as there are CPUs: each is one thread.
failed='' running=() names=()
settle() { # the one that was begun first
  wait "${running[0]}" || failed="$failed ${names[0]}"
  running=("${running[@]:1}") names=("${names[@]:1}")
}
for name in $targets; do
  [ ${#running[@]} -lt "$(nproc)" ] || settle
  fuzz_one "$name" &
  running+=($!) names+=("$name")
done
while [ ${#running[@]} -gt 0 ]; do settle; done
[ -n "$failed" ] || exit 0
# Last, so that whoever sees the end of a log alone sees what failed.
for name in $failed; do
  echo "fuzz: $name FAILED:"
  tail -n 30 "$fuzz_target/$name.log" | cut -c1-3000
done >&2
echo "fuzz: failed:$failed; the inputs are in fuzz/artifacts" >&2
exit 1
