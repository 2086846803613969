# jaq from its crate: cargo.
title="jaq 2.3"
project=(--cargo --program jaq)
train=("{bin} -c '[.[]|{n:.name,s:(.values|add),t:(.text|split(\" \")|length)}]|sort_by(.s)|length' $at/train.json")
evaluate=("{bin} -c '[.[]|select(.values|length>3)|.text|ascii_downcase|length]|group_by(.)|map(length)|add' $at/evaluate.json")
data() { # FILE SEED
  python3 - "$1" "$2" "$work/corpus" <<'PY'
import json, random, sys
random.seed(int(sys.argv[2]))
words = open(f"{sys.argv[3]}/train.txt", errors="replace").read().split()
rows = [{"name": random.choice(words), "values": [random.randrange(1000) for _ in range(random.randrange(9))],
         "text": " ".join(random.choices(words, k=12))} for _ in range(20000)]
json.dump(rows, open(sys.argv[1], "w"))
PY
}
prepare() { crate jaq 2.3.0; [ -e "$at/train.json" ] || { data "$at/train.json" 1; data "$at/evaluate.json" 2; }; }
