"""How much do layouts of a kernel differ from one another, and does a variant make them more alike?

Reads the runs that `planish kernel compare --raw` keeps. For the sums over sections: the spread (standard deviation of the
logarithm) over the random orders of each variant, in percent, its ratio to the base's, and a 95 % interval of that by
bootstrap over the orders (10,000 draws, a fixed seed).
"""

import json
import math
import random
import statistics
import sys

path, metric = sys.argv[1:]
lines = [json.loads(line) for line in open(path)]
design, runs = lines[0]["design"], [line for line in lines[1:] if line.get("round") == 1]
variants = [variant["name"] for variant in design["variants"]]


def logs(benchmark, variant):
    """Logarithms of the counts over the orders; the kernel as built is none of them."""
    found = {
        run["layout"]: math.log(run["printed"][metric])
        for run in runs
        if (run["benchmark"], run["variant"]) == (benchmark, variant) and run.get("layout", 0) > 0
    }
    return [found[layout] for layout in sorted(found)]


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
for number, benchmark in enumerate(design["benchmarks"]):
    if not benchmark["name"].endswith(" sections"):
        continue
    base = logs(number, 0)
    for variant, name in enumerate(variants):
        own = logs(number, variant)
        if len(own) < 3:
            continue
        mean = statistics.mean(own)
        low, high = (100 * (math.exp(value - mean) - 1) for value in (min(own), max(own)))
        ratio, wide = "1", ""
        if variant and statistics.stdev(base) > 0:
            ratio = f"{statistics.stdev(own) / statistics.stdev(base):.2f}"
            wide = "{:.2f} to {:.2f}".format(*interval(base, own))
        print(f"| {benchmark['name']} | {name} | {100 * statistics.stdev(own):.2f} % | {low:+.1f} to {high:+.1f} % | {ratio} | {wide} |")
