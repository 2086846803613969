#!/usr/bin/env bash
# Layouts of SQLite beside BOLT from the same recordings: taken branches, L1i misses, CPU time.
#   scripts/bench-layout.sh [NAME]       writes measurements/DATE-NAME.md (NAME defaults to layout-bolt)
#
# One AutoFDO program is recorded BENCH_ORDERS times (default 5) with different sampling periods. Each recording gives one
# order of every kind, so that a median over orders can be told: a single order's L1i misses go up and down by a tenth.
# BENCH_ROUNDS (default 40): rounds of the comparison of CPU time, of the first orders.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-layout-bolt}
orders=${BENCH_ORDERS:-5}
rounds=${BENCH_ROUNDS:-40}
train="train 20"
eval=13

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
work=$target/bench-layout
for tool in clang-22 ld.lld-22 llvm-bolt-22 perf2bolt-22 llvm-nm-22; do
  command -v "$tool" >/dev/null || { echo "bench: no $tool; run: scripts/setup.sh bench" >&2; exit 1; }
done
mkdir -p "$work" measurements
say() { echo "bench: $*" >&2; }

common="-O2 -gmlt -fdebug-info-for-profiling -funique-internal-linkage-names -ffunction-sections"
# build NAME COMPILER-FLAGS LINKER-FLAGS: SQLite in $work/NAME/shop, once for these flags and the files they name.
build() {
  local dir=$work/$1 key
  key=$2$3$({ grep -oh "$work/[^ ]*" <<<"$2 $3" || true; } | xargs -r sha256sum)
  [ ! -x "$dir/shop" ] || [ "$(cat "$dir/key" 2>/dev/null)" != "$key" ] || return 0
  say "building $1"
  rm -rf "$dir"
  PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$dir PLANISH_CC=clang-22 \
    PLANISH_CFLAGS="$common $2" PLANISH_LDFLAGS="-fuse-ld=lld -Wl,--emit-relocs $3" demo/sqlite/build.sh
  printf %s "$key" >"$dir/key"
}
# record DATA PERIOD SHOP
record() { [ "$1" -nt "$3" ] || (cd "$work" && "$planish" -q record --branches=emulated -c "$2" -o "$1" -- "$3" $train >/dev/null); }

build o2 "" ""
record "$work/o2.data" 1000 "$work/o2/shop"
"$planish" -q profile "$work/o2.data" --binary "$work/o2/shop" -o "$work/o2.afdo"
afdo="-fprofile-sample-use=$work/o2.afdo -fbasic-block-address-map"
build afdo "$afdo" ""
shop=$work/afdo/shop
# What a layout can reach: the functions of the two objects.
llvm-nm-22 --defined-only --format=just-symbols "$work/afdo/sqlite3.o" "$work/afdo/driver.o" | sort -u >"$work/own.txt"

kinds=(layout clones bolt-own bolt-all)
periods=(1000 997 1009 1013 991 1019 983 1021 977 1031)
for at in $(seq 0 $((orders - 1))); do
  data=$work/afdo-$at.data
  record "$data" "${periods[$at]:?at most ${#periods[@]} orders}" "$shop"
  # Another planish may lay out otherwise.
  made=$(sha256sum <"$planish")
  [ "$(cat "$work/lay-$at.done" 2>/dev/null)" = "$made" ] || {
    rm -rf "$work"/bolt-*-"$at"
    "$planish" -q layout "$data" --binary "$shop" --prefix "$work/layout-$at"
    "$planish" -q layout "$data" --binary "$shop" --prefix "$work/clones-$at" --clone
    "$planish" -q layout "$data" --binary "$shop" --prefix "$work/pa-$at" --emit preaggregated
    perf2bolt-22 "$shop" -strict=0 -pa -p "$work/pa-${at}_preaggregated.txt" -o "$work/$at.fdata" >"$work/perf2bolt-$at.log" 2>&1
    printf %s "$made" >"$work/lay-$at.done"
  }
  for kind in layout clones; do
    build "$kind-$at" "$afdo -fbasic-block-sections=list=$work/$kind-${at}_cc_profile.txt" \
      "-Wl,--no-warn-symbol-ordering -Wl,--symbol-ordering-file=$work/$kind-${at}_ld_profile.txt"
  done
  for kind in bolt-own bolt-all; do
    [ ! -x "$work/$kind-$at/shop" ] || continue
    say "building $kind-$at"
    mkdir -p "$work/$kind-$at"
    which=(); [ $kind = bolt-all ] || which=("-funcs-file-no-regex=$work/own.txt")
    llvm-bolt-22 "$shop" -o "$work/$kind-$at/shop" -data "$work/$at.fdata" -reorder-blocks=ext-tsp \
      -reorder-functions=cdsort -split-functions -split-all-cold -split-eh "${which[@]}" >"$work/$kind-$at/log" 2>&1
  done
done

say "measuring"
first=("afdo=$shop" "o2=$work/o2/shop") rest=("afdo=$shop")
for kind in "${kinds[@]}"; do
  first+=("$kind-0=$work/$kind-0/shop")
  for at in $(seq 1 $((orders - 1))); do rest+=("$kind-$at=$work/$kind-$at/shop"); done
done
"$planish" compare "${first[@]}" --rounds "$rounds" --metric cpu --code-metrics --format json -- {bin} eval "$eval" \
  >"$work/first.json" || case $? in 1 | 4) ;; *) exit 1 ;; esac
if [ "$orders" -gt 1 ]; then
  "$planish" compare "${rest[@]}" --rounds 6 --metric cpu --code-metrics --format json -- {bin} eval "$eval" \
    >"$work/rest.json" || case $? in 1 | 4) ;; *) exit 1 ;; esac
fi
# The recorded workload itself: what another input changes in the ratios.
# shellcheck disable=SC2086  # words
"$planish" compare "${first[@]}" "${rest[@]:1}" --rounds 6 --metric cpu --code-metrics --format json -- {bin} $train \
  >"$work/trained.json" || case $? in 1 | 4) ;; *) exit 1 ;; esac

out=measurements/$(date +%F)-$name.md
python3 - "$work" "$orders" "$rounds" "$train" "eval $eval" "${kinds[@]}" >"$out" <<'P'
import datetime, json, os, platform, statistics, sys
work, orders, rounds, train, evaluated, *kinds = sys.argv[1:]
first = json.load(open(f"{work}/first.json"))
def read(*names):
    found = {}
    for name in names:
        for variant in json.load(open(f"{work}/{name}.json"))["variants"]:
            (found[variant["name"]],) = variant["code_metrics"].values()
    return found
metrics = read("first", "rest") if int(orders) > 1 else read("first")
trained = read("trained")
cpu = {row["variant"]: row for row in first["comparisons"]}
model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
print(f"# Layouts of SQLite beside BOLT, {datetime.date.today()}\n")
print(f"`scripts/bench-layout.sh` on {model}, {os.cpu_count()} CPUs, Linux {platform.release()}. One AutoFDO program (clang 22 and lld, static),")
print(f"recorded {orders} times on `shop {train}` with sampling periods around 1,000 taken branches; each recording gives one order of every")
print(f"kind. Measured on `shop {evaluated}`, another workload. Medians over the orders, range in brackets; taken branches and L1i")
print(f"misses from the emulated CPU of [layout metrics](../docs/reference/code-metrics.md), CPU time of the first orders by compare, {rounds} rounds.\n")
print("| program | taken branches | AutoFDO = 1 | L1i misses | AutoFDO = 1 | CPU time, AutoFDO = 1 | verdict |")
print("|---|---|---|---|---|---|---|")
base = metrics["afdo"]
def cell(values, of):
    middle = statistics.median(values)
    spread = f" ({min(values):,.0f} to {max(values):,.0f})" if len(values) > 1 else ""
    return f"{middle:,.0f}{spread} | {middle / of:.3f}"
names = {"layout": "AutoFDO + layout", "clones": "AutoFDO + layout with clones", "bolt-own": "AutoFDO + BOLT, its own functions",
         "bolt-all": "AutoFDO + BOLT, the C library too", "o2": "`-O2`", "afdo": "AutoFDO"}
keys = ("taken_branches", "l1i_misses")
def members(kind):
    return [kind] if kind in ("o2", "afdo") else [f"{kind}-{i}" for i in range(int(orders))]
def median(found, kind, key):
    return statistics.median(found[name][key] for name in members(kind))
for kind in ["o2", "afdo", *kinds]:
    row = cpu.get(members(kind)[0])
    # Few rounds give no interval.
    low, high = (row or {}).get("interval") or (float("nan"), float("nan"))
    time = "1 | base" if row is None else f"{row['effect']:.3f} ({low:.3f} to {high:.3f}) | {row['verdict']}"
    cells = [cell([metrics[name][key] for name in members(kind)], base[key]) for key in keys]
    print(f"| {names[kind]} | {cells[0]} | {cells[1]} | {time} |")
print("\n| beside BOLT | input | taken branches, its own functions | everything | L1i misses, its own functions | everything |")
print("|---|---|---|---|---|---|")
for kind in ("layout", "clones"):
    for found, which in ((metrics, f"`{evaluated}`, another"), (trained, f"`{train}`, the recorded one")):
        ratios = [median(found, kind, key) / median(found, bolt, key) for key in keys for bolt in ("bolt-own", "bolt-all")]
        print(f"| {names[kind]} | {which} | " + " | ".join(f"{ratio:.3f}" for ratio in ratios) + " |")
P
say "ordering synthetic programs of 1,000 to 100,000 blocks"
{
  printf '\n## Time and memory of ordering\n\n`cargo run --release -p layout --example order_bench`: synthetic programs by blocks, %s threads.\n\n```\n' "$(nproc)"
  "$CARGO" run -q --release --locked -p layout --example order_bench
  echo '```'
} >>"$out"
# Every number beside the table.
{ printf '{"first":'; cat "$work/first.json"; [ "$orders" -eq 1 ] || { printf ',"rest":'; cat "$work/rest.json"; }
  printf ',"trained":'; cat "$work/trained.json"; printf '}\n'; } | sed "s|$target/|target/|g" >"${out%.md}.json"
say "$out"
