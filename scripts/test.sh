#!/usr/bin/env bash
# Proves the checkout: every test of the workspace, then a short fuzz run over the kept inputs.
#   scripts/test.sh [ARGUMENTS OF cargo test]
#
# Tests that lack a tool print "skipped: …"; those lines are collected at the end, so that a pass never hides a skip.
# FUZZ_SECONDS (default 5) is the time per fuzz target; 0 only replays the kept inputs.
set -euo pipefail
cd "$(dirname "$0")/.."
# Nothing asks for input, and a compiler that is given some would read it.
exec </dev/null
. scripts/toolchain.sh
need_rust

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
echo "test: cargo test --workspace (full output in $log)"

# Tests load the emulation plugin and the library that copies text, which cargo test alone does not link. All else is built
# here as cargo test wants it: two packages alone would have other features of their dependencies, and be built twice.
"$CARGO" build --locked --workspace --lib --tests

# Kernel trees for the tests of planish kernel, where the archives are there and no trees are named: all of Kconfig and
# make, and the sources that the tests compile. What they leave out is nine tenths of a tree's 1.5 GB.
leave_out=()
for pattern in '*/drivers/*.[chS]' '*/sound/*.[ch]' '*/net/*.c' '*/fs/*.[ch]' '*/samples/*.[ch]' '*/tools/perf/*' \
  '*/tools/testing/*' '*/Documentation/[!d]*.*' '*/Documentation/d[!e]*.*' '*/Documentation/devicetree/*.*' '*.dts' \
  '*.dtsi'; do
  leave_out+=(--exclude="$pattern")
done
for other in alpha arc arm csky hexagon ia64 loongarch m68k microblaze mips nios2 openrisc parisc powerpc riscv s390 \
  sh sparc um xtensa; do
  leave_out+=(--exclude="*/arch/$other/*.[chS]")
done
if [ -z "${PLANISH_KERNEL_TREES+set}" ]; then
  trees=()
  for archive in /usr/src/linux-source-6.1.tar.xz /usr/src/linux-source-6.12.tar.xz; do
    [ -e "$archive" ] || continue
    tree=$(cd "$target" && pwd)/kernel-trees/$(basename "$archive" .tar.xz)
    # A tree that an earlier version of this script unpacked may lack what today's tests want.
    if [ ! "$tree/Makefile" -nt "$archive" ] || [ "$(cat "$tree.left-out" 2>/dev/null)" != "${leave_out[*]}" ]; then
      echo "test: unpacking $archive"
      rm -rf "$tree" "$tree.partial"; mkdir -p "$tree.partial"
      tar -xmJf "$archive" -C "$tree.partial" --strip-components=1 "${leave_out[@]}"
      mv "$tree.partial" "$tree"
      echo "${leave_out[*]}" >"$tree.left-out"
    fi
    trees+=("$tree")
  done
  if [ ${#trees[@]} -gt 0 ]; then export PLANISH_KERNEL_TREES=$(IFS=:; echo "${trees[*]}"); fi
fi

# --show-output makes passing tests hand over what they printed; the filter keeps it off the terminal. sed -u and not
# awk, since some awks hold lines back until a block is full.
status=0
"$CARGO" test --workspace --locked --no-fail-fast "$@" -- --show-output 2>&1 | tee "$log" | sed -uE '
  /^successes:$/,/^(failures:$|test result:)/{ /^test result:/!d }
  /^test .* \.\.\. ok$/d
  /^$/d
' || status=$?

passed=$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$log")
failed=$(awk '/^test result:/ { n += $6 } END { print n + 0 }' "$log")
ignored=$(awk '/^test result:/ { n += $8 } END { print n + 0 }' "$log")
skipped=$(grep -ho 'skipped: .*' "$log" | sort | uniq -c | sed 's/^ *\([0-9]*\) /  \1 × /' || true)
# Said last, so that whoever looks at the end sees it.
summary() {
  [ -z "$skipped" ] || printf 'test: skipped because this machine lacks something:\n%s\n' "$skipped"
  [ ${#again[@]} -eq 0 ] || [ "$failed" -ne 0 ] || echo "test: passed only when run again, alone: ${again[*]}"
  echo "test: $passed passed, $failed failed, $ignored ignored"
}
# Tests that record lean on the machine: one that is busy for seconds loses samples and keeps programs waiting. Up to three
# failures are therefore tried once more, alone; whoever fails again has failed, and whoever passes is named at the end.
again=()
if [ "$failed" -gt 0 ] && [ "$failed" -le 3 ]; then
  readarray -t again < <(sed -nE 's/^test (.*) \.\.\. FAILED$/\1/p' "$log" | sort -u)
  echo "test: once more, alone: ${again[*]}"
  if "$CARGO" test --workspace --locked --no-fail-fast --lib --bins --tests -- --exact --test-threads=1 "${again[@]}" \
    >"$target/test-again.log" 2>&1 \
    && [ "$(awk '/^test result:/ { n += $4 } END { print n + 0 }' "$target/test-again.log")" -ge "$failed" ]; then
    status=0 passed=$((passed + failed)) failed=0
  else
    cat "$target/test-again.log"
  fi
fi
echo
if [ "$status" -ne 0 ] || [ "$failed" -ne 0 ]; then
  summary
  echo "test: FAILED; see $log" >&2
  exit 1
fi
if [ "$passed" -eq 0 ]; then
  echo "test: FAILED: cargo test ran no test at all" >&2
  exit 1
fi

fuzzed=0
scripts/fuzz.sh --seconds "${FUZZ_SECONDS:-5}" 2>"$target/fuzz-failed.log" | tee "$target/fuzz.log" || fuzzed=$?
if [ "$fuzzed" -ne 0 ]; then
  summary
  cat "$target/fuzz-failed.log" >&2
  echo "test: FAILED: fuzzing, see above" >&2
  exit 1
fi
skipped=$(printf '%s\n%s' "$skipped" "$(grep '^skipped: ' "$target/fuzz.log" | sed 's/^/  /' || true)" | sed '/^$/d')
summary
echo "test: all good"
