# shellcheck shell=bash
# Sources of Debian's packages; to be sourced. Needs `say`, and the directories $work (lists) and $at (one program).

# The machine's own package sources, asked for source packages too.
sources() {
  mkdir -p "$work/lists/partial"
  {
    cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n 's/^deb /deb-src /p' || true
    for file in /etc/apt/sources.list.d/*.sources; do
      [ -e "$file" ] || continue
      awk -F': *' '
        function out(  u, n, i, s, m, j) {
          n = split(uri, u, " "); m = split(suite, s, " ")
          for (i = 1; i <= n; i++) for (j = 1; j <= m; j++) print "deb-src " u[i] " " s[j] " " part
          uri = suite = part = ""
        }
        /^URIs/ { uri = $2; for (i = 3; i <= NF; i++) uri = uri ":" $i }
        /^Suites/ { suite = $2 } /^Components/ { part = $2 }
        /^$/ { if (uri) out() } END { if (uri) out() }' "$file"
    done
  } | sort -u >"$work/sources.list"
}
# debian PACKAGE: its sources, patched, in $at/source.
debian() {
  [ -d "$at/source" ] && return
  sources
  local options=(-o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists")
  apt-get -q "${options[@]}" update >/dev/null
  # A mirror may list a version that it no longer has, or not yet: the next older one then.
  local version versions
  versions=$(apt-cache "${options[@]}" showsrc "$1" | sed -n 's/^Version: //p' | sort -rV | uniq)
  for version in $versions; do
    rm -rf "$at/fetched"; mkdir -p "$at/fetched"
    (cd "$at/fetched" && apt-get -q "${options[@]}" source "$1=$version") >"$at/fetch.log" 2>&1 && break
    say "$1 $version cannot be fetched or unpacked (needs dpkg-dev); see $at/fetch.log"
    rm -rf "$at/fetched"; mkdir -p "$at/fetched"
  done
  [ -n "$(ls "$at/fetched")" ] || { say "$1: no sources"; return 1; }
  mv "$(find "$at/fetched" -mindepth 1 -maxdepth 1 -type d)" "$at/source"
}
