//! Control groups: what runs in one is recorded and counted, and nothing else, and perf names the
//! group.

use super::{Running, planish, text};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const LOOP: &str = "while :; do :; done";

/// A group of this test's own, and a busy program in it; both go with it.
struct Group {
    dir: PathBuf,
    name: String,
    busy: Option<Running>,
}

impl Group {
    /// `None`, with a printed reason, where groups cannot be made.
    fn make(name: &str) -> Option<Group> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let place = |line: &str| line.split(' ').nth(1).map(PathBuf::from);
        let first =
            mounts.lines().find(|line| line.contains(" cgroup ") && line.contains("perf_event"));
        let root = first
            .or_else(|| mounts.lines().find(|line| line.contains(" cgroup2 ")))
            .and_then(place);
        let Some(root) = root else {
            eprintln!("skipped: no control groups are mounted");
            return None;
        };
        let name = format!("planish-test-{name}-{}", std::process::id());
        let dir = root.join(&name);
        if let Err(error) = std::fs::create_dir(&dir) {
            eprintln!("skipped: {}: {error}", dir.display());
            return None;
        }
        let mut group = Group { dir, name, busy: None };
        let busy = Running(
            Command::new("sh")
                .args(["-c", LOOP])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let mut procs =
            std::fs::OpenOptions::new().write(true).open(group.dir.join("cgroup.procs")).unwrap();
        procs.write_all(busy.pid().as_bytes()).unwrap();
        group.busy = Some(busy);
        Some(group)
    }

    fn pid(&self) -> String {
        self.busy.as_ref().unwrap().pid()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.busy = None;
        let _ = std::fs::remove_dir(&self.dir);
    }
}

fn perf(dir: &Path, words: &[&str]) -> Option<String> {
    let done = Command::new("perf").current_dir(dir).args(words).args(["-i", "perf.data"]).output();
    let Ok(done) = done else {
        eprintln!("skipped: perf is not installed");
        return None;
    };
    let said = text(&done.stderr);
    assert!(done.status.success() && !said.to_lowercase().contains("error"), "{words:?}: {said}");
    Some(text(&done.stdout))
}

#[test]
fn samples_are_those_of_the_group_and_carry_its_name() {
    let Some(group) = Group::make("record") else { return };
    let beside = Running(Command::new("sh").args(["-c", LOOP]).spawn().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let record =
        ["record", "-a", "-G", &group.name, "-e", "cpu-clock", "-F", "1000", "--", "sleep", "0.5"];
    let done = planish(dir.path(), &[&record]);
    let said = text(&done.stderr);
    if said.contains("perf_event_paranoid") {
        return eprintln!("skipped: {said}");
    }
    assert!(done.status.success(), "{said}");
    let Some(pids) = perf(dir.path(), &["script", "-F", "pid"]) else { return };
    assert!(!pids.is_empty() && pids.lines().all(|line| line.trim() == group.pid()), "{pids}");
    let report = perf(dir.path(), &["report", "--stdio", "--sort", "cgroup"]).unwrap();
    let row = report.lines().find(|line| line.contains('%')).unwrap();
    assert!(
        row.contains("100.00%") && row.trim_end().ends_with(&format!("/{}", group.name)),
        "{report}"
    );
    // One group for each event; an empty one is everything.
    let events = ["record", "-a", "-e", "cpu-clock,task-clock/name='all'/", "-F", "1000"];
    let names = format!("{},", group.name);
    let done = planish(dir.path(), &[&events, &["-G", &names, "--", "sleep", "0.5"]]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let lines = perf(dir.path(), &["script", "-F", "pid,event"]).unwrap();
    let of = |event: &str, pid: &str| {
        lines.lines().filter(|line| line.contains(event) && line.trim().starts_with(pid)).count()
    };
    assert!(of("cpu-clock:", &group.pid()) > 0 && of("all:", &beside.pid()) > 0, "{lines}");
    assert_eq!(of("cpu-clock:", &beside.pid()), 0, "{lines}");
    // The stacks of switches have one group, or none.
    for (names, told) in [(names.as_str(), true), (group.name.as_str(), false)] {
        let switches = ["--switch-events", "-g", "-G", names, "--", "sleep", "0.2"];
        let done = planish(dir.path(), &[&events, &switches]);
        let said = text(&done.stderr);
        assert!(done.status.success(), "{said}");
        assert_eq!(said.contains("context switches are those of the whole system"), told, "{said}");
    }
}

#[test]
fn counts_are_those_of_the_group() {
    let Some(group) = Group::make("stat") else { return };
    let dir = tempfile::tempdir().unwrap();
    let names = format!("{},", group.name);
    let count = ["stat", "-a", "-e", "task-clock,cpu-clock", "-G", &names, "--format", "json"];
    let done = planish(dir.path(), &[&count, &["--", "sleep", "0.5"]]);
    let said = text(&done.stderr);
    if said.contains("perf_event_paranoid") {
        return eprintln!("skipped: {said}");
    }
    assert!(done.status.success(), "{said}");
    let total: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let [inside, all] = [&total["events"][0], &total["events"][1]];
    assert_eq!(
        (inside["cgroup"].as_str(), all["cgroup"].as_str()),
        (Some(group.name.as_str()), None)
    );
    let (inside, all) = (inside["value"].as_f64().unwrap(), all["value"].as_f64().unwrap());
    assert!(inside > 0.0 && inside <= all, "{total}");
    let shown = planish(dir.path(), &[&count[..6], &["--", "sleep", "0.1"]]);
    assert!(
        text(&shown.stderr).contains(&format!("task-clock {}", group.name)),
        "{}",
        text(&shown.stderr)
    );
}

#[test]
fn a_group_that_cannot_be_is_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["record", "stat"] {
        let cases: [(&[&str], &str); 4] = [
            (&["-G", "any"], "give -a or -C"),
            (&["-a", "-G", "no-group-of-this-name"], "no-group-of-this-name"),
            (&["-a", "-G", "../etc"], "path below"),
            (&["-a", "-G", "a,b,c", "-e", "cpu-clock,task-clock"], "3 names for 2 events"),
        ];
        for (options, expected) in cases {
            let done = planish(dir.path(), &[&[command], options, &["--", "sh", "-c", "echo ran"]]);
            let said = text(&done.stderr);
            assert_eq!(
                (done.status.code(), text(&done.stdout)),
                (Some(2), String::new()),
                "{said}"
            );
            assert!(
                said.contains(expected) || said.contains("perf_event_paranoid"),
                "{options:?}: {said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
