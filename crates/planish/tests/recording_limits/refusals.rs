//! Options and users: what cannot be is said before the program runs, in one sentence, and what can
//! be is done.

use super::{BUSY, planish, possible, text};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const CLOCK: [&str; 3] = ["record", "-e", "cpu-clock:u"];
const TELLTALE: [&str; 4] = ["--", "sh", "-c", "echo ran"];

/// planish as a user without rights, in a directory where that user may write; `None`, with a
/// reason, where we are not root.
struct Nobody(tempfile::TempDir);

impl Nobody {
    fn new() -> Option<Nobody> {
        let probe =
            Command::new("setpriv").args(["--reuid=65534", "--clear-groups", "true"]).output();
        if !probe.is_ok_and(|done| done.status.success()) {
            eprintln!("skipped: cannot become another user");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::copy(env!("CARGO_BIN_EXE_planish"), dir.path().join("planish")).unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        Some(Nobody(dir))
    }

    fn run(&self, words: &[&[&str]]) -> Output {
        let words = words.concat();
        let mut setpriv = Command::new("setpriv");
        setpriv
            .args(["--reuid=65534", "--clear-groups", "--inh-caps=-all"])
            .arg(self.0.path().join("planish"));
        setpriv.current_dir(self.0.path()).args(words).stdin(Stdio::null()).output().unwrap()
    }
}

#[test]
fn a_level_of_compression_may_follow_at_once() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for level in ["-z5", "-z=5", "-z19"] {
        // The program's own options are left alone.
        let program =
            ["sh", "-c", "echo $1; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done", "sh", "-z7"];
        let done = planish(dir.path(), &[&CLOCK, &[level], &program]);
        assert!(done.status.success(), "{}", text(&done.stderr));
        assert_eq!(text(&done.stdout), "-z7\n");
        let input = perfdata::Input::open(dir.path().join("perf.data").as_path()).unwrap();
        let expected: u32 = level.trim_start_matches(['-', 'z', '=']).parse().unwrap();
        assert_eq!(input.features().compressed.unwrap().level, expected);
    }
    for (wrong, expected) in [("-z99", "99"), ("-z5x", "-z"), ("-y5", "-y")] {
        let done = planish(dir.path(), &[&CLOCK, &[wrong], &TELLTALE]);
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), String::new()), "{wrong}");
        assert!(text(&done.stderr).contains(expected), "{}", text(&done.stderr));
    }
}

#[test]
fn a_level_of_compression_is_not_blamed_for_another_word() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 6] = [
        (&["record", "--bogus", "--", "tar", "-zxf", "a"], "'--bogus'"),
        (&["stat", "--bogus", "ls", "-zz"], "'--bogus'"),
        (&["record", "-5", "--", "ls", "-z5x"], "'-5'"),
        (&["record", "-5", "ls", "-z5x"], "'-5'"),
        (&["stat", "-5", "record", "-z5"], "'-5'"),
        (&["record", "-z4", "-5", "ls"], "'-5'"),
    ];
    for (words, expected) in cases {
        let done = planish(dir.path(), &[words]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {said}");
        assert!(said.contains(expected) && !said.contains("with a level"), "{words:?}: {said}");
    }
}

#[test]
fn a_priority_that_readers_do_not_get_is_refused_before_the_program_runs() {
    let Some(nobody) = Nobody::new() else { return };
    let done = nobody.run(&[&CLOCK, &["-r", "10"], &TELLTALE]);
    let said = text(&done.stderr);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(3), String::new()), "{said}");
    assert!(said.contains("real-time priority 10 (-r)") && said.lines().count() == 1, "{said}");
    assert!(!nobody.0.path().join("perf.data").exists());
}

#[test]
fn context_switches_are_recorded_once_whoever_asks_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let command = ["--", "sh", "-c", "sleep 0.01; sleep 0.01; sleep 0.01"];
    let switches = ["--switch-events", "-g"];
    let cases: [(&[&str], usize, bool); 5] = [
        (&["-e", "cs"], 1, true),
        (&["-e", "cpu-clock,cs"], 2, true),
        (&["-e", "context-switches", "-c", "1"], 1, true),
        (&["-e", "cs/period=3/"], 1, false),
        (&["-e", "cpu-clock"], 2, true),
    ];
    for (events, number, every) in cases {
        let done = planish(dir.path(), &[&["record"], events, &switches, &command]);
        let said = text(&done.stderr);
        if said.contains("perf_event_paranoid") {
            return eprintln!("skipped: {said}");
        }
        assert!(done.status.success() || said.contains("empty"), "{events:?}: {said}");
        assert_eq!(
            said.contains("not every switch has its stack"),
            !every && done.status.success(),
            "{said}"
        );
        if !done.status.success() {
            continue;
        }
        let input = perfdata::Input::open(dir.path().join("perf.data").as_path()).unwrap();
        // A software event, context switches.
        let switches = |attr: &&perfdata::EventAttr| (attr.kind, attr.config) == (1, 3);
        let own: Vec<_> = input.attrs().iter().filter(switches).collect();
        // Wake-ups are recorded with them where tracefs is mounted.
        let is_other = |attr: &&perfdata::EventAttr| {
            !attr.name.as_deref().is_some_and(|name| name.starts_with("sched:"))
        };
        let others = input.attrs().iter().filter(is_other).count();
        assert_eq!((others, own.len()), (number, 1), "{events:?}");
        assert_eq!(own[0].period_or_freq == 1, every, "{events:?}");
    }
}

#[test]
fn options_that_exclude_each_other_are_refused_before_the_program_runs() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["--overwrite", "--max-size", "1M"], "--overwrite and --max-size exclude each other"),
        (&["--overwrite", "--threads"], "--threads and --overwrite exclude each other"),
        (&["-o", "-", "--threads"], "-o - and --threads exclude each other"),
    ];
    for (options, expected) in cases {
        let done = planish(dir.path(), &[&CLOCK, options, &TELLTALE]);
        let said = text(&done.stderr);
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), String::new()), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn events_that_a_user_may_not_count_leave_the_others() {
    let Some(nobody) = Nobody::new() else { return };
    let tracefs = Path::new("/sys/kernel/tracing/events/sched/sched_switch/id");
    if !tracefs.exists() {
        return eprintln!("skipped: tracefs is not mounted");
    }
    let events = "page-faults,sched:sched_switch,task-clock";
    let done = nobody.run(&[&["stat", "-e", events, "--", "true"]]);
    let said = text(&done.stderr);
    if said.contains("cannot count page-faults") {
        return eprintln!("skipped: {said}");
    }
    assert!(done.status.success(), "{said}");
    let row =
        |event: &str| said.lines().find(|line| line.contains(event)).unwrap_or_default().to_owned();
    assert!(row("sched:sched_switch").contains("<not permitted>"), "{said}");
    assert!(row("page-faults").trim().starts_with(|first: char| first.is_ascii_digit()), "{said}");
    assert!(said.contains("sched:sched_switch not counted: "), "{said}");
    let done = nobody.run(&[&["stat", "-e", events, "--format", "json", "--", "true"]]);
    let total: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(
        total["events"][1]["value"].is_null() && total["events"][1]["reason"].is_string(),
        "{total}"
    );
    assert!(total["events"][0]["value"].as_u64() > Some(0), "{total}");
    // The members of a group that may not be counted are not counted for the same reason.
    let group = "{sched:sched_switch,page-faults},task-clock";
    let said = text(&nobody.run(&[&["stat", "-e", group, "--", "true"]]).stderr);
    let shown = |event: &str| {
        said.lines().any(|row| row.contains("<not permitted>") && row.contains(event))
    };
    assert!(shown("sched:sched_switch") && shown("page-faults"), "{said}");
    let alone = nobody.run(&[&["stat", "-e", "sched:sched_switch"], &TELLTALE]);
    assert_eq!((alone.status.code(), text(&alone.stdout)), (Some(2), String::new()));
    let wrong = nobody.run(&[&["stat", "-e", "page-fults,task-clock"], &TELLTALE]);
    assert!(text(&wrong.stderr).contains("did you mean page-faults?"), "{}", text(&wrong.stderr));
}

#[test]
fn a_full_standard_output_is_one_error() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for how in [&["-e", "cpu-clock:u"][..], &["-e", "cpu-clock:u", "-z"], &["--branches=emulated"]]
    {
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.current_dir(dir.path()).args(["record", "-o", "-"]).args(how).args(BUSY);
        let done = planish.stdin(Stdio::null()).stdout(full()).output().unwrap();
        let said = text(&done.stderr);
        if said.contains("cannot find") || said.contains("cannot be emulated") {
            eprintln!("skipped: {said}");
            continue;
        }
        assert_eq!(done.status.code(), Some(2), "{how:?}: {said}");
        assert!(
            said.contains("standard output: write: No space left on device"),
            "{how:?}: {said}"
        );
        assert!(!said.contains("readable") && said.lines().count() == 1, "{how:?}: {said}");
    }
}

/// A small file system of its own, gone with the test.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(options: &str) -> Option<Small> {
        let small = Small(tempfile::tempdir().unwrap());
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(small.0.path());
        let done = mount.output();
        if !done.is_ok_and(|done| done.status.success()) {
            eprintln!("skipped: cannot mount a file system here");
            return None;
        }
        Some(small)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_directory_on_a_full_disk_is_readable() {
    if !possible() {
        return;
    }
    let Some(small) = Small::mount("size=3m") else { return };
    let dir = small.0.path();
    let long = ["--", "sh", "-c", "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done"];
    for packed in [&["--no-compress"], &["-z"]] {
        let stacks = ["-c", "100000", "--call-graph", "dwarf", "--mmap-flush=64K", "--threads"];
        let done = planish(dir, &[&CLOCK, &stacks, packed, &long]);
        let said = text(&done.stderr);
        if done.status.success() {
            eprintln!("skipped: {packed:?} was too small to fill the disk");
            continue;
        }
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(said.contains("holds what was recorded up to there and is readable"), "{said}");
        let path = dir.join("perf.data");
        let input = perfdata::Input::open(&path).unwrap();
        let mut samples = 0;
        for chunk in input.chunks().unwrap() {
            let chunk = chunk.unwrap();
            let records = perfdata::raw_records(&chunk.bytes, chunk.offset, input.endian());
            samples += records.filter(|raw| raw.kind == perfdata::kind::SAMPLE).count();
        }
        assert!(samples > 0);
        match Command::new("perf").args(["script", "-F", "time", "-i"]).arg(&path).output() {
            Ok(perf) => {
                assert!(perf.status.success(), "{}", text(&perf.stderr));
                assert_eq!(
                    text(&perf.stdout).lines().filter(|line| !line.trim().is_empty()).count(),
                    samples
                );
            }
            Err(_) => eprintln!("skipped: perf is not installed"),
        }
        std::fs::remove_dir_all(&path).unwrap();
        assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0, "nothing is left beside it");
    }
}

#[test]
fn arm_spe_by_name_is_refused_by_name_where_there_is_none() {
    if Path::new("/sys/bus/event_source/devices/arm_spe_0").exists() {
        return eprintln!("skipped: this machine has Arm SPE");
    }
    let dir = tempfile::tempdir().unwrap();
    let event = "arm_spe_0/branch_filter=1,ts_enable=1,min_latency=0/u";
    let done = planish(dir.path(), &[&["record", "-e", event], &TELLTALE]);
    let said = text(&done.stderr);
    assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), String::new()), "{said}");
    assert!(said.contains("there is no PMU \"arm_spe_0\" on this machine"), "{said}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_size_of_aux_areas_without_aux_data_is_refused() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for size in [",4M", "1M,4M"] {
        let done = planish(dir.path(), &[&CLOCK, &["-m", size], &TELLTALE]);
        let said = text(&done.stderr);
        assert_eq!((done.status.code(), text(&done.stdout)), (Some(2), String::new()), "{said}");
        assert!(said.contains("no event writes AUX data"), "{said}");
    }
    let done = planish(dir.path(), &[&CLOCK, &["-m", "3,4M"], &TELLTALE]);
    assert!(text(&done.stderr).contains("power of two"), "{}", text(&done.stderr));
}
