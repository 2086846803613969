#!/usr/bin/env bash
# planish fleet merge beside DuckDB, on shards of a simulated fleet that runs SQLite.
#   scripts/bench-fleet.sh [NAME]       writes measurements/DATE-NAME.md and .tsv (NAME defaults to fleet)
#
# BENCH_ROWS (default "1000000 10000000 100000000"): rows of all shards. BENCH_RUNS (default 3): runs of each, of which the
# median counts; the programs take turns.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-fleet}
sizes=${BENCH_ROWS:-1000000 10000000 100000000}
runs=${BENCH_RUNS:-3}

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
work=$target/bench-fleet
python=$work/python
mkdir -p "$work" measurements
say() { echo "bench: $*" >&2; }

if [ ! -x "$python/bin/python" ] || ! "$python/bin/python" -c 'import duckdb' 2>/dev/null; then
  say "DuckDB into $python"
  python3 -m venv "$python"
  "$python/bin/pip" install -q --disable-pip-version-check duckdb
fi

# Counts of SQLite, as a recording of emulated branch stacks gives them.
common="-O2 -gmlt -fdebug-info-for-profiling -funique-internal-linkage-names -ffunction-sections"
if [ ! -x "$work/o2/shop" ]; then
  say "building SQLite"
  PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$work/o2 PLANISH_CC=clang-22 PLANISH_CFLAGS="$common" \
    PLANISH_LDFLAGS="-fuse-ld=lld" demo/sqlite/build.sh
fi
if [ ! -e "$work/sqlite.counts" ]; then
  (cd "$work" && "$planish" -q record --branches=emulated -c 1000 -o sqlite.data -- o2/shop train 20 >/dev/null)
  "$planish" -q aggregate "$work/sqlite.data" -o "$work/sqlite.counts"
fi
rows_of() { "$planish" fleet show "$1" --format json | python3 -c 'import json, sys; print(sum(s["rows"] for s in json.load(sys.stdin)["shards"]))'; }

# make_fleet ROWS: shards with about so many rows.
make_fleet() {
  local into=$work/rows-$1 sample hosts
  [ ! -e "$into.done" ] || return 0
  rm -rf "$into" "$work/sample"
  "$planish" -q fleet simulate "$work/sqlite.counts" --hosts 8 --recordings 1 --share 50 --skew 0.3 --into "$work/sample"
  sample=$(rows_of "$work/sample")
  hosts=$(((8 * $1 + sample - 1) / sample))
  say "simulating $hosts hosts"
  "$planish" -q fleet simulate "$work/sqlite.counts" --hosts "$hosts" --recordings 1 --share 50 --skew 0.3 --into "$into"
  rm -rf "$work/sample"
  rows_of "$into" >"$into.done"
}

cpus=$(nproc)
table=measurements/$(date +%F)-$name.tsv
printf 'rows\tprogram\trun\twall_s\tcpu_s\tpeak_mib\n' >"$table"
# measured ROWS PROGRAM RUN COMMAND…
measured() {
  local rows=$1 program=$2 run=$3
  shift 3
  /usr/bin/time -o "$work/time" -f '%e %U %S %M' "$@" >/dev/null 2>"$work/log" || { cat "$work/log" >&2; exit 1; }
  awk -v rows="$rows" -v program="$program" -v run="$run" \
    '{ printf "%s\t%s\t%s\t%s\t%.2f\t%.0f\n", rows, program, run, $1, $2 + $3, $4 / 1024 }' "$work/time" | tee -a "$table" >&2
}
for size in $sizes; do
  make_fleet "$size"
  rows=$(cat "$work/rows-$size.done")
  for run in $(seq 1 "$runs"); do
    measured "$rows" "planish, $cpus CPUs" "$run" "$planish" -q fleet merge "$work/rows-$size" -o "$work/out.counts" --memory 1024
    measured "$rows" "planish, 1 CPU" "$run" taskset -c 0 "$planish" -q --threads 1 fleet merge "$work/rows-$size" -o "$work/one.counts" --memory 1024
    cmp "$work/out.counts" "$work/one.counts"
    measured "$rows" "DuckDB, $cpus CPUs" "$run" "$python/bin/python" scripts/bench-fleet-duckdb.py "$work/rows-$size" "$work/duck.parquet" "$cpus" sql
    measured "$rows" "DuckDB, $cpus CPUs, bare sums" "$run" "$python/bin/python" scripts/bench-fleet-duckdb.py "$work/rows-$size" "$work/bare.parquet" "$cpus" bare
  done
  # The same rows and sums.
  "$python/bin/python" - "$work/out.counts" "$work/duck.parquet" <<'CHECK'
import sys
import duckdb
ours, theirs = sys.argv[1:]
keys = "build_id, path, kind, first, second, count, mispredicted"
both = [f"SELECT {keys} FROM read_parquet('{file}')" for file in (ours, theirs)]
left, right = (duckdb.sql(f"{a} EXCEPT ALL {b}").fetchall() for a, b in (both, both[::-1]))
assert not left and not right, (left[:3], right[:3])
CHECK
done

python3 - "$table" "$("$python/bin/python" -c 'import duckdb; print(duckdb.__version__)')" "measurements/$(date +%F)-$name.md" <<'REPORT'
import collections
import os
import platform
import statistics
import sys

table, duckdb, out = sys.argv[1:]
runs = collections.defaultdict(list)
for line in open(table).read().splitlines()[1:]:
    rows, program, _, wall, cpu, peak = line.split("\t")
    runs[int(rows), program].append((float(wall), float(cpu), float(peak)))
median = {key: [statistics.median(column) for column in zip(*values)] for key, values in runs.items()}
cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
with open(out, "w") as file:
    say = lambda text="": print(text, file=file)
    say("# planish fleet merge beside DuckDB")
    say()
    say(f"`make bench-fleet` on {os.cpu_count()} CPUs ({cpu}), Linux {platform.release()}, DuckDB {duckdb}; medians of "
        f"{len(next(iter(runs.values())))} runs, the programs in turn. Shards of a simulated fleet that runs SQLite "
        "(`planish fleet simulate`); DuckDB runs fleet/sql/merge.sql over the same files, with the rows in order, or only adds "
        "up counts (bare sums). Results are compared: the same rows and sums.")
    say()
    say("| rows | program | wall | CPU | peak | rows a second | times DuckDB |")
    say("|---|---|---|---|---|---|---|")
    for (rows, program), (wall, busy, peak) in median.items():
        duck = next(values for (own, name), values in median.items() if own == rows and name.startswith("DuckDB") and "bare" not in name)
        ratio = f"{duck[0] / wall:.1f} (CPU {duck[1] / busy:.1f})" if program.startswith("planish") else ""
        say(f"| {rows:,} | {program} | {wall:.2f} s | {busy:.2f} s | {peak:.0f} MiB | {rows / wall / 1e6:.1f} M | {ratio} |")
    largest = max(rows for rows, _ in median)
    wall, _, _ = median[largest, "planish, 1 CPU"]
    rate = largest / wall
    day = 10_000 * 24 * 60
    say()
    say("## On paper: 10,000 hosts for a day")
    say()
    size = sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(
        os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "bench-fleet")) for name in names if f"rows-" in folder and name.endswith(".counts"))
    every = sum(rows for rows in {rows for rows, _ in median})
    bytes_of_row = size / every
    for rows_of_shard in (2_000, 20_000):
        total = day * rows_of_shard
        say(f"- A recording a minute with {rows_of_shard:,} rows: {day / 1e6:.1f} M shards, {total / 1e9:.0f} G rows, "
            f"{total * bytes_of_row / 1e12:.2f} TB at {bytes_of_row:.1f} bytes a row as measured; {total / rate / 3600:.1f} core hours at "
            f"{rate / 1e6:.1f} M rows a second and core, so {total / rate / 86400:.2f} cores if it goes on all day.")
print(out)
REPORT
