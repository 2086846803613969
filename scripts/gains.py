"""Keeps what scripts/gains.sh measured, and tells it as tables.

  gains.py row NAME TITLE DIRECTORY PROGRAM JSON COMMAND    one program's results into JSON
  gains.py tell JSON MARKDOWN README                         the tables, in MARKDOWN and between README's marks
"""
import datetime
import json
import os
import re
import sys

KINDS = [
    ("base", "as built"),
    ("opt", "AutoFDO"),
    ("opt2", "AutoFDO, two rounds"),
    ("layout", "AutoFDO + layout"),
    ("rest", "AutoFDO + layout + BOLT on the rest"),
    ("pgo", "instrumented PGO"),
    ("bolt", "AutoFDO + BOLT"),
    ("pgo-bolt", "instrumented PGO + BOLT"),
    ("pgo-layout", "instrumented PGO + layout"),
    ("release", "the project's own release build"),
]
COUNTS = [
    ("taken_branches", "taken branches"),
    ("l1i_misses", "L1i misses"),
    ("itlb_4k_misses", "ITLB misses (4 KiB)"),
]


def read(path):
    with open(path) as file:
        return json.load(file)


def write(path, text):
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def row(name, title, directory, program, kept, command):
    state = f"{directory}/source/.planish"
    report = read(f"{state}/report.json")
    variants = {}

    def of(full):
        ending = full.rsplit(".", 1)[-1]
        return variants.setdefault(ending, {})

    for measurement in report["measurements"]:
        for variant in measurement["variants"]:
            of(variant["name"])["text"] = variant["sizes"]["text"]
        for compared in measurement["comparisons"]:
            if compared["metric"] == "cpu":
                of(compared["variant"])["cpu"] = {
                    "ratio": compared["effect"],
                    "interval": compared["interval"],
                    "verdict": compared["verdict"],
                    "rounds": compared["n"],
                    "layouts": (compared.get("layouts") or {}).get("count", 0),
                }
    if os.path.exists(f"{directory}/metrics.json"):
        for variant in read(f"{directory}/metrics.json")["variants"]:
            for counts in variant.get("code_metrics", {}).values():
                of(variant["name"])["counts"] = {key: counts[key] for key, _ in COUNTS}
    if os.path.exists(f"{directory}/beside.json") and os.path.getsize(f"{directory}/beside.json"):
        for compared in read(f"{directory}/beside.json")["comparisons"]:
            of(compared["variant"])["beside"] = {key: compared[key] for key in ("interval", "verdict")}
            of(compared["variant"])["beside"]["ratio"] = compared["effect"]
    seconds = {stage["name"]: stage["seconds"] for stage in report["stages"]}
    beside = [n for n in seconds if n.startswith(("pgo", "bolt", "compare", "branches")) and n != "bolt-rest"]
    rows = read(kept) if os.path.exists(kept) else {"schema": "planish-gains", "version": 1, "programs": {}}
    rows["programs"][name] = {
        "title": title,
        "date": datetime.date.today().isoformat(),
        "command": re.sub(r"/\S*/target/gains/", "", "planish optimize " + command),
        "machine": report["machine"],
        "compiler": report["build"]["compiler"],
        "inline_by_benefit": "inline_by_benefit=false" not in command,
        "gcc_unrolls": "-funroll-loops" in command,
        "moved_within_lines": True,
        "links_copied": True,
        "planish": report["planish"],
        "evidence": report["profile"].get("evidence"),
        "seconds": {
            "base": seconds.get("build", 0),
            "result": sum(value for stage, value in seconds.items() if stage not in beside),
        },
        "variants": variants,
    }
    write(kept, json.dumps(rows, indent=1, sort_keys=True) + "\n")


def ratio(variant, base, key):
    own, first = variant.get("counts", {}).get(key), base.get("counts", {}).get(key)
    return f"{own / first:.3f}" if own is not None and first else "–"


def cpu(variant, key="cpu"):
    found = variant.get(key)
    if not found:
        return "–"
    if not found["interval"]:
        return f"{found['ratio']:.3f}, {found['verdict']}"
    low, high = found["interval"]
    return f"{found['ratio']:.3f} ({low:.3f}–{high:.3f}), {found['verdict']}"


def table(programs):
    head = ["program", "built", "CPU time", "CPU time, PGO + BOLT = 1"] + [words for _, words in COUNTS] + ["text"]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---|" * 2 + "---:|" * (len(head) - 4)]
    for program in programs.values():
        variants = program["variants"]
        base = variants.get("base", {})
        for ending, words in KINDS[1:]:
            if ending not in variants:
                continue
            own = variants[ending]
            text = own.get("text", 0) / base["text"] if base.get("text") else 0
            cells = [program["title"], words, cpu(own), cpu(own, "beside")]
            cells += [ratio(own, base, key) for key, _ in COUNTS] + [f"{text:.3f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def remarks(programs):
    """Which rows were measured with the gauge, and which an earlier planish made: before clang inlined by benefit, before
    gcc got -fno-unroll-loops, before links differed in where functions start in cache lines, and were copied."""
    gauged = [p["title"] for p in programs.values() if "evaluate.gauge=true" in p["command"]]
    told = [f"Measured with `--gauge`: {', '.join(gauged)}."] if gauged else []
    for key, what, by_gcc in [
        ("inline_by_benefit", "`inline_by_benefit`", False),
        ("gcc_unrolls", "gcc got `-fno-unroll-loops`", True),
    ]:
        titles = [p["title"] for p in programs.values() if key not in p and p["title"].endswith("gcc") == by_gcc]
        told += [f"Rows from before {what}: {', '.join(titles)}."] if titles else []
    for key, what in [
        (
            "moved_within_lines",
            "links of programs with a profile differed in where functions start in cache lines, so that their\n"
            "intervals leave out the luck of that",
        ),
        (
            "links_copied",
            "links were copied to their place, so that those that lld wrote take longer than those that BOLT wrote\n"
            "or the same code copied, by up to 7 %",
        ),
    ]:
        # gcc leaves no calls in objects for lld to order functions by.
        old = [
            p["title"]
            for p in programs.values()
            if key not in p and not (key == "moved_within_lines" and p["title"].endswith("gcc"))
        ]
        told += [f"Rows from before {what}: {', '.join(old)}."] if old else []
    return told


def tell(kept, markdown, readme):
    programs = read(kept)["programs"]
    text = [
        "# What planish gains on real programs",
        "",
        "Made by `make gains` (`make gains PROGRAM=xz` for one); the numbers stand in [gains.json](gains.json). Each number",
        "is a ratio to the program as built with the same compiler and optimisation, without a profile; smaller is better.",
        "CPU time has its 95 % interval and the verdict of `planish compare`, beside the plain program and beside instrumented",
        "PGO + BOLT (`planish compare show --base`). Where there are several links of each program, it is their average; where",
        "there is one, another link of the same code can move it by a percent. Sizes and counts are of the program as built.",
        "Taken branches and misses are counted under emulation with",
        "simulated caches ([layout metrics](../docs/reference/code-metrics.md)): they are exact and do not depend on the machine.",
        "Training and evaluation have different input. Losses are in the table like gains.",
        *remarks(programs),
        "",
        table(programs),
        "",
        "| program | command | machine, date | rounds | links | build, and all that planish did to its result |",
        "|---|---|---|---:|---:|---:|",
    ]
    for program in programs.values():
        found = [variant["cpu"] for variant in program["variants"].values() if "cpu" in variant]
        rounds = max((cpu["rounds"] for cpu in found), default=0)
        links = max((cpu.get("layouts", 0) for cpu in found), default=0) or 1
        machine = program["machine"]
        seconds = program["seconds"]
        # One path, many times over.
        command = re.sub(r"( [^ ]+)\1{3,}", r"\1 …", program["command"]).replace("|", "\\|")
        text.append(
            f"| {program['title']} | `{command}` | {machine['cpu']}, {machine['cpus']} CPUs, {program['compiler']}, "
            f"{program['date']} | {rounds} | {links} | {seconds['base']:.0f} s, {seconds['result']:.0f} s |"
        )
    write(markdown, "\n".join(text) + "\n")
    begin, end = "<!-- gains: made by make gains -->", "<!-- gains end -->"
    old = open(readme).read()
    if begin in old and end in old:
        before, rest = old.split(begin, 1)
        after = rest.split(end, 1)[1]
        told = "".join(f"\n{line}\n" for line in remarks(programs))
        write(readme, before + begin + "\n" + table(programs) + "\n" + told + end + after)


if __name__ == "__main__":
    if sys.argv[1:2] == ["row"] and len(sys.argv) == 8:
        row(*sys.argv[2:])
    elif sys.argv[1:2] == ["tell"] and len(sys.argv) == 5:
        tell(*sys.argv[2:])
    else:
        sys.exit(__doc__)
