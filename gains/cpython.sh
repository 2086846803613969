# CPython from Debian's sources: autoconf, C; the modules that the work needs are built in.
title="CPython 3.11"
project=(--build 'd=$PWD && cd "$PLANISH_OUT" && "$d/configure" -q --without-ensurepip --disable-test-modules CC="$PLANISH_CC" CXX="$PLANISH_CXX" CFLAGS="$PLANISH_CFLAGS" LDFLAGS="$PLANISH_LDFLAGS" && cp "$d/Setup.gains" Modules/Setup.local && make -s -j"$(nproc)" python' --program python)
# The library is the source's own, found by PYTHONHOME.
train=("{bin} -S $at/train.py 3")
evaluate=("{bin} -S $at/evaluate.py 4")
# The second round is recorded on code that already is inlined: 0.922 of the instructions in place of 0.930.
more=('optimize.steps=["autofdo","autofdo","propeller"]')
for table in workload evaluate; do
  more+=("$table.environment={PYTHONHOME=\"$at/prefix\",PYTHONHASHSEED=\"1\",PYTHONDONTWRITEBYTECODE=\"1\"}")
done
counted=(env PYTHONHOME="$at/prefix" PYTHONHASHSEED=1 PYTHONDONTWRITEBYTECODE=1)
prepare() {
  debian python3.11
  mkdir -p "$at/prefix/lib"
  ln -sfn "$at/source/Lib" "$at/prefix/lib/python3.11"
  # `*static*`: into the program itself.
  printf '%s\n' '*static*' 'array arraymodule.c' 'math mathmodule.c' '_struct _struct.c' '_json _json.c' '_heapq _heapqmodule.c' \
    '_bisect _bisectmodule.c' '_random _randommodule.c' '_datetime _datetimemodule.c' '_sha512 sha512module.c' \
    >"$at/source/Setup.gains"
  cat >"$at/train.py" <<'PY'
import json, re, sys
from collections import Counter, OrderedDict

class Body:
    __slots__ = ("x", "y", "vx", "vy", "mass")
    def __init__(self, n):
        self.x, self.y, self.vx, self.vy, self.mass = float(n), n * 0.5, 0.0, n * 0.01, 1.0 + n

def attract(bodies, steps):
    for _ in range(steps):
        for i, a in enumerate(bodies):
            for b in bodies[i + 1:]:
                dx, dy = a.x - b.x, a.y - b.y
                pull = 0.01 / (dx * dx + dy * dy + 0.1) ** 1.5
                a.vx -= dx * b.mass * pull; a.vy -= dy * b.mass * pull
                b.vx += dx * a.mass * pull; b.vy += dy * a.mass * pull
        for body in bodies:
            body.x += 0.01 * body.vx; body.y += 0.01 * body.vy
    return sum(body.x for body in bodies)

class Task:
    def __init__(self, name, priority):
        self.name, self.priority, self.done = name, priority, []
    def run(self, packet):
        self.done.append(packet % self.priority)
        return packet // 2 if packet % 2 == 0 else packet * 3 + 1

def schedule(count):
    tasks = [Task("t%d" % n, n + 2) for n in range(7)]
    packet = 27
    for step in range(count):
        packet = tasks[step % 7].run(packet)
        if packet <= 1: packet = step + 27
    return sum(len(task.done) for task in tasks)

def words(count):
    text = " ".join("word%d=%x;" % (n % 97, n * 2654435761 % 65521) for n in range(count))
    found = Counter(m.group(1) for m in re.finditer(r"(\w+)=([0-9a-f]+);", text))
    table = OrderedDict(sorted(found.items(), key=lambda item: (-item[1], item[0])))
    return len(json.dumps(json.loads(json.dumps(table)))), text.replace("word", "W").upper().count("W9")

def primes():
    found, n = [], 2
    while True:
        if all(n % p for p in found if p * p <= n):
            found.append(n)
            yield n
        n += 1

def main(rounds):
    for n in range(rounds):
        take = primes()
        print(attract([Body(i) for i in range(8)], 400), schedule(40000), words(6000), [next(take) for _ in range(400)][-1])

main(int(sys.argv[1]))
PY
  cat >"$at/evaluate.py" <<'PY'
import heapq, json, math, random, sys
from functools import lru_cache

def queens(n):
    def place(row, columns, left, right):
        if row == n: return 1
        return sum(place(row + 1, columns | {c}, left | {c - row}, right | {c + row})
                   for c in range(n) if c not in columns and c - row not in left and c + row not in right)
    return place(0, frozenset(), frozenset(), frozenset())

def spectral(n):
    row = [1.0] * n
    for _ in range(3):
        row = [sum(value / ((i + j) * (i + j + 1) / 2 + i + 1) for j, value in enumerate(row)) for i in range(n)]
    return math.sqrt(sum(value * value for value in row))

class Node:
    def __init__(self, key): self.key, self.edges = key, {}

def shortest(size, seed):
    random.seed(seed)
    nodes = [Node(n) for n in range(size)]
    for node in nodes:
        for _ in range(5): node.edges[random.randrange(size)] = random.random()
    best, queue = {0: 0.0}, [(0.0, 0)]
    while queue:
        cost, key = heapq.heappop(queue)
        if cost > best.get(key, 1e9): continue
        for other, length in nodes[key].edges.items():
            if cost + length < best.get(other, 1e9):
                best[other] = cost + length
                heapq.heappush(queue, (cost + length, other))
    return round(sum(best.values()), 6)

@lru_cache(maxsize=None)
def distance(a, b):
    if not a or not b: return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))

def report(count):
    rows = [{"id": n, "name": "row-%05d" % n, "tags": ["a%d" % (n % 5), "b"], "score": n / 7} for n in range(count)]
    rows.sort(key=lambda row: (row["tags"], -row["score"]))
    lines = ["{id:>6}|{name:<12}|{score:8.3f}".format(**row) for row in rows]
    return len(json.dumps(rows)), sum(len(line.split("|")) for line in lines)

for number in range(int(sys.argv[1])):
    distance.cache_clear()
    print(queens(7), spectral(90), shortest(3000, number), distance("saturday morning", "sunday evening %d" % number), report(4000))
PY
}
