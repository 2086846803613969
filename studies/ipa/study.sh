# shellcheck shell=bash disable=SC2034
# What do optimisations between functions, which live patching cannot follow, give a kernel that gcc compiles? Each of eleven was
# turned off alone, and all together, on a dashboard of benchmarks on two machines in 2019.
title="Optimisations between functions turned off, one by one and together"
series=6.12
native=1
compiler=gcc
native_orders=8
native_rounds=5
