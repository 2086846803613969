"""What bench-fleet-enough.sh measured of one program, as a section of Markdown."""

import json
import sys

work, title, share, *parts = sys.argv[1:]


class Compared:
    """The builds of one kind: a number of shards each."""

    def __init__(self, kind):
        self.kind = kind
        told = json.load(open(f"{work}/{kind}s.json"))
        self.taken = {}
        for variant in told["variants"]:
            (metrics,) = variant["code_metrics"].values()
            self.taken[variant["name"]] = metrics["taken_branches"]
        self.cpu = {row["variant"]: row for row in told["comparisons"]}

    def over(self, part):
        """Taken branches over those with the whole recording."""
        own = self.taken["plain" if part is None else f"{self.kind}-{part}"]
        return f"{100 * (own / self.taken[f'{self.kind}-whole'] - 1):+.2f} %"

    def time(self, part):
        row = self.cpu[f"{self.kind}-{part}"]
        low, high = row.get("interval") or (float("nan"), float("nan"))
        return f"{row['effect']:.3f} ({low:.3f} to {high:.3f})"


def percent(value, digits=1):
    return "unknown" if value is None else f"{100 * value:.{digits}f} %"


profiles, layouts = Compared("profile"), Compared("layout")
print(f"## {title}\n")
print(f"A host that is as busy as the one in the middle has {share} % of the recording.\n")
print(
    "| shards | samples | halves of samples | halves of shards | verdict | expected loss, under | layout: taken branches |"
    " AutoFDO: taken branches | layout: CPU time | AutoFDO: CPU time |"
)
print("|---|---|---|---|---|---|---|---|---|---|")
for part in parts:
    status = json.load(open(f"{work}/status-{part}.json"))
    evidence, stable = status["evidence"], status["stability"]
    shards = "one" if part == "whole" else "too few"
    if stable is not None:
        low, high = stable["interval_percent"]
        shards = f"{stable['overlap_percent']:.1f} % ({low:.1f} to {high:.1f})"
    word = {True: "enough", False: "not enough", None: "undecided"}[status["enough"]]
    print(
        f"| {part} | {evidence['samples']:,} | {percent(evidence['split_half_overlap'])} | {shards} | {word} |"
        f" {percent(evidence['expected_loss'], 2)} | {layouts.over(part)} | {profiles.over(part)} | {layouts.time(part)} | {profiles.time(part)} |"
    )
print(f"| none | | | | | | {layouts.over(None)} | {profiles.over(None)} | 1 | 1 |")
