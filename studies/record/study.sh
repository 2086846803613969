# shellcheck shell=bash disable=SC2034,SC2154
# What does recording lose, hold up and cost, by option: on this machine beside perf record, and in a guest of two NUMA nodes with four
# CPUs, where it is checked that readers run on the node of the rings that they read and of the memory that they write.
title="Recording: losses, pauses and cost by option, on one node and on two"
series=6.12
rounds=${STUDY_ROUNDS:-3}
# Matrix products of each thread in the guest, and samples a second of each CPU.
products=${STUDY_PRODUCTS:-60} rate=500
# `+` stands for a blank.
options="--affinity=sys --affinity=node --threads=node --threads=node+--affinity=node --threads=cpu+--affinity=cpu"

guest() {
  local at=$work/guest turn one number=0
  mkdir -p "$at"
  cc=$(command -v gcc || command -v clang-22)
  "$cc" -O2 -static -o "$at/init" studies/record/init.c
  "$cc" -O2 -o "$at/matmul" demo/record/matmul.c -lpthread
  cp "$planish" "$at/planish"; strip "$at/planish"
  for turn in $(seq "$rounds"); do
    echo "alone.$turn /bin/matmul 4 $products"
    for one in $options; do
      number=$((number + 1))
      echo "$one.$turn /bin/planish -q record --format json --accept-losses -o /tmp/data-$number -F $rate -e cpu-clock --call-graph dwarf,8192 ${one//+/ } -- /bin/matmul 4 $products"
    done
  done >"$at/commands"
  python3 studies/record/initrd.py "$at/initrd" "$at/commands" "$at/init" "$at/matmul" "$at/planish"
  # Emulated, four CPUs side by side.
  timeout 1200 qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -smp 4 -m 2G -nographic -no-reboot -monitor none \
    -object memory-backend-ram,id=m0,size=1G -object memory-backend-ram,id=m1,size=1G \
    -numa node,nodeid=0,cpus=0-1,memdev=m0 -numa node,nodeid=1,cpus=2-3,memdev=m1 \
    -kernel "$1" -initrd "$at/initrd" -append "console=ttyS0 quiet panic=-1" </dev/null >"$at/console"
  python3 studies/record/placed.py "$at/console"
}

# The kernel of the guest is that of the other studies, with nodes.
numa="numa: CONFIG_NUMA=y CONFIG_PCI=y CONFIG_ACPI=y CONFIG_X86_64_ACPI_NUMA=y CONFIG_MIGRATION=y CONFIG_NR_CPUS=4"

run_study() {
  BENCH_ROUNDS=$rounds BENCH_OUT=$work/here PLANISH=$planish scripts/bench-record.sh >"$work/here.txt"
  echo
  sed -e 1d -e 's/^## /### /' "$work/here.md" | sed '1s/^/## One node, beside perf\n/'
  # On a tree that is no kernel there is nothing to boot.
  [ -z "${STUDY_TREE:-}" ] || return 0
  compared --build-only --orders 0 --variant "$numa" >"$work/kernel.txt"
  echo
  echo "## Two NUMA nodes with two CPUs each, in a guest"
  echo
  echo "Emulated CPUs (qemu without KVM): nodes, CPUs and memory are told apart as on a machine, times are not those of one."
  echo "\`planish record -F $rate -e cpu-clock --call-graph dwarf,8192 OPTIONS -- matmul 4 $products\`: 4 threads on 4 CPUs, $rounds rounds."
  echo
  guest "$work/$series/numa/arch/x86/boot/bzImage"
}
