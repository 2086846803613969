# shellcheck shell=bash disable=SC2034,SC2154
# Can verdicts on kernels be trusted? One kernel beside itself, relinked: how often is it called another? A link as built
# that is unlucky: is it called layout luck? A slow-down planted in the network path: from how many orders on is it found?
title="Verdicts on kernels: false alarms, luck, a planted slow-down"
series=6.12
native=1
native_rounds=24
# Of each kernel; comparisons draw theirs from them.
native_orders=48
# For luck, of one section alone: as many as tell half of a difference of 4 % from luck. (There is no comparison of one kernel, so the
# slow one is measured along.)
luck_orders=$((${STUDY_ORDERS:-$native_orders} * 9 / 4))
# Of each kernel where it is counted under emulation.
count_orders=${STUDY_ORDERS:-16}
# Of the kernel with itself; a tenth as many of each planted change.
comparisons=${STUDY_COMPARISONS:-200}
sections=pipe_latency,file_copy,tcp_rr,tcp_crr,udp_rr,key_value
# Turns of an empty loop in tcp_sendmsg, which a round trip calls twice: some 3 % of one.
plant=110

# A tree of links to the real one, with a loop in tcp_sendmsg where the compiler is told of it.
planted_tree() {
  local to=$1 part name
  rm -rf "$to"; mkdir -p "$to/net/ipv4"
  for part in . net net/ipv4; do
    for name in "$tree/$part"/* "$tree/$part"/.[a-z]*; do
      case ${name#"$tree/$part/"} in net) [ "$part" = . ] && continue ;; ipv4) [ "$part" = net ] && continue ;; esac
      [ ! -e "$name" ] || ln -s "$name" "$to/$part/$(basename "$name")"
    done
  done
  rm "$to/net/ipv4/tcp.c"
  awk '{ print } /^int tcp_sendmsg\(struct sock/ { inside = 1 } inside && /^{/ {
    print "#ifdef PLANISH_PLANT\n\tfor (int turn = 0; turn < PLANISH_PLANT; turn++)\n\t\tasm volatile(\"\");\n#endif"; inside = 0 }' \
    "$tree/net/ipv4/tcp.c" >"$to/net/ipv4/tcp.c"
  grep -q PLANISH_PLANT "$to/net/ipv4/tcp.c"
}

run_study() {
  local resume=()
  [ -e "$work/tree/Makefile" ] || planted_tree "$work/tree"
  tree=$work/tree
  [ ! -e "$work/cpu-time.jsonl" ] || resume=(--resume)
  # The slow kernel has the base's flags but for the name, so that nothing else is compiled anew.
  compared --native --orders "$native_orders" --rounds "$native_rounds" --sections "$sections" --raw "$work/cpu-time.jsonl" \
    "${resume[@]}" --variant "base: KCFLAGS=-DPLANISH_NOTHING" --variant "slow: KCFLAGS=-DPLANISH_PLANT=$plant" >"$work/cpu-time.txt"
  resume=()
  [ ! -e "$work/luck.jsonl" ] || resume=(--resume)
  compared --native --orders "$luck_orders" --rounds "$native_rounds" --sections tcp_rr --raw "$work/luck.jsonl" \
    "${resume[@]}" --variant "base: KCFLAGS=-DPLANISH_NOTHING" --variant "slow: KCFLAGS=-DPLANISH_PLANT=$plant" >"$work/luck.txt"
  local counts=()
  if [ -z "${STUDY_NATIVE:-}" ]; then
    rm -f "$work/counts.jsonl"
    compared --orders "$count_orders" --metric l1i-misses --raw "$work/counts.jsonl" \
      --variant "base: KCFLAGS=-DPLANISH_NOTHING" --variant "same: KCFLAGS=-DPLANISH_NOTHING" >"$work/counts.txt"
    counts=("$work/counts.jsonl")
  fi
  python3 studies/validity/verdicts.py "$planish" "$work/cpu-time.jsonl" "$work/luck.jsonl" "$work" "$comparisons" "${counts[@]}"
}
