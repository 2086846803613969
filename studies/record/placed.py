"""What the guest's console says of where readers ran, as a table:  placed.py CONSOLE

Lines `@begin NAME`, then the JSON of `planish record`, then `@end NAME CODE WALL CPU`; NAME is OPTIONS.TURN.
"""

import json
import re
import statistics
import sys

text = open(sys.argv[1], errors="replace").read().replace("\r", "")
if "@done" not in text:
    sys.exit(f"record: the guest did not end; see {sys.argv[1]}")
found = {}
for name, turn, said, code, wall, cpu in re.findall(
    r"@begin (\S+)\.(\d+)\n(.*?)\n@end \1\.\2 (\d+) (\S+) (\S+)\n", text, re.S
):
    said = "\n" + said
    start, end = said.find("\n{"), said.rfind("}")
    if name == "alone":
        found.setdefault(name, []).append({"wall": float(wall), "cpu": float(cpu)})
        continue
    if code not in ("0", "1") or start < 0:
        sys.exit(f"record: {name} ended with {code} in the guest: {said[-400:]}")
    told = json.loads(said[start : end + 1])
    readers = told["readers"]
    row = {key: sum(reader[key] for reader in readers) for key in ("bytes", "bytes_near", "pages", "pages_near")}
    row |= {"readers": len(readers), "lost": told["lost_records"], "samples": told["samples"]}
    paused = [ring["paused_s"] / ring["elapsed_s"] for ring in told["rings"] if ring["elapsed_s"]]
    found.setdefault(name, []).append(row | {"wall": float(wall), "cpu": float(cpu), "paused": max(paused, default=0)})

alone = found.pop("alone")
wall = statistics.median(one["wall"] for one in alone)
cpu = statistics.median(one["cpu"] for one in alone)
print(
    "| options | readers | samples | lost, worst run | longest pause, worst run | read on the ring's node, each run | "
    "own memory on the reader's node, each run | CPU s, alone = 1 | wall s, alone = 1 |\n|---|---:|---:|---:|---:|---|---|---:|---:|"
)


def per_cent(rows, part, whole):
    return ", ".join(f"{100 * one[part] / one[whole]:.1f} %" if one[whole] else "–" for one in rows)


for name, rows in found.items():
    middle = lambda key: statistics.median(one[key] for one in rows)
    cells = [
        "`" + name.replace("+", " ") + "`",
        str(rows[0]["readers"]),
        f"{middle('samples'):.0f}",
        str(max(one["lost"] for one in rows)),
        f"{100 * max(one['paused'] for one in rows):.2f} %",
        per_cent(rows, "bytes_near", "bytes"),
        per_cent(rows, "pages_near", "pages"),
        f"{middle('cpu') / cpu:.2f}",
        f"{middle('wall') / wall:.2f}",
    ]
    print("| " + " | ".join(cells) + " |")
print(f"\nAlone the workload takes {wall:.2f} s and {cpu:.2f} s of CPU time there (medians of {len(alone)} runs).")
