//! Wake-ups in real recordings: do they split the time in the run queue as the scheduler itself
//! accounts it and as perf's records say, who gave the lock back, and what does a part of the run
//! add to its length?

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

fn json(dir: &Path, words: &[&str]) -> Value {
    let done = planish(dir, &[words, &["--format", "json", "--limit", "0"]].concat());
    assert!(done.status.success(), "{words:?}: {}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

fn number(object: &Value, key: &str) -> u64 {
    object[key].as_u64().unwrap_or_else(|| panic!("no {key} in {object}"))
}

/// Records a program with its wake-ups, and gives what it printed; none where that is not possible.
fn recorded(dir: &Path, name: &str, more: &[&str]) -> Option<u64> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-pthread", "-o"];
    let compiled = Command::new("cc").args(flags).arg(dir.join(name)).arg(source).output();
    if !compiled.as_ref().is_ok_and(|done| done.status.success()) {
        println!("skipped: cc cannot compile: {compiled:?}");
        return None;
    }
    let program = format!("./{name}");
    let words = ["record", "--switch-events", "-g", "-e", "cpu-clock"];
    let done = planish(dir, &[&words[..], more, &["--", &program]].concat());
    if !done.status.success() {
        println!("skipped: {}", text(&done.stderr));
        return None;
    }
    let found = json(dir, &["report", "waits"]);
    if found["has_wakes"] == false {
        let said = text(&done.stderr);
        assert!(said.contains("sched_waking"), "{said}");
        println!("skipped: wake-ups cannot be recorded here (tracefs is not mounted, or no root)");
        return None;
    }
    assert_eq!(number(&found["ledger"], "lost"), 0);
    Some(text(&done.stdout).trim().parse().unwrap_or(u64::MAX))
}

/// What entered is what was used and what was not.
fn check_books(found: &Value) {
    let ledger = &found["switches"];
    let sum: u64 = ["wakes_paired", "wakes_needless", "wakes_of_others"]
        .iter()
        .map(|key| number(ledger, key))
        .sum();
    assert_eq!(sum, number(ledger, "wakes"));
    // Of those that were woken, some may not have come back before the recording ended.
    let queued = number(&found["totals"]["run_queue"], "count");
    let open = ["switch_outs_at_end", "switch_outs_at_exit", "switch_outs_without_in"];
    let open: u64 = open.iter().map(|key| number(ledger, key)).sum();
    let paired = number(ledger, "wakes_paired");
    assert!((queued..=queued + open).contains(&paired), "{queued} of {paired}, {open} open");
}

/// The time in the run queue by thread, in ns, from the text of perf.
fn by_perf(dir: &Path) -> Option<BTreeMap<u64, u64>> {
    let fields = "tid,time,event,trace";
    let words = ["script", "-i", "perf.data", "--show-switch-events", "--ns", "-F", fields];
    let done = Command::new("perf").current_dir(dir).args(words).stdin(Stdio::null()).output();
    let Ok(done) = done else {
        println!("skipped: perf is not installed");
        return None;
    };
    assert!(done.status.success(), "{}", text(&done.stderr));
    let (mut off, mut queued) = (BTreeMap::new(), BTreeMap::new());
    for line in text(&done.stdout).lines() {
        let mut words = line.split_whitespace();
        let (Some(tid), Some(time)) = (words.next(), words.next()) else { continue };
        let Ok(tid) = tid.parse::<u64>() else { continue };
        let Ok(time) = time.trim_end_matches(':').replace('.', "").parse::<u64>() else { continue };
        if line.contains("PERF_RECORD_SWITCH OUT") {
            off.insert(tid, (line.contains("preempt"), None));
        } else if line.contains("PERF_RECORD_SWITCH IN") {
            if let Some((false, Some(woken))) = off.remove(&tid) {
                *queued.entry(tid).or_insert(0) += time - woken;
            }
        } else if line.contains("sched:sched_waking:") {
            let woken = words.find_map(|word| word.strip_prefix("pid=")).unwrap();
            if let Some((false, since @ None)) = off.get_mut(&woken.parse().unwrap()) {
                *since = Some(time);
            }
        }
    }
    Some(queued)
}

#[test]
fn the_run_queue_is_as_long_as_the_scheduler_accounts() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // Of the whole system, so that no wake-up is missing.
    let Some(accounted) = recorded(dir, "queue", &["-a"]) else { return };
    check_books(&json(dir, &["report", "waits"]));
    // What is recorded for the sake of waits is not what is shown first.
    assert_eq!(json(dir, &["report", "hot"])["event"], "cpu-clock");
    let own = ["--comm", "queue"];
    let found = json(dir, &[&["report", "waits"], &own[..]].concat());
    let threads = found["threads"].as_array().unwrap();
    let time = |thread: &Value, kind: &str| number(&thread[kind], "total_ns");
    if accounted == u64::MAX {
        println!("skipped: this kernel does not account run queues (CONFIG_SCHED_INFO)");
    } else {
        // The main thread, which waits for the others, is the first.
        let main = threads.iter().map(|thread| number(thread, "tid")).min().unwrap();
        let workers = threads.iter().filter(|thread| number(thread, "tid") != main);
        let ours: u64 =
            workers.map(|thread| time(thread, "run_queue") + time(thread, "preemption")).sum();
        let room = accounted / 10 + 2_000_000;
        assert!(ours.abs_diff(accounted) < room, "{ours} ns here, {accounted} ns accounted");
    }
    // It is an event, a state of the time line and a part of each single wait.
    let totals = &found["totals"]["run_queue"];
    let hot = json(dir, &[&["report", "hot", "--event", "runqueue"], &own[..]].concat());
    assert_eq!(number(&hot, "weight"), number(totals, "total_ns"));
    let timeline = json(dir, &[&["report", "timeline"], &own[..]].concat());
    let queued = timeline["all"]["run_queue_ns"].as_array().unwrap();
    let sum: u64 = queued.iter().map(|ns| ns.as_u64().unwrap()).sum();
    assert_eq!(sum, number(totals, "total_ns"));
    let lines = text(&planish(dir, &["report", "waits", "--emit", "switches"]).stdout);
    let tids: Vec<u64> = threads.iter().map(|thread| number(thread, "tid")).collect();
    let waits = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let own = waits.filter(|wait| tids.contains(&wait["tid"].as_u64().unwrap_or(0)));
    let sum: u64 = own.filter_map(|wait| wait["run_queue_ns"].as_u64()).sum();
    assert_eq!(sum, number(totals, "total_ns"));
    // The name of the one who preempts is the program's own.
    let shown = text(&planish(dir, &["report", "waits"]).stdout);
    assert!(shown.contains("runqueue ms") && shown.contains("woken by"), "{shown}");
}

#[test]
fn who_waited_for_a_lock_stands_beside_who_gave_it_back() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if recorded(dir, "convoy", &[]).is_none() {
        return;
    }
    let found = json(dir, &["report", "waits"]);
    check_books(&found);
    if let Some(queued) = by_perf(dir) {
        let queue = |thread: &Value| number(&thread["run_queue"], "total_ns");
        let ours: BTreeMap<u64, u64> = found["threads"]
            .as_array()
            .unwrap()
            .iter()
            .map(|thread| (number(thread, "tid"), queue(thread)))
            .filter(|(_, time)| *time > 0)
            .collect();
        assert_eq!(ours, queued);
    }
    let has = |row: &Value, side: &str, parts: &[&str]| {
        let frames = row[side].as_array().unwrap();
        let names: Vec<&str> =
            frames.iter().map(|frame| frame["function"].as_str().unwrap()).collect();
        parts.iter().all(|part| names.iter().any(|name| name.contains(part)))
    };
    let rows = found["wakers"]["rows"].as_array().unwrap();
    let locks = rows.iter().filter(|row| {
        has(row, "waiting_frames", &["futex_wait", "take_the_lock", "queue"])
            && has(row, "waking_frames", &["futex_wake", "unlock", "take_the_lock", "queue"])
    });
    let (mut count, mut ns) = (0, 0);
    for row in locks {
        count += number(row, "count");
        ns += number(row, "total_ns");
    }
    let whole: u64 = rows.iter().map(|row| number(row, "total_ns")).sum();
    assert!(count > 50 && 2 * ns > whole, "{count} waits of {ns} ns of {whole}: {rows:?}");
    let paired: u64 = rows.iter().map(|row| number(row, "count")).sum();
    assert_eq!(paired, number(&found["wakers"], "paired"));
    assert_eq!(
        paired + number(&found["wakers"], "without_waker"),
        number(&found["switches"], "wakes_paired")
    );
    // What was waited for is the lock, or the sleep of who holds it.
    let causes: BTreeMap<&str, u64> = found["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["cause"].as_str().unwrap(), number(&row["synchronization"], "total_ns")))
        .collect();
    let whole = number(&found["totals"]["synchronization"], "total_ns");
    assert!(causes["lock"] > whole / 4 && causes["sleep"] > whole / 50, "{causes:?}");
    // Only pairs with the name or the function that is asked for.
    let through = json(dir, &["report", "waits", "--through", "main"]);
    let kept = number(&through["wakers"], "paired");
    let through = through["wakers"]["rows"].as_array().unwrap();
    assert_eq!(kept, through.iter().map(|row| number(row, "count")).sum::<u64>());
    assert!(through.len() < rows.len(), "{through:?}");
    assert!(through.iter().all(|row| {
        has(row, "waiting_frames", &["main"]) || has(row, "waking_frames", &["main"])
    }));
}

#[test]
fn latency_is_the_time_in_which_anybody_ran() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    if recorded(dir, "convoy", &[]).is_none() {
        return;
    }
    let weight = |more: &[&str]| number(&json(dir, &[&["report", "hot"], more].concat()), "weight");
    let at_once = json(dir, &["report", "timeline"])["at_once_ns"].clone();
    let at_once: Vec<u64> =
        at_once.as_array().unwrap().iter().map(|ns| ns.as_u64().unwrap()).collect();
    let anybody: u64 = at_once.iter().skip(1).sum();
    let all: u64 = (0u64..).zip(&at_once).map(|(threads, ns)| threads * ns).sum();
    let (whole, latency) = (weight(&[]), weight(&["--latency"]));
    assert!(latency <= whole, "{latency} of {whole}");
    // Samples tell both roughly; their ratio follows the time that threads ran beside each other.
    let (expected, found) = (anybody as f64 / all as f64, latency as f64 / whole as f64);
    assert!((expected - found).abs() < 0.15, "{found} of the time, by switches {expected}");
    for verb in ["waits", "timeline"] {
        let refused = planish(dir, &["report", verb, "--latency"]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains("weighs samples"), "{}", text(&refused.stderr));
    }
    let without = planish(dir, &["record", "-e", "cpu-clock", "-o", "plain", "--", "./convoy"]);
    assert!(without.status.success(), "{}", text(&without.stderr));
    let refused = planish(dir, &["report", "hot", "--latency", "plain"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--switch-events"), "{}", text(&refused.stderr));
}
