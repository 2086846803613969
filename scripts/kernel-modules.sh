#!/usr/bin/env bash
# Modules of a kernel with a profile and a layout: ext4, IPv6 and a module outside of the tree, trained, rebuilt and measured under emulation.
#   scripts/kernel-modules.sh      (an hour on two busy cores, 3 GB; what is built is not built again)
#
# Works in target/kernel-modules, on Debian's sources of 6.12 and with programs of Debian's packages (busybox-static, iperf3, stress-ng), none
# of which is installed.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
. scripts/kernel-tree.sh
kernel_begin kernel-modules
kernel_work kernel-modules 6.12
fold=$PWD/kernel/fold-module
cd "$work"
"$planish" kernel prepare "$tree" >/dev/null

# A small kernel whose file system, network protocol and hashes are modules.
"$planish" kernel config "$tree" --small | sed '/^# CONFIG_BLOCK is not set$/d' >config
cat >>config <<'END'
CONFIG_MODULES=y
CONFIG_MODULE_UNLOAD=y
CONFIG_BINFMT_SCRIPT=y
CONFIG_IPV6=m
CONFIG_BLOCK=y
CONFIG_BLK_DEV=y
CONFIG_BLK_DEV_RAM=m
CONFIG_EXT4_FS=m
CONFIG_CRYPTO=y
CONFIG_CRYPTO_SHA512=m
CONFIG_CRYPTO_USER_API_HASH=m
END
modules=(ext4 brd ipv6 algif_hash sha512_generic)

say "writes the workload"
script='cd /tmp/m && for i in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19; do
  busybox mkdir $i; for j in a b c d e f g h; do busybox cp /planish/commands $i/$j; busybox mv $i/$j $i/$j.new; done;
  busybox ls -lR . >/dev/null; busybox rm -r $i; done'
held='cd /tmp/m && busybox dd if=/dev/zero of=big bs=4k count=500 2>/dev/null; for i in 0 1 2 3 4 5 6 7 8 9; do
  busybox md5sum big; busybox cp big big2; busybox truncate -s 1000 big2; busybox find . >/dev/null; busybox ln -s big l;
  busybox readlink l; busybox rm l; done'
# In one line: commands have no line ends.
mounted() { tr -s '\n ' ' ' <<<"busybox mkdir -p /tmp/m && busybox mount -t ext4 /dev/ram0 /tmp/m && $1; cd /; busybox umount /tmp/m"; }
served() { printf "busybox sh -c 'iperf3 -s -1 -D && busybox sleep 0.2; iperf3 -6 -c ::1 --repeating-payload %s'" "$1"; }
"$planish" kernel workload --package busybox-static --package iperf3 --package stress-ng -o workload.cpio \
  --train "ext4: busybox sh -c 'busybox mke2fs -q /dev/ram0 && $(mounted "$script")'" \
  --train "tcp6: $(served '-n 20M -l 4K')" --train "udp6: $(served '-u -b 0 -n 8M -l 1400')" \
  --train "fold: busybox dd if=/init of=/proc/fold bs=200" \
  --held "hash: stress-ng --af-alg 1 --af-alg-ops 4" --held "ext4 files: busybox sh -c '$(mounted "$held")'" \
  --held "tcp6 back: $(served '-R -P 2 -n 10M')" --held "fold lines: busybox dd if=/planish/commands of=/proc/fold bs=16"

# built NAME FROM [OPTION…]: the kernel NAME and its modules, from a copy of another build.
built() {
  local name=$1 from=$2
  shift 2
  [ ! -e "$name.done" ] || return 0
  say "builds $name"
  if [ "$from" = none ]; then
    mkdir -p "$name" "$name.fold"
    cp "$fold"/* "$name.fold"
    make -s -C "$tree" O="$work/$name" LLVM=-22 ARCH=x86_64 KCONFIG_ALLCONFIG="$work/config" allnoconfig
  else
    kernel_copy "$tree" "$from" "$name"
    rm -rf "$name.fold"
    mkdir "$name.fold"
    cp "$fold"/* "$name.fold"
    # Its objects say which functions they hold.
    "$planish" kernel build "$tree" --build "$name" -- M="$work/$name.fold" modules
  fi
  "$planish" kernel build "$tree" --build "$name" "$@"
  "$planish" kernel build "$tree" --build "$name" "$@" -- M="$work/$name.fold" modules
  touch "$name.done"
}

loaded=()
for module in "${modules[@]}"; do loaded+=(--module "$module"); done
record() {
  [ -e "$1.data" ] || "$planish" kernel record "$1" --initrd workload.cpio "${loaded[@]}" --module "$1.fold/fold.ko" --deterministic --memory 1024 -o "$1.data"
}
profile() { "$planish" kernel profile "$1" "$1.data" --module "$1.fold/fold.ko" -o "$1.afdo"; }

built base none
record base; profile base
built one base --profile base.afdo --first-round
record one; profile one
built profile one --profile one.afdo
record profile
"$planish" kernel layout profile profile.data --module profile.fold/fold.ko --prefix kernel
built layout profile --profile one.afdo --layout kernel

kernels=()
for name in base profile layout; do
  kernels+=("$name=$name")
  loaded+=(--module "$name=$name.fold/fold.ko")
done
"$planish" kernel measure "${kernels[@]}" --initrd workload.cpio "${loaded[@]}" --memory 1024
