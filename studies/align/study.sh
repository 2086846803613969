# shellcheck shell=bash disable=SC2034
# Does -falign-functions=32 change what a kernel costs, or does it only look so in the one layout that was built? And does it make
# kernels more alike, whatever their layout? The first was asked of Linux in 2020, when benchmarks moved by several percent
# with commits that touched nothing that ran; the second was asked then and never answered.
title="Functions of the kernel aligned to 32 bytes"
series=6.12
metrics=(l1i-misses itlb-4k-misses taken-branches)
native=1
native_orders=20
