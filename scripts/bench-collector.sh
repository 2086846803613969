#!/usr/bin/env bash
# What does a collector cost on an idle and on a loaded machine, and does its spool stay within bounds?
#   scripts/bench-collector.sh [FILE]     prints Markdown tables and keeps them in FILE
#                                         (default measurements/DATE-collector.md)
#
# BENCH_SECONDS (default 600) is how long each collector runs; BENCH_KILLS (default 200) how often one is killed;
# BENCH_PAIRS (default 20) the rounds in which `planish compare` measures a program with and without a collector; 0 leaves
# a part out. Needs root, or CAP_PERFMON, for the whole machine.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-$PWD/target}
planish=${PLANISH:-$target/release/planish}
[ -n "${PLANISH:-}" ] || scripts/build.sh
planish=$(realpath "$planish")
out=$(realpath -m "${1:-measurements/$(date +%F)-collector.md}")
cc=$(first_of gcc cc clang) || { echo "bench-collector: no C compiler; run: make setup" >&2; exit 1; }
command -v python3 >/dev/null || { echo "bench-collector: needs python3" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-collector.XXXXXX")
trap 'rm -rf "$work"' EXIT
cat >"$work/work.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static unsigned long table[4096];
/* Works for so many rounds, or for ever. */
int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : -1;
  unsigned long x = 1;
  for (long r = 0; r != rounds; r++)
    for (int i = 0; i < 100000; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      if (x >> 63) table[x >> 52] += x; else table[x % 4096] ^= x;
    }
  printf("%lu\n", table[x % 4096]);
  return 0;
}
END
"$cc" -O2 -g -Wl,--build-id -o "$work/work" "$work/work.c"
mkdir -p "$(dirname "$out")"

python3 - "$planish" "$work" "$out" <<'PY'
import json, os, platform, re, shutil, signal, statistics, subprocess, sys, time
planish, work, out = sys.argv[1:]
seconds, kills = int(os.environ.get("BENCH_SECONDS", 600)), int(os.environ.get("BENCH_KILLS", 200))
pairs = int(os.environ.get("BENCH_PAIRS", 20))
ticks, cpus = os.sysconf("SC_CLK_TCK"), os.cpu_count()

def stat(pid):
    words = open(f"/proc/{pid}/stat").read().rsplit(") ", 1)[1].split()
    return (int(words[11]) + int(words[12])) / ticks

def busy():
    """CPU time of the whole machine that was not idle, in seconds."""
    words = [int(word) for word in open("/proc/stat").readline().split()[1:]]
    return (sum(words[:8]) - words[3] - words[4]) / ticks

def peak(pid):
    return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{pid}/status").read()).group(1)) / 1024

def size(dir):
    total = 0
    for path, _, names in os.walk(dir):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except OSError:
                pass
    return total

def collect(name, options, budget, load, limit):
    """One collector of the whole machine for a while."""
    spool = f"{work}/spool"
    shutil.rmtree(spool, ignore_errors=True)
    loads = [subprocess.Popen([work + "/work"], stdout=subprocess.DEVNULL) for _ in range(load)]
    time.sleep(2)
    others, began = busy(), time.monotonic()
    child = subprocess.Popen([planish, "record", "--continuous", "--spool", spool, "-a", "--cpu-budget", f"{budget}%",
                              "--spool-limit", f"{limit}B", "--format", "json", *options],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    largest, worst, cpu, memory = 0, 0.0, 0.0, 0.0
    while (elapsed := time.monotonic() - began) < seconds and child.poll() is None:
        time.sleep(0.2)
        try:
            cpu, memory = stat(child.pid), peak(child.pid)
        except (OSError, AttributeError):
            break
        largest = max(largest, size(spool))
        if elapsed > seconds / 4:
            worst = max(worst, 100 * cpu / elapsed)
    elapsed = time.monotonic() - began
    machine = (busy() - others) / elapsed / cpus
    child.send_signal(signal.SIGTERM)
    said, told = child.communicate()
    for one in loads:
        one.kill()
        one.wait()
    summary = json.loads(said) if said else {}
    shown = json.loads(subprocess.run([planish, "fleet", "show", spool, "--format", "json", "-q"], capture_output=True).stdout or "{}")
    windows = {}
    for shard in shown.get("shards", []):
        collected = shard["recordings"][0]["collected"]
        windows[collected["window"]] = collected
    own = 100 * summary["cost_seconds"] / summary["elapsed_seconds"]
    slower = max((one["slower"] for one in windows.values()), default=1)
    samples = sum(one["samples"] for one in windows.values())
    row = dict(name=name, budget=budget, seconds=elapsed, machine=100 * machine, cpu=100 * cpu / elapsed, worst=worst, own=own,
               windows=len(windows), shards=len(shown.get("shards", [])), samples=samples, slower=slower, memory=memory,
               largest=largest / 2**20, limit=limit / 2**20, code=child.returncode, missed=summary["missed"])
    print("bench-collector:", row, told.decode()[-300:], file=sys.stderr)
    return row

machine = next((l.split(":")[1] for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
maker = "AMD EPYC" if "EPYC" in machine else "Intel Xeon" if "Xeon" in machine else platform.machine()
kernel = ".".join(platform.release().split(".")[:2])
debug = " The debug build was measured." if "/debug/" in planish else ""
text = ["# What a collector costs, and what is lost when it is killed", "",
        f"{cpus}-core {maker} machine, Linux {kernel}, no hardware counters: samples of the clock; `make bench-collector`.{debug} "
        f"Load when it began: {os.getloadavg()[0]:.1f} on {cpus} CPUs.", ""]
often = ["--window", "2s", "--every", "5s"]
dense = ["--window", "2s", "--every", "3s", "-F", "8000"]
MIB = 2**20
if seconds:
    rows = [collect("idle, as it is by default", [], 1, 0, 256 * MIB), collect("loaded, as it is by default", [], 1, 2 * cpus, 256 * MIB),
            collect("loaded, 2 s of 5 s", often, 1, 2 * cpus, 256 * MIB), collect("loaded, 8 kHz, 2 s of 3 s", dense, 0.5, 2 * cpus, 4 * MIB)]
    text += ["## Cost", "",
             f"`planish record --continuous -a`, {seconds} s each; loaded: {2 * cpus} programs that never wait on {cpus} CPUs. CPU: of the "
             "collector's process by `/proc/PID/stat`, in percent of one CPU, at the end and, at worst, at any moment after the first quarter. Told: what its "
             "shards and its summary say, with what samples take from the programs.", "",
             "| machine | busy % | budget % | CPU % | CPU % at worst | told % | windows | shards | samples | slower at most | memory MiB | spool MiB at most | its limit | exit code |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        text.append("| {name} | {machine:.0f} | {budget} | {cpu:.3f} | {worst:.3f} | {own:.3f} | {windows} | {shards} | {samples} | {slower} | "
                    "{memory:.0f} | {largest:.2f} | {limit:.0f} | {code} |".format(**row))
    wrong = [row for row in rows if row["own"] > row["budget"] * 1.02 or row["largest"] > row["limit"] or row["code"] not in (0, 1)]
    text += ["", "Within budget and limit: " + ("all." if not wrong else ", ".join(row["name"] for row in wrong) + " NOT."), ""]
else:
    wrong = []
if pairs:
    for name, words in (("plain", ""), ("collected", f"{planish} record --continuous -q --spool {work}/own --window 1s --every 2s --cpu-budget 1% -- ")):
        path = f"{work}/{name}"
        open(path, "w").write(f"#!/bin/sh\nexec {words}{work}/work \"$@\" >/dev/null\n")
        os.chmod(path, 0o755)
    done = subprocess.run([planish, "compare", f"{work}/plain", f"{work}/collected", "--rounds", str(pairs), "--", "{bin}", "20000"],
                          capture_output=True, cwd=work)
    text += ["## By compare", "",
             f"A program of one thread alone, and under a collector that records 1 s of 2 s of it with a budget of 1 %; the CPU time of both with all that they start, {pairs} "
             "rounds of `planish compare`:", "", "```", done.stdout.decode().replace(work + "/", "").strip(), "```", ""]
    print(done.stdout.decode(), done.stderr.decode(), file=sys.stderr)
if kills:
    env = dict(os.environ, PLANISH_KILLS=str(kills))
    found = os.environ.get("BENCH_KILL_TEST")
    words = [found] if found else [os.environ.get("CARGO", "cargo"), "test", "-q", "--workspace", "--test", "collector", "--"]
    done = subprocess.run(words + ["killed_at_any", "--nocapture"], capture_output=True, env=env)
    told = re.search(r"killed \d+ times: .*", done.stderr.decode() + done.stdout.decode())
    text += [f"## Killed at {kills} random moments", "",
             "The test `killed_at_any_moment_it_loses_at_most_the_open_window_and_corrupts_nothing` of `crates/planish/tests/collector.rs`: windows of "
             "60 ms of two programs, `kill -9` up to 1.2 s after each start (a fixed seed). After each, every shard must be readable and have the bytes it had before; at the end, each window that was "
             "begun must have given shards or be counted as missed, and no more may be lost than kills.", "",
             (told.group(0) if told else "no answer") + "; " + ("passed." if done.returncode == 0 else "FAILED."), ""]
    print(done.stdout.decode()[-2000:], done.stderr.decode()[-2000:], file=sys.stderr)
    if done.returncode:
        wrong.append("kills")
open(out, "w").write("\n".join(text))
print(out)
sys.exit(1 if wrong else 0)
PY
