"""Tells what scripts/bench-report.sh measured.

  bench-report.py table WORK ROUNDS LIMIT SLOW OUT    OUT.md and OUT.json from what lies in WORK
  bench-report.py open CHROMIUM PAGE TIMES            by Playwright's Python: milliseconds until the page is usable
"""
import json
import os
import pathlib
import platform
import re
import statistics
import sys

RECORDINGS = {
    "plain": "plain samples, a file",
    "directory": "plain samples, a directory",
    "dwarf": "copied stacks of python, tiled",
    "clang": "copied stacks of clang, as recorded",
}
# Key, how it is called, and planish's question of the same kind that it is divided by besides the first.
TOOLS = {
    "hot": ("planish report hot, first question", None),
    "indexed": ("planish report hot, with its index", None),
    "firefox": ("planish report export --to firefox", None),
    "folded": ("planish report export --to folded", None),
    "perf": ("{perf} report", None),
    "perf-new": ("{perf-new} report", None),
    "samply": ("{samply} import", "firefox"),
    "hotspot": ("{hotspot}", None),
    "inferno": ("{inferno}", "folded"),
}
QUESTIONS = {
    "no-index": "first question, `--no-index`",
    "hot": "first question, writes the index",
    "indexed": "second question, with the index",
    "part": "1 % of the time, with the index",
}
ONE_PAGE = {
    "page": "one page, where it was recorded",
    "archive": "`planish report archive`",
    "page-elsewhere": "one page, from the archive, {place}",
}


def megabytes(size):
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 1e3:.3g} kB"


class Found:
    """What the shell script wrote down: a line for each run, each failure, and each fact."""

    def __init__(self, work):
        self.work = work
        self.runs, self.failed, self.facts = {}, {}, []
        for recording, tool, *numbers in self.lines("runs"):
            self.runs.setdefault((recording, tool), []).append([float(number) for number in numbers])
        for recording, tool, status, *said in self.lines("failed"):
            self.failed[recording, tool] = (int(status), self.clean(" ".join(said)))
        self.facts = [[word[0], " ".join(word[1:])] for word in self.lines("facts")]

    def lines(self, name):
        with open(f"{self.work}/{name}", errors="replace") as file:
            return [line.split() for line in file if line.strip()]

    def clean(self, text):
        """Without the paths and the name of this machine, and without what would end a cell."""
        text = re.sub(r"(?<![\w.])/(?:[\w.+@-]+/)+", "…/", text)
        name = platform.node()
        text = text.replace(name, "(host)") if len(name) > 3 else text
        return re.sub(r"[^\x20-\x7e…]", " ", text).replace("|", "\\|").replace("`", "'").strip()

    def fact(self, kind):
        """Key and value of all facts of a kind."""
        split = [value.split(" ", 1) for key, value in self.facts if key == kind]
        return {word[0]: word[1] if len(word) > 1 else "" for word in split}

    def list(self, kind):
        return [value for key, value in self.facts if key == kind]

    def size(self, name):
        return float(self.fact("size").get(name, 0))

    def row(self, recording, tool):
        """Medians of wall time, CPU time and MiB; None where nothing was measured."""
        runs = self.runs.get((recording, tool))
        if runs is None:
            return None
        columns = list(zip(*runs))
        used = [user + system for user, system in zip(columns[1], columns[2])]
        return statistics.median(columns[0]), statistics.median(used), statistics.median(columns[3]) / 1024


def ratio(a, b):
    """A quotient, as long as the clock's hundredths of a second say anything."""
    return f"{a / b:.1f}" if b >= 0.005 else "–"


def beside(found, limit, rounds):
    """A table for each recording, and the notes."""
    versions = {tool: version.replace("|", "\\|") for tool, version in found.fact("version").items()}
    names = {key: name.format(**versions) for key, (name, _) in TOOLS.items()}
    lines, notes = [], []
    for recording, title in RECORDINGS.items():
        first = found.row(recording, "hot")
        lines += ["", f"## {title[0].upper()}{title[1:]}: {megabytes(found.size(recording))}", ""]
        columns = ["tool", "wall s", "CPU s", "MiB", "wall / hot", "CPU / hot", "MiB / hot"]
        columns += ["wall / same kind", "CPU / same kind"]
        lines += ["| " + " | ".join(columns) + " |"]
        lines += ["|---" + "|---:" * 8 + "|"]
        for tool, (_, same) in TOOLS.items():
            if (recording, tool) in found.failed:
                status, said = found.failed[recording, tool]
                over = status in (124, 137)
                lines.append(f"| {names[tool]} | {f'> {limit} s' if over else 'fails'} | | | | | | | |")
                if not over:
                    notes.append(f"- {names[tool]}, {title}: ends with status {status}, says: `{said}`")
                continue
            row = found.row(recording, tool)
            if row is None:
                continue
            cells = [f"{row[0]:.2f}", f"{row[1]:.2f}", f"{row[2]:.0f}"]
            cells += [ratio(row[at], first[at]) if first and tool != "hot" else "" for at in range(3)]
            like = found.row(recording, same) if same else None
            cells += [ratio(row[0], like[0]), ratio(row[1], like[1])] if like else ["", ""]
            lines.append(f"| {names[tool]} | {' | '.join(cells)} |")
            if len(found.runs[recording, tool]) < rounds:
                notes.append(f"- {names[tool]}, {title}: slow, so only {len(found.runs[recording, tool])} run")
    for peer, why in found.fact("absent").items():
        if peer != "large":
            notes.append(f"- {peer} could not be had: `{found.clean(why)}`")
    return lines + ["", *notes] if notes else lines


def one_page(found):
    lines = ["", f"## One page of {megabytes(found.size('clang'))} of copied stacks of clang", ""]
    lines += ["| | wall s | CPU s | MiB | file | wanted |", "|---|---:|---:|---:|---:|---|"]
    place = (found.list("place") or [""])[0]
    for tool, name in ONE_PAGE.items():
        row = found.row("clang", tool)
        if row is None:
            status, said = found.failed.get(("clang", tool), (None, "not measured"))
            lines.append(f"| {name.format(place=place)} | fails with status {status}: {said} | | | | |")
            continue
        wanted = "" if tool == "archive" else "20 s, 5 MB: "
        kept = row[0] <= 20 and found.size(tool) <= 5e6
        wanted += "" if tool == "archive" else "kept" if kept else "missed"
        cells = f"{row[0]:.2f} | {row[1]:.2f} | {row[2]:.0f} | {megabytes(found.size(tool))} | {wanted}"
        lines.append(f"| {name.format(place=place)} | {cells} |")
    opened = [[float(word) for word in line.split()] for line in found.list("opened")]
    if opened:
        load, drawn = (statistics.median(column) / 1000 for column in zip(*opened))
        lines.append(f"| the page in headless Chromium: load event | {load:.2f} | | | | |")
        kept = "kept" if drawn <= 2 else "missed"
        lines.append(f"| the same: first flame graph on the screen | {drawn:.2f} | | | | 2 s: {kept} |")
    for why in found.list("opening"):
        lines.append(f"| the page in headless Chromium | {found.clean(why)} | | | | |")
    for stacks, other in found.fact("stacks").items():
        lines += ["", f"`export --to folded` of the archive there: {other} of {stacks} lines are not as here."]
    notes = [f"- `{found.clean(note)}`" for note in found.list("page-note")]
    return lines + (["", "planish said when it made the page from the archive:", "", *notes] if notes else [])


def large(found):
    small, big = found.size("asked-directory"), found.size("asked-large")
    absent = found.fact("absent").get("large")
    if not big:
        return ["", f"No large recording: {absent}."] if absent else []
    between = f"{megabytes(big)} / {megabytes(small)}"
    lines = ["", f"## Directories of {megabytes(small)} and {megabytes(big)}", ""]
    lines += [f"`planish report hot`. Bytes: {between} = {big / small:.1f}. The index of the large one has "]
    lines[-1] += f"{megabytes(found.size('index'))}. "
    parts = found.fact("part")
    lines[-1] += f"1 % of the time is `--time {parts['asked-directory']}` and `--time {parts['asked-large']}`."
    lines += ["", "| question | recording | wall s | CPU s | MiB | wall ratio | CPU ratio | memory ratio |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|"]
    most = {}
    for question, title in QUESTIONS.items():
        rows = {name: found.row(f"asked-{name}", question) for name in ("directory", "large")}
        for name, row in rows.items():
            if row is None:
                said = found.failed.get((f"asked-{name}", question), ("", "not measured"))[1]
                lines.append(f"| {title} | {megabytes(found.size(f'asked-{name}'))} | fails: {said} | | | | | |")
                continue
            most[name] = max(most.get(name, 0), row[2])
            cells = [f"{row[0]:.2f}", f"{row[1]:.2f}", f"{row[2]:.0f}"]
            before = rows["directory"] if name == "large" else None
            cells += [f"{row[at] / max(before[at], 0.01):.2f}" if before else "" for at in range(3)]
            lines.append(f"| {title} | {megabytes(found.size(f'asked-{name}'))} | {' | '.join(cells)} |")
    whole, part = found.row("asked-large", "indexed"), found.row("asked-large", "part")
    if len(most) == 2:
        grown = most["large"] / most["directory"]
        lines += ["", f"Memory at {megabytes(big)} / memory at {megabytes(small)}: {grown:.2f}"]
        lines[-1] += " (the largest of the four questions each)."
    if whole and part:
        share = 100 * part[0] / whole[0]
        lines[-1] += f" 1 % of the time takes {share:.1f} % of the wall time of the whole."
    return lines


def table(work, rounds, limit, slow, out):
    found = Found(work)
    rounds = int(rounds)
    with open("/proc/cpuinfo") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    # The rest of a release names a build of it.
    release = ".".join(platform.release().split(".")[:2])
    machine = f"{models[0] if models else 'unknown CPU'}, {os.cpu_count()} CPUs, Linux {release}"
    load = os.getloadavg()[2]
    text = f"""# planish report beside perf, samply, hotspot and inferno

`scripts/bench-report.sh` on {machine}
(load of the last 15 minutes: {load:.1f}): medians of {rounds} rounds, tools in turns. A tool that fails or takes more
than {slow} s runs once, and is stopped after {limit} s. All runs are in the .json file beside this one. Recordings are
perf's, warm in the page cache where they fit.

Memory is the peak, of several processes that of the largest; CPU time is that of all. "Hot" is planish's first
question, which writes the index; all else is divided by it. "Same kind" is planish's export of the same kind, as a
first question: samply writes a profile for Firefox, with addresses in place of names, which its server looks up for
the browser; inferno folds stacks. Both versions of perf print the same table as `hot`, of copied stacks also totals.
None of them looks for inlined functions, nor does the `perf script` of this machine's perf, which inferno reads.
hotspot-perfparser writes each sample to a file that hotspot reads, with at most 64 frames, its default."""
    lines = text.split("\n") + beside(found, limit, rounds) + one_page(found) + large(found)
    with open(out + ".md", "w") as file:
        file.write("\n".join(lines) + "\n")
    kept = {
        "machine": machine,
        "columns": ["wall s", "user s", "system s", "peak KiB"],
        "runs": {" ".join(key): runs for key, runs in found.runs.items()},
        "failed": {" ".join(key): list(why) for key, why in found.failed.items()},
        "opened": {"columns": ["load ms", "drawn ms"], "runs": found.list("opened")},
        "sizes": {name: int(size) for name, size in found.fact("size").items()},
        "versions": found.fact("version"),
    }
    with open(out + ".json", "w") as file:
        json.dump(kept, file, indent=1)
        file.write("\n")
    print("\n".join(lines))


# From the start of the navigation until frames are in the flame graph and the browser has drawn them: the callback of
# an animation frame comes before drawing, a message that it posts after.
WATCH = """
new MutationObserver((_, observer) => {
  const flame = document.getElementById("flame");
  if (flame === null || flame.childElementCount === 0) { return; }
  observer.disconnect();
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port2.onmessage = () => { window.drawnAt = performance.now(); };
    port1.postMessage(null);
  });
}).observe(document, { childList: true, subtree: true });
"""


def open_page(chromium, page, times):
    from playwright.sync_api import sync_playwright

    arguments = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    arguments += ["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, headless=True, args=arguments)
        for _ in range(int(times)):
            context = browser.new_context(viewport={"width": 1280, "height": 1000}, offline=True)
            tab = context.new_page()
            tab.add_init_script(WATCH)
            tab.goto(pathlib.Path(page).absolute().as_uri())
            tab.wait_for_function("() => window.drawnAt !== undefined", timeout=60_000)
            load = tab.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventEnd")
            print(f"{load:.1f} {tab.evaluate('() => window.drawnAt'):.1f}")
            context.close()
        browser.close()


if __name__ == "__main__":
    {"table": table, "open": open_page}[sys.argv[1]](*sys.argv[2:])
