#!/usr/bin/env bash
# Does planish build and run on AArch64? Cross-builds it, runs what reads files under qemu-user, and records in an emulated
# machine with Debian's kernel; perf and planish here read what was recorded there.
#   scripts/arm64.sh          all of it (20 minutes the first time)
#   scripts/arm64.sh guest    the emulated machine alone, with what is built already
# JOBS limits how many compilers run at once.
#
# Works in target/arm64. Kernel and busybox for the machine are downloaded there and unpacked, not installed (80 MB, or
# 600 MB unpacked). docs/reference/record.md says what was run on what.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
need_rust
say() { printf 'arm64: %s\n' "$*"; }
die() { printf 'arm64: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

triple=aarch64-unknown-linux-gnu
work=${CARGO_TARGET_DIR:-target}/arm64
mkdir -p "$work"
work=$(realpath -- "$work")

# What is missing, with the reason.
packages=()
want() { command -v "$1" >/dev/null 2>&1 || { packages+=("$2"); say "installs $2: $3"; }; }
want aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu "links AArch64 programs"
want qemu-aarch64 qemu-user "runs them"
want qemu-system-aarch64 qemu-system-arm "the machine that is recorded on"
want cpio cpio "packs its first file system"
want perf linux-perf "reads what was recorded"
[ -e /usr/aarch64-linux-gnu/include/stdio.h ] || { packages+=(libc6-dev-arm64-cross); say "installs libc6-dev-arm64-cross: the C library"; }
[ ${#packages[@]} = 0 ] || as_root apt-get install -y --no-install-recommends "${packages[@]}"
if [ ! -d "$("$RUSTC" --print sysroot)/lib/rustlib/$triple" ]; then
  command -v rustup >/dev/null 2>&1 ||
    die "Rust's library for $triple is missing: install it (rustup target add $triple, or the package of your distribution)"
  say "installs Rust's library for $triple"
  rustup target add "$triple"
fi

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
built=$(dirname "$work")/$triple/debug
planish() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$built/planish" "$@"; }

if [ "${1:-}" != guest ]; then
  say "builds for $triple, and checks as on x86-64"
  "$CARGO" build ${JOBS:+-j "$JOBS"} --target $triple -p planish -p qemu-plugin -p hugetext
  "$CARGO" clippy ${JOBS:+-j "$JOBS"} --target $triple --workspace --all-targets -- -D warnings
  # What these crates make of bytes must not depend on the processor.
  say "runs the tests of crates that only compute, emulated"
  "$CARGO" test ${JOBS:+-j "$JOBS"} --target $triple -p perfdata -p statistics --lib
  "$CARGO" build ${JOBS:+-j "$JOBS"} -p planish -p qemu-plugin
fi

native=$(dirname "$work")/debug/planish

cat >"$work/work.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
static unsigned long step(unsigned long x) { return x & 1 ? 3 * x + 1 : x / 2; }
__attribute__((noinline)) static unsigned long walk(unsigned long x) {
  unsigned long n = 0;
  while (x != 1) { x = step(x); n++; }
  return n;
}
int main(int argc, char **argv) {
  unsigned long sum = 0;
  for (unsigned long x = 1; x < (argc > 1 ? strtoul(argv[1], 0, 10) : 100000); x++) sum += walk(x);
  printf("%lu\n", sum);
}
C
aarch64-linux-gnu-gcc -O1 -g -static -Wl,--build-id -o "$work/work" "$work/work.c"

say "planish of AArch64 under qemu-user: help, doctor, aggregate, profile, compare"
planish --help >"$work/help.txt"
grep -q 'record' "$work/help.txt" || die "no help"
planish doctor >"$work/doctor.txt" || true
grep -q 'where branch stacks come from' "$work/doctor.txt" || die "no report of doctor"
# The same recording, of an emulated AArch64 program, read by both.
"$native" record --branches=emulated -c 2000 -o "$work/emulated.data" -- "$work/work" 20000 >/dev/null
for one in native arm; do
  if [ $one = arm ]; then run=planish; else run=$native; fi
  $run -q aggregate "$work/emulated.data" --binary "$work/work" -o "$work/$one.counts"
  $run -q profile "$work/$one.counts" --binary "$work/work" -o "$work/$one.prof"
done
cmp "$work/native.prof" "$work/arm.prof" || die "the profiles that x86-64 and AArch64 make differ"
[ -s "$work/arm.prof" ] || die "the profile is empty"
planish compare --help >/dev/null

say "downloads the machine's kernel, its headers and busybox"
host=$(dpkg --print-architecture)
# Lists and packages of their own, so that this system's stay as they are.
apt=(-o "Dir::State=$work/apt" -o "Dir::State::status=$work/apt/status" -o "Dir::Cache=$work/apt/cache"
  -o "APT::Architectures::=$host" -o APT::Architectures::=arm64 -o APT::Sandbox::User=root -qq)
unpack() { # DIRECTORY PATTERN
  local deb
  for deb in "$work"/debs/$2; do dpkg-deb -x "$deb" "$work/$1"; done
}
if [ ! -e "$work/headers" ]; then
  rm -rf "$work/debs" "$work/kernel" "$work/busybox"
  mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/debs"
  : >"$work/apt/status"
  apt-get "${apt[@]}" update
  release=$(apt-cache "${apt[@]}" depends linux-image-arm64:arm64 | sed -n 's/.*Depends: linux-image-\([0-9].*-arm64\):arm64$/\1/p' | head -n 1)
  [ -n "$release" ] || die "this distribution has no linux-image-arm64; its mirror must carry arm64"
  common=linux-headers-${release%-arm64}-common
  (cd "$work/debs" && apt-get "${apt[@]}" download "linux-image-$release:arm64" "linux-headers-$release:arm64" "$common" busybox-static:arm64)
  unpack kernel 'linux-image*.deb'
  unpack busybox 'busybox*.deb'
  unpack headers.part 'linux-headers*.deb'
  # The programs that modules are built with are this machine's.
  kbuild=$(basename "$(dirname "$(readlink "$work"/headers.part/usr/src/linux-headers-*-common/scripts)")")
  (cd "$work/debs" && apt-get "${apt[@]}" download "$kbuild:$host")
  unpack headers.part "${kbuild}_*.deb"
  sed -i "s|/usr/src|$work/headers/usr/src|" "$work"/headers.part/usr/src/linux-headers-*-arm64/Makefile
  # qemu-user for the machine, with what it is linked with, since emulation is to be tried there too.
  mapfile -t emulator < <(apt-get "${apt[@]}" -s install --no-install-recommends qemu-user:arm64 | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
  mkdir -p "$work/debs/emulator"
  (cd "$work/debs/emulator" && apt-get "${apt[@]}" download "${emulator[@]}")
  unpack emulator 'emulator/*.deb'
  mv "$work/headers.part" "$work/headers"
fi

say "builds a module that stands in for Arm SPE"
command -v make >/dev/null 2>&1 || as_root apt-get install -y --no-install-recommends make
rm -rf "$work/module"
cp -r kernel/arm-spe-test "$work/module"
make -s -C "$work"/headers/usr/src/linux-headers-*-arm64 M="$work/module" ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- modules \
  >"$work/module.log" 2>&1 || { cat "$work/module.log" >&2; die "the module does not build"; }

say "makes the machine's file system"
root=$work/root
rm -rf "$root"
mkdir -p "$root"/{bin,lib,proc,sys,dev,tmp,out}
install -m 755 "$(find "$work/busybox" -path "*/bin/busybox" -type f | head -n 1)" "$root/bin/busybox"
cp "$built/planish" "$work/work" "$root/bin/"
cp "$built/libplanish_qemu_branches.so" "$root/bin/"
cp -a "$work/emulator/lib/." "$root/lib/"
mkdir -p "$root/usr/lib"
cp -a "$work/emulator/usr/lib/aarch64-linux-gnu" "$root/usr/lib/"
cp "$work/emulator/usr/bin/qemu-aarch64" "$root/bin/"
cp "$work/module/arm_spe_test.ko" "$root/"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev; mount -t tmpfs none /out
cd /tmp
uname -a >/out/uname
try() { name=$1; shift; "$@" >/out/$name.txt 2>&1; echo $? >/out/$name.rc; }
try doctor planish doctor
try clock planish record -e cpu-clock -o /out/clock.data -- work 200000
try auto planish record -o /out/auto.data -- work 200000
try system planish record -a -e cpu-clock -o /out/system.data -- work 200000
try cycles planish record -e cycles:u -c 1000000 -o /out/cycles.data -- work 200000
try stat planish stat -e task-clock,page-faults,instructions:u -- work 100000
try hardware planish record --branches=hardware -o /out/none.data -- work 1000
try software planish record --branches=software -o /out/none.data -- work 1000
try spe planish record -e arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u -o /out/none.data -- work 1000
try pipe sh -c 'planish record -e cpu-clock -o - -- work 200000 >/out/pipe.data 2>/out/pipe.log'
try threads planish record -a -e cpu-clock --threads -o /out/threads.data -- work 100000
try emulated planish record --branches=emulated -c 2000 -o /out/emulated.data -- work 20000
insmod /arm_spe_test.ko
spe=arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u
try spe-doctor planish doctor
try spe-rate planish record -e $spe -F 99 -o /out/none.data -- work 10
try spe-command sh -c "planish record --format json -e $spe -o /out/spe-command.data -- work 400000 >/out/spe-command.json"
try spe-auto sh -c "planish record --format json -o /out/spe-auto.data -- sh -c 'work 100000; work 100000' >/out/spe-auto.json"
try spe-system sh -c 'planish record --format json -a -e arm_spe_0// -o /out/spe-system.data -- work 200000 >/out/spe-system.json'
try spe-packed sh -c "planish record --format json -z -e $spe -o /out/spe-packed.data -- work 200000 >/out/spe-packed.json"
try spe-pieces sh -c "planish record --format json -m 1,2 -e $spe -o /out/spe-pieces.data -- work 400000 >/out/spe-pieces.json"
try spe-attached sh -c "work 9000000 & planish record --format json -e $spe -p \$! -o /out/spe-attached.data -- sleep 1 >/out/spe-attached.json; kill -9 \$!"
try spe-pipe sh -c "planish record -e $spe -o - -- work 200000 >/out/spe-pipe.data"
try spe-files planish record --switch-output=20K -e $spe -o /out/spe-files.data -- work 2000000
# Areas that get full faster than they are emptied.
rmmod arm_spe_test
insmod /arm_spe_test.ko each=64 tick_us=100
try spe-full sh -c "planish record --format json -m 1,2 -e $spe -o /out/spe-full.data -- work 2000000 >/out/spe-full.json"
# An ordinary user, with the memory that such a one may lock.
rmmod arm_spe_test
insmod /arm_spe_test.ko
echo 2 >/proc/sys/kernel/perf_event_paranoid
mkdir -p /etc && echo 'u:x:1000:1000::/tmp:/bin/sh' >/etc/passwd
chmod 1777 /out
try spe-user su u -c "planish record --format json -e $spe -o /out/spe-user.data -- work 200000 >/out/spe-user.json"
try spe-user-kernel su u -c 'planish record -e arm_spe_0// -a -o /out/none.data -- work 1000'
dmesg | grep -i -A 20 'warning\|bug:\|oops' >/out/kernel-complaints.txt
echo; echo BEGIN-OF-RESULTS
tar -C /out -czf - . | base64
echo END-OF-RESULTS
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd.gz"

say "boots it"
timeout 600 qemu-system-aarch64 -M virt -cpu cortex-a72 -smp 2 -m 2048 -nodefaults -nographic -no-reboot -serial stdio \
  -kernel "$(find "$work/kernel/boot" -name 'vmlinuz-*' | head -n 1)" -initrd "$work/initrd.gz" \
  -append 'console=ttyAMA0 quiet panic=-1' </dev/null >"$work/console.txt" || die "the machine did not end; see $work/console.txt"
rm -rf "$work/out"
mkdir "$work/out"
tr -d '\r' <"$work/console.txt" | sed -n '/^BEGIN-OF-RESULTS$/,/^END-OF-RESULTS$/p' | sed '1d;$d' | base64 -d | tar -C "$work/out" -xzf - ||
  die "the machine handed nothing over; see $work/console.txt"

say "reads what was recorded on $(cat "$work/out/uname")"
ended() { [ "$(cat "$work/out/$1.rc")" = "$2" ] || { cat "$work/out/$1.txt" >&2; die "$1 ended with $(cat "$work/out/$1.rc"), not $2"; }; }
says() { grep -q -- "$2" "$work/out/$1.txt" || { cat "$work/out/$1.txt" >&2; die "$1 does not say: $2"; }; }
for name in clock auto system pipe threads stat emulated; do ended $name 0; done
for name in hardware software spe; do ended $name 2; done
says hardware 'arm_spe_0 is missing'
says software 'knows x86-64 alone'
says spe 'arm_spe_0'
says auto 'clock samples'
for name in clock auto system threads emulated; do
  perf report -f -i "$work/out/$name.data" --stdio --sort sym --symfs "$root" >"$work/$name.report" 2>"$work/$name.log" || true
  grep -q walk "$work/$name.report" || { cat "$work/$name.log" >&2; die "perf report does not know walk in $name.data"; }
  [ "$(perf script -f -i "$work/out/$name.data" -F ip 2>/dev/null | wc -l)" -gt 10 ] || die "perf script finds no samples in $name.data"
  "$native" -q aggregate "$work/out/$name.data" --binary "$work/work" -o "$work/$name.counts"
  "$native" -q profile "$work/$name.counts" --binary "$work/work" -o "$work/$name.prof"
  grep -q walk "$work/$name.prof" || die "the profile of $name.data does not know walk"
done
[ "$(perf script -f -i - -F ip <"$work/out/pipe.data" 2>/dev/null | wc -l)" -gt 10 ] || die "perf reads no samples out of the pipe form"

say "reads AUX data, which went through the kernel's own area"
[ ! -s "$work/out/kernel-complaints.txt" ] || { cat "$work/out/kernel-complaints.txt" >&2; die "the kernel complained"; }
# Of JSON the number of bytes within "aux".
aux() { sed -n '/"aux": {/,/}/p' "$work/out/$1.json" | sed -n "s/.*\"$2\": \([0-9]*\).*/\1/p"; }
for name in spe-command spe-auto spe-system spe-packed spe-pieces spe-full spe-user spe-attached; do
  [ $name = spe-attached ] || ended $name 0
  # The module writes records of 64 bytes.
  records=$(($(aux $name bytes) / 64))
  [ "$records" -gt 50 ] || die "$name has $records records"
  perf report -f -D -i "$work/out/$name.data" >"$work/$name.dump" 2>/dev/null || die "perf cannot read $name.data"
  [ "$(grep -c ' PC 0x' "$work/$name.dump")" = "$records" ] || die "perf finds other than $records records in $name.data"
  [ "$(grep -c 'PERF_RECORD_AUXTRACE size' "$work/$name.dump")" = "$(aux $name pieces)" ] || die "perf finds other pieces in $name.data"
  ! grep -q ' BAD' "$work/$name.dump" || die "perf finds damage in $name.data"
  "$native" aggregate "$work/out/$name.data" --binary "$work/work" -o "$work/$name.counts" 2>"$work/$name.said"
  grep -q "samples: $records in" "$work/$name.said" || { cat "$work/$name.said" >&2; die "planish finds other than $records records"; }
  say "$name: $records records in $(aux $name pieces) pieces, $(sed -n 's/.*in, \(.*\)/\1/p' "$work/$name.said" | head -n 1)"
done
# Times of records lie within the program's life, by the kernel's clock.
perf script -f -i "$work/out/spe-command.data" --show-task-events --itrace=i1i -F time,event 2>/dev/null >"$work/times.txt"
awk '/PERF_RECORD_COMM/ && !begin { begin = $1 + 0 } /PERF_RECORD_EXIT/ { end = $1 + 0 }
     !/PERF_RECORD/ { t = $1 + 0; if (!first || t < first) first = t; if (t > last) last = t }
     END { exit !(first && begin <= first && last <= end) }' "$work/times.txt" || die "times are not the kernel clock's; see $work/times.txt"
# Full again and again: enabled again each time.
[ "$(aux spe-full truncated)" -gt 4 ] || die "the area was not full again and again, but $(aux spe-full truncated) times"
says spe-full 'the area was full'
[ "$(aux spe-pieces pieces)" -gt 5 ] || die "areas of 8 KiB were not emptied often"
ended spe-pipe 0
# Through a pipe: perf loses its place where standard input is a file.
[ "$(cat "$work/out/spe-pipe.data" | perf script -f -i - --itrace=i1i -F ip 2>/dev/null | wc -l)" -gt 50 ] || die "perf reads no records out of the pipe form"
ended spe-files 0
found=0
for file in "$work"/out/spe-files.data.*; do
  perf report -f -D -i "$file" >"$work/file.dump" 2>/dev/null || die "perf cannot read $file"
  found=$((found + $(grep -c ' PC 0x' "$work/file.dump" || true)))
done
bytes=$(sed -n 's/^recorded \([0-9]*\) bytes of AUX data.*/\1/p' "$work/out/spe-files.txt")
[ "$found" = $((bytes / 64)) ] || die "perf finds $found records in all files of spe-files, of $((bytes / 64))"
ended spe-rate 2
says spe-rate 'leave that out'
says spe-doctor 'Arm SPE (arm_spe_0)'
ended spe-user-kernel 2
say "fine: built, ran and recorded on AArch64"
