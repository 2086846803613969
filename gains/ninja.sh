# ninja from Debian's sources: CMake, C++. It reads a build of 20,000 files and says what is to do.
title="ninja 1.11"
project=(--cmake --program ninja)
# Its CMakeLists.txt turns on LTO by itself.
more=('optimize.steps=["autofdo","propeller"]')
train=("{bin} -C $at/train -n")
evaluate=("{bin} -C $at/evaluate -n")
graph() { # DIRECTORY FILES WIDTH
  mkdir -p "$1"
  awk -v n="$2" -v width="$3" 'BEGIN {
    print "rule cc\n  command = cc -c $in -o $out -I include/$dir -DNAME=$name\n  description = CC $out"
    for (i = 0; i < n; i++) {
      printf "build obj/d%d/f%d.o: cc src/d%d/f%d.c | gen/h%d.h gen/h%d.h\n  dir = d%d\n  name = f%d\n", i % 40, i, i % 40, i, i % width, (i * 7) % width, i % 40, i
    }
    for (i = 0; i < width; i++) printf "build gen/h%d.h: cc src/h%d.in\n  dir = gen\n  name = h%d\n", i, i, i
  }' >"$1/build.ninja"
  # Sources that are missing are an error.
  (cd "$1" && sed -nE 's/^build [^:]*: cc ([^ |]*).*/\1/p' build.ninja >sources && sed 's|/[^/]*$||' sources | sort -u | xargs mkdir -p && xargs touch <sources)
}
prepare() { debian ninja-build; graph "$at/train" 12000 300; graph "$at/evaluate" 20000 500; }
