#!/bin/sh
# Builds the demo's SQLite program with a change made to it: CHANGE is none, unused or slower.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
: "${PLANISH_OUT:?names the directory to build into}" "${PLANISH_CC:=cc}" "${CHANGE:=none}"

manifest=$(cargo metadata --locked --format-version 1 --manifest-path "$here/../sqlite/Cargo.toml" |
  grep -o '"manifest_path":"[^"]*/libsqlite3-sys-[^"]*/Cargo.toml"' | head -n 1 | cut -d '"' -f 4)
[ -n "$manifest" ] || { echo "build.sh: cargo did not say where libsqlite3-sys lies" >&2; exit 1; }
source=$(dirname "$manifest")/sqlite3

mkdir -p "$PLANISH_OUT"
cp "$source/sqlite3.h" "$here/../sqlite/driver.c" "$PLANISH_OUT"
case $CHANGE in
  none) cp "$source/sqlite3.c" "$PLANISH_OUT" ;;
  # A function that nobody calls, in front of all others.
  unused)
    printf 'int shop_unused(int x) { int s = 0; while (x > 0) { s += x * x; x >>= 1; } return s; }\n#line 1\n' \
      >"$PLANISH_OUT/sqlite3.c"
    cat "$source/sqlite3.c" >>"$PLANISH_OUT/sqlite3.c" ;;
  # NOPS instructions that do nothing before every instruction of SQLite's virtual machine.
  slower)
    sed "s/for(pOp=&aOp\[p->pc\]; 1; pOp++){/& __asm__ volatile(\".rept ${NOPS:-8}; nop; .endr\");/" \
      "$source/sqlite3.c" >"$PLANISH_OUT/sqlite3.c"
    ! cmp -s "$source/sqlite3.c" "$PLANISH_OUT/sqlite3.c" || { echo "build.sh: nothing was changed" >&2; exit 1; } ;;
  *) echo "build.sh: CHANGE=$CHANGE is none of none, unused, slower" >&2; exit 1 ;;
esac
cd "$PLANISH_OUT"

options="-DSQLITE_THREADSAFE=0 -DSQLITE_OMIT_LOAD_EXTENSION -DSQLITE_DEFAULT_MEMSTATUS=0"
# shellcheck disable=SC2086  # flags are words
"$PLANISH_CC" ${PLANISH_CFLAGS-} $options -c sqlite3.c -o sqlite3.o &
# shellcheck disable=SC2086
"$PLANISH_CC" ${PLANISH_CFLAGS-} $options -c driver.c -o driver.o
wait $!
# shellcheck disable=SC2086
"$PLANISH_CC" -static ${PLANISH_LDFLAGS-} sqlite3.o driver.o -lm -o shop
