# redis from Debian's sources: its own makefile, C; a server that its own benchmark drives.
title="redis 7.0"
project=(--build 'cp -r Makefile deps src utils "$PLANISH_OUT" && make -C "$PLANISH_OUT/src" -j"$(nproc)" MALLOC=libc OPTIMIZATION= CC="$PLANISH_CC" REDIS_CFLAGS="$PLANISH_CFLAGS" REDIS_LDFLAGS="$PLANISH_LDFLAGS" redis-server' --program src/redis-server)
# The server has a CPU of its own, and the client another.
on_cpu="taskset -c"
train=("$at/client -p {port} -q -n 30000 -P 16 -r 10000 -d 100 -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset")
evaluate=("$on_cpu 1 $at/client -p {port} -q -n 20000 -P 16 -r 20000 -d 60 -t set,get,lpush,lpop,hset,spop,zpopmin,lrange_300")
# What is measured is the server while it is driven; without the client there is nothing to count under emulation.
counted=()
more=('optimize.steps=["autofdo","propeller"]' 'build.sources=["src","deps"]' 'evaluate.ignore_output=true')
server="{bin} --port {port} --save '' --appendonly no --io-threads 1"
more+=("workload.start=\"$server\"" "evaluate.start=\"$on_cpu 0 $server\"")
for table in workload evaluate; do more+=("$table.ready=\"tcp:127.0.0.1:{port}\""); done
# The client is the same for all variants: built once, with the machine's own compiler.
prepare() {
  debian redis
  [ -x "$at/client" ] && return
  rm -rf "$at/client.build"; mkdir -p "$at/client.build"
  cp -r "$at"/source/{Makefile,deps,src,utils} "$at/client.build"
  make -C "$at/client.build/src" -j"$(nproc)" MALLOC=libc redis-benchmark >"$at/client.log" 2>&1
  cp "$at/client.build/src/redis-benchmark" "$at/client"
}
