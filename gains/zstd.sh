# zstd from Debian's sources: its own makefile, C.
title="zstd 1.5"
project=(--make --program programs/zstd)
more=('optimize.steps=["autofdo","propeller"]')
# The level that is measured, on other text: level 12 searches with other functions than level 13.
train=("{bin} -q -c -13 --single-thread $work/corpus/train.txt" "{bin} -q -c -3 --single-thread $work/corpus/train.txt")
evaluate=("{bin} -q -c -13 --single-thread $at/evaluate.txt")
prepare() {
  debian libzstd
  # Runs of some tenths of a second at most: the more rounds there is time for.
  head -c 600000 "$work/corpus/evaluate.txt" >"$at/evaluate.txt"
}
