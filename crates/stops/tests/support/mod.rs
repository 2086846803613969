//! Compiling test programs, running them traced, and looking at processes.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

#[path = "../../examples/stop/sys.rs"]
mod launch;

use perfdata::RuntimeAddr;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use stops::{Ended, Ending, Next, StopOptions, Stopped, Tracer, Trigger, Visitor};

/// A millisecond of CPU time.
pub const PERIOD_NS: u64 = 1_000_000;

/// Options of most tests: children too, no limit.
pub fn options() -> StopOptions {
    StopOptions {
        trigger: Trigger::CpuClock,
        spread_first: false,
        period: PERIOD_NS,
        follow: true,
        max_stops: None,
        new_threads: None,
    }
}

/// Tests take turns: each wants a CPU, and a process has one tracer at a time.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles a program of `tests/programs`; `None`, with a note, where the compiler cannot.
pub fn compile(dir: &Path, source: &str, flags: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let output = dir.join(source.file_stem().unwrap());
    let done = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&output)
        .arg(source)
        .args(flags)
        .output();
    match done {
        Ok(done) if done.status.success() => Some(output),
        Ok(done) => skipped(&String::from_utf8_lossy(&done.stderr)),
        Err(error) => skipped(&format!("cc: {error}")),
    }
}

/// Notes that a test could not run.
pub fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

/// Remembers what it saw.
#[derive(Default)]
pub struct Log {
    /// Stops by process.
    pub stops: BTreeMap<i32, u64>,
    /// Stops by thread.
    pub threads: BTreeMap<i32, u64>,
    pub forked: Vec<(i32, i32)>,
    pub executed: Vec<i32>,
    pub ended: Vec<(i32, Ending)>,
    pub ticks: u64,
}

impl Visitor for Log {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        *self.stops.entry(thread.pid()).or_default() += 1;
        *self.threads.entry(thread.tid()).or_default() += 1;
        let registers = thread.registers().unwrap();
        let mut code = [0u8; 16];
        assert!(thread.read(RuntimeAddr(registers.rip), &mut code).unwrap() > 0);
        Next::default()
    }
    fn forked(&mut self, parent: i32, child: i32) {
        self.forked.push((parent, child));
    }
    fn executed(&mut self, pid: i32) {
        self.executed.push(pid);
    }
    fn ended(&mut self, pid: i32, ending: Ending) {
        self.ended.push((pid, ending));
    }
    fn tick(&mut self) {
        self.ticks += 1;
    }
}

/// What a traced program did.
pub struct Run {
    pub pid: i32,
    pub ended: Ended,
    pub status: ExitStatus,
    pub output: String,
}

/// Runs a program traced from its start.
pub fn trace(
    program: &Path,
    words: &[&str],
    options: &StopOptions,
    visitor: &mut impl Visitor,
) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("said");
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::null()).stdout(File::create(&said).unwrap());
    let waiting = launch::start(command).unwrap();
    let pid = waiting.pid;
    let mut tracer = Tracer::seize_child(pid, options).unwrap();
    let mut child = waiting.go().unwrap();
    let ended = tracer.run(visitor, &|| false).unwrap();
    let status = child.wait().unwrap();
    Run { pid, ended, status, output: std::fs::read_to_string(said).unwrap() }
}

/// Runs a program untraced: what it prints and how it ends.
pub fn alone(program: &Path, words: &[&str]) -> (String, ExitStatus) {
    let output = Command::new(program).args(words).stderr(Stdio::inherit()).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status)
}

/// A line of a thread's `/proc/TID/status`.
pub fn status_line(tid: i32, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.map(|value| value.trim().to_owned())
}

/// The threads of a process.
pub fn threads_of(pid: i32) -> Vec<i32> {
    let Ok(listing) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Waits, for at most half a minute, until something is so.
pub fn eventually(what: &str, mut check: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !check() {
        assert!(begun.elapsed() < Duration::from_secs(30), "not within 30 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// No thread of a process is traced or stands still.
pub fn goes_on(pid: i32) -> bool {
    threads_of(pid).into_iter().all(|tid| {
        status_line(tid, "TracerPid").is_none_or(|tracer| tracer == "0")
            && status_line(tid, "State").is_none_or(|state| !state.starts_with(['t', 'T']))
    })
}

/// Sends a signal.
pub fn kill(pid: i32, signal: &str) {
    assert!(
        Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap().success()
    );
}

/// The example program, built if need be.
pub fn recorder() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let path = deps.parent().unwrap().parent().unwrap().join("examples/stop");
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built =
            Command::new(cargo).args(["build", "-q", "-p", "stops", "--example", "stop"]).status();
        assert!(built.unwrap().success());
    }
    path
}
