# zstd with gcc: AutoFDO and gcc's own PGO.
. gains/zstd.sh
title="zstd 1.5, gcc"
more=('build.compiler="gcc"')
# gcc places no blocks.
also='["pgo","bolt","pgo-bolt"]'
