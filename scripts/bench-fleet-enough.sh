#!/usr/bin/env bash
# Does `planish fleet status` know when there are enough shards? SQLite rebuilt from a part of a fleet's shards, the loss that was
# expected beside the one that was measured.
#   scripts/bench-fleet-enough.sh [NAME]       writes measurements/DATE-NAME.md and .json (NAME defaults to fleet-enough)
#
# 100 hosts, one shard each, drawn from a recording of SQLite; profiles from the first 1, 3, 10, 30 and 100 of them.
# BENCH_ROUNDS (default 20): rounds of the comparison of CPU time.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-fleet-enough}
rounds=${BENCH_ROUNDS:-20}
parts=(1 3 10 30 100)

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
work=$target/bench-fleet-enough
mkdir -p "$work" measurements
say() { echo "bench: $*" >&2; }

common="-O2 -gmlt -fdebug-info-for-profiling -funique-internal-linkage-names -ffunction-sections"
build() {
  [ ! -x "$work/$1/shop" ] || return 0
  say "building $1"
  PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$work/$1 PLANISH_CC=clang-22 PLANISH_CFLAGS="$common $2" \
    PLANISH_LDFLAGS="-fuse-ld=lld" demo/sqlite/build.sh
}
build o2 ""
[ -e "$work/real.counts" ] || {
  (cd "$work" && "$planish" -q record --branches=emulated -c 1000 -o real.data -- o2/shop train 20 >/dev/null)
  "$planish" -q aggregate "$work/real.data" -o "$work/real.counts"
}
# A shard has a thousandth of a recording that has tens of thousands of branch stacks.
[ -e "$work/spool" ] || "$planish" -q fleet simulate "$work/real.counts" --hosts 100 --recordings 1 --share 0.1 --skew 0.5 \
  --into "$work/spool"
variants=("o2=$work/o2/shop")
for part in "${parts[@]}"; do
  rm -rf "$work/part-$part"; mkdir "$work/part-$part"
  for host in $(seq 0 $((part - 1))); do cp "$work/spool/host$host-0.counts" "$work/part-$part/"; done
  "$planish" -q fleet status "$work/part-$part" --for "$work/o2/shop" --format json >"$work/status-$part.json" ||
    case $? in 1 | 4) ;; *) exit 1 ;; esac
  "$planish" -q fleet profile "$work/part-$part" --for "$work/o2/shop" -o "$work/part-$part.afdo"
  build "shards-$part" "-fprofile-sample-use=$work/part-$part.afdo"
  variants+=("shards-$part=$work/shards-$part/shop")
done
"$planish" -q profile "$work/real.counts" --binary "$work/o2/shop" -o "$work/all.afdo"
build everything "-fprofile-sample-use=$work/all.afdo"
variants+=("everything=$work/everything/shop")
say "measuring"
"$planish" compare "${variants[@]}" --rounds "$rounds" --metric cpu --code-metrics --format json -- {bin} train 20 \
  >"$work/compare.json" || case $? in 1 | 4) ;; *) exit 1 ;; esac

out=measurements/$(date +%F)-$name.md
python3 - "$work" "$rounds" "${parts[@]}" >"$out" <<'P'
import datetime, json, os, platform, sys
work, rounds, *parts = sys.argv[1:]
compared = json.load(open(f"{work}/compare.json"))
metrics = {}
for variant in compared["variants"]:
    (metrics[variant["name"]],) = variant["code_metrics"].values()
cpu = {row["variant"]: row for row in compared["comparisons"]}
model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
print(f"# Are there enough shards? SQLite from a part of a fleet, {datetime.date.today()}\n")
print(f"`scripts/bench-fleet-enough.sh` on {model}, {os.cpu_count()} CPUs, Linux {platform.release()}. 100 simulated hosts, each with a thousandth "
      "of a real recording's counts (by the host's load); AutoFDO with clang 22 from the first N shards. Expected loss: what "
      "`planish fleet status` says of the taken branches. Measured: taken branches on the emulated CPU, over those with the profile of the whole "
      f"recording, and CPU time by compare ({rounds} rounds), over `-O2`.\n")
print("| shards | samples | halves of samples | halves of shards | expected loss, under | verdict | taken branches over those of the whole | CPU time, -O2 = 1 |")
print("|---|---|---|---|---|---|---|---|")
best = metrics["everything"]["taken_branches"]
def time(name):
    row = cpu.get(name)
    if row is None:
        return "1"
    low, high = row.get("interval") or (float("nan"), float("nan"))
    return f"{row['effect']:.3f} ({low:.3f} to {high:.3f}), {row['verdict']}"
def pct(value, digits=1):
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"
for part in parts:
    status = json.load(open(f"{work}/status-{part}.json"))
    evidence, stable = status["evidence"], status["stability"]
    over = metrics[f"shards-{part}"]["taken_branches"] / best - 1
    shards = "too few" if stable is None else f"{stable['overlap_percent']:.1f} % ({stable['interval_percent'][0]:.1f} to {stable['interval_percent'][1]:.1f})"
    word = {True: "enough", False: "not enough", None: "undecided"}[status["enough"]]
    print(f"| {part} | {evidence['samples']:,} | {pct(evidence['split_half_overlap'])} | {shards} | {pct(evidence['expected_loss'], 2)} | {word} | "
          f"{100 * over:+.2f} % | {time(f'shards-{part}')} |")
over = metrics["o2"]["taken_branches"] / best - 1
print(f"| none (`-O2`) | | | | | | {100 * over:+.2f} % | 1 |")
print(f"| the whole recording | | | | | | 0 | {time('everything')} |")
P
{ printf '{"compare":'; cat "$work/compare.json"; for part in "${parts[@]}"; do printf ',"status_%s":' "$part"; cat "$work/status-$part.json"; done
  printf '}\n'; } | sed "s|$target/|target/|g" >"${out%.md}.json"
say "$out"
