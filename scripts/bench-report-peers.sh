#!/usr/bin/env bash
# Fetches the programs that scripts/bench-report.sh measures beside planish, into target/bench-report/peers:
#
#   perf        the newest linux-perf of the distribution and its backports, beside the machine's own
#   hotspot     hotspot-perfparser, which reads recordings for hotspot, with the Qt libraries it needs
#   samply      crate; converts recordings for the Firefox Profiler
#   inferno     crate; inferno-collapse-perf, which folds the text of `perf script`
#
# Nothing is installed in the system, and apt's configuration and lists stay as they are: packages are unpacked into
# folders of their own. It says what it fetches, and does nothing the second time. Of a peer that cannot be had,
# peers/NAME.missing says why; the next run tries again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
export LC_ALL=C
peers=${CARGO_TARGET_DIR:-$PWD/target}/bench-report/peers
mkdir -p "$peers/bin"
peers=$(cd "$peers" && pwd)

missing() { # PEER REASON
  echo "bench: no $1: $2" >&2
  printf '%s\n' "$2" >"$peers/$1.missing"
}
# The first line that a log has about an error, without addresses: the table quotes it.
reason() {
  { grep -m 1 -E '^(E:|error)|: error' "$1" || tail -n 1 "$1"; } | sed 's#[a-z]*://[^ ]*#(address)#g' | cut -c -160
}

# The mirror and its suites are those of the machine's own configuration, plus the backports of its release. This list,
# the packages' lists and the downloads are deleted at the end: what remains names no mirror.
aside=$peers/aside
trap 'rm -rf "$aside"' EXIT
mkdir -p "$aside"
apt_options=(-q -o "Dir::Etc::sourcelist=$aside/sources.list" -o Dir::Etc::sourceparts=-
  -o "Dir::State::lists=$aside/lists" -o "Dir::Cache=$aside/cache" -o APT::Sandbox::User=root
  -o Debug::NoLocking=1)
prepare_apt() {
  [ ! -e "$aside/ready" ] || return 0
  local kept=/usr/share/keyrings/debian-archive-keyring.gpg signed='' release found
  mkdir -p "$aside/lists/partial" "$aside/cache/archives/partial" "$aside/debs"
  ! [ -e $kept ] || signed="[signed-by=$kept] "
  release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  apt-get indextargets --format "deb $signed\$(REPO_URI) \$(CODENAME) \$(COMPONENT)" 'Created-By: Packages' |
    grep -E " $release(-[a-z]+)? " | sort -u >"$aside/found"
  grep " $release " "$aside/found" | sed "s/ $release / $release-backports /" | sort -u - "$aside/found" \
    >"$aside/sources.list"
  found=$(wc -l <"$aside/found")
  [ "$found" != 0 ] || { echo "error: apt has no source for $release" >"$1"; return 1; }
  # A release without backports still has its own packages.
  apt-get "${apt_options[@]}" update >"$1" 2>&1 || return 1
  touch "$aside/ready"
}
fetch() { # PEER LOG PACKAGE=VERSION [WITH]…: PACKAGE, and those of WITH and of what these need that the machine lacks
  local peer=$1 log=$2 package=$3; shift 3
  local needed file
  needed=$(apt-get "${apt_options[@]}" -s install --no-install-recommends "$@" 2>"$log" |
    sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' | grep -vxF "$package") || [ ! -s "$log" ] || return 1
  echo "bench: fetching $package" $needed
  rm -rf "$aside/debs" "${peers:?}/$peer.new"
  mkdir "$aside/debs" "$peers/$peer.new"
  (cd "$aside/debs" && apt-get "${apt_options[@]}" download "$package" $needed) >"$log" 2>&1 || return 1
  for file in "$aside/debs"/*.deb; do dpkg -x "$file" "$peers/$peer.new"; done
  rm -rf "${peers:?}/$peer" && mv "$peers/$peer.new" "$peers/$peer"
}
newest() { apt-cache "${apt_options[@]}" madison "$1" | awk '{ print $3 }' | sort -rV | head -n 1; }
# Debian's perf was a script that looks for the kernel's own before it became a program: take the program itself.
program() { find "$peers/$1" -type f -perm -100 -name "$2" -size +100k 2>/dev/null | head -n 1; }
runs() { # PEER PROGRAM LOG
  [ -n "$2" ] && LD_LIBRARY_PATH=$(echo "$peers/$1"/usr/lib/*-linux-gnu) "$2" --version >"$3" 2>&1
}

from_apt() { # PEER NAME PACKAGE WITH…: has NAME of PACKAGE as peers/bin/PEER, which finds its libraries
  local peer=$1 name=$2 package=$3 log=$aside/$1.log version found; shift 3
  command -v apt-get >/dev/null || { missing "$peer" "this system has no apt-get"; return; }
  prepare_apt "$log" || { missing "$peer" "$(reason "$log")"; return; }
  version=$(newest "$package")
  [ -n "$version" ] || { missing "$peer" "the distribution has no package $package"; return; }
  # `itself`: with all it needs. Else only with the libraries that the program needs, not with a whole desktop.
  if [ "$1" = itself ]; then set -- "$package=$version"; else
    set -- $(apt-cache "${apt_options[@]}" show "$package=$version" | sed -n 's/^Depends: //p' | tr ',|' '\n\n' |
      sed 's/^ *//; s/ .*//' | grep -E "$1")
  fi
  fetch "$peer" "$log" "$package=$version" "$@" || { missing "$peer" "$(reason "$log")"; return; }
  found=$(program "$peer" "$name")
  runs "$peer" "$found" "$log" || { missing "$peer" "$(reason "$log")"; return; }
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' \
    "$(echo "$peers/$peer"/usr/lib/*-linux-gnu)" "$found" >"$peers/bin/$peer.new"
  chmod +x "$peers/bin/$peer.new"
  echo "$version" >"$peers/$peer.version"
  mv "$peers/bin/$peer.new" "$peers/bin/$peer"
}
from_crate() { # PEER CRATE OPTIONS…
  local peer=$1 crate=$2 log=$aside/$1.log; shift 2
  find_rust || { missing "$peer" "no Rust to build it with"; return; }
  echo "bench: building the crate $crate"
  # Not among what planish builds: both would wait for each other.
  env -u CARGO_TARGET_DIR "$CARGO" install --locked --root "$peers" "$@" "$crate" >"$log" 2>&1 ||
    missing "$peer" "$(reason "$log")"
}

rm -f "$peers"/*.missing
[ -x "$peers/bin/perf" ] || from_apt perf perf linux-perf itself
[ -x "$peers/bin/hotspot" ] || from_apt hotspot hotspot-perfparser hotspot '^libqt[0-9](core|network)[0-9]'
[ -x "$peers/bin/samply" ] || from_crate samply samply
[ -x "$peers/bin/inferno-collapse-perf" ] || from_crate inferno inferno --bin inferno-collapse-perf
