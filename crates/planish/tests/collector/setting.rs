//! Programs to record, collectors to run, and what is in their spools.

pub use crate::fleet_support::{done, run};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PLANISH: &str = env!("CARGO_BIN_EXE_planish");
const PATIENCE: Duration = Duration::from_secs(120);

/// A folder, where the kernel lets us record processes that run, and programs can be built.
pub fn possible() -> Option<tempfile::TempDir> {
    let folder = tempfile::tempdir().unwrap();
    let source = "int main(void) { volatile unsigned long n = 0; for (;;) n += n * 3 + 1; }\n";
    std::fs::write(folder.path().join("spin.c"), source).unwrap();
    for name in ["one", "two"] {
        let built = Command::new("cc")
            .args(["-O1", "-g", "-Wl,--build-id", "-o", name, "spin.c"])
            .current_dir(&folder)
            .status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("skipped: no C compiler");
            return None;
        }
        // Other bytes, and so another build ID.
        let again = source.replace('3', "5");
        std::fs::write(folder.path().join("spin.c"), again).unwrap();
    }
    let line = "record -e cpu-clock:u -F 2000 -o probe.data -- timeout 0.2 ./one";
    let said = run(folder.path(), line);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    if !folder.path().join("probe.data").exists() {
        assert!(said.contains("perf_event_paranoid"), "{said}");
        eprintln!("skipped: {said}");
        return None;
    }
    Some(folder)
}

/// A program that runs until it is dropped.
pub struct Spinner(Child);

impl Spinner {
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two programs that run.
pub fn spinners(folder: &Path) -> (Spinner, Spinner) {
    let start = |name: &str| Spinner(Command::new(folder.join(name)).spawn().unwrap());
    (start("one"), start("two"))
}

/// A collector that runs.
pub struct Collector {
    child: Option<Child>,
    said: PathBuf,
}

impl Collector {
    pub fn start(folder: &Path, line: &str) -> Collector {
        Collector::start_with(folder, line, &[])
    }

    pub fn start_with(folder: &Path, line: &str, environment: &[(&str, &str)]) -> Collector {
        let mut planish = Command::new(PLANISH);
        let words = "record --continuous --spool spool".split(' ');
        let words = words.chain(line.split_whitespace());
        Collector::of(folder, planish.args(words).envs(environment.iter().copied()))
    }

    fn of(folder: &Path, command: &mut Command) -> Collector {
        let (file, said) = tempfile::NamedTempFile::new_in(folder).unwrap().keep().unwrap();
        let command = command.current_dir(folder).stdin(Stdio::null());
        let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
        Collector { child: Some(child), said }
    }

    /// One that a shell gives this limit.
    pub fn limited(folder: &Path, limit: &str, line: &str) -> Collector {
        let script = format!("{limit}; exec {PLANISH} record --continuous --spool spool {line}");
        Collector::of(folder, Command::new("sh").args(["-c", &script]))
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.said).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().unwrap().id()
    }

    pub fn has_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.starts_with('Z')
    }

    /// Asks it to end; its exit code and what it said.
    pub fn end(self) -> (Option<i32>, String) {
        let pid = self.pid().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.wait()
    }

    /// Waits for its end.
    pub fn wait(mut self) -> (Option<i32>, String) {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("it does not end: {}", std::fs::read_to_string(&self.said).unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        (status.code(), std::fs::read_to_string(&self.said).unwrap())
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, is: impl Fn() -> bool) {
    let start = Instant::now();
    while !is() {
        assert!(start.elapsed() < PATIENCE, "there was never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The shards of the spool.
pub fn shards(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("spool")).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "counts"))
        .collect();
    paths.sort();
    paths
}

/// What the shards of the spool say of their recordings; each must be whole.
#[track_caller]
pub fn recordings(folder: &Path) -> Vec<Value> {
    if shards(folder).is_empty() {
        return Vec::new();
    }
    let output = run(folder, "fleet show spool --format json");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{told}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let shards = json["shards"].as_array().unwrap();
    shards.iter().map(|shard| shard["recordings"][0].clone()).collect()
}

/// What the collector keeps over a restart.
pub fn state(folder: &Path) -> Option<Value> {
    serde_json::from_str(&std::fs::read_to_string(folder.join("spool/.collector/state.json")).ok()?)
        .ok()
}

/// Looks whether each window that was begun gave shards or is counted as one that gave nothing, and no
/// more were lost than kills; how many were.
#[track_caller]
pub fn balances(folder: &Path, kills: u64) -> u64 {
    let mut windows: BTreeMap<u64, Value> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for one in recordings(folder) {
        assert!(ids.insert(one["id"].as_str().unwrap().to_owned()), "an ID twice: {one}");
        let collected = one["collected"].clone();
        let number = collected["window"].as_u64().unwrap();
        let missed = windows.entry(number).or_insert_with(|| collected["missed"].clone());
        assert_eq!(*missed, collected["missed"], "shards of one window say the same of it");
    }
    let state = state(folder).unwrap();
    let begun = state["next"].as_u64().unwrap() - 1;
    let sum = |missed: &Value, killed: bool| -> u64 {
        let all = missed.as_object().into_iter().flatten();
        all.filter(|(why, _)| !killed || *why == "killed")
            .filter_map(|(_, number)| number.as_u64())
            .sum()
    };
    let of_all = |killed: bool| {
        windows.values().map(|missed| sum(missed, killed)).sum::<u64>()
            + sum(&state["missed"], killed)
    };
    let (missed, lost) = (of_all(false), of_all(true));
    assert_eq!(windows.len() as u64 + missed, begun, "{windows:?} {state}");
    assert!(lost <= kills, "{lost} windows lost by {kills} kills");
    lost
}

/// CPU time of a process.
pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let words: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let ticks: f64 = words[11].parse::<f64>().unwrap() + words[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// A small file system in memory; taken away when dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    pub fn at(place: &Path, options: &str) -> Option<Mounted> {
        let done =
            Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(place).output();
        if done.is_ok_and(|done| done.status.success()) {
            return Some(Mounted(place.to_owned()));
        }
        eprintln!("skipped: a small file system needs root");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// The library that shows programs another time.
pub fn faketime() -> Option<String> {
    let places = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
    let mut paths =
        places.iter().map(|place| format!("/usr/lib/{place}/faketime/libfaketime.so.1"));
    paths.find(|path| Path::new(path).exists())
}
