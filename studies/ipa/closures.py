"""What does a live patch have to replace besides the function that it mends, and what does leaving that out cost?

usage: closures.py PLANISH TREE OUTPUT_DIR PLANISH.TOML TIMES.json

Builds each variant of planish.toml once more, with gcc's dumps of what it did between functions, and prints a table: how many functions
change with one (`planish livepatch closure`), in how many that differs from the base's (`planish livepatch diff`), and the CPU time
that TIMES.json (`planish kernel compare --native --format json`) has.
"""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

# What `planish livepatch` reads of gcc.
DUMPS = "-fdump-ipa-clones -fdump-ipa-icf-details -g"
SUMS = ("training sections", "held-out sections")


def with_dumps(words):
    """The words of a variant, whose KCFLAGS is their last, with the dumps in it."""
    if "KCFLAGS" not in words:
        return f"{words} KCFLAGS='{DUMPS}'"
    before, flags = words.split("KCFLAGS=", 1)
    return f"{before}KCFLAGS='{flags.strip(chr(39))} {DUMPS}'"


def said(command, fine=(0,)):
    """What a command prints, as JSON."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in fine:
        sys.exit(f"closures: {' '.join(map(str, command))} ended with {done.returncode}")
    return json.loads(done.stdout)


def time_of(times, variant, sections):
    """The ratio to the base with its interval, where a row has it."""
    for row in times["comparisons"]:
        if row["variant"] == variant and row["benchmark"] == sections:
            low, high = row["interval"] or (float("nan"),) * 2
            return f"{row['effect']:.3f} ({low:.3f} to {high:.3f})"
    return "1" if variant == "base" else ""


def main():
    planish, tree, output, project, times = sys.argv[1:]
    variants = tomllib.loads(Path(project).read_text())["kernel"]["variants"]
    times = json.loads(Path(times).read_text())
    build = [planish, "-q", "kernel", "compare", tree, "--output-dir", output, "--native", "--build-only", "--orders", "0"]
    for name, words in variants.items():
        print(f"study: {name} with dumps", file=sys.stderr)
        subprocess.run([*build, "--variant", f"dumps-{name}: {with_dumps(words)}"], check=True)
    directory = {name: Path(output) / "native" / f"dumps-{name}" for name in variants}
    base = next(iter(variants))
    print("| variant | functions | change with one, mean | median | 95 % up to | largest | other than the base's | " + " | ".join(f"CPU time, {it}" for it in SUMS) + " |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name in variants:
        sizes = said([planish, "-q", "livepatch", "closure", directory[name], "--format", "json"])["closures"]
        differ = ""
        if name != base:
            told = said([planish, "-q", "livepatch", "diff", directory[base], directory[name], "--format", "json"], (0, 1))
            differ = f"{len(told['functions'])} of {told['compared']}"
        largest = sizes["largest"][0]["with_code"] if sizes["largest"] else 0
        cells = [name, sizes["functions"], f"{sizes['mean']:.2f}", sizes["median"], sizes["p95"], largest, differ]
        print("| " + " | ".join(map(str, cells + [time_of(times, name, it) for it in SUMS])) + " |")


if __name__ == "__main__":
    main()
