#!/usr/bin/env bash
# Does `planish kernel here` take a machine through boots by GRUB? An emulated one with a disk, UEFI and GRUB boots four small
# kernels of Debian's 6.12: the default one, two that differ in nothing, and one that does not come up.
#   scripts/kernel-here.sh [ROUNDS]     (10 minutes the first time, then 1 a round; 3 rounds)
#
# Works in target/kernel-here. Debian's GRUB, UEFI firmware and tools for file systems are installed first.
set -euo pipefail
export LC_ALL=C
cd "$(dirname "$0")/.."
rounds=${1:-3}
planish=$(realpath -- "${PLANISH:-${CARGO_TARGET_DIR:-target}/release/planish}")
say() { printf 'kernel-here: %s\n' "$*"; }
die() { printf 'kernel-here: %s\n' "$*" >&2; exit 1; }
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
[ -x "$planish" ] || die "$planish is missing; run: make build"

packages=()
want() { command -v "$1" >/dev/null 2>&1 || { packages+=("$2"); say "installs $2: $3"; }; }
want grub-mkstandalone grub-common "the boot loader"
want grub-reboot grub2-common "sets its next entry"
[ -d /usr/lib/grub/x86_64-efi ] || packages+=(grub-efi-amd64-bin)
[ -e /usr/share/OVMF/OVMF_CODE_4M.fd ] || { packages+=(ovmf); say "installs ovmf: the machine's firmware"; }
want mcopy mtools "fills the firmware's partition"
want mkfs.vfat dosfstools "makes it"
want sfdisk fdisk "divides the disk"
want busybox busybox-static "the machine's programs"
[ ${#packages[@]} = 0 ] || as_root apt-get install -y --no-install-recommends "${packages[@]}"

. scripts/kernel-tree.sh
kernel_work kernel-here 6.12
mkdir -p "$work/build"

# A small kernel that finds its disk.
cat kernel/small.config - >"$work/config" <<'END'
CONFIG_BLOCK=y
CONFIG_PCI=y
CONFIG_ACPI=y
CONFIG_EFI=y
CONFIG_EFI_STUB=y
CONFIG_VIRTIO_MENU=y
CONFIG_VIRTIO_PCI=y
CONFIG_BLK_DEV=y
CONFIG_VIRTIO_BLK=y
CONFIG_EXT4_FS=y
CONFIG_PARTITION_ADVANCED=y
CONFIG_EFI_PARTITION=y
CONFIG_BINFMT_SCRIPT=y
END
sed -i '/^# CONFIG_BLOCK is not set$/d' "$work/config"
kernel_make() { make -s -C "$tree" O="$work/build" LLVM=-22 ARCH=x86_64 -j"$(nproc)" "$@"; }
[ -e "$work/build/.config" ] || kernel_make KCONFIG_ALLCONFIG="$work/config" allnoconfig
root=$work/root
mkdir -p "$root"/{bin,sbin,boot/grub,dev,proc,sys,tmp,usr/bin,usr/sbin,usr/share/grub,m}
for name in default base new broken; do
  [ -e "$root/boot/vmlinuz-$name" ] && continue
  say "builds the kernel $name"
  kernel_make LOCALVERSION="-$name" bzImage
  cp "$work/build/arch/x86/boot/bzImage" "$root/boot/vmlinuz-$name"
done

# The programs, with the libraries that they load.
put() {
  cp -L "$1" "$root/usr/bin/"
  ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"; cp -L "$library" "$root$library"
  done
}
put "$planish"; objcopy --strip-debug "$root/usr/bin/planish"
put "$(command -v grub-editenv)"
cp "$(command -v grub-reboot)" "$root/usr/sbin/"
cp /usr/share/grub/grub-mkconfig_lib "$root/usr/share/grub/"
rm -f "$root/bin/busybox"; cp "$(command -v busybox)" "$root/bin/busybox"
for applet in $("$root/bin/busybox" --list | grep -vx busybox); do ln -sf busybox "$root/bin/$applet"; done

cat >"$root/init" <<END
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/bin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
echo "here: \$(uname -r) has booted"
[ -e /m/plan.json ] || planish kernel here begin /m --rounds $rounds --settle 0 --warm-ups 1 \\
  --kernel base=/boot/vmlinuz-base --kernel new=/boot/vmlinuz-new --kernel broken=/boot/vmlinuz-broken \\
  --benchmark 'count: sh -c "i=0; while [ \\\$i -lt 20000 ]; do i=\\\$((i+1)); done"' --reboot-with 'reboot -f'
planish kernel here step --reboot /m
echo "here: step ended with \$?"
sync; poweroff -f
END
chmod +x "$root/init"

# As update-grub writes it: next_entry counts once, and other kernels are in a submenu.
entry() { # KERNEL ROOT
  printf "\tmenuentry 'Linux %s' --class os \$menuentry_id_option 'gnulinux-%s' {\n" "$1" "$1"
  printf '\t\tlinux\t/boot/vmlinuz-%s root=%s rw console=ttyS0 quiet panic=1 init=/init\n\t}\n' "$1" "$2"
}
{
  cat <<'END'
load_env
if [ "${next_entry}" ] ; then
  set default="${next_entry}"
  set next_entry=
  save_env next_entry
else
  set default="0"
fi
menuentry_id_option="--id"
export menuentry_id_option
set timeout=0
terminal_input console
terminal_output console
END
  entry default /dev/vda2
  echo "submenu 'Advanced options' \$menuentry_id_option 'gnulinux-advanced' {"
  entry base /dev/vda2
  entry new /dev/vda2
  entry broken /dev/vdz9
  echo "}"
} >"$root/boot/grub/grub.cfg"
rm -f "$root/boot/grub/grubenv"; grub-editenv "$root/boot/grub/grubenv" create
# Its modules, where grub-install puts them.
mkdir -p "$root/boot/grub/x86_64-efi"; cp /usr/lib/grub/x86_64-efi/*.{mod,lst} "$root/boot/grub/x86_64-efi/"

say "makes the disk"
rm -rf "$root/m"; mkdir "$root/m"
printf 'insmod part_gpt\ninsmod ext2\nsearch --no-floppy --set=root --file /boot/grub/grubenv\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n' >"$work/stub.cfg"
grub-mkstandalone -O x86_64-efi -o "$work/bootx64.efi" "boot/grub/grub.cfg=$work/stub.cfg" 2>"$work/grub.log" ||
  die "grub-mkstandalone failed: $(tail -1 "$work/grub.log")"
rm -f "$work/disk"; truncate -s 512M "$work/disk"
sfdisk -q "$work/disk" <<'END'
label: gpt
start=2048, size=131072, type=U
start=133120, size=901120, type=L
END
rm -f "$work/efi" "$work/ext4"; truncate -s 64M "$work/efi"; truncate -s 440M "$work/ext4"
mkfs.vfat "$work/efi" >"$work/mkfs.log"
mmd -i "$work/efi" ::EFI ::EFI/BOOT
mcopy -i "$work/efi" "$work/bootx64.efi" ::EFI/BOOT/BOOTX64.EFI
# GRUB 2.06 does not read file systems with a checksum seed of their own.
mke2fs -q -t ext4 -O ^metadata_csum_seed,^orphan_file -d "$root" "$work/ext4" 2>>"$work/mkfs.log" ||
  mke2fs -q -t ext4 -d "$root" "$work/ext4" 2>>"$work/mkfs.log"
dd if="$work/efi" of="$work/disk" bs=1M seek=1 conv=notrunc status=none
dd if="$work/ext4" of="$work/disk" bs=1M seek=65 conv=notrunc status=none
cp /usr/share/OVMF/OVMF_VARS_4M.fd "$work/vars.fd"

say "boots (console in $work/console)"
timeout $((600 + rounds * 600)) qemu-system-x86_64 -M q35 -accel tcg -cpu max -smp 1 -m 768 -nodefaults -nographic -serial "file:$work/console" \
  -drive if=pflash,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd -drive if=pflash,format=raw,file="$work/vars.fd" \
  -drive if=virtio,format=raw,file="$work/disk" || die "the machine did not end by itself; its console is $work/console"

dd if="$work/disk" of="$work/ext4" bs=1M skip=65 count=440 status=none
debugfs -R "dump /m/runs.jsonl $work/runs.jsonl" "$work/ext4" 2>/dev/null
grep -a '^here: ' "$work/console" || true
measured=$(grep -c '"sequence"' "$work/runs.jsonl" || true)
[ "$measured" = $((2 * rounds)) ] || die "$measured boots were measured, expected $((2 * rounds)); the console is $work/console"
grep -q '"stopped":{"variant":"broken"' "$work/runs.jsonl" || die "the kernel that does not boot was not left out"
grep -aq 'here: step ended with 0' "$work/console" || die "the last step did not end well"
"$planish" compare show "$work/runs.jsonl" --optional broken || [ $? = 4 ] || die "the result cannot be told"
say "all is as it should be: $measured boots measured, and the kernel that does not boot left out"
