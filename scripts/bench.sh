#!/usr/bin/env bash
# Measures planish beside llvm-profgen, perf2bolt and create_llvm_prof: the same recording, the same binary, one run.
#   scripts/bench.sh [NAME]          writes measurements/DATE-NAME.md and .json (NAME defaults to readers)
#
# The tools take turns within each round, so that a slow minute of the machine hits all of them; medians are reported
# and every single run is kept in the .json. Recordings and the binary stay in target/bench for the next time.
# BENCH_ROUNDS (default 5) is the number of rounds, BENCH_SCALES (default "50 167": about 85 and 565 MB) the lengths of the
# workload whose recordings everyone gets, BENCH_LARGE (default 250: over 1 GB) the one that shows how planish's memory grows.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-readers}
rounds=${BENCH_ROUNDS:-5}
peer_scales=${BENCH_SCALES:-50 167}
large=${BENCH_LARGE:-250}

scripts/build.sh
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-target}
planish=$PWD/target/release/planish
[ -z "${CARGO_TARGET_DIR:-}" ] || planish=$CARGO_TARGET_DIR/release/planish
work=$target/bench
mkdir -p "$work" measurements
[ -x /usr/bin/time ] || { echo "bench: /usr/bin/time is missing; run: make bench" >&2; exit 1; }

# --- the binary: SQLite and the demo's driver, static, with full DWARF 5
binary=$work/shop
cc=$(first_of clang-22 clang-23 clang-21 clang-20 clang-19 clang) || { echo "bench: no clang; run: make setup" >&2; exit 1; }
flags="-O2 -g -fdebug-info-for-profiling -funique-internal-linkage-names"
if [ ! -x "$binary" ] || [ demo/sqlite/driver.c -nt "$binary" ]; then
  echo "bench: building $binary and its twin"
  absolute=$PWD/$work
  case $work in /*) absolute=$work ;; esac
  build() { # DIRECTORY DWARF-VERSION
    # The build script asks cargo where SQLite lies, so it needs the same one in PATH.
    PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$absolute/build PLANISH_CC=$cc PLANISH_CFLAGS="$flags -gdwarf-$2" \
      PLANISH_LDFLAGS="-fuse-ld=lld -Wl,--build-id=sha1" demo/sqlite/build.sh
    mkdir -p "$1"
    mv "$absolute/build/shop" "$1/shop"
  }
  build "$work" 5
  # create_llvm_prof 0.19 does not read clang's DWARF 5 and writes an empty profile, so it gets the same code with DWARF 4.
  build "$work/dwarf4" 4
  rm -f "$work"/perf.*.data
fi

# --- the recordings: the training workload, longer for the larger ones
# A sample of 32 branches takes about 0.83 KB; there is one per 1,000 taken branches.
for scale in $peer_scales $large; do
  [ -s "$work/perf.$scale.data" ] && continue
  echo "bench: recording the workload at scale $scale (emulated, this takes a while)"
  "$planish" record --quiet --branches=emulated -c 1000 -o "$work/perf.$scale.data" -- "$binary" train "$scale" >/dev/null
done
bytes_of() { stat -c %s "$work/perf.$1.data"; }

# --- one measured run: wall and CPU from bash (milliseconds), peak memory from time(1)
json=$work/runs.json; : >"$json"
measure() { # TOOL SCALE COMMAND…
  local tool=$1 scale=$2 status=0; shift 2
  TIMEFORMAT='%3R %3U %3S'
  { time /usr/bin/time -q -f %M -o "$work/rss" "$@" >"$work/out.$tool" 2>"$work/err.$tool" || status=$?; } 2>"$work/time"
  if [ "$status" -ne 0 ]; then
    echo "bench: $tool failed with status $status:" >&2; tail -n 5 "$work/err.$tool" >&2; exit 1
  fi
  awk -v tool="$tool" -v scale="$scale" -v rss="$(tail -n 1 "$work/rss")" \
    '{ printf "{\"tool\": \"%s\", \"scale\": %d, \"wall_s\": %.3f, \"cpu_s\": %.3f, \"rss_mb\": %.1f}\n", tool, scale, $1, $2 + $3, rss / 1024 }' \
    "$work/time" >>"$json"
}
run_tool() { # TOOL SCALE
  local data=$work/perf.$2.data
  case $1 in
    planish-profile) measure "$1" "$2" "$planish" profile "$data" --binary "$binary" --emit text -o "$work/planish.$2.prof"; produced "$1" "$work/planish.$2.prof" ;;
    planish-aggregate) measure "$1" "$2" "$planish" aggregate "$data" --binary "$binary" -o "$work/planish.$2.counts"; produced "$1" "$work/planish.$2.counts" ;;
    llvm-profgen) measure "$1" "$2" llvm-profgen-22 --binary="$binary" --perfdata="$data" --format=text --output="$work/profgen.$2.prof"; produced "$1" "$work/profgen.$2.prof" ;;
    perf2bolt) measure "$1" "$2" perf2bolt-22 -p "$data" -o "$work/bolt.$2.fdata" "$binary"; produced "$1" "$work/bolt.$2.fdata" ;;
    create_llvm_prof) measure "$1" "$2" create_llvm_prof --binary="$work/dwarf4/shop" --profile="$data" --format=text --out="$work/autofdo.$2.prof"; produced "$1" "$work/autofdo.$2.prof" ;;
  esac
}
# produced TOOL FILE: a peer that wrote nothing did not do the work, and its time would say nothing.
produced() { [ -s "$2" ] || { echo "bench: $1 wrote an empty $2; its time means nothing" >&2; tail -n 5 "$work/err.$1" >&2; exit 1; }; }
peers=()
has() { command -v "$1" >/dev/null 2>&1; }
has llvm-profgen-22 && peers+=(llvm-profgen) || echo "bench: skipped: llvm-profgen-22 is not installed"
has perf2bolt-22 && peers+=(perf2bolt) || echo "bench: skipped: perf2bolt-22 is not installed"
has create_llvm_prof && peers+=(create_llvm_prof) || echo "bench: skipped: create_llvm_prof is not installed"

for ((round = 1; round <= rounds; round++)); do
  for scale in $peer_scales $large; do
    cat "$work/perf.$scale.data" >/dev/null
    tools=(planish-profile planish-aggregate)
    [ "$scale" = "$large" ] || tools+=("${peers[@]}")
    # Rotate the order, so that nobody always comes first.
    for ((i = 0; i < ${#tools[@]}; i++)); do
      echo "bench: round $round of $rounds, scale $scale, ${tools[(i + round) % ${#tools[@]}]}"
      run_tool "${tools[(i + round) % ${#tools[@]}]}" "$scale"
    done
  done
done

# --- equal bytes
same() { cmp -s "$1" "$2" && echo yes || echo "NO"; }
first=${peer_scales%% *}
data=$work/perf.$first.data
for run in 1 2; do "$planish" profile "$data" --binary "$binary" --emit text -q -o "$work/same.$run.prof"; done
"$planish" profile "$data" --binary "$binary" --emit text -q --threads 1 -o "$work/same.t1.prof"
"$planish" profile "$data" --binary "$binary" --emit text -q --threads 2 -o "$work/same.t2.prof"
"$planish" aggregate "$data" --binary "$binary" -q --threads 1 -o "$work/same.t1.counts"
"$planish" aggregate "$data" --binary "$binary" -q --threads 2 -o "$work/same.t2.counts"
equal_runs=$(same "$work/same.1.prof" "$work/same.2.prof")
equal_threads=$(same "$work/same.t1.prof" "$work/same.t2.prof")
equal_counts=$(same "$work/same.t1.counts" "$work/same.t2.counts")
overlap=''
if has llvm-profdata-22 && [ -s "$work/profgen.$first.prof" ]; then
  overlap=$(llvm-profdata-22 overlap --sample "$work/profgen.$first.prof" "$work/planish.$first.prof" 2>/dev/null |
    sed -n 's/.*Whole program sample overlap: *//p' | head -n 1)
fi

# --- the report
date=$(date +%Y-%m-%d)
md=measurements/$date-$name.md; out=measurements/$date-$name.json
field() { awk -F': ' -v key="$1" '$1 ~ key { print $2; exit }' /proc/cpuinfo; }
cpu=$(field '^model name'); cores=$(nproc); memory=$(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)
kernel=$(uname -sr | sed 's/^\([A-Za-z]* [0-9.]*\).*/\1/'); system=$(. /etc/os-release && echo "$PRETTY_NAME")
version() { "$@" --version 2>/dev/null | grep -o '[0-9][0-9]*\.[0-9.]*[0-9]' | head -n 1 || true; }
versions="planish $(version "$planish"), Rust $RUST_VERSION, $cc $(version "$cc")"
has llvm-profgen-22 && versions+=", llvm-profgen $(version llvm-profgen-22)"
has perf2bolt-22 && versions+=", perf2bolt $(version perf2bolt-22)"
has create_llvm_prof && versions+=", create_llvm_prof $(dpkg-query -W -f='${Version}' autofdo 2>/dev/null | sed 's/-.*//')"

{
  printf '{\n  "date": "%s", "cpu": "%s", "cores": %s, "memory": "%s", "kernel": "%s", "system": "%s",\n' \
    "$date" "$cpu" "$cores" "$memory" "$kernel" "$system"
  printf '  "versions": "%s",\n  "command": "make bench", "flags": "%s", "rounds": %s,\n' "$versions" "$flags" "$rounds"
  printf '  "equal_bytes": {"two_runs": "%s", "profile_threads_1_2": "%s", "counts_threads_1_2": "%s"},\n' \
    "$equal_runs" "$equal_threads" "$equal_counts"
  printf '  "bytes": {'
  separator=''
  for scale in $peer_scales $large; do printf '%s"%s": %s' "$separator" "$scale" "$(bytes_of "$scale")"; separator=', '; done
  printf '},\n  "runs": [\n'
  sed 's/^/    /; $!s/$/,/' "$json"
  printf '  ]\n}\n'
} >"$out"

# Medians per recording and tool: "SCALE TOOL WALL CPU RSS"
medians=$work/medians
sed 's/[{}":,]/ /g' "$json" | awk '{ print $4, $2, $6, $8, $10 }' | sort -k1,1n -k2,2 >"$work/rows"
median_of() { awk -v scale="$1" -v tool="$2" -v column="$3" '$1 == scale && $2 == tool { print $column }' "$work/rows" | sort -n |
  awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
: >"$medians"
awk '{ print $1, $2 }' "$work/rows" | sort -u -k1,1n -k2,2 | while read -r scale tool; do
  echo "$scale $tool $(median_of "$scale" "$tool" 3) $(median_of "$scale" "$tool" 4) $(median_of "$scale" "$tool" 5)" >>"$medians"
done
{
  echo "# Reading recordings: planish beside its peers, $date"
  echo
  echo "$cpu, $cores cores, $memory, $kernel, $system. $versions."
  echo "Repeat with \`make bench\`; every single run is in [$(basename "$out")]($(basename "$out"))."
  echo
  echo "Input: \`shop train\` of \`demo/sqlite\`, built with \`$flags -gdwarf-5 -static\`, recorded with"
  echo "\`planish record --branches=emulated -c 1000\`, in the page cache. Medians of $rounds interleaved rounds. The output is"
  echo "a clang text profile (perf2bolt: fdata; planish-aggregate: the counts file). CPU is user + system time. create_llvm_prof gets the same code with DWARF 4,"
  echo "since from DWARF 5 it writes an empty profile."
  echo
  echo "| recording | tool | wall s | CPU s | peak MB | wall, planish = 1 | CPU, planish = 1 | memory, planish = 1 |"
  echo "|---|---|---|---|---|---|---|---|"
  for scale in $peer_scales $large; do
    size=$(bytes_of "$scale" | awk '{ printf "%.0f MB", $1 / 1e6 }')
    awk -v scale="$scale" -v size="$size" '
      $1 == scale && $2 == "planish-profile" { w = $3; c = $4; r = $5 }
      $1 == scale { line[++n] = $0 }
      END { for (i = 1; i <= n; i++) { split(line[i], f, " ")
        if (f[2] == "planish-aggregate") ratio = "| | | "; else ratio = sprintf("| %.1f | %.1f | %.1f ", f[3] / w, f[4] / c, f[5] / r)
        printf "| %s | %s | %.3f | %.3f | %.0f %s|\n", size, f[2], f[3], f[4], f[5], ratio } }' "$medians"
  done
  echo
  for scale in $peer_scales $large; do
    bytes=$(bytes_of "$scale")
    awk -v scale="$scale" -v bytes="$bytes" '$1 == scale && $2 == "planish-aggregate" { printf "- `planish aggregate` reads %.0f MB at %.2f GB/s.\n", bytes / 1e6, bytes / 1e9 / $3 }' "$medians"
  done
  awk '$2 == "planish-profile" { if (!low || $5 < low) low = $5; if ($5 > high) high = $5 }
    END { printf "- Peak memory of `planish profile` over all sizes: %.0f to %.0f MB.\n", low, high }' "$medians"
  echo "- Equal bytes: two runs $equal_runs; profile with 1 and 2 threads $equal_threads; counts with 1 and 2 threads $equal_counts."
  [ -z "$overlap" ] || echo "- Overlap with llvm-profgen's profile of the same recording (\`llvm-profdata overlap --sample\`): $overlap."
} >"$md"
cat "$md"
[ "$equal_runs$equal_threads$equal_counts" = yesyesyes ] || { echo "bench: outputs differ" >&2; exit 1; }
