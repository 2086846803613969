# planish itself: cargo, Rust; it makes profiles of SQLite's recordings.
title="planish"
project=(--cargo --program planish)
train=("{bin} -q profile $at/train.data --binary $at/shop --threads 1 -o $at/made.afdo")
evaluate=("{bin} -q aggregate $at/evaluate.data --binary $at/shop --threads 1 -o $at/made.counts")
more=('evaluate.ignore_output=true')
prepare() {
  if [ ! -d "$at/source" ]; then
    mkdir -p "$at/new"
    git ls-files -z | tar --null -T - -cf - | tar -xf - -C "$at/new"
    mv "$at/new" "$at/source"
  fi
  [ -e "$at/evaluate.data" ] && return
  PLANISH_OUT="$at/sqlite" PLANISH_CC=clang-22 PLANISH_CFLAGS="-O2 -g" demo/sqlite/build.sh
  mv "$at/sqlite/shop" "$at/shop"
  "$planish" -q record --branches=emulated -c 1000 -o "$at/train.data" -- "$at/shop" train 30 >"$at/shop.log"
  "$planish" -q record --branches=emulated -c 1000 -o "$at/evaluate.data" -- "$at/shop" eval 60 >>"$at/shop.log"
}
