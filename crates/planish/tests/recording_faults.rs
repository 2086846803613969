//! What a recording does where others may plant files, and where its output is slow or stuck.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PLANISH: &str = env!("CARGO_BIN_EXE_planish");
const PATIENCE: Duration = Duration::from_secs(120);
/// A program with so much to tell that a small ring does not hold it, and one without end.
const LONG: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
const ENDLESS: &str = "while :; do :; done";
const OFTEN: [&str; 4] = ["-e", "cpu-clock:u", "-c", "50000"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn planish(dir: &Path, words: &[&str]) -> Output {
    Command::new(PLANISH).current_dir(dir).args(words).stdin(Stdio::null()).output().unwrap()
}

/// Whether the kernel lets us record ourselves at all.
fn possible() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let done = planish(dir.path(), &["record", "-e", "cpu-clock:u", "--", "sh", "-c", LONG]);
    let said = text(&done.stderr);
    assert!(done.status.success() || said.contains("perf_event_paranoid"), "{said}");
    if !done.status.success() {
        eprintln!("skipped: {said}");
    }
    done.status.success()
}

/// Waits for a process; it is killed when that takes too long.
fn ended(child: &mut Child) -> std::process::ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Plants something under the name that a recorder of this process number took before names were
/// random.
const PLANT: [(&str, &str); 3] = [
    ("link", "ln -s victim a.$$.part"),
    ("fifo", "mkfifo a.$$.part"),
    ("file", "cp victim a.$$.part; chmod 666 a.$$.part"),
];

#[test]
fn what_is_planted_is_neither_followed_nor_filled_nor_waited_for() {
    if !possible() {
        return;
    }
    for (kind, plant) in PLANT {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        fs::write(dir.path().join("victim"), "as it was").unwrap();
        // As root the planted name is another user's.
        let plant = format!(
            "{plant}; chown -h nobody a.$$.part 2>/dev/null; exec {PLANISH} record -o a -e cpu-clock:u -- sh -c '{LONG}'"
        );
        let mut child = Command::new("sh");
        let child = child
            .args(["-c", &plant])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let pid = child.id();
        let status = ended(&mut child);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(status.success(), "{kind}: {said}");
        assert_eq!(fs::read(dir.path().join("victim")).unwrap(), b"as it was", "{kind}");
        let made = fs::symlink_metadata(dir.path().join("a")).unwrap();
        assert!(made.is_file() && made.len() > 100, "{kind}");
        let own = fs::metadata(dir.path().join("victim")).unwrap().uid();
        assert_eq!((made.mode() & 0o7777, made.uid(), made.nlink()), (0o600, own, 1), "{kind}");
        let planted = fs::symlink_metadata(dir.path().join(format!("a.{pid}.part")));
        assert!(planted.is_ok() || kind == "file", "{kind}: what is planted stays");
    }
}

#[test]
fn a_signal_ends_a_recording_whose_output_is_stuck() {
    if !possible() {
        return;
    }
    let words =
        ["record", "--no-compress", "--backlog", "64K", "-o", "-", "--", "sh", "-c", ENDLESS];
    let words = [&words[..1], &OFTEN[..], &words[1..]].concat();
    let mut child = Command::new(PLANISH);
    let child =
        child.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    // Nobody reads; both the pipe and the queue are full by then, or the recording ends without
    // them.
    std::thread::sleep(Duration::from_secs(4));
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let status = ended(&mut child);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(status.code().is_some(), "{status:?} {said}");
    assert!(status.success() || said.contains("nothing was taken for 5 s"), "{said}");
}

/// A recording into a pipe that is read only when the program has ended: exit code, what was said,
/// and the bytes.
fn held_back(options: &[&str]) -> (Option<i32>, String, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let over = dir.path().join("over");
    let program = format!("{LONG}; : >{}", over.display());
    let words = [&["record", "-m", "8"], options, &OFTEN, &["-o", "-", "--", "sh", "-c", &program]]
        .concat();
    let mut child = Command::new(PLANISH);
    let child =
        child.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let start = Instant::now();
    while !over.exists() {
        assert!(start.elapsed() < PATIENCE, "the program never ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut bytes = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    let status = ended(&mut child);
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status.code(), said, bytes)
}

#[test]
fn a_slow_output_costs_memory_first_and_losses_are_told_with_the_exit_code() {
    if !possible() {
        return;
    }
    // Nothing is taken while the program runs, and next to nothing may wait.
    let small = ["--no-compress", "--backlog", "4K"];
    let (code, said, bytes) = held_back(&small);
    if said.contains("throttl") {
        eprintln!("skipped: the kernel throttles sampling here: {said}");
        return;
    }
    assert!(said.contains(" lost") && said.contains("--no-compress out"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    assert!(bytes.starts_with(b"PERFILE2"));
    let accepting = [&small[..], &["--accept-losses"]].concat();
    let (code, said, _) = held_back(&accepting);
    assert!(said.contains(" lost"), "{said}");
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn recordings_are_compressed_unless_that_is_refused() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let record = |name: &str, options: &[&str]| {
        let words = [&["record", "-o", name], options, &OFTEN, &["--", "sh", "-c", LONG]].concat();
        let done = planish(dir.path(), &words);
        assert!(done.status.success() || done.status.code() == Some(1), "{}", text(&done.stderr));
        let input = perfdata::Input::open(&dir.path().join(name)).unwrap();
        input.features().compressed.map(|info| info.level)
    };
    assert_eq!(record("usual", &[]), Some(1));
    assert_eq!(record("deep", &["-z7"]), Some(7));
    assert_eq!(record("raw", &["--no-compress"]), None);
    let both = planish(dir.path(), &["record", "-z", "--no-compress", "--", "true"]);
    assert_eq!(both.status.code(), Some(2));
    let size = |name: &str| fs::metadata(dir.path().join(name)).unwrap().len();
    assert!(size("usual") < size("raw"), "{} {}", size("usual"), size("raw"));
}

/// Lines of perf's view of a header that are the same whenever it is recorded on a machine.
fn stable(header: &str) -> Vec<String> {
    let begins = [
        "hostname",
        "os release",
        "arch",
        "nrcpus",
        "cpudesc",
        "cpuid",
        "sibling",
        "CPU ",
        " L",
        "total memory",
    ];
    let lines = header.lines().filter_map(|line| line.strip_prefix("# "));
    let mut kept: Vec<String> = lines
        .filter(|line| {
            begins.iter().any(|begin| line.starts_with(begin)) || line.contains("cpu list")
        })
        .map(str::to_owned)
        .collect();
    let pmus =
        header.lines().find_map(|line| line.strip_prefix("# pmu mappings: ")).unwrap_or_default();
    // perf lists them as the directory does.
    let mut pmus: Vec<&str> = pmus.split(", ").map(str::trim).collect();
    pmus.sort_unstable();
    kept.push(pmus.join(", "));
    kept
}

#[test]
fn the_header_says_of_the_machine_what_perfs_says() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let perf = |words: &[&str]| Command::new("perf").args(words).current_dir(dir.path()).output();
    let recorded = perf(&["record", "-e", "cpu-clock:u", "-o", "theirs", "--", "sh", "-c", LONG]);
    if !recorded.is_ok_and(|done| done.status.success()) {
        eprintln!("skipped: perf does not record here");
        return;
    }
    let done =
        planish(dir.path(), &["record", "-e", "cpu-clock:u", "-o", "ours", "--", "sh", "-c", LONG]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let header =
        |name: &str| text(&perf(&["report", "--header-only", "-I", "-i", name]).unwrap().stdout);
    let (ours, theirs) = (header("ours"), header("theirs"));
    assert_eq!(stable(&ours), stable(&theirs), "{ours}\n{theirs}");
    assert!(stable(&ours).len() > 8, "{ours}");
    let line = ours
        .lines()
        .find_map(|line| line.strip_prefix("# cmdline : "))
        .unwrap()
        .trim_end()
        .to_owned();
    assert!(line.ends_with(&format!("record -e cpu-clock:u -o ours -- sh -c {LONG}")), "{line}");
    assert!(line.contains("planish"), "{line}");
}
