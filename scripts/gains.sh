#!/usr/bin/env bash
# What planish gains on real programs, beside instrumented PGO and BOLT; hours for all of them.
#   scripts/gains.sh [PROGRAM...]       one or all of gains/*.sh; writes measurements/gains.json and gains.md
#
# Each gains/PROGRAM.sh says where the sources come from, how `planish optimize` builds them, what it records and what it
# measures (other input). GAINS_ROUNDS: rounds of the comparison of CPU time (default 30, which on a quiet machine tell
# programs apart to half a per cent where a run takes some tenths of a second). GAINS_KEPT=DIRECTORY: a trial, whose
# gains.json and gains.md go there; measurements and README.md stay as they are. GAINS_GAUGE=CPU: on a shared machine, measure on
# that CPU with `--gauge` (not for programs that use several at once).
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
repository=$PWD
if [ -z "${PLANISH:-}" ]; then scripts/build.sh; fi
. scripts/toolchain.sh
need_rust
export PATH=$(dirname "$CARGO"):$PATH
work=${CARGO_TARGET_DIR:-$PWD/target}/gains
planish=${PLANISH:-${CARGO_TARGET_DIR:-$PWD/target}/release/planish}
kept=${GAINS_KEPT:-measurements}
mkdir -p "$work" "$kept"
told=README.md
[ "$kept" = measurements ] || told=/dev/null
say() { echo "gains: $*" >&2; }

. scripts/debian-source.sh
# crate NAME VERSION: its sources, in $at/source.
crate() {
  [ -d "$at/source" ] && return
  rm -rf "$at/fetched"; mkdir -p "$at/fetched/src"
  : >"$at/fetched/src/lib.rs"
  printf '[package]\nname = "fetched"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n[dependencies]\n%s = "=%s"\n' "$1" "$2" \
    >"$at/fetched/Cargo.toml"
  (cd "$at/fetched" && cargo vendor -q vendor >/dev/null 2>&1)
  cp -r "$at/fetched/vendor/$1" "$at/source"
  rm -f "$at/source/.cargo-checksum.json"
  # A crate below another project's directory belongs to that project's workspace unless it says otherwise.
  grep -q '^\[workspace\]' "$at/source/Cargo.toml" || printf '\n[workspace]\n' >>"$at/source/Cargo.toml"
}
# corpus: text that compresses, parses and is searched as people's does: this project's own sources and documents, in two
# halves that share no file.
corpus() {
  [ -e "$work/corpus/done" ] && return
  mkdir -p "$work/corpus/train" "$work/corpus/evaluate"
  local number=0 to
  git ls-files -z '*.rs' '*.md' '*.sh' | while IFS= read -r -d '' file; do
    number=$((number + 1)); to=train; [ $((number % 2)) = 0 ] || to=evaluate
    cp "$file" "$work/corpus/$to/$(tr / _ <<<"$file")"
  done
  # As much as runs of a second or two take.
  for half in train evaluate; do { cat "$work/corpus/$half"/* || true; } 2>/dev/null | head -c 2000000 >"$work/corpus/$half.txt"; done
  touch "$work/corpus/done"
}

one() {
  local name=$1
  at=$work/$name
  mkdir -p "$at"
  # counted: what stands before the program where its branches are counted; absent where they cannot be.
  # also: what is built and measured beside the result. layouts: random links of each program.
  local layouts=8 rounds
  title="" project=() train=() evaluate=() more=() counted=(env) also='["pgo","bolt","pgo-bolt","pgo-layout"]'
  # shellcheck source=/dev/null
  . "gains/$name.sh"
  rounds=${GAINS_ROUNDS:-30}
  corpus
  say "$name: sources"
  prepare
  say "$name: planish optimize"
  local arguments=("${project[@]}") line
  for line in "${train[@]}"; do arguments+=(--train "$line"); done
  for line in "${evaluate[@]}"; do arguments+=(--evaluate "$line"); done
  for line in "${more[@]}"; do arguments+=(--set "$line"); done
  [ -z "${GAINS_GAUGE:-}" ] || arguments+=(--set "evaluate.cpu=$GAINS_GAUGE" --set evaluate.gauge=true)
  local code=0
  (cd "$at/source" && "$planish" optimize "${arguments[@]}" --set "evaluate.rounds=$rounds" \
    --set "evaluate.layouts=$layouts" --set "optimize.also=$also" --set record.count_branches=false >"$at/told.txt") || code=$?
  # 1: the result is slower, which the table says.
  [ "$code" -le 1 ] || { say "$name: ended with $code"; return 1; }
  say "$name: taken branches and misses"
  local state=$at/source/.planish programs=() ending program
  program=$(basename "$(ls "$state"/*.base | head -n 1)" .base)
  for ending in base opt opt2 layout rest pgo bolt pgo-bolt pgo-layout; do
    [ ! -x "$state/$program.$ending" ] || programs+=("$state/$program.$ending")
  done
  rm -f "$at/metrics.json"
  line=${evaluate[0]}
  local words
  eval "words=($(sed "s/{bin}/'{bin}'/g" <<<"$line"))"
  [ ${#counted[@]} -eq 0 ] || (cd "$at/source" && "$planish" -q compare "${programs[@]}" --rounds 6 --code-metrics --ignore-output --format json -- "${counted[@]}" "${words[@]}" >"$at/metrics.json") || true
  rm -f "$at/beside.json"
  # Its exit code is the verdict.
  [ ! -x "$state/$program.pgo-bolt" ] || (cd "$at/source" &&
    "$planish" -q compare show .planish/runs-1.jsonl --base "$program.pgo-bolt" --format json >"$at/beside.json") || true
  python3 scripts/gains.py row "$name" "$title" "$at" "$program" "$kept/gains.json" "${arguments[*]}"
}

names=("$@")
if [ ${#names[@]} -eq 0 ]; then
  for file in gains/*.sh; do names+=("$(basename "$file" .sh)"); done
fi
failed=()
for name in "${names[@]}"; do
  [ -e "gains/$name.sh" ] || { echo "gains: no gains/$name.sh; there are: $(ls gains | sed 's/\.sh$//' | xargs)" >&2; exit 2; }
  # In a condition, `set -e` would not hold inside.
  set +e
  (set -e; one "$name")
  code=$?
  set -e
  [ "$code" = 0 ] || failed+=("$name")
done
python3 scripts/gains.py tell "$kept/gains.json" "$kept/gains.md" "$told"
[ ${#failed[@]} -eq 0 ] || { echo "gains: failed: ${failed[*]}" >&2; exit 1; }
