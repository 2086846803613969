#!/usr/bin/env bash
# Our own reading of debug information beside gimli's entries and attributes: CPU time and peak memory for the same stacks.
#   scripts/bench-dwarf.sh [FILE…]       writes measurements/DATE-dwarf.md
#
# Each FILE is a program with debug information, uncompressed; without one it is planish itself (line tables) and SQLite
# by gcc -O2 -g. BENCH_ROUNDS (default 15) runs of each reader on each file, in turns, on one thread.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
rounds=${BENCH_ROUNDS:-15}

. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
work=$target/bench-dwarf
mkdir -p "$work" measurements
if [ $# = 0 ]; then
  scripts/build.sh
  command -v gcc >/dev/null || { echo "bench: no gcc; run: make setup" >&2; exit 1; }
  [ -x "$work/shop" ] || PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$work PLANISH_CC=gcc PLANISH_CFLAGS="-O2 -g" demo/sqlite/build.sh
  set -- "$target/release/planish" "$work/shop"
fi
# Alone and without link-time optimisation: the rest of the workspace is not needed.
"$CARGO" build --release --locked -q -p image --example dwarf_beside_gimli --config profile.release.lto=false
reader=$target/release/examples/dwarf_beside_gimli

: >"$work/runs"
for file; do
  echo "bench: $(basename "$file"): $("$reader" both "$file")"
  for ((round = 0; round < rounds; round++)); do
    for mode in $( ((round % 2)) && echo ours gimli || echo gimli ours); do
      printf '%s %s\n' "$file" "$("$reader" $mode "$file")" >>"$work/runs"
    done
  done
done

out=measurements/$(date +%F)-dwarf.md
python3 - "$work/runs" "$rounds" "$@" >"$out.new" <<'PY'
import os, platform, statistics, subprocess, sys
runs, rounds, files = sys.argv[1], sys.argv[2], sys.argv[3:]
found = {}
for line in open(runs):
    file, mode, seconds, _, memory, _, addresses = line.split()[:7]
    found.setdefault((file, mode), []).append((float(seconds), int(memory), addresses))
cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
def debug_bytes(file):
    text = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True).stdout
    return sum(int(line.split("]")[1].split()[4], 16) for line in text.splitlines() if "] .debug_" in line)
print("# Debug information, read by ourselves and with gimli's entries\n")
print(f"`scripts/bench-dwarf.sh` on {cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}: the inline stack, with lines and")
print(f"discriminators, of one address of 16 bytes of code, on one thread; medians of {rounds} runs, in turns. Memory is the peak")
print("beyond the list of addresses, the pages read of the file included. `ours` is `image::debug`; `gimli` does the same with")
print("gimli's reader of entries and attributes. Both run gimli's line programs. The answers are compared first, address by address.\n")
print("| file | debug sections | addresses | ours CPU s | gimli CPU s | of gimli's | ours MiB | gimli MiB | of gimli's | answers that differ |")
print("|---|---|---|---|---|---|---|---|---|---|")
for file in files:
    middle = lambda mode, at: statistics.median(run[at] for run in found[file, mode])
    ours, theirs = (middle("ours", 0), middle("ours", 1)), (middle("gimli", 0), middle("gimli", 1))
    both = subprocess.run([os.path.join(os.path.dirname(os.path.dirname(runs)), "release/examples/dwarf_beside_gimli"), "both", file],
                          capture_output=True, text=True, check=True).stdout
    differ = both.split(", ")[-1].split()[0]
    print(f"| {os.path.basename(file)} | {debug_bytes(file) / 1e6:.0f} MB | {int(found[file, 'ours'][0][2]):,} | {ours[0]:.3f} | {theirs[0]:.3f} | "
          f"{ours[0] / theirs[0]:.2f} | {ours[1]:.0f} | {theirs[1]:.0f} | {ours[1] / max(theirs[1], 1):.2f} | {int(differ):,} |")
PY
mv "$out.new" "$out"
cat "$out"
