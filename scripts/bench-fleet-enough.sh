#!/usr/bin/env bash
# Does `planish fleet status` know when there are enough shards? Programs rebuilt from a part of a fleet's shards, the loss that
# was expected beside the one that was measured.
#   scripts/bench-fleet-enough.sh [PROGRAM...]     sqlite, cpython (both); writes measurements/DATE-fleet-enough.md and .json
#
# 100 hosts, one shard each, drawn from a recording of the program; profiles from the first 1, 3, 10, 30 and 100 of them.
# BENCH_ROUNDS (default 20): rounds of the comparison of CPU time.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
rounds=${BENCH_ROUNDS:-20}
parts=(1 3 10 30 100)
names=("$@")
[ ${#names[@]} -gt 0 ] || names=(sqlite cpython)

[ -n "${PLANISH:-}" ] || scripts/build.sh
. scripts/toolchain.sh
need_rust
export PATH=$(dirname "$CARGO"):$PATH
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=${PLANISH:-$target/release/planish}
whole=$target/bench-fleet-enough
mkdir -p "$whole" measurements
say() { echo "bench: $*" >&2; }
. scripts/debian-source.sh
common="-O2 -gmlt -fdebug-info-for-profiling -funique-internal-linkage-names -ffunction-sections"
common+=" -fbasic-block-address-map"

# What a host has of the recording's counts, in percent, if it is as busy as the one in the middle.
share=0.5
# For each program: `title`, `period` (branches between two samples of the recording), `environment`, `recorded` and
# `compared` (commands; {bin} is the program), and a function that builds it: build_NAME INTO FLAG FLAG-OF-LINKER.
setting_sqlite() {
  title="SQLite" period=1000 environment=() recorded=("{bin}" train 20) compared=("{bin}" train 20)
}
build_sqlite() {
  PLANISH_OUT=$1 PLANISH_CC=clang-22 PLANISH_CFLAGS="$common $2" PLANISH_LDFLAGS="-fuse-ld=lld $3" demo/sqlite/build.sh
  ln -f "$1/shop" "$1/program"
}
# Configured once; each build has a copy of that.
setting_cpython() {
  local project train evaluate more counted
  . gains/cpython.sh
  title="CPython 3.11" period=1000
  work=$whole prepare
  environment=(PYTHONHOME="$work/prefix" PYTHONHASHSEED=1 PYTHONDONTWRITEBYTECODE=1)
  recorded=("{bin}" -S "$work/train.py" 1) compared=(env "${environment[@]}" "{bin}" -S "$work/train.py" 2)
  if [ ! -e "$work/configured/Makefile" ]; then
    say "configuring CPython"
    rm -rf "$work/configured"; mkdir "$work/configured"
    (cd "$work/configured" && "$work/source/configure" -q --without-ensurepip --disable-test-modules CC=clang-22 CXX=clang++-22 CFLAGS="$common" \
      LDFLAGS=-fuse-ld=lld >configure.log 2>&1)
    cp "$work/source/Setup.gains" "$work/configured/Modules/Setup.local"
  fi
}
build_cpython() {
  cp -a "$work/configured/." "$1/"
  make -s -C "$1" -j"$(nproc)" EXTRA_CFLAGS="$2" LDFLAGS_NODIST="$3" python >"$1/make.log" 2>&1
  ln -f "$1/python" "$1/program"
}

with_bin() { local program=$1 word; shift; for word in "$@"; do words+=("${word//\{bin\}/$program}"); done; }
# build VARIANT FLAG FLAG-OF-LINKER
build() {
  [ ! -x "$work/$1/program" ] || return 0
  say "$name: building $1"
  rm -rf "${work:?}/$1"; mkdir -p "$work/$1"
  "build_$name" "$work/$1" "$2" "$3"
}

# measure WORD VARIANT...
measure() {
  local kept=$work/$1.json
  shift
  "$planish" compare "$@" --rounds "$rounds" --metric cpu --code-metrics --format json -- "${compared[@]}" >"$kept" ||
    case $? in 1 | 4) ;; *) return 1 ;; esac
}

# status SHARDS WORD
status() {
  "$planish" -q fleet status "$1" --for "$work/plain/program" --format json >"$work/status-$2.json" ||
    case $? in 1 | 4) ;; *) return 1 ;; esac
}

one() {
  local name=$1 work=$whole/$1 title period environment recorded compared part words
  mkdir -p "$work"
  local at=$work
  "setting_$name"
  build plain "" ""
  if [ ! -e "$work/real.counts" ]; then
    say "$name: recording"
    words=(); with_bin "$work/plain/program" "${recorded[@]}"
    env "${environment[@]}" "$planish" -q record --branches=emulated -c "$period" -o "$work/real.data" -- "${words[@]}" >/dev/null
    "$planish" -q aggregate "$work/real.data" -o "$work/real.counts"
  fi
  [ -e "$work/spool" ] || "$planish" -q fleet simulate "$work/real.counts" --hosts 100 --recordings 1 --share "$share" --skew 0.5 --into "$work/spool"
  local variants=("plain=$work/plain/program") placed=("plain=$work/plain/program")
  for part in "${parts[@]}" whole; do
    local shards=$work/part-$part
    rm -rf "$shards"; mkdir "$shards"
    if [ "$part" = whole ]; then ln "$work/real.counts" "$shards/"; else
      for host in $(seq 0 $((part - 1))); do ln "$work/spool/host$host-0.counts" "$shards/"; done
    fi
    status "$shards" "$part"
    "$planish" -q fleet profile "$shards" --for "$work/plain/program" -o "$work/$part.afdo"
    build "profile-$part" "-fprofile-sample-use=$work/$part.afdo" ""
    variants+=("profile-$part=$work/profile-$part/program")
    "$planish" -q fleet merge "$shards" -o "$work/$part.counts"
    "$planish" -q layout "$work/$part.counts" --binary "$work/plain/program" --prefix "$work/$part"
    build "layout-$part" "-fbasic-block-sections=list=$work/${part}_cc_profile.txt" \
      "-Wl,--symbol-ordering-file=$work/${part}_ld_profile.txt -Wl,--no-warn-symbol-ordering"
    placed+=("layout-$part=$work/layout-$part/program")
  done
  say "$name: measuring"
  measure profiles "${variants[@]}"
  measure layouts "${placed[@]}"
  python3 scripts/bench-fleet-enough.py "$work" "$title" "$share" "${parts[@]}" whole >"$work/section.md"
}

for name in "${names[@]}"; do
  # In a condition, `set -e` would not hold inside.
  set +e
  (set -e; one "$name")
  code=$?
  set -e
  [ "$code" = 0 ] || { say "$name failed"; exit 1; }
done
out=measurements/$(date +%F)-fleet-enough
{
  echo "# Are there enough shards? $(date +%F)"
  echo
  echo "\`scripts/bench-fleet-enough.sh ${names[*]}\` on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, Linux $(uname -r). 100 simulated hosts"
  echo "with a shard each, drawn from a real recording (by the host's load); clang 22, from the first N shards: AutoFDO, and a layout of the"
  echo "blocks without a profile (\`planish layout\`). Expected loss: what \`planish fleet status\` says of the taken branches of a layout."
  echo "Measured: taken branches on the emulated CPU, over those with the whole recording, and CPU time by compare ($rounds rounds), over the"
  echo "build with neither."
  for name in "${names[@]}"; do echo; cat "$whole/$name/section.md"; done
} >"$out.md"
{
  separator='{'
  for name in "${names[@]}"; do
    printf '%s"%s":{"profiles":' "$separator" "$name"; cat "$whole/$name/profiles.json"
    printf ',"layouts":'; cat "$whole/$name/layouts.json"
    for part in "${parts[@]}" whole; do printf ',"status_%s":' "$part"; cat "$whole/$name/status-$part.json"; done
    printf '}'; separator=','
  done
  printf '}\n'
} | sed "s|$target/|target/|g" >"$out.json"
say "$out.md"
