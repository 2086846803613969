# shellcheck shell=bash
# The sources of one of Debian's kernels; to be sourced.

# kernel_tree SERIES DIRECTORY [VERSION]: unpacks linux-source-SERIES, or that version of it, into DIRECTORY, unless it is there; sets `tree`.
kernel_tree() {
  local series=$1 work=$2 version=${3:-} archive
  tree=$work/linux-source-$series
  [ ! -e "$tree/Makefile" ] || return 0
  archive=/usr/src/linux-source-$series.tar.xz
  if [ -n "$version" ] || [ ! -e "$archive" ]; then
    echo "downloading linux-source-$series${version:+ $version} (140 MB)" >&2
    (cd "$work" && apt-get -q download "linux-source-$series${version:+=$version}" >&2)
    dpkg-deb --fsys-tarfile "$work/linux-source-$series"_*.deb | tar -x -C "$work" "./usr/src/linux-source-$series.tar.xz"
    rm -f "$work/linux-source-$series"_*.deb
    archive=$work/usr/src/linux-source-$series.tar.xz
  fi
  echo "unpacking $archive" >&2
  rm -rf "$work/unpacking"; mkdir "$work/unpacking"
  tar -x -C "$work/unpacking" -f "$archive"
  mv "$work/unpacking/linux-source-$series" "$tree"
  rm -rf "$work/unpacking" "$work/usr"
}

# kernel_begin NAME: sets `planish`, and `say` for the script's words.
kernel_begin() {
  kernel_script=$1
  say() { printf '%s: %s\n' "$kernel_script" "$*"; }
  planish=$(realpath -- "${PLANISH:-${CARGO_TARGET_DIR:-target}/release/planish}")
  [ -x "$planish" ] || { echo "$kernel_script: $planish is missing; run: make build" >&2; exit 1; }
}

# kernel_copy TREE FROM NAME: a build directory as a copy of another one of the same tree, in which only what changes is compiled.
kernel_copy() {
  local tree=$1 from=$2 name=$3
  rm -rf "$name"
  cp -a "$from" "$name"
  # It is built anew in another directory, and all objects after it, unless it looks as old as it is.
  make -s -C "$tree" O="$(realpath -- "$name")" LLVM=-22 ARCH=x86_64 tools/objtool >/dev/null
  touch -r "$from/tools/objtool/objtool" "$name/tools/objtool/objtool"
}

# kernel_work NAME SERIES: a directory for a script below target, with the sources; sets `work` and `tree`, absolute both.
kernel_work() {
  kernel_tools "$1"
  work=${CARGO_TARGET_DIR:-target}/$1
  mkdir -p "$work"
  work=$(realpath -- "$work")
  kernel_tree "$2" "$work"
  tree=$(realpath -- "$tree")
}

# kernel_tools NAME: ends with an error that names what is missing.
kernel_tools() {
  local tool
  for tool in flex:flex bison:bison bc:bc clang-22:clang-22 ld.lld-22:lld-22 llvm-nm-22:llvm-22 qemu-system-x86_64:qemu-system-x86; do
    command -v "${tool%:*}" >/dev/null 2>&1 || { echo "$1: ${tool%:*} is missing; run: scripts/setup.sh kernel" >&2; exit 1; }
  done
  [ -e /usr/include/libelf.h ] || { echo "$1: libelf-dev is missing; run: scripts/setup.sh kernel" >&2; exit 1; }
}
