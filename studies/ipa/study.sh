# shellcheck shell=bash disable=SC2034
# What do optimisations between functions, which live patching cannot follow, give a kernel that gcc compiles? Each of eleven was
# turned off alone, and all together, on a dashboard of benchmarks on two machines in 2019.
title="Optimisations between functions turned off, one by one and together"
series=6.12
native=1
compiler=gcc
native_orders=8
native_rounds=5

# What a live patch must replace besides a function, beside what leaving that out costs.
more_of_study() {
  compared --native --project "$project" --orders "$native_orders" --rounds "$native_rounds" --raw "$work/cpu-time.jsonl" --resume \
    --format json >"$work/cpu-time.json"
  cat <<'END'

## Closures

A function's closure is what else changes when it does, because its code was inlined or copied there, folded with others', or compiled
after what it does: what a live patch must replace with it. Sizes are those of functions with code, the function itself counted.

END
  python3 "studies/$name/closures.py" "$planish" "$tree" "$work/$series" "$project" "$work/cpu-time.json"
}
