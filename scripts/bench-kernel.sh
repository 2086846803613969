#!/usr/bin/env bash
# Measures planish beside llvm-profgen on a Linux kernel: a real vmlinux with DWARF 5, and recordings of that kernel.
#   scripts/bench-kernel.sh [NAME]     writes measurements/DATE-NAME.md and .json (NAME defaults to kernel)
#
# The kernel is Debian's newest cloud kernel, the one that linux-image-cloud-amd64-dbg stands for; nothing is installed, the
# packages are unpacked in target/bench/kernel (2 GB). It boots under qemu-system, whose plugin records the kernel's
# branch stacks: once at its linked address, once where KASLR puts it. Recordings stay for the next time.
# BENCH_ROUNDS (default 5) is the number of rounds, BENCH_KERNEL_PERIOD (default 2150) the taken branches between two
# samples: about 81 MB a recording.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
name=${1:-kernel}
rounds=${BENCH_ROUNDS:-5}
period=${BENCH_KERNEL_PERIOD:-2150}

for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio dpkg-deb:dpkg llvm-profgen-22:llvm-22 /usr/bin/time:time; do
  command -v "${tool%:*}" >/dev/null 2>&1 || { echo "bench-kernel: ${tool%:*} is missing; run: apt-get install ${tool#*:}" >&2; exit 1; }
done
file -L "$(command -v busybox)" 2>/dev/null | grep -q 'dynamically linked' &&
  { echo "bench-kernel: busybox must be static; run: apt-get install busybox-static" >&2; exit 1; }

scripts/build.sh
. scripts/toolchain.sh
need_rust
"$CARGO" build --release --locked -p record --example record_kernel
built=${CARGO_TARGET_DIR:-$PWD/target}/release
planish=$built/planish
export PLANISH_QEMU_PLUGIN=$built/libplanish_qemu_branches.so
work=${CARGO_TARGET_DIR:-$PWD/target}/bench/kernel
mkdir -p "$work" measurements

# --- the kernel: vmlinuz to boot, vmlinux to attribute
if ! ls "$work"/usr/lib/debug/boot/vmlinux-* "$work"/boot/vmlinuz-* >/dev/null 2>&1; then
  symbols=$(apt-cache depends linux-image-cloud-amd64-dbg 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*-dbg\)$/\1/p' | tail -n 1)
  [ -n "$symbols" ] || { echo "bench-kernel: no linux-image-cloud-amd64-dbg in the package lists; run: apt-get update" >&2; exit 1; }
  image=${symbols%-dbg}
  echo "bench-kernel: downloading $symbols (300 MB) and its kernel"
  (cd "$work" && apt-get -q download "$symbols" && { apt-get -q download "$image-unsigned" || apt-get -q download "$image"; })
  dpkg-deb --fsys-tarfile "$work/$symbols"_*.deb | tar -x -C "$work" --wildcards './usr/lib/debug/boot/vmlinux-*' \
    '*/kernel/lib/math/cordic.ko' '*/kernel/lib/crypto/libchacha.ko' '*/kernel/drivers/scsi/scsi_common.ko' # for the tests
  for package in "$work/$image"-unsigned_*.deb "$work/$image"_*.deb; do
    [ ! -e "$package" ] || dpkg-deb --fsys-tarfile "$package" | tar -x -C "$work" --wildcards './boot/vmlinuz-*'
  done
  rm -f "$work"/*.deb
fi
vmlinux=$(ls "$work"/usr/lib/debug/boot/vmlinux-* | sort -V | tail -n 1)
vmlinuz=$work/boot/vmlinuz-${vmlinux##*/vmlinux-}

# --- the workload: file system, pipes, processes and /proc, by busybox
root=$work/root
rm -rf "$root"; mkdir -p "$root"/{bin,proc,sys,dev,tmp}
cp "$(command -v busybox)" "$root/bin/busybox"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t tmpfs none /tmp
echo 0 >/proc/sys/kernel/kptr_restrict
echo "planish-text $(grep ' _text$' /proc/kallsyms | cut -d' ' -f1) $(grep ' _etext$' /proc/kallsyms | cut -d' ' -f1)"
echo "planish-notes $(hexdump -v -e '1/1 "%02x"' /sys/kernel/notes)"
cd /tmp
for round in 1 2; do
  for d in a b c d; do mkdir -p tree/$d; for f in 1 2 3 4 5 6; do head -c $((f * 3000)) /bin/busybox >tree/$d/$f; done; done
  find / -xdev | sort >list
  find /proc /sys -name '*s*' 2>/dev/null | wc -l >/dev/null
  grep -r ELF tree >/dev/null
  dd if=/dev/zero bs=512 count=2000 2>/dev/null | dd bs=1000 2>/dev/null | cat | wc -c >/dev/null
  tar cf t.tar tree; gzip -c t.tar >t.gz; mkdir -p out; tar xf t.tar -C out
  (for n in 1 2 3 4 5 6 7 8; do /bin/busybox true & done; wait)
  mv out/tree out/moved; ln -s list link$round; rm -rf tree out
  ls -lR /sys/devices >/dev/null 2>&1
  ps >/dev/null; df >/dev/null; uname -a | sed s/a/b/ | awk '{ print $1 }' >/dev/null
done
poweroff -f
INIT
chmod +x "$root/init"
(cd "$root" && find . | sort | cpio --quiet -o -H newc | gzip -1) >"$work/init.gz"
record() { # FILE KERNEL-ARGUMENT
  [ -s "$work/$1" ] && return
  echo "bench-kernel: recording $1 (a boot under qemu, half a minute)"
  "$built/examples/record_kernel" "$work/$1" "$period" qemu-system-x86_64 -accel tcg -cpu max -m 512 -nodefaults -nographic \
    -no-reboot -serial stdio -monitor none -kernel "$vmlinuz" -initrd "$work/init.gz" \
    -append "console=ttyS0 quiet mitigations=off panic=-1 $2"
}
record linked.data nokaslr
record kaslr.data kaslr

# --- the measured runs: taking turns, so that a slow minute of the machine hits both
json=$work/runs.json; : >"$json"
measure() { # TOOL RECORDING COMMAND…
  local tool=$1 recording=$2 status=0; shift 2
  TIMEFORMAT='%3R %3U %3S'
  { time /usr/bin/time -q -f %M -o "$work/rss" "$@" >"$work/out.$tool" 2>"$work/err.$tool" || status=$?; } 2>"$work/time"
  [ "$status" -eq 0 ] || { echo "bench-kernel: $tool failed with status $status:" >&2; tail -n 5 "$work/err.$tool" >&2; exit 1; }
  awk -v tool="$tool" -v recording="$recording" -v rss="$(tail -n 1 "$work/rss")" \
    '{ printf "{\"tool\": \"%s\", \"recording\": \"%s\", \"wall_s\": %.3f, \"cpu_s\": %.3f, \"rss_mb\": %.1f}\n", tool, recording, $1, $2 + $3, rss / 1024 }' \
    "$work/time" >>"$json"
}
run_tool() { # TOOL RECORDING
  local data=$work/$2.data out=$work/$1.$2.prof
  rm -f "$out"
  case $1 in
    planish-profile) measure "$1" "$2" "$planish" profile "$data" --binary "$vmlinux" --emit text -o "$out" ;;
    llvm-profgen) measure "$1" "$2" llvm-profgen-22 --kernel --binary="$vmlinux" --perfdata="$data" --format=text --output="$out" ;;
  esac
  [ -s "$out" ] || { echo "bench-kernel: $1 wrote no profile; its time means nothing" >&2; exit 1; }
}
tools=(planish-profile llvm-profgen)
for ((round = 1; round <= rounds; round++)); do
  for recording in linked kaslr; do
    cat "$work/$recording.data" "$vmlinux" >/dev/null
    for ((i = 0; i < ${#tools[@]}; i++)); do
      echo "bench-kernel: round $round of $rounds, $recording, ${tools[(i + round) % ${#tools[@]}]}"
      run_tool "${tools[(i + round) % ${#tools[@]}]}" "$recording"
    done
  done
done

# --- the answers
overlap() { llvm-profdata-22 overlap --sample "$1" "$2" 2>/dev/null | sed -n "s/.*$3: *//p" | head -n 1; }
with_profgen=$(overlap "$work/llvm-profgen.linked.prof" "$work/planish-profile.linked.prof" 'Whole program sample overlap')
functions=$(overlap "$work/llvm-profgen.linked.prof" "$work/planish-profile.linked.prof" 'Function overlap')
kaslr_profgen=$(overlap "$work/llvm-profgen.kaslr.prof" "$work/planish-profile.kaslr.prof" 'Whole program sample overlap')
kaslr_linked=$(overlap "$work/planish-profile.linked.prof" "$work/planish-profile.kaslr.prof" 'Whole program sample overlap')
kaslr_linked_profgen=$(overlap "$work/llvm-profgen.linked.prof" "$work/llvm-profgen.kaslr.prof" 'Whole program sample overlap')
for threads in 1 2; do "$planish" profile "$work/linked.data" --binary "$vmlinux" --emit text -q --threads $threads -o "$work/same.$threads.prof"; done
cmp -s "$work/same.1.prof" "$work/same.2.prof" && equal=yes || equal=NO

# --- the report
date=$(date +%Y-%m-%d)
md=measurements/$date-$name.md; out=measurements/$date-$name.json
field() { awk -F': ' -v key="$1" '$1 ~ key { print $2; exit }' /proc/cpuinfo; }
cpu=$(field '^model name'); cores=$(nproc); memory=$(awk '/^MemTotal/ { printf "%.1f GiB", $2 / 1048576 }' /proc/meminfo)
kernel=$(uname -sr | sed 's/^\([A-Za-z]* [0-9.]*\).*/\1/'); system=$(. /etc/os-release && echo "$PRETTY_NAME")
version() { "$@" --version 2>/dev/null | grep -o '[0-9][0-9]*\.[0-9.]*[0-9]' | head -n 1 || true; }
versions="planish $(version "$planish"), Rust $RUST_VERSION, llvm-profgen $(version llvm-profgen-22), qemu $(version qemu-system-x86_64)"
bytes_of() { stat -c %s "$1"; }
{
  printf '{\n  "date": "%s", "cpu": "%s", "cores": %s, "memory": "%s", "kernel": "%s", "system": "%s",\n' \
    "$date" "$cpu" "$cores" "$memory" "$kernel" "$system"
  printf '  "versions": "%s",\n  "command": "make bench-kernel", "vmlinux": "%s", "rounds": %s,\n' "$versions" "${vmlinux##*/}" "$rounds"
  printf '  "bytes": {"vmlinux": %s, "linked": %s, "kaslr": %s}, "equal_bytes_threads_1_2": "%s",\n' \
    "$(bytes_of "$vmlinux")" "$(bytes_of "$work/linked.data")" "$(bytes_of "$work/kaslr.data")" "$equal"
  printf '  "overlap": {"linked_planish_profgen": "%s", "linked_functions": "%s", "kaslr_planish_profgen": "%s", "planish_linked_kaslr": "%s", "profgen_linked_kaslr": "%s"},\n' \
    "$with_profgen" "$functions" "$kaslr_profgen" "$kaslr_linked" "$kaslr_linked_profgen"
  printf '  "runs": [\n'; sed 's/^/    /; $!s/$/,/' "$json"; printf '  ]\n}\n'
} >"$out"

sed 's/[{}":,]/ /g' "$json" | awk '{ print $4, $2, $6, $8, $10 }' >"$work/rows"
median_of() { awk -v recording="$1" -v tool="$2" -v column="$3" '$1 == recording && $2 == tool { print $column }' "$work/rows" | sort -n |
  awk '{ v[NR] = $1 } END { if (NR) print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
{
  echo "# A kernel's profile: planish beside llvm-profgen, $date"
  echo
  echo "$cpu, $cores cores, $memory, $kernel, $system. $versions."
  echo "Repeat with \`make bench-kernel\`; every single run is in [$(basename "$out")]($(basename "$out"))."
  echo
  echo "Input: Debian's \`${vmlinux##*/}\` ($(bytes_of "$vmlinux" | awk '{ printf "%.0f", $1 / 1e6 }') MB, gcc, DWARF 5), booted under qemu with a busybox workload; a branch"
  echo "stack of the kernel every $period taken branches, in the page cache. Medians of $rounds interleaved rounds. The output is a"
  echo "clang text profile. CPU is user + system time. \`linked\`: booted with nokaslr; \`kaslr\`: where KASLR put it."
  echo
  echo "| recording | tool | wall s | CPU s | peak MB | wall, planish = 1 | CPU, planish = 1 | memory, planish = 1 |"
  echo "|---|---|---|---|---|---|---|---|"
  for recording in linked kaslr; do
    size=$(bytes_of "$work/$recording.data" | awk '{ printf "%.0f MB", $1 / 1e6 }')
    for tool in planish-profile llvm-profgen; do
      echo "$recording|$size|$tool|$(median_of $recording $tool 3)|$(median_of $recording $tool 4)|$(median_of $recording $tool 5)"
    done
  done | awk -F'|' '$3 == "planish-profile" { w = $4; c = $5; r = $6 }
    { printf "| %s, %s | %s | %.3f | %.3f | %.0f | %.1f | %.1f | %.1f |\n", $1, $2, $3, $4, $5, $6, $4 / w, $5 / c, $6 / r }'
  echo
  echo "- Overlap with llvm-profgen's profile (\`llvm-profdata overlap --sample\`): $with_profgen of the samples, $functions of the functions; under KASLR $kaslr_profgen."
  echo "- The rest of the overlap is code that the kernel patches while it runs: an indirect call through a thunk becomes a shorter call, so its return address lies inside the call that vmlinux shows. planish counts what ran from there; llvm-profgen drops it."
  echo "- The two boots are two runs: planish's profiles of them overlap by $kaslr_linked, llvm-profgen's by $kaslr_linked_profgen."
  echo "- Equal bytes with 1 and 2 threads: $equal."
  echo "- Peak memory counts mapped pages of vmlinux that were touched; the kernel can drop them at any time."
} >"$md"
cat "$md"
[ "$equal" = yes ] || { echo "bench-kernel: outputs differ" >&2; exit 1; }
