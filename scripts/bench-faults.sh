#!/usr/bin/env bash
# What is left of a recording when its disk is slow or full, or its recorder is killed.
#   scripts/bench-faults.sh          writes measurements/DATE-record-faults.md
#
# Slow: a pipe whose reader takes so many bytes a second. Full: a small tmpfs. Killed: kill -9 at BENCH_KILLS (default 200)
# random moments of a fixed seed; what is left must be readable by planish or be empty (perf reads no recording that was
# not completed, its own neither), the next recorder must remove it, and no process may stay stopped. Needs root for the tmpfs and the kernel's limits of sampling.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
. scripts/toolchain.sh
need_rust
target=${CARGO_TARGET_DIR:-target}
planish=${PLANISH:-}
if [ -z "$planish" ]; then
  scripts/build.sh
  planish=$target/release/planish
fi
case $planish in /*) ;; *) planish=$PWD/$planish ;; esac
perf=$(command -v perf) || { echo "bench-faults: no perf; install linux-perf" >&2; exit 1; }
[ "$(id -u)" = 0 ] || { echo "bench-faults: a small tmpfs and 25 kHz need root" >&2; exit 1; }
cc=$(first_of gcc cc clang) || { echo "bench-faults: no C compiler; run: make setup" >&2; exit 1; }
work=$(mktemp -d "${TMPDIR:-/tmp}/bench-faults.XXXXXX")
"$cc" -O2 -g -o "$work/matmul" demo/record/matmul.c -lpthread
mkdir -p measurements "$work/full"

# The kernel lowers its limit while sampling takes long, unless its share of the time is 0; then the limit is fixed.
limit=/proc/sys/kernel/perf_event_max_sample_rate share=/proc/sys/kernel/perf_cpu_time_max_percent
before="$(cat $limit) $(cat $share)"
restore() {
  set -- $before
  echo 25 >$share
  echo "$1" >$limit
  echo "$2" >$share
  umount "$work/full" 2>/dev/null || true
  rm -rf "$work"
}
trap restore EXIT
echo 25 >$share
echo 100000 >$limit
echo 0 >$share

python3 - "$planish" "$perf" "$work" "measurements/$(date +%F)-record-faults.md" <<'PY'
import os, platform, random, re, shutil, signal, statistics, subprocess, sys, threading, time
planish, perf, work, out = sys.argv[1:]
kills, rounds = int(os.environ.get("BENCH_KILLS", 200)), int(os.environ.get("BENCH_ROUNDS", 3))
dense = ["-F", "25000", "-e", "cpu-clock", "--call-graph", "dwarf,8192"]
program = [work + "/matmul", "4", os.environ.get("BENCH_PRODUCTS", "100")]
run = lambda words, **more: subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, **more)

def samples(path):
    """What perf reads, one line a sample; none where it cannot."""
    done = run([perf, "script", "-F", "time", "-i", path])
    return len(done.stdout.splitlines()) if done.returncode == 0 else None

def number(text, pattern):
    found = re.search(pattern, text)
    return float(found.group(1)) if found else 0

def slow(options, rate):
    """A recording into a pipe that takes `rate` bytes a second."""
    began = time.monotonic()
    child = subprocess.Popen([planish, "record", *options, *dense, "-o", "-", "--", *program], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    said = []
    reader = threading.Thread(target=lambda: said.append(child.stderr.read().decode()))
    reader.start()
    taken, path = 0, work + "/pipe.data"
    with open(path, "wb") as file:
        while block := child.stdout.read1(1 << 16):
            file.write(block)
            taken += len(block)
            ahead = taken / rate - (time.monotonic() - began) if rate else 0
            if ahead > 0:
                time.sleep(ahead)
    wall = time.monotonic() - began
    _, status, usage = os.wait4(child.pid, 0)
    reader.join()
    text = said[0]
    return dict(code=os.waitstatus_to_exitcode(status), lost=number(text, r"(\d+) records? w"), bytes=taken, wall=wall,
                waited=number(text, r"up to ([\d.]+) MiB waited"), level=number(text, r"up to level (\d+)"),
                samples=number(text, r"recorded (\d+) sample"), memory=usage.ru_maxrss / 1024)

machine = next((l.split(":")[1] for l in open("/proc/cpuinfo") if l.startswith("model name")), "")
maker = "AMD EPYC" if "EPYC" in machine else "Intel Xeon" if "Xeon" in machine else platform.machine()
kernel = ".".join(platform.release().split(".")[:2])
debug = " The debug build was measured." if "/debug/" in planish else ""
busy = f" Load when it began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs."
text = ["# Recording on slow and full disks, and recorders that are killed", "",
        f"{os.cpu_count()}-core {maker} machine, Linux {kernel}, "
        f"{run([perf, '--version']).stdout.decode().strip()}; `make bench-faults`.{debug}{busy}", "",
        "## Slow", "",
        f"4 threads that multiply matrices, 25 kHz cpu-clock, stacks of 8 KiB, into a pipe whose reader takes so much. Medians of "
        f"{rounds} rounds, in turns; lost and exit codes of all.", "",
        "| sink | options | samples | lost, each round | exit codes | waited MiB | deepest level | size MB | wall s | memory MiB |",
        "|---|---|---|---|---|---|---|---|---|---|"]
rates = [("unlimited", 0), ("50 MB/s", 50e6), ("5 MB/s", 5e6), ("1 MB/s", 1e6)]
modes = [("(compressed)", []), ("`--no-compress`", ["--no-compress"])]
rows = {}
for round in range(rounds):
    for name, rate in rates:
        for mode, options in modes:
            # What 1 MB/s takes of raw records says nothing new and takes minutes.
            if rate and rate < 5e6 and options:
                continue
            rows.setdefault((name, mode), []).append(slow(options, rate))
            print(f"bench-faults: round {round + 1}, {name}, {mode}: {rows[name, mode][-1]}", file=sys.stderr)
for (name, mode), all in rows.items():
    mid = lambda key: statistics.median(one[key] for one in all)
    each = lambda key: ", ".join(f"{one[key]:.0f}" for one in all)
    text.append(f"| {name} | {mode} | {mid('samples'):.0f} | {each('lost')} | {each('code')} | {mid('waited'):.1f} | "
                f"{max(one['level'] for one in all) or 1:.0f} | {mid('bytes') / 1e6:.2f} | {mid('wall'):.2f} | {mid('memory'):.0f} |")

text += ["", "`waited` is 0 below 8 MiB, from where on the summary tells of it. `memory` is the largest resident size, with the rings.", "",
         "## Full", "", "The same program into a tmpfs of so much.", "",
         "| room MiB | options | exit code | said to be kept | samples that perf reads | left under other names |", "|---|---|---|---|---|---|"]
full = work + "/full"
for room in (1, 4, 16) if rounds else ():
    for mode, options in modes + [("`--threads`", ["--threads"]), ("`--threads --no-compress`", ["--threads", "--no-compress"])]:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={room}M", "tmpfs", full], check=True)
        done = run([planish, "record", *options, *dense, "-o", full + "/a", "--", work + "/matmul", "4", "300"])
        kept = "holds what was recorded" in done.stderr.decode()
        found = samples(full + "/a") if os.path.exists(full + "/a") else None
        others = [name for name in os.listdir(full) if name != "a"]
        text.append(f"| {room} | {mode} | {done.returncode} | {'yes' if kept else 'no'} | {'none' if found is None else found} | {len(others)} |")
        print("bench-faults:", text[-1], file=sys.stderr)
        subprocess.run(["umount", full], check=True)

def state(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None

def alive(name):
    """Processes that run this file, or have it as a word of their command."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = open(f"/proc/{pid}/cmdline", "rb").read().decode(errors="replace").split("\0")
            if os.path.realpath(f"/proc/{pid}/exe") == name or name in words:
                found.append(int(pid))
        except OSError:
            pass
    return found

seed = int(os.environ.get("BENCH_SEED", 1))
chance = random.Random(seed)
clock = ["-e", "cpu-clock", "-c", "100000"]
ways = [("kernel, compressed", clock), ("kernel, `--no-compress`", clock + ["--no-compress"]), ("kernel, `--threads`", clock + ["--threads"]),
        ("kernel, `-e cs -g`", clock + ["--switch-events", "-g"]), ("software", ["--branches=software", "--stop-by", "clock", "-c", "1000000"]), ("emulated", ["--branches=emulated", "-c", "10000"])]
seen = {name: dict(kills=0, nothing=0, spool=0, empty=0, none=0, read=0, unread=0, not_removed=0, stopped=0) for name, _ in ways}
for kill in range(kills):
    name, options = ways[kill % len(ways)]
    row = seen[name]
    dir = f"{work}/kill"
    shutil.rmtree(dir, ignore_errors=True)
    os.mkdir(dir)
    own = os.path.realpath(dir) + "/own-program"
    shutil.copy(work + "/matmul", own)
    child = subprocess.Popen([planish, "record", *options, "-o", dir + "/a", "--", own, "2", "100000"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(chance.uniform(0, 1.5))
    child.send_signal(signal.SIGKILL)
    child.wait()
    row["kills"] += 1
    # A stop that was asked for before is over in an instant; one that stays is a fault.
    time.sleep(0.2)
    targets = alive(os.path.realpath(own))
    row["stopped"] += any(state(pid) in ("T", "t") for pid in targets)
    # What was forked and not yet the program must be gone with its recorder.
    row["stopped"] += bool(alive(os.path.realpath(planish)))
    for pid in targets:
        os.kill(pid, signal.SIGKILL)
    left = [entry for entry in os.listdir(dir) if entry != "own-program"]
    if not left:
        row["nothing"] += 1
    row["spool"] += any(entry.endswith(".spool") for entry in left)
    for entry in left:
        if entry.endswith(".spool"):
            continue
        path = f"{dir}/{entry}"
        data = path + "/data" if os.path.isdir(path) else path
        if not os.path.exists(data) or os.path.getsize(data) == 0:
            row["empty"] += 1
            continue
        counted = run([planish, "aggregate", path, "--binary", own, "-o", dir + "/counts"])
        said = counted.stderr.decode()
        if counted.returncode == 0:
            row["read"] += 1
        elif re.search(r"(no|0) samples|none of them in|without samples", said):
            row["none"] += 1
        else:
            row["unread"] += 1
            print(f"bench-faults: {name}: what is left cannot be read: {said[-300:]}", file=sys.stderr)
    if os.path.exists(dir + "/counts"):
        os.remove(dir + "/counts")
    run([planish, "record", *clock, "-o", dir + "/next", "--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
    row["not_removed"] += any(entry not in ("own-program", "next") for entry in os.listdir(dir))
text += ["", f"## Killed at {kills} random moments", "",
         f"`kill -9` of the recorder 0 to 1.5 s after its start (seed {seed}). Left is what lay beside the output: nothing, an empty file "
         "(killed before the first record), or a recording that `planish aggregate` reads up to there, with or without samples. The next "
         "recorder removes it, and the spool of an emulated one. The program goes on, but for an emulated one; stopped counts programs that stood still 0.2 s later, or had not begun and "
         "waited.", "",
         "| recording | kills | nothing left | a spool | empty | no samples yet | readable | unreadable | not removed by the next | program left stopped |",
         "|---|---|---|---|---|---|---|---|---|---|"]
for name, row in seen.items():
    text.append(f"| {name} | " + " | ".join(str(row[key]) for key in ("kills", "nothing", "spool", "empty", "none", "read", "unread", "not_removed", "stopped")) + " |")
open(out, "w").write("\n".join(text) + "\n")
print(out)
wrong = sum(row["unread"] + row["not_removed"] + row["stopped"] for row in seen.values())
sys.exit(1 if wrong else 0)
PY
