#!/usr/bin/env bash
# What software branch stacks cost, how many of them are full, and how close their profile is to an exact one.
#   scripts/bench-software.sh [FILE]      prints Markdown tables and keeps them in FILE
#                                         (default measurements/DATE-software.md)
#
# BENCH_ROUNDS (default 5) is how often each cost is measured, in turns; BENCH_SCALE (default 300) the length of SQLite's
# workload; BENCH_PAIRS (default 12) the rounds of the comparison with and without a recording. QUICK=1 takes a minute and
# shows that the script works; its numbers are no measurement.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
quick=${QUICK:-}
rounds=${BENCH_ROUNDS:-${quick:+2}}; rounds=${rounds:-5}
scale=${BENCH_SCALE:-${quick:+40}}; scale=${scale:-300}
pairs=${BENCH_PAIRS:-${quick:+6}}; pairs=${pairs:-12}

. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=${PLANISH:-$target/release/planish}
[ -n "${PLANISH:-}" ] || scripts/build.sh
work=$target/bench-software
mkdir -p "$work" measurements
out=$(realpath -m "${1:-measurements/$(date +%F)-software.md}")
has() { command -v "$1" >/dev/null 2>&1; }
cc=$(first_of clang-22 clang-23 clang-21 clang-20 clang-19 clang) || { echo "bench: no clang; run: make setup" >&2; exit 1; }
has python3 || { echo "bench: needs python3 to read planish's JSON" >&2; exit 1; }

if [ ! -x "$work/shop" ] || [ demo/sqlite/driver.c -nt "$work/shop" ]; then
  echo "bench: building SQLite" >&2
  PATH=$(dirname "$CARGO"):$PATH PLANISH_OUT=$work PLANISH_CC=$cc \
    PLANISH_CFLAGS="-O2 -g -fdebug-info-for-profiling -funique-internal-linkage-names" \
    PLANISH_LDFLAGS="-fuse-ld=lld -Wl,--build-id=sha1" demo/sqlite/build.sh >&2
fi
cd "$work"
[ -s text ] || seq 1 3000000 | awk '{ print $1 * 7919 % 1000003, "taken branch", $1 % 97 }' >text
cat >threads.c <<'END'
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long sum;
static void *work(void *rounds) {
  unsigned long local = 1;
  for (long i = 0; i < *(long *)rounds; i++) {
    for (int j = 0; j < 500; j++) local = local * 6364136223846793005u + (local % 7 == 3);
    pthread_mutex_lock(&lock);
    sum += local;
    pthread_mutex_unlock(&lock);
  }
  return NULL;
}
int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 1;
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, &rounds);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  return 0;
}
END
"$cc" -O2 -pthread -o threads threads.c
cat >count.py <<'END'
words = {}
for i in range(1500000):
    word = "w%d" % (i * 7919 % 997)
    words[word] = words.get(word, 0) + len(word)
print(sum(words.values()))
END

# record OPTIONS… -- COMMAND…: leaves the summary in summary.json
record() { "$planish" record -q --branches=software --format json -o soft.data "$@" >summary.json 2>errors || { cat errors >&2; exit 1; }; }
# field EXPRESSION: a number out of the summary, where s is all of it and l the part about looking ahead
field() { python3 -c 'import json, sys; s = json.load(open("summary.json")); l = s["look_ahead"]; print(eval(sys.argv[1]))' "$1"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }

echo "bench: the cost of a stop" >&2
rm -f cost.*
for ((round = 1; round <= rounds; round++)); do
  for depth in 32 256 1024; do
    record --depth "$depth" -F 500 -- ./shop train "$scale"
    field '"%.1f %.0f %d" % (1e6 * l["tracer_cpu_s"] / l["stops"], l["instructions"] / l["stops"], l["stops"])' >>"cost.$depth"
  done
done

echo "bench: how many stacks are full" >&2
: >full
repeats=${quick:+1}; repeats=${repeats:-4}
source=$(find . -name sqlite3.c | head -n 1)
if [ -n "$quick" ] || [ -z "$source" ]; then source=driver.c; fi
share() { # NAME COMMAND…
  local name=$1; shift
  record --depth 256 -F 500 -- "$@"
  local fewer=$(field '"%d | %.2f" % (l["stops"], 100 * l["full"] / l["stops"])')
  record --depth 1024 -F 500 -- "$@"
  echo "| $name | $fewer | $(field '"%d | %.2f | %s" % (l["stops"], 100 * l["full"] / l["stops"], ", ".join("%s %d" % (k, v) for k, v in sorted(l["shorter"].items(), key=lambda item: -item[1])) or "none")') |" >>full
}
share "SQLite, \`shop train $scale\`" ./shop train "$scale"
# Enough of each that a tenth of a percent is more than one stack.
times() { echo "for i in $(seq -s ' ' "$1"); do $2 || exit 1; done"; }
if has gzip; then share "\`gzip -6\`" sh -c "$(times "$repeats" 'gzip -6 -c text >text.gz')"; fi
if has xz; then share "\`xz -1\`" sh -c "$(times "$repeats" 'xz -1 -c text >text.xz')"; fi
share "\`$cc -O1\` on $(basename "$source")" "$cc" -O1 -c "$source" -o compiled.o
if has python3; then share "python3" sh -c "$(times "$repeats" "'$(python3 -c 'import sys; print(sys.executable)')' -S count.py")"; fi
share "4 threads with a mutex" ./threads "$((scale * 300 * repeats))"

echo "bench: overlap with an exact trace" >&2
overlap='' short=''
if has llvm-profdata-22; then
  short=$((scale / 3))
  "$planish" record -q --branches=emulated -c 1000 -o exact.data -- ./shop train "$short" >/dev/null
  # At native speed the same work is done in a moment, so it is done many times.
  record --depth 1024 -- sh -c "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do ./shop train $short; done"
  for kind in exact soft; do "$planish" profile -q "$kind.data" --binary ./shop --emit text -o "$kind.prof"; done
  overlap=$(llvm-profdata-22 overlap --sample exact.prof soft.prof | sed -n 's/.*Whole program profile similarity: *//p' | head -n 1)
  overlap="$overlap, from $(field 'l["full"]') full stacks"
else
  echo "bench: skipped: llvm-profdata-22 is not installed" >&2
fi

echo "bench: with and without a recording, $pairs rounds" >&2
# Long enough that what the start costs, up to 0.2 s where the kernel sets a CPU's counters up anew, says little.
long=$((scale * repeats))
printf '#!/bin/sh\nexec ./shop train "$1"\n' >plain
printf '#!/bin/sh\nexec "%s" record -q --branches=software -o "soft.$$.data" -- ./shop train "$1"\n' "$planish" >recorded
chmod +x plain recorded
"$planish" compare plain=./plain recorded=./recorded --rounds "$pairs" --metric wall --metric cpu -- '{bin}' "$long" >compared 2>&1 || case $? in 1 | 4) ;; *) exit 1 ;; esac
rm -f soft.*.data

{
  echo "# Software branch stacks, $(date +%F)"
  echo
  echo "\`scripts/bench-software.sh\`${quick:+ with QUICK=1, so no measurement,} on $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, Linux $(uname -r), $("$planish" --version), $cc."
  echo
  echo "## What a stop costs"
  echo
  echo "CPU time of the tracer divided by stops, SQLite (\`shop train $scale\`), \`-F 500\`, medians of $rounds recordings in turns."
  echo
  echo "| depth | µs a stop | instructions a stop | stops a recording |"
  echo "|---|---|---|---|"
  for depth in 32 256 1024; do
    echo "| $depth | $(cut -d ' ' -f 1 "cost.$depth" | median) | $(cut -d ' ' -f 2 "cost.$depth" | median) | $(cut -d ' ' -f 3 "cost.$depth" | median) |"
  done
  echo
  echo "## Full stacks"
  echo
  echo "At depths of 256 and 1024 branches, \`-F 500\`."
  echo
  echo "| program | stops | full at 256, % | stops | full at 1024, % | why the others ended |"
  echo "|---|---|---|---|---|---|"
  cat full
  echo
  echo "## Overlap with an exact trace"
  echo
  if [ -n "$overlap" ]; then
    echo "Profiles of SQLite (\`shop train $short\`) from software stacks at the default budget and from an emulated CPU"
    echo "(one stack in 1,000 taken branches), by the similarity that \`llvm-profdata overlap --sample\` tells: $overlap."
  else
    echo "Not measured: llvm-profdata-22 is not installed."
  fi
  echo
  echo "## What recording costs the program"
  echo
  echo "\`planish compare\`, the plain command beside the same under \`planish record --branches=software\` at the default budget,"
  echo "\`shop train $long\`; CPU time includes the tracer's own."
  echo
  echo '```'
  sed "s|$planish|planish|g" compared
  echo '```'
} >"$out.new"
mv "$out.new" "$out"
cat "$out"
