#!/usr/bin/env bash
# From Debian's kernel sources to a kernel with a profile and a layout, measured: planish kernel optimize, on a small
# configuration.
#   scripts/kernel-e2e.sh [SERIES [OPTION…]]     SERIES is 6.12 (default) or 6.1; options are those of kernel optimize
#
# The sources are those of the package linux-source-SERIES; it is unpacked in target/kernel-e2e and not installed (1.6 GB, and 1 GB
# of builds). The result is the exit code and the table of planish, kept as report.md there. On two busy cores
# planish's part took 23 minutes; a second run does only what is left to do.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
series=${1:-6.12}
shift || true

for tool in flex:flex bison:bison bc:bc clang-22:clang-22 ld.lld-22:lld-22 llvm-nm-22:llvm-22 qemu-system-x86_64:qemu-system-x86; do
  command -v "${tool%:*}" >/dev/null 2>&1 || { echo "kernel-e2e: ${tool%:*} is missing; run: scripts/setup.sh kernel" >&2; exit 1; }
done
[ -e /usr/include/libelf.h ] || { echo "kernel-e2e: libelf-dev is missing; run: scripts/setup.sh kernel" >&2; exit 1; }

scripts/build.sh
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=$target/release/planish
export PLANISH_QEMU_PLUGIN=$target/release/libplanish_qemu_branches.so
work=$target/kernel-e2e
tree=$work/linux-source-$series
mkdir -p "$work"

if [ ! -e "$tree/Makefile" ]; then
  archive=/usr/src/linux-source-$series.tar.xz
  if [ ! -e "$archive" ]; then
    echo "kernel-e2e: downloading linux-source-$series (140 MB)" >&2
    (cd "$work" && apt-get -q download "linux-source-$series" >&2)
    dpkg-deb --fsys-tarfile "$work/linux-source-$series"_*.deb | tar -x -C "$work" "./usr/src/linux-source-$series.tar.xz"
    rm -f "$work/linux-source-$series"_*.deb
    archive=$work/usr/src/linux-source-$series.tar.xz
  fi
  echo "kernel-e2e: unpacking $archive" >&2
  rm -rf "$work/unpacking"; mkdir "$work/unpacking"
  tar -x -C "$work/unpacking" -f "$archive"
  mv "$work/unpacking/linux-source-$series" "$tree"
  rm -rf "$work/unpacking" "$work/usr"
fi

began=$(date +%s)
code=0
"$planish" kernel optimize "$tree" --output-dir "$work/$series" "$@" || code=$?
echo "kernel-e2e: Linux $series, exit code $code, $(( ($(date +%s) - began) / 60 )) minutes" >&2
exit "$code"
