# shellcheck shell=bash disable=SC2034,SC2154
# What do a profile (AutoFDO) and a layout of blocks and functions (Propeller) gain a kernel, in time? Recorded from the training
# sections of the workload inside the kernel, without branch hardware, measured on these and on held-out ones.
title="A profile and a layout of the kernel, in native time"
series=6.12
native=1
native_orders=8
native_rounds=8

# Two rounds of AutoFDO, as `planish kernel optimize` makes them, then a layout of the kernel with a map of its blocks.
make_variants() {
  local builds=$work/$series profile="CONFIG_AUTOFDO_CLANG=y"
  built() { compared --native --build-only --orders 0 --variant "$1: $2"; }
  recorded() { # NAME: of the kernel of that name
    [ "$work/$1.data" -nt "$builds/native/$1/planish/0.linux" ] ||
      "$planish" kernel record --native "$builds/native/$1" -o "$work/$1.data"
  }
  profiled() { # NAME OUTPUT
    "$planish" profile "$work/$1.data" --binary "$builds/native/$1/planish/0.linux" -o "$2"
  }
  built base "$profile"
  recorded base
  [ "$work/first.afdo" -nt "$work/base.data" ] || profiled base "$work/first.afdo"
  built first "$profile CLANG_AUTOFDO_PROFILE=$work/first.afdo CLANG_AUTOFDO_ROUND=1"
  recorded first
  [ "$work/second.afdo" -nt "$work/first.data" ] || profiled first "$work/second.afdo"
  profile+=" CLANG_AUTOFDO_PROFILE=$work/second.afdo"
  built map "CONFIG_PROPELLER_CLANG=y $profile"
  recorded map
  [ "$work/layout_ld_profile.txt" -nt "$work/map.data" ] ||
    "$planish" layout "$work/map.data" --binary "$builds/native/map/planish/0.linux" \
      --prefix "$work/layout"
  cat >"$work/planish.toml.new" <<END
[kernel.variants]
base = "CONFIG_AUTOFDO_CLANG=y"
autofdo = "$profile CLANG_AUTOFDO_SPLIT=y"
layout = "CONFIG_PROPELLER_CLANG=y $profile CLANG_PROPELLER_PROFILE_PREFIX=$work/layout"
END
  mv "$work/planish.toml.new" "$work/planish.toml"
}
