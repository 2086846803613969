//! `planish report waits` on real recordings: as many switches as the kernel accounts, the same waits
//! as perf's records say, and the stacks of the program's own functions; in every form of a
//! recording.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn compile(dir: &Path) -> Option<PathBuf> {
    compiled(dir, "waits")
}

fn compiled(dir: &Path, name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let output = dir.join(name);
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"];
    match Command::new("cc").args(flags).arg(&output).arg(source).output() {
        Ok(done) if done.status.success() => Some(output),
        other => {
            eprintln!("skipped: cc cannot compile: {other:?}");
            None
        }
    }
}

fn analysed(dir: &Path, recording: &str) -> Value {
    let done = planish(dir, &["report", "waits", recording, "--format", "json", "--limit", "0"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!((&found["schema"], &found["version"]), (&"planish-report-waits".into(), &1.into()));
    found
}

fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no {key} in {object}"))
}

/// Frames of a stack, as the text form has them.
fn frames(row: &Value) -> Vec<String> {
    let word = |frame: &Value, key: &str| frame[key].as_str().unwrap().to_owned();
    let frame = |frame: &Value| {
        let library = word(frame, "library");
        format!("{} ({})", word(frame, "function"), library.rsplit('/').next().unwrap())
    };
    row["frames"].as_array().into_iter().flatten().map(frame).collect()
}

fn check_books(found: &Value) {
    let ledger = &found["switches"];
    let sum = |keys: &[&str]| keys.iter().map(|key| number(ledger, key)).sum::<u64>();
    let outs = [
        "switch_outs_paired",
        "switch_outs_idle",
        "switch_outs_without_in",
        "switch_outs_at_exit",
        "switch_outs_at_end",
    ];
    let ins =
        ["switch_ins_paired", "switch_ins_idle", "switch_ins_first", "switch_ins_without_out"];
    let samples = ["samples_paired", "samples_idle", "samples_without_out"];
    assert_eq!(number(ledger, "switch_outs"), sum(&outs), "{ledger}");
    assert_eq!(number(ledger, "switch_ins"), sum(&ins), "{ledger}");
    assert_eq!(number(ledger, "samples"), sum(&samples), "{ledger}");
    // Threads, and stacks, add up to the totals.
    for rows in ["threads", "stacks"] {
        for reason in ["synchronization", "preemption"] {
            for key in ["count", "total_ns"] {
                let rows = found[rows].as_array().unwrap().iter();
                let sum: u64 = rows.map(|row| number(&row[reason], key)).sum();
                assert_eq!(sum, number(&found["totals"][reason], key), "{reason} {key}");
            }
        }
    }
}

/// Off the CPU by thread, in ns, and switch-outs, from the text of perf.
fn by_perf(dir: &Path, recording: &str) -> Option<(BTreeMap<u64, u64>, u64)> {
    let words = ["script", "-i", recording, "--show-switch-events", "--ns", "-F", "tid,time,event"];
    let done = Command::new("perf").current_dir(dir).args(words).stdin(Stdio::null()).output();
    let Ok(done) = done else {
        eprintln!("skipped: perf is not installed");
        return None;
    };
    assert!(done.status.success(), "{}", text(&done.stderr));
    let (mut off, mut waited, mut outs) = (BTreeMap::new(), BTreeMap::new(), 0);
    for line in text(&done.stdout).lines() {
        let Some((head, switch)) = line.split_once("PERF_RECORD_SWITCH") else { continue };
        let mut words = head.split_whitespace();
        let tid: i64 = words.next().unwrap().parse().unwrap();
        let time = words.next().unwrap().trim_end_matches(':').replace('.', "");
        let time: u64 = time.parse().unwrap();
        if tid == 0 {
            continue;
        }
        if switch.contains("OUT") {
            outs += 1;
            // A thread that has given its number back is -1, like all others of its kind.
            if tid > 0 {
                off.insert(tid, time);
            }
        } else if let Some(since) = off.remove(&tid) {
            *waited.entry(tid as u64).or_insert(0) += time - since;
        }
    }
    Some((waited, outs))
}

fn compare_with_perf(dir: &Path, recording: &str, found: &Value) {
    let Some((waited, outs)) = by_perf(dir, recording) else { return };
    let ledger = &found["switches"];
    assert_eq!(number(ledger, "switch_outs") - number(ledger, "switch_outs_idle"), outs);
    let ours: BTreeMap<u64, u64> = found["threads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|thread| {
            let time = |reason: &str| number(&thread[reason], "total_ns");
            let queued = thread["run_queue"]["total_ns"].as_u64().unwrap_or(0);
            (number(thread, "tid"), time("synchronization") + time("preemption") + queued)
        })
        .filter(|(_, time)| *time > 0)
        .collect();
    assert_eq!(ours, waited);
}

/// Whether two counts differ by no more than what goes on outside of the program's own readings.
fn near(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= 24 + one.max(other) / 20
}

#[test]
fn switches_are_as_many_as_the_kernel_accounts_and_waits_have_their_stacks() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path()) else { return };
    let program = program.to_str().unwrap();
    // The first run reads the program from the disk, which waits.
    assert!(Command::new(program).output().unwrap().status.success());
    let done = planish(
        dir.path(),
        &["record", "--switch-events", "-g", "-e", "cpu-clock", "-F", "1000", "--", program],
    );
    let said = text(&done.stderr);
    if !done.status.success() {
        return eprintln!("skipped: {said}");
    }
    let numbers: Vec<u64> =
        text(&done.stdout).split_whitespace().map(|number| number.parse().unwrap()).collect();
    let found = analysed(dir.path(), "perf.data");
    check_books(&found);
    compare_with_perf(dir.path(), "perf.data", &found);
    assert_eq!((number(&found["ledger"], "lost"), number(&found, "unreadable_records")), (0, 0));
    let sum = |key: &str| {
        found["threads"].as_array().unwrap().iter().map(|row| number(row, key)).sum::<u64>()
    };
    let (voluntary, preempted) = (sum("voluntary_switches"), sum("preempted_switches"));
    assert!(
        near(voluntary, numbers[0]),
        "{voluntary} voluntary switches, the kernel accounts {numbers:?}"
    );
    assert!(
        near(preempted, numbers[1]),
        "{preempted} preempted switches, the kernel accounts {numbers:?}"
    );
    let shown = text(&planish(dir.path(), &["report", "waits", "--limit", "3"]).stdout);
    assert!(shown.contains("wait ms") && shown.contains("more threads"), "{shown}");
    check_timeline(dir.path(), &found);
    check_intervals(dir.path(), &found);

    if found["has_stacks"] == false {
        assert!(said.contains("without their stacks"), "{said}");
        return eprintln!("skipped: {said}");
    }
    let stacks = found["stacks"].as_array().unwrap();
    let of = |function: &str, reason: &str| -> u64 {
        let named = format!("{function} (waits)");
        let has = |row: &&Value| frames(row).contains(&named);
        stacks.iter().filter(has).map(|row| number(&row[reason], "count")).sum()
    };
    let all = |reason: &str| number(&found["totals"][reason], "count");
    assert!(of("play", "synchronization") * 2 > all("synchronization"), "{shown}");
    assert!(of("crowd", "preemption") > 0 && of("crowd", "synchronization") < 10, "{shown}");
    assert!(of("play", "synchronization") > 500, "{shown}");
    let ran: u64 = stacks
        .iter()
        .filter(|row| frames(row).contains(&"crowd (waits)".to_owned()))
        .map(|row| number(row, "cpu_ns"))
        .sum();
    // Both spinners run for 0.2 s of CPU time; samples tell it roughly.
    assert!(ran > 200_000_000, "{ran}");
}

/// The parts of the time hold the times of the threads.
fn check_timeline(dir: &Path, found: &Value) {
    let done = planish(dir, &["report", "timeline", "--format", "json", "--limit", "0"]);
    let timeline: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(timeline["schema"], "planish-report-timeline");
    let sum = |list: &Value| {
        list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).sum::<u64>()
    };
    let totals = &found["totals"];
    let all = &timeline["all"];
    assert_eq!(all["running_ns"].as_array().unwrap().len(), 60);
    assert_eq!(sum(&all["waiting_ns"]), number(&totals["synchronization"], "total_ns"));
    assert_eq!(sum(&all["preempted_ns"]), number(&totals["preemption"], "total_ns"));
    assert_eq!(sum(&all["running_ns"]), number(totals, "cpu_ns"));
    // On one CPU two threads never run at once for long; main hands over in between.
    let at_once: Vec<u64> =
        timeline["at_once_ns"].as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).collect();
    let ran: u64 = (0u64..).zip(&at_once).map(|(threads, ns)| threads * ns).sum();
    assert_eq!(ran, number(totals, "cpu_ns"), "{at_once:?}");
    let shown = text(&planish(dir, &["report", "timeline", "--parts", "10"]).stdout);
    assert!(shown.contains("10 parts of") && shown.contains("ran at once"), "{shown}");
}

/// Every single wait is there.
fn check_intervals(dir: &Path, found: &Value) {
    let done = planish(dir, &["report", "waits", "--emit", "switches"]);
    let lines = text(&done.stdout);
    let waits: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (name, key) in [("wait", "synchronization"), ("preempted", "preemption")] {
        let own = || waits.iter().filter(|wait| wait["reason"] == name);
        let totals = &found["totals"][key];
        assert_eq!(own().count() as u64, number(totals, "count"), "{name}");
        let queued = |wait: &Value| wait["run_queue_ns"].as_u64().unwrap_or(0);
        let time: u64 = own().map(|wait| number(wait, "duration_ns") - queued(wait)).sum();
        assert_eq!(time, number(totals, "total_ns"), "{name}");
        // The same waits are an event, whose samples they are.
        let words = ["report", "hot", "--event", name, "--format", "json"];
        let hot: Value = serde_json::from_slice(&planish(dir, &words).stdout).unwrap();
        assert_eq!(number(&hot, "samples"), number(totals, "count"), "{name}");
        assert_eq!(number(&hot, "weight"), number(totals, "total_ns"), "{name}");
    }
}

#[test]
fn every_form_of_a_recording_of_perf_gives_books_that_balance() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path()) else { return };
    let forms: [(&str, &[&str]); 4] = [
        ("plain", &["-e", "cs", "-c", "1", "-g"]),
        ("compressed", &["-e", "cs", "-c", "1", "-g", "-z"]),
        ("threads", &["-e", "cs", "-c", "1", "-g", "--threads"]),
        ("wide", &["-e", "cs", "-c", "1", "-g", "-a"]),
    ];
    for (name, options) in forms {
        let done = Command::new("perf")
            .current_dir(dir.path())
            .args(["record", "-q", "--switch-events", "-m", "4M", "-o", name])
            .args(options)
            .arg("--")
            .arg(&program)
            .stdin(Stdio::null())
            .output();
        let Ok(done) = done else { return eprintln!("skipped: perf is not installed") };
        if !done.status.success() {
            eprintln!("skipped: {name}: {}", text(&done.stderr));
            continue;
        }
        let found = analysed(dir.path(), name);
        check_books(&found);
        assert!(number(&found["totals"]["synchronization"], "count") > 500, "{name}");
        assert_eq!(found["has_stacks"], true, "{name}");
        if number(&found["ledger"], "lost") == 0 {
            compare_with_perf(dir.path(), name, &found);
        }
    }
}

#[test]
fn a_recording_without_switches_is_an_error_that_says_what_to_record() {
    let dir = tempfile::tempdir().unwrap();
    let done = planish(
        dir.path(),
        &[
            "record",
            "-e",
            "cpu-clock",
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done",
        ],
    );
    if !done.status.success() {
        return eprintln!("skipped: {}", text(&done.stderr));
    }
    let done = planish(dir.path(), &["report", "waits"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("--switch-events"), "{}", text(&done.stderr));
}

/// Of the stacks whose frames have all these parts, the waits.
fn waits_of(found: &Value, parts: &[&str]) -> u64 {
    let has = |row: &&Value| {
        let frames = frames(row);
        parts.iter().all(|part| frames.iter().any(|frame| frame.contains(part)))
    };
    let rows = found["stacks"].as_array().unwrap().iter().filter(has);
    rows.map(|row| number(&row["synchronization"], "count")).sum()
}

#[test]
fn the_function_that_takes_a_lock_is_named_and_cpu_time_is_the_kernels_but_for_the_switches() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled(dir.path(), "convoy") else { return };
    let program = program.to_str().unwrap();
    assert!(Command::new(program).output().unwrap().status.success());
    let done =
        planish(dir.path(), &["record", "--switch-events", "-g", "-e", "cpu-clock", "--", program]);
    let said = text(&done.stderr);
    if !done.status.success() {
        return eprintln!("skipped: {said}");
    }
    let used_ns: u64 = text(&done.stdout).trim().parse::<u64>().unwrap() * 1000;
    let found = analysed(dir.path(), "perf.data");
    check_books(&found);
    // The kernel's clock stands in the time between the records of a switch; we count what lies
    // outside of it. The time of a switch has no upper bound on a busy machine: 20 us each
    // leave room for one that is.
    let (ran, switches) =
        (number(&found["totals"], "cpu_ns"), number(&found["switches"], "switch_outs"));
    assert!(number(&found, "switching_ns") <= 20_000 * switches, "{found}");
    assert!(ran < used_ns + used_ns / 10 + 10_000_000, "{ran} ns counted, {used_ns} ns used");
    assert!(ran + 20_000 * switches + 10_000_000 > used_ns, "{ran} ns counted, {used_ns} ns used");
    if found["has_stacks"] == false {
        return eprintln!("skipped: {said}");
    }
    let shown = text(&planish(dir.path(), &["report", "waits", "--limit", "4"]).stdout);
    let queued = waits_of(&found, &["take_the_lock (convoy)", "futex"]);
    assert!(queued > 50, "{queued} waits for the lock name who takes it:\n{shown}");
    assert_eq!(waits_of(&found, &["[a caller is missing]", "queue (convoy)"]), 0, "{shown}");
    assert!(number(&found["ledger"], "frames_unwound") > queued, "{}", found["ledger"]);
}

#[test]
fn a_chain_of_frame_pointers_alone_says_that_a_caller_is_missing_and_dwarf_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compiled(dir.path(), "convoy") else { return };
    for (name, graph) in [("fp", "fp"), ("dwarf", "dwarf,4096")] {
        let done = Command::new("perf")
            .current_dir(dir.path())
            .args([
                "record",
                "-q",
                "--switch-events",
                "-e",
                "cs",
                "-c",
                "1",
                "--call-graph",
                graph,
                "-o",
                name,
                "--",
            ])
            .arg(&program)
            .stdin(Stdio::null())
            .output();
        let Ok(done) = done else { return eprintln!("skipped: perf is not installed") };
        if !done.status.success() {
            eprintln!("skipped: {name}: {}", text(&done.stderr));
            continue;
        }
        let found = analysed(dir.path(), name);
        if name == "dwarf" {
            assert!(
                waits_of(&found, &["take_the_lock (convoy)", "queue (convoy)"]) > 50,
                "{found}"
            );
            continue;
        }
        assert!(waits_of(&found, &["[a caller is missing]", "queue (convoy)"]) > 50, "{found}");
        assert_eq!(waits_of(&found, &["take_the_lock"]), 0, "{found}");
        let said = text(&planish(dir.path(), &["report", "waits", name]).stderr);
        assert!(said.contains("lacks a caller"), "{said}");
    }
}
