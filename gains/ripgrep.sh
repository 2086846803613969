# ripgrep from its crate: cargo.
title="ripgrep 14.1"
project=(--cargo --program rg)
train=("{bin} -j1 -c -i 'fn.*result' $work/corpus/train" "{bin} -j1 -n 'self\\.[a-z]+' $work/corpus/train" "{bin} -j1 -w the $work/corpus/train")
# Twenty times over, so that it takes long enough to be timed.
evaluate=("{bin} -j1 -n -i 'let.*error'$(printf " $work/corpus/evaluate%.0s" $(seq 20))")
prepare() { crate ripgrep 14.1.1; }
