#!/usr/bin/env bash
# planish report beside other readers of recordings, on the same files: CPU time, wall time and peak memory.
#   scripts/bench-report.sh       writes measurements/DATE-report.md and .json
#
# The peers are two versions of perf, samply, hotspot's perfparser and inferno (scripts/bench-report-peers.sh fetches
# them). Tools take turns, BENCH_ROUNDS (default 5) rounds. One that takes more than BENCH_LIMIT (300) seconds is
# stopped, and one that takes more than 60 or fails runs once; the table says so.
#
# Plain samples (gzip and a lock convoy) and copied stacks (--call-graph dwarf, python) are real recordings, tiled to
# BENCH_BYTES (default 1 GB) with crates/perfdata/examples/tile.rs; the samples also as a directory. Copied stacks of
# clang are recorded until there is half as much, and not tiled, so that no stack is there twice by design. One page is
# made of these, here and where nothing is but planish and the archive, and opened in Chromium.
#
# BENCH_LARGE (default 0; 20000000000 for the large one) adds a directory of that size, which only planish reads: what
# grows with a recording? It needs as much disk, and is deleted afterwards.
#
# PLANISH names the program to measure; without it, planish is built first.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
unset DEBUGINFOD_URLS
rounds=${BENCH_ROUNDS:-5}
bytes=${BENCH_BYTES:-1000000000}
large=${BENCH_LARGE:-0}
limit=${BENCH_LIMIT:-300}
slow=60

[ -n "${PLANISH:-}" ] || scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=${PLANISH:-$target/release/planish}
work=$target/bench-report
peers=$work/peers
mkdir -p "$work" measurements
for tool in perf python3 gzip cc timeout /usr/bin/time; do
  command -v "$tool" >/dev/null || { echo "bench: $tool is missing; run: make bench-report" >&2; exit 1; }
done
clang=$(first_of clang++-22 clang++-21 clang++-20 clang++-19 clang++-18 clang++-17 g++)
"$CARGO" build --release --locked -q -p perfdata --example tile --config profile.release.lto=false
tile=$target/release/examples/tile
scripts/bench-report-peers.sh

# Recordings are kept for the next run of the same size.
if [ "$(cat "$work/size" 2>/dev/null)" != "$bytes" ]; then
  echo "bench: recording gzip, a lock convoy, python and $(basename "$clang")"
  rm -rf "$work"/{plain,dwarf,clang,directory,large}.data*
  cc -O1 -g -fno-omit-frame-pointer -pthread crates/planish/tests/programs/convoy.c -o "$work/convoy"
  perf record -q -F 20000 -e cpu-clock -o "$work/small.plain" -- sh -c "
    for i in 1 2 3; do head -c 60000000 '$planish' | gzip -9 >'$work/packed'; '$work/convoy' >'$work/said'; done"
  perf record -q -F 2000 -e cpu-clock --call-graph dwarf -o "$work/small.dwarf" -- python3 -c "
import json
d = [{'a': i, 'b': [1, 2, 3]} for i in range(20000)]
for _ in range(12): json.loads(json.dumps(d))"
  cat >"$work/many.cc" <<'CC'
#include <map>
#include <regex>
std::map<std::string, int> places(const std::string &text) {
  std::map<std::string, int> found;
  std::regex word("([a-z]+)|([0-9]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), word), end; at != end; ++at)
    found[at->str()] = at->position();
  return found;
}
CC
  # perf ends its command, and itself, when the size is reached: that is no failure.
  (perf record -q -F 4000 -e cpu-clock --call-graph dwarf --max-size "$((bytes / 2))B" -o "$work/clang.data" -- sh -c "
    for i in \$(seq 1000); do $clang -std=c++17 -O2 -c '$work/many.cc' -o '$work/many.o'; done" || true) >/dev/null 2>&1
  for kind in dwarf plain; do "$tile" "$work/small.$kind" "$work/$kind.data" "$bytes"; done
  "$tile" "$work/small.plain" "$work/directory.data" "$bytes" 4
  rm -f "$work"/*.old
  echo "$bytes" >"$work/size"
fi

for kept in runs failed facts; do : >"$work/$kept"; done
fact() { echo "$*" >>"$work/facts"; } # KEY VALUE…: for the table
size() { find "$1" -name '*planish-index' -prune -o -type f -printf '%s\n' | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }
declare -A once=() part=()

# Keeps wall time, user and system time, and peak memory; of several processes the peak is that of the largest.
measure() { # RECORDING TOOL COMMAND…
  local recording=$1 tool=$2 status=0 numbers said; shift 2
  /usr/bin/time -o "$work/time" -f "%e %U %S %M" timeout -k 10 "$limit" "$@" >"$work/out" 2>"$work/err" </dev/null ||
    status=$?
  numbers=$(tail -n 1 "$work/time")
  if [ $status = 0 ]; then
    echo "$recording $tool $numbers" >>"$work/runs"
    [ "${numbers%%.*}" -ge $slow ] || return 0
  else
    # What it says first about an error, else what it says last.
    said=$(grep -aim 1 -E 'error|fail|cannot|invalid|unable|panicked' "$work/err" ||
      grep -av '^$' "$work/err" | tail -n 1 || true)
    echo "bench: $tool on $recording ends with status $status (124: after $limit s): $said" >&2
    echo "$recording $tool $status ${said:0:200}" >>"$work/failed"
  fi
  once[$recording $tool]=yes
}
forget() { rm -f "$1.planish-index" "$1/planish-index"; } # the next question is the first one again
run() { # RECORDING TOOL
  local file=$work/${1#asked-}.data to=$work/converted
  [ -z "${once[$1 $2]:-}" ] || return 0
  case $2 in hot | firefox | folded) forget "$file" ;; esac
  case $2 in
    hot | indexed) set -- "$@" "$planish" report hot "$file" ;;
    no-index) set -- "$@" "$planish" report hot --no-index "$file" ;;
    part) set -- "$@" "$planish" report hot --time "${part[$1]}" "$file" ;;
    firefox) set -- "$@" "$planish" report export --to firefox -o "$to.json.gz" "$file" ;;
    folded) set -- "$@" "$planish" report export --to folded -o "$to.folded" "$file" ;;
    perf) set -- "$@" perf report --stdio --no-inline -i "$file" ;;
    perf-new) set -- "$@" "$peers/bin/perf" report --stdio --no-inline -i "$file" ;;
    # `import` looks up no names, not even with --unstable-presymbolicate (0.13): samply's server does, for the browser.
    samply) set -- "$@" "$peers/bin/samply" import --save-only -o "$to.json.gz" "$file" ;;
    hotspot) set -- "$@" "$peers/bin/hotspot" --input "$file" --output "$to.bin" ;;
    # The machine's own perf, whose `script` is the faster one.
    inferno) set -- "$@" bash -c 'set -o pipefail; perf script --no-inline -i "$1" | "$2" >"$3"' - \
      "$file" "$peers/bin/inferno-collapse-perf" "$to.folded" ;;
  esac
  case $1-$2 in
    # Totals need the unwound callers; without --children perf does not unwind at all.
    dwarf-perf* | clang-perf*) set -- "$@" --children -g none ;;
    *-perf*) set -- "$@" --no-children ;;
  esac
  measure "$@"
  rm -f "$to".*
}

tools=(hot indexed firefox folded perf)
for peer in perf-new:perf samply:samply hotspot:hotspot inferno:inferno-collapse-perf; do
  if [ -x "$peers/bin/${peer#*:}" ]; then tools+=("${peer%:*}"); else
    fact absent "${peer%:*}" "$(cat "$peers/${peer%:*}.missing" 2>/dev/null || echo "not fetched")"
  fi
done
fact version perf "$(perf --version | sed 's/ version//')"
fact version perf-new "perf $(cat "$peers/perf.version" 2>/dev/null)"
fact version hotspot "hotspot-perfparser of hotspot $(cat "$peers/hotspot.version" 2>/dev/null)"
fact version samply "$("$peers/bin/samply" --version 2>/dev/null)"
fact version inferno "perf script | inferno-collapse-perf $("$peers/bin/inferno-collapse-perf" --version 2>/dev/null)"
for recording in plain directory dwarf clang; do fact size $recording "$(size "$work/$recording.data")"; done
for ((round = 0; round < rounds; round++)); do
  echo "bench: round $((round + 1)) of $rounds"
  for recording in plain directory dwarf clang; do
    # A question leaves the index that `indexed` finds; each tool begins a round in its turn.
    [ $round != 0 ] || "$planish" report hot "$work/$recording.data" >/dev/null 2>&1
    for ((at = 0; at < ${#tools[@]}; at++)); do run $recording "${tools[(at + round) % ${#tools[@]}]}"; done
  done
done

# The page: from the recording, and from its archive where the recorded programs are nowhere else. planish and its
# libraries lie there in a folder of their own: no file is where it was recorded.
elsewhere=$work/elsewhere
rm -rf "$elsewhere"
mkdir -p "$elsewhere"/{own,tmp,empty}
cp "$planish" "$elsewhere/own/planish"
for library in $(ldd "$planish" | grep -o '/[^ ]*'); do cp -L "$library" "$elsewhere/own/"; done
loader=$(ldd "$planish" | sed -n 's#^\s*/[^ ]*/\([^ ]*\) .*#\1#p')
there=(env TMPDIR=/tmp chroot "$elsewhere" "/own/$loader" --library-path /own /own/planish)
archive=(/clang.data.tar.zst) page=/page.html
place='in a place with nothing but planish and the archive (chroot)'
"${there[@]}" --version >/dev/null 2>&1 || {
  # Only root may change the root directory. For others planish looks for files in an empty folder,
  # and finds nothing in the cache that perf keeps at home.
  there=(env HOME="$elsewhere/empty" TMPDIR="$elsewhere/tmp" "$planish")
  archive=(--sysroot "$elsewhere/empty" "$elsewhere/clang.data.tar.zst") page=$elsewhere/page.html
  place='with an empty folder as `--sysroot`'
}
fact place "$place"
for ((round = 0; round < (rounds < 3 ? rounds : 3); round++)); do
  echo "bench: one page, round $((round + 1))"
  forget "$work/clang.data"
  measure clang page "$planish" report tree --format html -o "$work/page.html" "$work/clang.data"
  forget "$work/clang.data"
  measure clang archive "$planish" report archive -o "$elsewhere/clang.data.tar.zst" "$work/clang.data"
  measure clang page-elsewhere "${there[@]}" report tree --format html -o "$page" "${archive[@]}"
done
while read -r line; do fact page-note "$line"; done <"$work/err"
! [ -e "$work/page.html" ] || fact size page "$(size "$work/page.html")"
! [ -e "$elsewhere/clang.data.tar.zst" ] || fact size archive "$(size "$elsewhere/clang.data.tar.zst")"
chromium=$(command -v "$(first_of chromium chromium-browser google-chrome)" || true)
python=$target/playwright/bin/python
if [ -e "$elsewhere/page.html" ]; then
  fact size page-elsewhere "$(size "$elsewhere/page.html")"
  # Is an archive as good as the machine it was made on?
  "$planish" report export --to folded "$work/clang.data" >"$work/here" 2>/dev/null || true
  "${there[@]}" report export --to folded "${archive[@]}" >"$work/there" 2>/dev/null || true
  fact stacks "$(wc -l <"$work/here")" "$(comm -23 <(sort "$work/here") <(sort "$work/there") | wc -l)"
  if [ -x "$python" ] && [ -n "$chromium" ]; then
    echo "bench: the page in Chromium"
    "$python" scripts/bench-report.py open "$chromium" "$elsewhere/page.html" 5 >"$work/out" 2>"$work/err" ||
      fact opening failed "$(tail -n 1 "$work/err")"
    while read -r line; do fact opened "$line"; done <"$work/out"
  else
    fact opening skipped "no Chromium or no Playwright (make test installs both)"
  fi
fi
rm -rf "$elsewhere"

# The same questions to a directory of 1 GB and to the large one.
questions() { # RECORDING ROUNDS
  local round question asked=asked-$1
  fact size "$asked" "$(size "$work/$1.data")"
  part[$asked]=$("$planish" report hot --format json "$work/$1.data" 2>/dev/null |
    python3 -c 'import json, sys; s = json.load(sys.stdin)["span_ns"] / 1e9; print(f"{s * .51:.3f}-{s * .52:.3f}")')
  fact part "$asked" "${part[$asked]}"
  for ((round = 0; round < $2; round++)); do
    echo "bench: questions to the $1 recording, round $((round + 1))"
    for question in no-index hot indexed part; do run "$asked" $question; done
  done
}
if [ "$large" != 0 ]; then
  questions directory "$rounds"
  if [ "$(df --output=avail -B 1 "$work" | tail -n 1)" -lt $((large + 2000000000)) ]; then
    fact absent large "the disk has no room for $large bytes"
  else
    echo "bench: a directory of $large bytes"
    trap 'rm -rf "$work/large.data"' EXIT
    "$tile" "$work/small.plain" "$work/large.data" "$large" 4
    questions large $((rounds < 3 ? rounds : 3))
    fact size index "$(stat -c %s "$work/large.data/planish-index" 2>/dev/null || echo 0)"
    rm -rf "$work/large.data"
  fi
fi

python3 scripts/bench-report.py table "$work" "$rounds" "$limit" "$slow" measurements/"$(date +%F)"-report
