#!/usr/bin/env bash
# What does an instrumented profile give a kernel, beside a sampled one? gcc's own way: a kernel that counts its branches (gcov) runs planish's training
# sections under emulation, and is built again with its counts (-fprofile-use). Counted as `planish kernel measure` counts all kernels.
#   scripts/kernel-instrumented.sh      (40 minutes on two busy cores, 2 GB; what is built is not built again)
#
# Works in target/kernel-instrumented, on Debian's sources of 6.12. busybox-static is installed first.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. scripts/kernel-tree.sh
kernel_begin kernel-instrumented
die() { printf 'kernel-instrumented: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
[ -x /bin/busybox ] || { say "installs busybox-static"; as_root apt-get install -y --no-install-recommends busybox-static; }

kernel_work kernel-instrumented 6.12
small=$PWD/kernel/small.config
cd "$work"
kernel_make() { local name=$1; shift; make -C "$tree" O="$work/$name" CC=gcc ARCH=x86_64 -j"$(nproc)" "$@" >"$name.log" 2>&1 || { tail -n 20 "$name.log" >&2; die "$name: make failed"; }; }

# Where the instrumented kernel shows its counts; in all three, so that they compile the same code.
{ cat "$small"; echo CONFIG_DEBUG_FS=y; } >base.config
{ cat base.config; printf '%s=y\n' CONFIG_GCOV_KERNEL CONFIG_GCOV_PROFILE_ALL; } >counting.config
built() {
  local name=$1 config=$2
  shift 2
  [ ! -e "$name.done" ] || return 0
  say "builds $name"
  mkdir -p "$name"
  [ -e "$name/.config" ] || kernel_make "$name" KCONFIG_ALLCONFIG="$work/$config" allnoconfig
  kernel_make "$name" "$@" bzImage
  touch "$name.done"
}
built base base.config
built counting counting.config

if [ ! -e counts.tar.gz ]; then
  say "runs the training sections on the kernel that counts"
  rm -rf root; mkdir -p root/bin root/dev root/proc root/sys root/tmp
  "$planish" kernel workload --program -o root/workload
  cp /bin/busybox root/bin/busybox
  for name in sh mount ifconfig cat mkdir find dirname tar gzip base64 reboot tail; do ln -s busybox "root/bin/$name"; done
  cat >root/init <<END
#!/bin/sh
export PATH=/bin
mount -t devtmpfs devtmpfs /dev; mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /tmp
mount -t debugfs debugfs /sys/kernel/debug
ifconfig lo up
echo 1 >/sys/kernel/debug/gcov/reset
PLANISH_SECTIONS=train TMPDIR=/tmp /workload --here >/tmp/said 2>&1 || { tail -n 5 /tmp/said; echo "counting: failed"; }
mkdir /tmp/counts; cd /sys/kernel/debug/gcov$work/counting
# Files of debugfs do not tell their sizes.
find . -name '*.gcda' | while read -r file; do mkdir -p "/tmp/counts/\$(dirname "\$file")"; cat "\$file" >"/tmp/counts/\$file"; done
cd /tmp/counts; tar -c . | gzip | base64 >/dev/ttyS1
echo "counting: done"
reboot -f
END
  chmod +x root/init
  (cd root; find . | cpio -o -H newc --quiet) >counting.cpio
  timeout 1500 qemu-system-x86_64 -accel tcg -cpu max -m 1024 -nodefaults -nographic -no-reboot -serial stdio -serial file:counts.base64 -monitor none \
    -kernel counting/arch/x86/boot/bzImage -initrd counting.cpio -append "console=ttyS0 quiet panic=-1 nokaslr tsc=reliable rdinit=/bin/busybox -- sh /init" </dev/null | tee counting.out
  grep -q 'counting: done' counting.out && ! grep -q 'counting: failed' counting.out || die "the kernel that counts did not get through"
  base64 -d -i counts.base64 >counts.new
  mv counts.new counts.tar.gz
fi

if [ ! -e profiled.done ]; then
  rm -rf profiled; mkdir profiled
  tar -xzf counts.tar.gz -C profiled
  # The kernel writes no summary, without which gcc 12 ignores the counts (gcov-io.h: a tag, eight bytes, runs, the largest count).
  python3 - profiled <<'END'
import pathlib, struct, sys
HEADER, SUMMARY, ARCS = 16, 0xA1000000, 0x01A10000
files = {path: path.read_bytes() for path in pathlib.Path(sys.argv[1]).rglob("*.gcda")}
largest = 0
for data in files.values():
    at = HEADER
    while at + 8 <= len(data):
        tag, size = struct.unpack_from("<Ii", data, at)
        at += 8
        if tag == ARCS and size > 0:
            largest = max(largest, *struct.unpack_from(f"<{size // 8}q", data, at))
        # A negative size stands for so many zeros that are left out.
        at += max(size, 0)
for path, data in files.items():
    path.write_bytes(data[:HEADER] + struct.pack("<IIII", SUMMARY, 8, 1, min(largest, 2**32 - 1)) + data[HEADER:])
END
  say "$(find profiled -name '*.gcda' | wc -l) objects have counts"
fi
built profiled base.config KCFLAGS='-fprofile-use -fprofile-correction -Wno-missing-profile -Wno-coverage-mismatch'
"$planish" kernel measure gcc=base profiled=profiled || [ $? = 1 ]
