# SQLite as the demo builds it, with gcc: AutoFDO and gcc's own PGO.
. gains/sqlite.sh
title="SQLite (demo), gcc"
more=('build.compiler="gcc"')
# gcc places no blocks.
also='["pgo","bolt","pgo-bolt"]'
