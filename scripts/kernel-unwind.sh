#!/usr/bin/env bash
# Do the stacks of a kernel unwind while it runs, through cold parts of functions too?
#   scripts/kernel-unwind.sh BUILD      BUILD is a directory of a built kernel with CONFIG_UNWINDER_ORC and PERF_EVENTS
#
# Boots it in emulation, three times; docs/reference/kernel.md says what is asked of it. `vmlinux` must still hold its symbols.
set -euo pipefail
export LC_ALL=C
[ $# = 1 ] || { echo "kernel-unwind: needs the directory of a built kernel: make kernel-unwind BUILD=/path/to/out" >&2; exit 2; }
build=$(realpath -- "$1")
cd "$(dirname "$0")/.."
. scripts/toolchain.sh
need_rust
export PLANISH_KERNEL_IMAGE=$build/arch/x86/boot/bzImage PLANISH_KERNEL_VMLINUX=$build/vmlinux
for file in "$PLANISH_KERNEL_IMAGE" "$PLANISH_KERNEL_VMLINUX"; do
  [ -e "$file" ] || { echo "kernel-unwind: $file is missing; build the kernel first: planish kernel build" >&2; exit 2; }
done
command -v qemu-system-x86_64 >/dev/null 2>&1 ||
  { echo "kernel-unwind: qemu-system-x86_64 is missing; run: scripts/setup.sh kernel" >&2; exit 2; }
$CARGO test -p kernel --test unwind -- --test-threads 1 --nocapture
