#!/usr/bin/env bash
# Measures planish record beside perf record: the same workloads, in turns.
#   scripts/bench-record.sh          writes measurements/DATE-record.md and .json
#
# The CPU time of the recorder alone is that of everything it waited for, less that of the workload, which is measured from
# within the recording by the same program (demo/record/rusage.c). What sampling costs in the workload is the kernel's and
# the same for all. Medians of BENCH_ROUNDS rounds (default 5); every run is in the .json. BENCH_OUT: another place for both.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
rounds=${BENCH_ROUNDS:-5}
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-target}
planish=${PLANISH:-}
if [ -z "$planish" ]; then
  scripts/build.sh
  planish=$target/release/planish
fi
case $planish in /*) ;; *) planish=$PWD/$planish ;; esac
perf=$(command -v perf) || { echo "bench-record: no perf; install linux-perf" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "bench-record: real-time priorities and cs samples need root" >&2; exit 1; }
cc=$(first_of gcc cc clang) || { echo "bench-record: no C compiler; run: make setup" >&2; exit 1; }
work=$target/bench-record
mkdir -p "$work" measurements
case $work in /*) ;; *) work=$PWD/$work ;; esac
for program in matmul mix rusage; do "$cc" -O2 -g -o "$work/$program" demo/record/$program.c -lpthread; done

# The kernel lowers its limit while sampling takes long, unless its share of the time is 0; then the limit is fixed.
limit=/proc/sys/kernel/perf_event_max_sample_rate share=/proc/sys/kernel/perf_cpu_time_max_percent
before="$(cat $limit) $(cat $share)"
restore() { set -- $before; echo 25 >$share; echo "$1" >$limit; echo "$2" >$share; }
trap restore EXIT
echo 25 >$share
echo 100000 >$limit
echo 0 >$share

# On an idle machine the short one takes 0.6 s, so that perf's start and end count as they do in short recordings.
products=${BENCH_PRODUCTS:-100}
declare -A program=(
  [matmul]="$work/matmul 4 $products"
  [long]="$work/matmul 4 $((products * 3))"
  [mix]="$work/mix ${BENCH_TURNS:-15000}"
  [true]=true
)
declare -A events=(
  [matmul]="-F 25000 -e cpu-clock --call-graph dwarf,8192 --switch-events"
  [long]="-F 25000 -e cpu-clock --call-graph dwarf,8192 --switch-events"
  [mix]="-F 10000 -e cpu-clock -e cs --call-graph dwarf,8192 --switch-events"
  [true]="-e cpu-clock"
)
declare -A recorder=(
  [planish]="$planish record" [planish-raw]="$planish record --no-compress" [planish-z]="$planish record -z" [planish-z-r]="$planish record -z -r 1"
  [planish-z-threads-r]="$planish record -z --threads -r 1"
  [planish-threads-near]="$planish record --threads=node --affinity=node"
  [perf]="$perf record" [perf-aio]="$perf record --aio" [perf-threads]="$perf record --threads"
  [perf-best]="$perf record -m16M -z1 --threads -r1"
)
order="perf-best planish-z-r planish-z planish-z-threads-r planish-threads-near planish planish-raw perf perf-aio perf-threads"
slow='
import sys, time
rate, began, done = float(sys.argv[1]), time.monotonic(), 0
while block := sys.stdin.buffer.read1(1 << 16):
    sys.stdout.buffer.write(block)
    done += len(block)
    time.sleep(max(0, done / rate - (time.monotonic() - began)))'
runs=$work/runs.tsv
: >"$runs"
for round in $(seq "$rounds"); do
  for load in matmul long mix true; do
    "$work/rusage" "$work/alone" ${program[$load]} >/dev/null
    printf '%s\talone\t%s\t0\t0\t0\t0\n' "$load" "$(cut -d' ' -f1 "$work/alone")" >>"$runs"
    rm -f "$work/alone"
    for name in $order; do
      rm -rf "$work/data" "$work/data.old" "$work/outer" "$work/inner"
      "$work/rusage" "$work/outer" ${recorder[$name]} -o "$work/data" ${events[$load]} -- \
        "$work/rusage" "$work/inner" ${program[$load]} >"$work/said" 2>&1 || { cat "$work/said" >&2; exit 1; }
      size=$(du -sb --apparent-size "$work/data" | cut -f1)
      # perf's own count of the file, the same for all: LOST records tell how many.
      lost=$("$perf" script -i "$work/data" --show-lost-events -F comm,event 2>/dev/null |
        sed -n 's/.*PERF_RECORD_LOST.* lost \([0-9]*\).*/\1/p' | awk '{ n += $1 } END { print n + 0 }')
      samples=$("$perf" report -i "$work/data" --stats 2>/dev/null | awk '/SAMPLE events/ { print $3; exit }')
      paste -d' ' "$work/outer" "$work/inner" | awk -v load="$load" -v name="$name" -v size="$size" -v lost="$lost" \
        -v samples="${samples:-0}" '{ printf "%s\t%s\t%s\t%.4f\t%s\t%s\t%s\n", load, name, $1, $2 - $6 - $7, lost, size, samples }' >>"$runs"
    done
  done
  # A sink that takes 50 MB/s: a pipe whose reader sleeps when it is ahead.
  for name in planish planish-raw perf; do
    rm -rf "$work/data" "$work/outer" "$work/inner"
    # A recording that lost something ends with 1.
    { "$work/rusage" "$work/outer" ${recorder[$name]} -o - ${events[matmul]} -- "$work/rusage" "$work/inner" ${program[matmul]} \
      2>"$work/said" || [ $? = 1 ]; } | python3 -c "$slow" 50e6 >"$work/data"
    size=$(stat -c %s "$work/data")
    "$perf" script -i - --show-lost-events -F comm,event <"$work/data" >"$work/events" 2>/dev/null || true
    lost=$(sed -n 's/.*PERF_RECORD_LOST.* lost \([0-9]*\).*/\1/p' "$work/events" | awk '{ n += $1 } END { print n + 0 }')
    samples=$(grep -c ' cpu-clock: *$' "$work/events" || true)
    paste -d' ' "$work/outer" "$work/inner" | awk -v load=slow -v name="$name" -v size="$size" -v lost="$lost" -v samples="$samples" \
      '{ printf "%s\t%s\t%s\t%.4f\t%s\t%s\t%s\n", load, name, $1, $2 - $6 - $7, lost, size, samples }' >>"$runs"
  done
  echo "bench-record: round $round of $rounds" >&2
done
out=${BENCH_OUT:-measurements/$(date +%F)-record}
python3 - "$runs" "$out" "$rounds" "$("$perf" --version)" <<'PY'
import json, os, platform, statistics, sys
runs, out, rounds, perf = sys.argv[1:]
data = {}
for line in open(runs):
    load, name, wall, cpu, lost, size, samples = line.rstrip("\n").split("\t")
    one = dict(wall_s=float(wall), recorder_cpu_s=float(cpu), lost=int(lost), bytes=int(size), samples=int(samples))
    data.setdefault(load, {}).setdefault(name, []).append(one)
model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), platform.machine())
maker = "AMD EPYC" if "EPYC" in model else "Intel Xeon" if "Xeon" in model else platform.machine()
machine = f"{os.cpu_count()}-core {maker} machine, Linux {'.'.join(platform.release().split('.')[:2])}, {perf}"
median = lambda load, name, key: statistics.median(one[key] for one in data[load][name])
text = ["# planish record beside perf record", "",
        f"{machine}; medians of {rounds} rounds, in turns; `make bench-record`. Recorder CPU is without the workload's.", ""]
title = {"matmul": "4 matrix threads, 25 kHz cpu-clock, 8 KiB stacks, switch events",
         "long": "the same, three times as long",
         "mix": "futex ping-pong and yields, 10 kHz cpu-clock and every context switch, 8 KiB stacks, switch events",
         "true": "start-up: `true`",
         "slow": "the first again, into a pipe that takes 50 MB/s"}
for load, recorders in data.items():
    first = "perf-best" if "perf-best" in recorders else "perf"
    best = {key: median(load, first, key) for key in ("wall_s", "recorder_cpu_s")}
    alone = "matmul" if load == "slow" else load
    text += [f"## {title[load]}", "", f"Alone it takes {median(alone, 'alone', 'wall_s'):.2f} s.", "",
             "| recorder | recorder CPU s | of perf's best | wall s | of perf's best | lost, worst run | samples | size MB |",
             "|---|---|---|---|---|---|---|---|"]
    for name in recorders:
        if name == "alone":
            continue
        cpu, wall = median(load, name, "recorder_cpu_s"), median(load, name, "wall_s")
        lost = max(one["lost"] for one in recorders[name])
        text.append(f"| {name} | {cpu:.3f} | {cpu / best['recorder_cpu_s']:.2f} | {wall:.2f} | {wall / best['wall_s']:.2f} | "
                    f"{lost} | {median(load, name, 'samples'):.0f} | {median(load, name, 'bytes') / 1e6:.2f} |")
    text.append("")
open(out + ".md", "w").write("\n".join(text))
json.dump(dict(machine=machine, command="scripts/bench-record.sh", rounds=int(rounds), runs=data), open(out + ".json", "w"), indent=1)
print(out + ".md")
PY
