"""How much do layouts of a kernel differ from one another, and does a variant make them more alike?

Reads the runs that `planish kernel compare --raw` keeps. For the sections of each kind (of counts their sum, of times the
geometric mean of the medians over the rounds): the spread (standard deviation of the logarithm) over the random orders of
each variant, in percent, its ratio to the base's, and a 95 % interval of that by bootstrap over the orders (10,000 draws,
a fixed seed).
"""

import json
import math
import random
import statistics
import sys

path, metric = sys.argv[1:]
lines = [json.loads(line) for line in open(path)]
design, runs = lines[0]["design"], [line for line in lines[1:] if line.get("round", 0) > 0]
variants = [variant["name"] for variant in design["variants"]]
kinds = {"train": "training sections", "held": "held-out sections"}


def rows():
    """What is compared: names, and the numbers of their benchmarks."""
    named = [(number, benchmark["name"]) for number, benchmark in enumerate(design["benchmarks"])]
    sums = [(name, [number]) for number, name in named if name.endswith(" sections")]
    if sums:
        return sums
    kind_of = {number: design["benchmarks"][number]["parameters"].get("kind") for number, _ in named}
    found = {name: [number for number, of in kind_of.items() if of == kind] for kind, name in kinds.items()}
    return [(name, numbers) for name, numbers in found.items() if numbers]


def logs(benchmarks, variant):
    """Logarithms over the orders; the kernel as built is none of them."""
    found = {}
    for run in runs:
        if run["benchmark"] in benchmarks and run["variant"] == variant and run.get("layout", 0) > 0:
            own = found.setdefault(run["layout"], {}).setdefault(run["benchmark"], [])
            own.append(math.log(run["printed"][metric]))
    return [statistics.mean(map(statistics.median, found[layout].values())) for layout in sorted(found)]


def interval(base, own):
    chance = random.Random(1)
    ratios = []
    while len(ratios) < 10_000:
        one, other = (statistics.stdev(chance.choices(values, k=len(values))) for values in (base, own))
        if one > 0:
            ratios.append(other / one)
    ratios.sort()
    return ratios[249], ratios[9749]


print("How far orders lie apart, and whether a variant makes them more alike (ratio of spreads, below 1: more alike):\n")
print("| sections | variant | spread over orders | lowest to highest, of their mean | ratio to the base's | 95 % interval |")
print("|---|---|---:|---:|---:|---:|")
for row, benchmarks in rows():
    base = logs(benchmarks, 0)
    for variant, name in enumerate(variants):
        own = logs(benchmarks, variant)
        if len(own) < 3:
            continue
        mean = statistics.mean(own)
        low, high = (100 * (math.exp(value - mean) - 1) for value in (min(own), max(own)))
        ratio, wide = "1", ""
        if variant and statistics.stdev(base) > 0:
            ratio = f"{statistics.stdev(own) / statistics.stdev(base):.2f}"
            wide = "{:.2f} to {:.2f}".format(*interval(base, own))
        print(f"| {row} | {name} | {100 * statistics.stdev(own):.2f} % | {low:+.1f} to {high:+.1f} % | {ratio} | {wide} |")
