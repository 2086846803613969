#!/usr/bin/env bash
# planish on planish: our own release binary, rebuilt with a profile and a layout of itself, beside the plain release build.
#   scripts/planished.sh [NAME]       writes measurements/DATE-NAME.md (NAME defaults to planished)
#
# The inputs are recordings of the demo's SQLite. PLANISHED_ROUNDS (default 40) runs of each program, in turns.
# The stable rustc hides sample profiles behind a switch for its own build: RUSTC_BOOTSTRAP=1.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-planished}
rounds=${PLANISHED_ROUNDS:-40}

scripts/build.sh
. scripts/toolchain.sh
need_rust
export PATH=$(dirname "$CARGO"):$PATH RUSTC_BOOTSTRAP=1
target=${CARGO_TARGET_DIR:-$PWD/target}
plain=$target/release/planish
here=demo/planished
input=$here/input
mkdir -p "$input" measurements
clang=$(first_of clang-22 clang-23 clang-21 clang) || { echo "planished: no clang; run: make setup" >&2; exit 1; }

# lld must read the bitcode that rustc writes.
of() { sed -n 's/.*version[: ]*\([0-9]*\)\..*/\1/p' <<<"$1" | head -n 1; }
ours=$(of "$(rustc -vV | grep LLVM)") theirs=$(of "$("$clang" --version | head -n 1)")
[ "${theirs:-0}" -ge "${ours:-0}" ] || {
  echo "planished: rustc writes bitcode of LLVM $ours, which $clang ($theirs) does not read; install clang-$ours and lld-$ours" >&2
  exit 1
}

if [ ! -x "$input/shop" ]; then
  echo "planished: building SQLite"
  out=$(mktemp -d)
  PLANISH_OUT=$out PLANISH_CC=$clang PLANISH_LDFLAGS=-fuse-ld=lld \
    PLANISH_CFLAGS="-O2 -g -fdebug-info-for-profiling -funique-internal-linkage-names" demo/sqlite/build.sh
  mv "$out/shop" "$input/shop"
  rm -rf "$out"
fi
record() { [ -s "$1" ] || "$plain" -q record --branches=emulated -c 1000 -o "$1" -- "$input/shop" "$2" "$3" >/dev/null; }
record "$input/train.data" train 20
record "$input/eval.data" eval 130

"$plain" optimize "$here/planish.toml"

made=$here/.planish
command=({bin} --quiet aggregate "$input/eval.data" --binary "$input/shop" -o "$input/eval.counts")
words=(--rounds "$rounds" --metric cpu --metric wall --format json)
"$plain" compare "plain=$plain" "base=$made/planish.base" "autofdo=$made/planish.opt" "layout=$made/planish.layout" "${words[@]}" --code-metrics -- \
  "${command[@]}" >"$made/plain.json" || [ $? = 1 ]
"$plain" compare "autofdo=$made/planish.opt" "layout=$made/planish.layout" "${words[@]}" -- "${command[@]}" \
  >"$made/on-top.json" || [ $? = 1 ]

out=measurements/$(date +%F)-$name.md
python3 - "$made" "$rounds" >"$out" <<'P'
import datetime, json, os, platform, sys
made, rounds = sys.argv[1:]
plain, on_top = (json.load(open(f"{made}/{name}.json")) for name in ("plain", "on-top"))
model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
print(f"# planish on planish, {datetime.date.today()}\n")
print(f"`scripts/planished.sh` on {model}, {os.cpu_count()} CPUs, Linux {platform.release()}. Trained on `planish aggregate` and `planish profile` of")
print(f"one recording, measured by compare on `planish aggregate` of another, {rounds} rounds in turns; ratios with their 95 % intervals.\n")
print("| program | text, bytes | taken branches | L1i misses | CPU time | verdict | wall time |")
print("|---|---|---|---|---|---|---|")
def row(document, variant):
    return next((row for row in document["comparisons"] if row["variant"] == variant), None)
def told(effect, interval):
    # Few rounds give no interval.
    low, high = interval or (float("nan"), float("nan"))
    return f"{effect:.3f} ({low:.3f} to {high:.3f})"
def wall(row):
    effect = next(other["effect"] for other in row["others"] if other["name"] == "wall")
    return told(effect["ratio"], effect["interval"])
for variant in plain["variants"]:
    (metrics,) = variant["code_metrics"].values()
    found = row(plain, variant["name"])
    times = "1 | base | 1" if found is None else f"{told(found['effect'], found['interval'])} | {found['verdict']} | {wall(found)}"
    print(f"| {variant['name']} | {variant['sizes']['text']:,} | {metrics['taken_branches']:,.0f} | {metrics['l1i_misses']:,.0f} | {times} |")
print("\n`plain`: `cargo build --release`. `base`: the same code compiled by lld from rustc's bitcode, without a profile. `text` is what `size`")
print("calls text. Branches and misses are those of one run under emulation, summed over its threads.\n")
found = row(on_top, "layout")
print(f"The layout beside AutoFDO alone: CPU time {told(found['effect'], found['interval'])}, {found['verdict']}; wall time {wall(found)}.")
P
{ printf '{"plain":'; cat "$made/plain.json"; printf ',"on-top":'; cat "$made/on-top.json"; printf '}\n'; } |
  sed "s|$PWD/||g; s|$target/|target/|g" >"${out%.md}.json"
echo "planished: $out"
