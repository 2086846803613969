# SQLite as the demo builds it: static, C.
title="SQLite (demo)"
project=(--build ./build.sh --program shop)
# Static: the C library's functions are the rest that the layout cannot reach.
more=('optimize.steps=["autofdo","propeller","bolt-rest"]')
train=("{bin} train 100")
evaluate=("{bin} eval 65")
prepare() {
  mkdir -p "$at/source"
  cp demo/sqlite/{build.sh,driver.c,empty.rs,Cargo.toml,Cargo.lock} "$at/source"/
}
