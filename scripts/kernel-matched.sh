#!/usr/bin/env bash
# What is left of a profile and a layout at the next stable release? A kernel of one release is recorded under emulation; a later release is
# built with that profile as it is, with `planish profile match`, and with one of its own, and counted beside itself without a profile.
#   scripts/kernel-matched.sh [SERIES [OLD NEW]]      (an hour on two cores, 6 GB; what is built is not built again)
#
# SERIES is 6.12 (default) or 6.1, OLD and NEW are versions of Debian's linux-source-SERIES; without them, the oldest and the newest that
# apt-get can download. Works in target/kernel-matched.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. scripts/kernel-tree.sh
kernel_begin kernel-matched
kernel_tools kernel-matched
series=${1:-6.12}
versions=$(apt-cache madison "linux-source-$series" | awk '{print $3}' | sort -uV)
old=${2:-$(head -n 1 <<<"$versions")}
new=${3:-$(tail -n 1 <<<"$versions")}
[ -n "$old" ] || { echo "kernel-matched: apt knows no linux-source-$series; SERIES is 6.12 or 6.1" >&2; exit 1; }
[ "$old" != "$new" ] || { echo "kernel-matched: apt knows one linux-source-$series alone ($old); it needs a suite with another one" >&2; exit 1; }
work=${CARGO_TARGET_DIR:-target}/kernel-matched
mkdir -p "$work/$old-to-$new"
work=$(realpath -- "$work")
cd "$work/$old-to-$new"
trees=()
for version in "$old" "$new"; do
  mkdir -p "$work/$version"
  kernel_tree "$series" "$work/$version" "$version"
  "$planish" -q kernel prepare "$tree" >/dev/null
  trees+=("$tree")
done
old_tree=${trees[0]} new_tree=${trees[1]}
say "from $(make -s -C "$old_tree" kernelversion) to $(make -s -C "$new_tree" kernelversion)"

# built NAME TREE FROM [OPTION…]: the kernel NAME, from a copy of another build.
built() {
  local name=$1 tree=$2 from=$3
  shift 3
  [ ! -e "$name.done" ] || return 0
  say "builds $name"
  if [ "$from" = none ]; then
    mkdir -p "$name"
    "$planish" kernel config "$tree" --small >config
    make -s -C "$tree" O="$PWD/$name" LLVM=-22 ARCH=x86_64 KCONFIG_ALLCONFIG="$PWD/config" allnoconfig
  else
    kernel_copy "$tree" "$from" "$name"
  fi
  "$planish" kernel build "$tree" --build "$name" "$@"
  touch "$name.done"
}
record() { [ -e "$1.counts" ] || "$planish" kernel record "$1" --counts -o "$1.counts"; }
profile() { [ -e "$1.afdo" ] || "$planish" profile "$1.counts" --binary "$1/vmlinux" -o "$1.afdo"; }
# The older release, with a profile of its own: what a fleet has recorded.
built old-base "$old_tree" none
record old-base; profile old-base
built old "$old_tree" old-base --profile old-base.afdo --first-round
record old

say "the newer release with a profile of its own, with the older one's as it is, and with that carried over"
built base "$new_tree" none
record base; profile base
"$planish" profile match old-base.afdo --binary base/vmlinux -o matched.afdo
built own "$new_tree" base --profile base.afdo --first-round
built as-is "$new_tree" base --profile old-base.afdo --first-round
built matched "$new_tree" base --profile matched.afdo --first-round

say "and with layouts: of a recording of its own, and of the older one's"
record own
"$planish" layout own.counts --binary own/vmlinux --prefix own
built own-layout "$new_tree" own --profile base.afdo --first-round --layout own
"$planish" layout old.counts --recorded old/vmlinux --binary matched/vmlinux --prefix matched
built matched-layout "$new_tree" matched --profile matched.afdo --first-round --layout matched

"$planish" kernel measure base=base as-is=as-is matched=matched matched-layout=matched-layout own=own own-layout=own-layout
