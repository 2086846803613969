#!/usr/bin/env bash
# planish report beside perf report on the same recordings: CPU time, wall time and peak memory of the same table.
#   scripts/bench-report.sh       writes measurements/DATE-report.md and .json
#
# The recordings are real ones, tiled (crates/perfdata/examples/tile.rs) to BENCH_BYTES (default 1 GB) each: plain samples
# of gzip and of a lock convoy, and copied stacks (--call-graph dwarf) of python. BENCH_LARGE (default 0; 20000000000 for
# the large one) adds a recording of plain samples of that size that only planish reads, to show how memory grows.
# BENCH_ROUNDS (default 5) rounds, the tools in turns.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
rounds=${BENCH_ROUNDS:-5}
bytes=${BENCH_BYTES:-1000000000}
large=${BENCH_LARGE:-0}

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
work=$target/bench-report
mkdir -p "$work" measurements
for tool in perf python3 gzip cc /usr/bin/time; do
  command -v "$tool" >/dev/null || { echo "bench: $tool is missing; run: make bench" >&2; exit 1; }
done
"$CARGO" build --release --locked -q -p perfdata --example tile --config profile.release.lto=false

if [ ! -s "$work/plain.data" ]; then
  echo "bench: recording gzip, a lock convoy and python"
  cc -O1 -g -fno-omit-frame-pointer -pthread crates/planish/tests/programs/convoy.c -o "$work/convoy"
  perf record -q -F 20000 -e cpu-clock -o "$work/small.plain" -- sh -c "
    for i in 1 2 3; do head -c 60000000 '$planish' | gzip -9 >'$work/packed'; '$work/convoy' >'$work/said'; done"
  perf record -q -F 2000 -e cpu-clock --call-graph dwarf -o "$work/small.dwarf" -- python3 -c "
import json
d = [{'a': i, 'b': [1, 2, 3]} for i in range(20000)]
for _ in range(12): json.loads(json.dumps(d))"
  for kind in dwarf plain; do
    "$target/release/examples/tile" "$work/small.$kind" "$work/$kind.new" "$bytes"
    mv "$work/$kind.new" "$work/$kind.data"
  done
fi

: >"$work/runs"
measure() { # RECORDING TOOL COMMAND…
  local recording=$1 tool=$2; shift 2
  /usr/bin/time -o "$work/time" -f "%e %U %S %M" "$@" >"$work/out" 2>"$work/err" </dev/null
  echo "$recording $tool $(cat "$work/time")" >>"$work/runs"
}
run() { # RECORDING TOOL
  local file=$work/$1.data
  case $1-$2 in
    *-planish) measure "$1" "$2" "$planish" report hot "$file" ;;
    plain-perf) measure "$1" "$2" perf report --stdio --no-children -i "$file" ;;
    # Totals need the unwound callers; without --children perf does not unwind at all.
    dwarf-perf) measure "$1" "$2" perf report --stdio --children --no-inline -g none -i "$file" ;;
  esac
}
for ((round = 0; round < rounds; round++)); do
  echo "bench: round $((round + 1)) of $rounds"
  for recording in plain dwarf; do
    for tool in $( ((round % 2)) && echo planish perf || echo perf planish); do run $recording $tool; done
  done
done
if [ "$large" != 0 ]; then
  echo "bench: a recording of $large bytes"
  "$target/release/examples/tile" "$work/small.plain" "$work/large.data" "$large"
  run large planish
  rm "$work/large.data"
fi

python3 - "$work/runs" "$rounds" "$work" "$large" measurements/"$(date +%F)"-report <<'PY'
import json, os, platform, statistics, subprocess, sys
runs, rounds, work, large, out = sys.argv[1:]
found = {}
for line in open(runs):
    recording, tool, *numbers = line.split()
    found.setdefault((recording, tool), []).append([float(number) for number in numbers])
cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown CPU")
perf = subprocess.run(["perf", "--version"], capture_output=True, text=True).stdout.strip()
json.dump({f"{r} {t}": v for (r, t), v in found.items()}, open(out + ".json", "w"), indent=1)
def row(recording, tool):
    middle = [statistics.median(column) for column in zip(*found[recording, tool])]
    return middle[0], middle[1] + middle[2], middle[3] / 1024
lines = [f"# planish report beside {perf} report", "",
    f"`scripts/bench-report.sh` on {cpu}, {os.cpu_count()} CPUs, Linux {platform.release()}: functions with self (plain) and with self",
    f"and total time (dwarf); medians of {rounds} runs, in turns. Memory is the peak. All runs are in the .json file beside this one.", "",
    "| recording | tool | wall s | CPU s | MiB | perf's CPU / ours | perf's wall / ours |", "|---|---|---|---|---|---|---|"]
names = {"plain": "plain samples", "dwarf": "copied stacks", "large": "plain samples"}
for recording in ["plain", "dwarf"] + (["large"] if large != "0" else []):
    ours = row(recording, "planish")
    size = float(large) if recording == "large" else os.path.getsize(f"{work}/{recording}.data")
    for tool in ["planish", "perf"]:
        if (recording, tool) not in found: continue
        wall, used, memory = row(recording, tool)
        ratio = f"{used / ours[1]:.1f} | {wall / ours[0]:.1f}" if tool == "perf" else "|"
        lines.append(f"| {names[recording]}, {size / 1e9:.1f} GB | {tool} | {wall:.2f} | {used:.2f} | {memory:.0f} | {ratio} |")
open(out + ".md", "w").write("\n".join(lines) + "\n")
print("\n".join(lines))
PY
