# xz from Debian's sources: autotools, C.
title="xz 5.4"
project=(--autotools --program src/xz/xz)
more=('optimize.steps=["autofdo","propeller"]')
train=("{bin} -k -c -T1 -4 $work/corpus/train.txt" "{bin} -d -k -c -T1 $at/train.xz")
evaluate=("{bin} -k -c -T1 -6 $at/evaluate.txt")
prepare() {
  debian xz-utils
  # Runs of some tenths of a second at most: the more rounds there is time for.
  head -c 600000 "$work/corpus/evaluate.txt" >"$at/evaluate.txt"
  [ -e "$at/train.xz" ] || { xz -k -c -6 "$work/corpus/train.txt" >"$at/train.new" && mv "$at/train.new" "$at/train.xz"; }
}
