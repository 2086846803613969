//! `planish report -i` on a real terminal (tmux): what its screens look like, and that the terminal
//! is given back however it ends.
//!
//! The recording is made here, so that its screens are the same on every machine.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

#[path = "terminal/mod.rs"]
mod terminal;

use perfdata::write::{Encoder, FileWriter, SampleValues, StackValues};
use perfdata::{EventAttr, Features, SampleId, attr_flag, kind, misc, sample_type};
use std::io::Cursor;
use std::path::Path;
use std::process::{Command, Stdio};
use terminal::Terminal;

const USER: u64 = -512i64 as u64;
const MAIN: u64 = 0x1100;
const PARSE: u64 = 0x2100;
const HASH: u64 = 0x3100;
const LOCK: u64 = 0x4100;

fn at(tid: i32, time: u64) -> SampleId {
    SampleId { pid: Some(10), tid: Some(tid), time: Some(time), ..SampleId::default() }
}

/// Two threads: one computes, the other mostly waits for a lock. Names come from a map as programs
/// write it; one is long, one hostile.
fn recording(directory: &Path) {
    let attr = EventAttr {
        kind: 1,
        period_or_freq: 1_000_000,
        name: Some("cpu-clock".to_owned()),
        sample_type: sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::CALLCHAIN
            | sample_type::PERIOD,
        flags: attr_flag::SAMPLE_ID_ALL | attr_flag::CONTEXT_SWITCH | attr_flag::COMM,
        ..EventAttr::default()
    };
    let encoder = Encoder::new(&attr);
    let mut bytes = Vec::new();
    for (tid, name) in [(10, &b"program"[..]), (11, b"worker \x1b[31m")] {
        encoder.comm(&mut bytes, 10, tid, name, false, &at(tid, 0)).unwrap();
    }
    let mut time = 1_000_000_000;
    let mut sample = |bytes: &mut Vec<u8>, tid, chain: &[u64]| {
        let chain = [&[USER], chain].concat();
        let stacks = StackValues { callchain: &chain, ..StackValues::default() };
        time += 1_000_000;
        let period = 1_000_000;
        let ip = chain[1];
        let id = at(tid, time);
        let values = SampleValues { id, ip, period, stacks, ..SampleValues::default() };
        encoder.sample(bytes, &values).unwrap();
        time
    };
    let switch = |bytes: &mut Vec<u8>, tid: i32, time: u64, out: bool| {
        let misc = if out { misc::SWITCH_OUT } else { 0 };
        encoder.other(bytes, kind::SWITCH, misc, &[], &at(tid, time)).unwrap();
    };
    for round in 0..20 {
        for _ in 0..6 {
            sample(&mut bytes, 10, &[HASH, PARSE + 8, MAIN + 8]);
        }
        sample(&mut bytes, 10, &[PARSE, MAIN + 8]);
        let now = sample(&mut bytes, 11, &[LOCK, HASH + 8]);
        if round > 0 {
            switch(&mut bytes, 11, now - 7_000_000, false);
        }
        switch(&mut bytes, 11, now, true);
    }
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), std::slice::from_ref(&attr)).unwrap();
    writer.append(&bytes).unwrap();
    let whole = writer.finish(&Features::default()).unwrap().into_inner();
    std::fs::write(directory.join("perf.data"), whole).unwrap();
    let long = format!("std::map<{}>::find(int)", "std::string, ".repeat(20));
    let names = format!(
        "1000 1000 main\n2000 1000 {long}\n3000 1000 hash\u{1b}[2J\n4000 1000 mutex_lock\n"
    );
    std::fs::create_dir(directory.join("maps")).unwrap();
    std::fs::write(directory.join("maps/perf-10.map"), names).unwrap();
}

fn planish(verb: &str) -> String {
    format!("{} report {verb} -i --symbols maps", env!("CARGO_BIN_EXE_planish"))
}

/// Holds a screen against the kept one; PLANISH_WRITE_SCREENS=1 keeps it.
fn golden(name: &str, screen: &str) {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/terminal").join(name);
    if std::env::var_os("PLANISH_WRITE_SCREENS").is_some() {
        std::fs::write(&kept, screen).unwrap();
    }
    let expected = std::fs::read_to_string(&kept).unwrap_or_default();
    assert!(screen == expected, "{name}:\n{screen}\nexpected:\n{expected}");
}

#[test]
fn screens_are_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    recording(dir.path());
    let Some(terminal) = Terminal::open(dir.path(), 80, 24) else { return };
    terminal.command("echo before");
    terminal.shows("before");
    terminal.command(&planish("hot"));
    golden("hot.txt", &terminal.shows("? keys"));
    terminal.keys(&["Down", "w"]);
    golden("name.txt", &terminal.shows("\nlibrary"));
    terminal.keys(&["Escape", "Enter"]);
    golden("callers.txt", &terminal.shows("who called"));
    terminal.keys(&["4"]);
    terminal.shows("all calls");
    terminal.keys(&["/", "mutex", "Enter"]);
    golden("search.txt", &terminal.shows("of the samples are in or below"));
    terminal.keys(&["6"]);
    golden("waits.txt", &terminal.shows("of all threads together"));
    terminal.keys(&["7"]);
    golden("timeline.txt", &terminal.shows("threads that ran at once"));
    terminal.keys(&["8"]);
    // How many numbers the ledger has may change.
    terminal.shows("Ledger");
    terminal.keys(&["1"]);
    terminal.shows("by function");
    terminal.keys(&["?"]);
    golden("help.txt", &terminal.shows("callees: what this function called"));
    terminal.keys(&["Escape", "1", "b", "b"]);
    terminal.shows("by thread");
    terminal.resize(20, 5);
    golden(
        "small.txt",
        &terminal.until(|screen| screen.lines().count() == 5 && screen.contains('%')),
    );
    terminal.resize(120, 20);
    terminal.shows("by thread");
    golden("large.txt", &terminal.until(|screen| screen.lines().last() != Some("")));
    terminal.resize(80, 24);
    terminal.shows("? keys");
    terminal.keys(&["q"]);
    terminal.until(|screen| screen.contains("before") && !screen.contains("? keys"));
}

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    recording(dir.path());
    let Some(terminal) = Terminal::open(dir.path(), 80, 24) else { return };
    terminal.command("echo before");
    // A key, a key that would be a signal, a signal that nobody can hold back but by a handler.
    for end in ["q", "C-c", "TERM", "HUP"] {
        terminal.command(&planish("tree"));
        terminal.shows("all calls");
        match end {
            "TERM" | "HUP" => {
                let killed = Command::new("kill").args(["-s", end, &terminal.child()]).status();
                assert!(killed.unwrap().success());
            }
            key => terminal.keys(&[key]),
        }
        terminal.prompt_below("before");
        // What is typed is seen again, and lines end where they should.
        let word = format!("after-{end}");
        terminal.command(&format!("echo {word}"));
        terminal.until(|screen| screen.lines().any(|line| line == word));
    }
    // Stopped, and taken up again.
    terminal.command(&planish("tree"));
    terminal.shows("all calls");
    terminal.keys(&["C-z"]);
    terminal.until(|screen| screen.contains("Stopped") && !screen.contains("all calls"));
    terminal.command("echo meanwhile");
    terminal.until(|screen| screen.lines().any(|line| line == "meanwhile"));
    terminal.command("fg");
    terminal.shows("all calls");
    terminal.keys(&["q"]);
    terminal.until(|screen| screen.contains("meanwhile") && !screen.contains("all calls"));
}

#[test]
fn what_is_no_terminal_is_refused_before_anything_is_read() {
    let dir = tempfile::tempdir().unwrap();
    recording(dir.path());
    let mut without = Command::new(env!("CARGO_BIN_EXE_planish"));
    without.current_dir(dir.path()).args(["report", "-i"]).stdin(Stdio::null());
    let done = without.output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!((done.status.code(), done.stdout.len()), (Some(2), 0), "{told}");
    assert!(told.contains("standard output is no terminal"), "{told}");
    let Some(terminal) = Terminal::open(dir.path(), 80, 24) else { return };
    terminal.command(&format!("TERM=dumb {}; echo code $?", planish("hot")));
    let screen = terminal.shows("code 3");
    assert!(screen.contains("TERM=dumb"), "{screen}");
    // The recording stands in the directory, and is found there.
    terminal.command(&format!("{} report -i .", env!("CARGO_BIN_EXE_planish")));
    terminal.shows("160 samples");
    terminal.keys(&["q"]);
}
