#!/bin/sh
# Builds the demo's program into $PLANISH_OUT with the compilers and flags that planish hands over.
# By hand: PLANISH_OUT=/tmp/out PLANISH_CC=clang PLANISH_CFLAGS=-O2 PLANISH_LDFLAGS=-fuse-ld=lld ./build.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${PLANISH_OUT:?names the directory to build into}" "${PLANISH_CC:=cc}"

# The lock file pins the package that carries SQLite's amalgamation; cargo fetches it, nothing of it is compiled.
manifest=$(cargo metadata --locked --format-version 1 --manifest-path "$here/Cargo.toml" |
  grep -o '"manifest_path":"[^"]*/libsqlite3-sys-[^"]*/Cargo.toml"' | head -n 1 | cut -d '"' -f 4)
[ -n "$manifest" ] || { echo "build.sh: cargo did not say where libsqlite3-sys lies" >&2; exit 1; }
source=$(dirname "$manifest")/sqlite3

mkdir -p "$PLANISH_OUT"
cp "$source/sqlite3.h" "$here/driver.c" "$PLANISH_OUT"
# SHOP_EDIT is a sed script; the comparisons in demo/compare change the source with it.
sed -e "${SHOP_EDIT:-}" "$source/sqlite3.c" >"$PLANISH_OUT/sqlite3.c"
cd "$PLANISH_OUT"

# Relative names: the names of static functions hold a hash of the path by which the compiler is given the file.
options="-DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_DEFAULT_MEMSTATUS=0"
# shellcheck disable=SC2086  # flags are words
"$PLANISH_CC" ${PLANISH_CFLAGS-} $options -c sqlite3.c -o sqlite3.o &
# shellcheck disable=SC2086
"$PLANISH_CC" ${PLANISH_CFLAGS-} $options -c driver.c -o driver.o
wait $!
# shellcheck disable=SC2086
"$PLANISH_CC" -static ${PLANISH_LDFLAGS-} sqlite3.o driver.o -lm -o shop
