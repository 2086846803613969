"""Puts runs of two kernels in many orders together to comparisons whose truth is known, and counts the verdicts.

    verdicts.py PLANISH RUNS LUCK DIRECTORY COMPARISONS [COUNTS]

RUNS are of all sections, LUCK of one section in more orders, COUNTS are counts under emulation.

Every comparison is a file of runs that `planish compare show` judges, as it judges those of `planish kernel compare`: two
variants, each as built (an order that plays this part, run twice a round) and in some orders. Orders are drawn without
being put back, so that no image is in a comparison twice.
"""

import collections
import json
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

planish, path, luck_path, work, comparisons, *counts_path = sys.argv[1:]


class Runs:
    """What was measured: by variant, order and round."""

    def __init__(self, path, most=1000):
        lines = [json.loads(line) for line in open(path)]
        self.head = lines[0]
        self.design = self.head["design"]
        self.design["benchmarks"] = self.design["benchmarks"][:most]
        self.benchmarks = [benchmark["name"] for benchmark in self.design["benchmarks"]]
        # Half of the rounds are the runs, the other half the second runs of the images as built.
        self.rounds = self.design["rounds"] // 2
        self.by_image = collections.defaultdict(list)
        for run in lines[1:]:
            if run["round"] > 0 and run["copy"] == 0 and run["benchmark"] < most:
                self.by_image[run["variant"], run["layout"]].append(run)
        self.orders = [layout for variant, layout in self.by_image if variant == 0 and layout > 0]

    def median(self, image, benchmark):
        own = [run["printed"]["cpu-time"] for run in self.by_image[image] if run["benchmark"] == benchmark]
        return sorted(own)[len(own) // 2]

    def drawn(self, count):
        return chance.sample(self.orders, count)


chance = random.Random(1)


def compared(runs, number, images):
    """Verdicts by benchmark; `images` are those of both variants, (variant, order) each, as built first."""
    design, rounds = runs.design, runs.rounds
    own = {**design, "rounds": rounds, "variants": []}
    text = []
    # In the order in which they ran: by it drifts of the machine are told from differences.
    played = []
    for variant, chosen in enumerate(images):
        of = [design["variants"][one] for one, _ in chosen]
        own["variants"].append(
            {
                **of[0],
                "name": ("base", "new")[variant],
                "binaries": [a["binaries"][layout] for a, (_, layout) in zip(of, chosen)],
                "digests": [a["digests"][layout] for a, (_, layout) in zip(of, chosen)],
            }
        )
        for place, image in enumerate(chosen):
            for run in runs.by_image[image]:
                copy = int(run["round"] > rounds)
                if copy and place:
                    continue
                changed = {"variant": variant, "layout": place, "copy": copy}
                played.append({**run, **changed, "round": run["round"] - rounds * copy})
    played.sort(key=lambda run: run["sequence"])
    text.extend(json.dumps({**run, "sequence": place}) for place, run in enumerate(played, 1))
    file = f"{work}/comparison-{number}.jsonl"
    with open(file, "w") as out:
        out.write("\n".join([json.dumps({**runs.head, "design": own}), *text]) + "\n")
    told = subprocess.run([planish, "compare", "show", file, "--format", "json"], capture_output=True, text=True)
    if told.returncode not in (0, 1, 4):
        sys.exit(f"{file}: {told.stderr}")
    return {row["benchmark"]: row["verdict"] for row in json.loads(told.stdout)["comparisons"]}


def many(runs, comparisons):
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda one: compared(runs, *one), enumerate(comparisons)))


def table(title, benchmarks, found, wanted):
    print(f"\n## {title}\n")
    names = ["slower", "faster", "layout-luck", "same", "undecided"]
    print("| benchmark | " + " | ".join(names) + " |\n|---|" + "---:|" * len(names))
    for benchmark in benchmarks:
        count = collections.Counter(one[benchmark] for one in found)
        print(f"| {benchmark} | " + " | ".join(str(count[name]) for name in names) + " |")
    print(f"\n{wanted(found)}")


def same(runs):
    """One kernel beside itself: the orders of each comparison, and the verdicts."""
    # What a study of 48 orders takes; fewer where there are fewer.
    count = min(8, len(runs.orders) // 2 - 1)
    pairs = []
    for _ in range(int(comparisons)):
        chosen = runs.drawn(2 * (count + 1))
        pairs.append([[(0, layout) for layout in half] for half in (chosen[: count + 1], chosen[count + 1 :])])
    return count, many(runs, pairs)


def wrong(found):
    rows = [verdict for one in found for verdict in one.values()]
    called = sum(verdict in ("slower", "faster") for verdict in rows)
    any_row = sum(any(verdict in ("slower", "faster") for verdict in one.values()) for one in found)
    return (
        f"Called different: {called} of {len(rows)} rows ({100 * called / len(rows):.1f} %), in {any_row} of {len(found)} "
        "comparisons (wanted: 5 % at most)."
    )


all_runs = Runs(path)
count, called = same(all_runs)
table(f"One kernel beside itself, {count} orders each, {len(called)} comparisons", all_runs.benchmarks, called, wrong)

# As built, one of the slowest orders stands beside one of the fastest, by the first runs; judged by the others.
planted = (int(comparisons) + 9) // 10
more = Runs(luck_path)
first, network = all_runs.benchmarks.index("tcp_rr"), more.benchmarks.index("tcp_rr")
ends = max(1, min(3, len(all_runs.orders) // 8))
by_time = sorted(all_runs.orders, key=lambda layout: all_runs.median((0, layout), first))
fast, slow = by_time[:ends], by_time[-ends:]
rest = [layout for layout in more.orders if layout not in fast + slow]
count = len(rest) // 2
unlucky = []
apart = []
for _ in range(planted):
    best, worst = chance.choice(fast), chance.choice(slow)
    drawn = chance.sample(rest, 2 * count)
    apart.append(more.median((0, worst), network) / more.median((0, best), network))
    unlucky.append(
        [[(0, layout) for layout in (best, *drawn[:count])], [(0, layout) for layout in (worst, *drawn[count:])]]
    )


def luck(found):
    own = [one["tcp_rr"] for one in found]
    good = sum(verdict not in ("slower", "faster") for verdict in own)
    named = own.count("layout-luck")
    return (
        f"tcp_rr: not called slower or faster in {good} of {len(own)} comparisons, called layout luck in {named} (wanted: "
        f"95 %). As built the two lie {min(apart):.3f} to {max(apart):.3f} apart."
    )


title = (
    f"One kernel, but as built one of the {ends} slowest of {len(by_time)} orders (by other runs) beside one of the {ends} fastest, "
    f"{count} orders each, {planted} comparisons"
)
table(title, more.benchmarks, many(more, unlucky), luck)

orders, benchmarks = all_runs.orders, all_runs.benchmarks
for count in sorted({min(count, len(orders) - 1) for count in (8, 16, 32, 47)}):
    slow = []
    for _ in range(planted):
        slow.append([[(variant, layout) for layout in all_runs.drawn(count + 1)] for variant in (0, 1)])
    effect = []
    for benchmark in range(len(benchmarks)):
        logs = [sorted(all_runs.median((variant, layout), benchmark) for layout in orders) for variant in (0, 1)]
        effect.append(f"{benchmarks[benchmark]} {logs[1][len(orders) // 2] / logs[0][len(orders) // 2]:.3f}")

    def power(found, effect=effect):
        own = [one["tcp_rr"] for one in found]
        return (
            f"tcp_rr: found in {own.count('slower')} of {len(own)} comparisons (wanted: 95 %). Medians over all orders, slow to base: "
            + ", ".join(effect)
            + "."
        )

    title = f"A slow-down planted in the network path, {count} orders each, {planted} comparisons"
    table(title, benchmarks, many(all_runs, slow), power)

for path in counts_path:
    # Both sums, and the first sections: 200 comparisons of all 51 rows take ten minutes and more.
    counts = Runs(path, 12)
    count, called = same(counts)
    title = f"One kernel beside itself, in counts ({counts.design['benchmarks'][0]['metrics'][0].split('=')[0]}), {count} orders each, {len(called)} comparisons"
    table(title, counts.benchmarks, called, wrong)
