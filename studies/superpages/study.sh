# shellcheck shell=bash disable=SC2034,SC2154
# What do superpages of 2 MiB give a large program: as built, with text that can lie on them, and with text that does? And how much text
# of usual programs can lie on superpages, or in the runs of 32 KiB that Ryzen's translation buffers join?
title="Text on superpages: clang as built, aligned, aligned and warm"
needs_kernel=""
rounds=${STUDY_ROUNDS:-60}
program=clang-22
# Files that it compiles: of two lines, and of four hundred functions.
sizes=${STUDY_SIZES:-small large}

about_program() {
  echo "# $title"
  echo
  echo "\`make study NAME=superpages\` on $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs, $(date +%F): Linux $(uname -r),"
  echo "transparent superpages $(sed 's/.*\[\(.*\)\].*/\1/' /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null || echo unknown); $("$program" --version | head -n 1)."
}

run_study() {
  local size source
  about_program
  for size in $sizes; do
    source=$work/$size.c
    {
      echo 'int printf(const char *, ...);'
      if [ "$size" = large ]; then
        for n in $(seq 400); do
          echo "int f$n(int x) { int s = 0; for (int i = 0; i < x; i++) s += x % (i + $n) ? i ^ $n : s >> 1; return s; }"
        done
      fi
      echo 'int main(void) { return printf("%d\n", 1) < 0; }'
    } >"$source"
    echo
    echo "## $program -O2 -c, a $size file ($(wc -c <"$source") bytes), $rounds rounds"
    echo
    "$planish" -q pages experiment --rounds "$rounds" --folder "$work" --markdown "$work/$size.md" --raw "$work/$size.jsonl" -- \
      "$program" -O2 -c "$source" -o "$work/out.o" >"$work/$size.txt" || case $? in 1 | 4) ;; *) exit 1 ;; esac
    sed "s|$work/||g; s|$target/|target/|g" "$work/$size.md"
  done
  echo
  echo "## How much text can lie on them"
  echo
  echo "In per cent of the text of each file: on superpages of 2 MiB as it is and after \`planish pages align\`, and in aligned runs of 32 KiB."
  echo
  local files=() name
  for name in "$program" python3 gcc git; do
    name=$(readlink -f "$(command -v "$name" || echo /dev/null)")
    [ "$(head -c 4 "$name" | tail -c 3)" != ELF ] || files+=("$name")
  done
  while read -r name; do files+=("$(readlink -f "$name")"); done < <(ldd "$(command -v "$program")" | awk '$3 ~ "^/" { print $3 }')
  "$planish" pages check --format json "${files[@]}" >"$work/check.json" || case $? in 1) ;; *) exit 1 ;; esac
  python3 studies/superpages/table.py "$work/check.json"
}
