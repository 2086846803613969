# shellcheck shell=bash disable=SC2034,SC2154
# What do a profile (AutoFDO) and a layout of blocks and functions (Propeller) gain a kernel, in time? Recorded from the training
# sections of the workload inside the kernel, without branch hardware, measured on these and on held-out ones.
title="A profile and a layout of the kernel, in native time"
series=6.12
native=1
native_orders=8
native_rounds=8

# Two rounds of AutoFDO, as `planish kernel optimize` makes them, then a layout of the kernel with a map of its blocks. Profiles and
# layouts are named after their content, since make looks at names only; a kernel is recorded again where it is another.
make_variants() {
  local builds=$work/$series/native profile="CONFIG_AUTOFDO_CLANG=y" first second layout
  built() { compared --native --build-only --orders 0 --variant "$1: $2"; }
  recorded() { # NAME: of the kernel of that name
    local kernel=$builds/$1/planish/0.linux digest
    digest=$(sha256sum <"$kernel")
    [ -e "$work/$1.data" ] && [ "$(cat "$work/$1.digest" 2>/dev/null)" = "$digest" ] && return
    "$planish" kernel record --native "$builds/$1" -o "$work/$1.data"
    echo "$digest" >"$work/$1.digest"
  }
  profiled() { # NAME: prints the profile's name
    "$planish" -q profile "$work/$1.data" --binary "$builds/$1/planish/0.linux" -o "$work/$1.afdo"
    local named
    named=$work/$1-$(sha256sum <"$work/$1.afdo" | cut -c 1-12).afdo
    mv "$work/$1.afdo" "$named"
    echo "$named"
  }
  built base "$profile"
  recorded base
  first=$(profiled base)
  built first "$profile CLANG_AUTOFDO_PROFILE=$first CLANG_AUTOFDO_ROUND=1"
  recorded first
  second=$(profiled first)
  profile+=" CLANG_AUTOFDO_PROFILE=$second"
  built map "CONFIG_PROPELLER_CLANG=y $profile"
  recorded map
  "$planish" -q layout "$work/map.data" --binary "$builds/map/planish/0.linux" --prefix "$work/new"
  layout=$work/layout-$(cat "$work/new_cc_profile.txt" "$work/new_ld_profile.txt" | sha256sum | cut -c 1-12)
  mv "$work/new_cc_profile.txt" "${layout}_cc_profile.txt"
  mv "$work/new_ld_profile.txt" "${layout}_ld_profile.txt"
  cat >"$work/planish.toml.new" <<END
[kernel.variants]
base = "CONFIG_AUTOFDO_CLANG=y"
autofdo = "$profile CLANG_AUTOFDO_SPLIT=y"
layout = "CONFIG_PROPELLER_CLANG=y $profile CLANG_PROPELLER_PROFILE_PREFIX=$layout"
END
  mv "$work/planish.toml.new" "$work/planish.toml"
}
