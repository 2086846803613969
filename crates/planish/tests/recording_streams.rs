//! The ways from the rings into files: each form holds the samples that the summary counts, for
//! perf and for us; losses are told as perf counts them; files end, change and answer when asked
//! to; a full disk leaves what fits.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const BUSY: [&str; 4] = ["--", "sh", "-c", "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"];
const ENDLESS: [&str; 4] = ["--", "sh", "-c", "while :; do :; done"];
const CLOCK: [&str; 4] = ["-e", "cpu-clock", "-c", "200000"];
const PATIENCE: Duration = Duration::from_secs(60);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn command(dir: &Path, options: &[&str], program: &[&str]) -> Command {
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    let words = [&["record"], &CLOCK[..], options, program].concat();
    planish.current_dir(dir).args(words).stdin(Stdio::null());
    planish
}

fn planish(dir: &Path, options: &[&str], program: &[&str]) -> Output {
    command(dir, options, program).output().unwrap()
}

/// Whether the kernel lets us record, and perf is there to look at the result.
fn possible() -> bool {
    let dir = tempfile::tempdir().unwrap();
    let done = planish(dir.path(), &[], &BUSY);
    if !done.status.success() {
        let said = text(&done.stderr);
        assert!(said.contains("perf_event_paranoid"), "{said}");
        eprintln!("skipped: {said}");
        return false;
    }
    let perf = Command::new("perf").arg("--version").output().is_ok();
    if !perf {
        eprintln!("skipped: perf is not installed");
    }
    perf
}

fn json(done: &Output) -> serde_json::Value {
    assert!(done.status.success(), "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// What perf prints about a recording; it must not complain.
fn perf(path: &Path, words: &[&str]) -> String {
    let done = Command::new("perf").args(words).arg("-i").arg(path).output().unwrap();
    let said = text(&done.stderr);
    assert!(done.status.success(), "{words:?}: {said}");
    for complaint in ["error", "unprocessable", "failed", "corrupt", "unknown"] {
        assert!(!said.to_lowercase().contains(complaint), "{words:?}: {said}");
    }
    text(&done.stdout)
}

/// The number before a word of perf's statistics.
fn perf_count(path: &Path, kind: &str) -> u64 {
    let stats = perf(path, &["report", "--stats"]);
    let line =
        stats.lines().find_map(|line| line.trim().strip_prefix(kind)?.strip_prefix(" events:"));
    line.map_or(0, |rest| rest.split_whitespace().next().unwrap().parse().unwrap())
}

/// Samples by perf's statistics, perf's script and our own reader, which must agree.
fn samples(path: &Path) -> u64 {
    let counted = perf_count(path, "SAMPLE");
    assert_eq!(
        perf(path, &["script", "-F", "time"]).lines().count() as u64,
        counted,
        "{}",
        path.display()
    );
    let input = perfdata::Input::open(path).unwrap();
    let mut own = 0;
    let mut chunks = input.chunks().unwrap();
    while let Some(chunk) = chunks.next() {
        let chunk = chunk.unwrap();
        own += perfdata::raw_records(&chunk.bytes, chunk.offset, input.endian())
            .filter(|raw| raw.kind == 9)
            .count();
        chunks.recycle(chunk.bytes);
    }
    assert_eq!(own as u64, counted, "{}", path.display());
    counted
}

fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn named(dir: &Path, begin: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries
        .filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(begin))
        .collect();
    // One that is not complete is named by the number of its process.
    found.retain(|path| !path.to_str().unwrap().ends_with(".part"));
    found.sort();
    found
}

/// A recording that goes on while the test does something; it ends with the test.
struct Running(Child);

impl Running {
    fn start(dir: &Path, options: &[&str], program: &[&str]) -> Running {
        Running(
            command(dir, options, program)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
        )
    }

    fn signal(&self, name: &str) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits for it and returns what it said.
    fn end(mut self) -> (bool, String, String) {
        let (mut out, mut said) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.0.wait().unwrap().success(), out, said)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

#[test]
fn every_form_holds_the_samples_that_the_summary_counts() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let stacks = ["--call-graph", "dwarf,4096", "--switch-events"];
    let forms: [&[&str]; 9] = [
        &[],
        &["--no-compress"],
        &["-z"],
        &["-z=3", "-m", "4M"],
        &["--threads"],
        &["--threads=core", "-z"],
        &["--threads=node", "--affinity=node"],
        &["--affinity=cpu", "--mmap-flush=64K", "-m", "1M"],
        &["-z", "-a"],
    ];
    for (number, form) in forms.iter().enumerate() {
        for stacks in [&stacks[..], &[]] {
            let name = format!("{number}.data");
            let options = [&["-o", &name, "--format", "json"], *form, stacks].concat();
            let done = planish(dir.path(), &options, &BUSY);
            if !done.status.success() && text(&done.stderr).contains("perf_event_paranoid") {
                eprintln!("skipped: {form:?} is not allowed here");
                continue;
            }
            let summary = json(&done);
            let path = dir.path().join(&name);
            assert_eq!(samples(&path), summary["samples"].as_u64().unwrap(), "{options:?}");
            assert_eq!(path.is_dir(), form.iter().any(|option| option.starts_with("--threads")));
            if !form.contains(&"--no-compress") {
                assert!(perf_count(&path, "COMPRESSED") > 0, "{options:?}");
                assert!(
                    summary["compressed_bytes"].as_u64() < summary["uncompressed_bytes"].as_u64()
                );
            }
            let header = perf(&path, &["report", "--header-only"]);
            assert!(header.contains("cpu-clock"), "{header}");
        }
        // The second recording kept the first.
        assert_eq!(named(dir.path(), &format!("{number}.data.old")).len(), 1, "{form:?}");
    }
}

#[test]
fn the_pipe_form_is_written_while_the_program_runs() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // perf's own statistics expand no compressed pipe.
    let done = planish(dir.path(), &["-o", "-", "-g", "--no-compress"], &BUSY);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let path = dir.path().join("pipe.data");
    std::fs::write(&path, &done.stdout).unwrap();
    let told = text(&done.stderr);
    let told = told.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(perf_count(&path, "SAMPLE"), told);
    assert_eq!(perfdata::Input::open(&path).unwrap().attrs().len(), 1);
    let mut running = Running::start(dir.path(), &["-o", "-"], &ENDLESS);
    let mut begin = [0; 4096];
    running.0.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
    assert!(begin.starts_with(b"PERFILE2"), "there is something before the end");
    running.signal("INT");
    running.0.stdout.take().unwrap().read_to_end(&mut Vec::new()).unwrap();
    running.0.wait().unwrap();
}

#[test]
fn losses_are_told_as_perf_counts_them() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = ["-m", "1", "--call-graph", "dwarf,2048", "--format", "json", "--accept-losses"];
    let program = ["--", "sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"];
    let summary = json(&planish(dir.path(), &options, &program));
    let lost = summary["lost_records"].as_u64().unwrap();
    assert!(lost > 0, "a ring of one page holds one such sample: {summary}");
    let path = dir.path().join("perf.data");
    let report = perf(&path, &["report", "--stdio"]);
    let by_perf = report.lines().filter_map(|line| line.strip_prefix("# Total Lost Samples: "));
    assert_eq!(by_perf.map(|number| number.trim().parse::<u64>().unwrap()).sum::<u64>(), lost);
    let rings = summary["rings"].as_array().unwrap();
    assert_eq!(rings.iter().map(|ring| ring["lost"].as_u64().unwrap()).sum::<u64>(), lost);
    let full = rings.iter().filter(|ring| ring["lost"].as_u64() > Some(0));
    for ring in full {
        let (paused, elapsed) =
            (ring["paused_s"].as_f64().unwrap(), ring["elapsed_s"].as_f64().unwrap());
        assert!(paused > 0.0 && paused <= elapsed, "{ring}");
    }
    let done = planish(dir.path(), &options[..4], &program);
    let said = text(&done.stderr);
    assert!(said.contains("lost") && said.contains("-m"), "{said}");
    assert_eq!(done.status.code(), Some(1), "{said}");
}

#[test]
fn a_recording_ends_at_its_size() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = ["--max-size", "1M", "--call-graph", "dwarf", "--format", "json"];
    let summary = json(&planish(dir.path(), &options, &ENDLESS));
    assert_eq!((&summary["ended_at_size"], &summary["signal"]), (&true.into(), &15.into()));
    let bytes = summary["bytes"].as_u64().unwrap();
    assert!((1 << 20..64 << 20).contains(&bytes), "{summary}");
    assert_eq!(samples(&dir.path().join("perf.data")), summary["samples"].as_u64().unwrap());
}

#[test]
fn a_recording_goes_on_in_other_files() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(dir.path(), &["--switch-output", "--format", "json"], &ENDLESS);
    eventually("the file begins", || std::fs::read_dir(dir.path()).unwrap().count() > 0);
    for files in 1..4 {
        // Samples need a moment to come.
        std::thread::sleep(Duration::from_millis(500));
        running.signal("USR2");
        eventually("a file is complete", || named(dir.path(), "perf.data.2").len() == files);
    }
    running.signal("INT");
    let (done, out, said) = running.end();
    assert!(done, "{said}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    let files = named(dir.path(), "perf.data.2");
    assert_eq!((files.len(), summary["files"].as_array().unwrap().len()), (4, 3), "{summary}");
    assert_eq!(
        files.iter().map(|file| samples(file)).sum::<u64>(),
        summary["samples"].as_u64().unwrap()
    );
    for file in &files {
        let script = perf(file, &["script", "-F", "comm,dso,ip", "--show-mmap-events"]);
        assert!(script.contains("PERF_RECORD_MMAP2"), "each knows its processes");
    }
    let options =
        ["-o", "sized", "--switch-output=256K", "--call-graph", "dwarf", "--format", "json"];
    let program = ["--", "sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"];
    let summary = json(&planish(dir.path(), &options, &program));
    assert!(summary["files"].as_array().unwrap().len() > 1, "{summary}");
    let sum = named(dir.path(), "sized.").iter().map(|file| samples(file)).sum::<u64>();
    assert_eq!(sum, summary["samples"].as_u64().unwrap());
}

#[test]
fn a_flight_recorder_keeps_the_last_samples() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = ["--", "sh", "-c", "i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done"];
    let options = ["--overwrite", "-m", "16K", "--call-graph", "dwarf,4096", "--format", "json"];
    let summary = json(&planish(dir.path(), &options, &program));
    let kept = samples(&dir.path().join("perf.data"));
    assert_eq!(kept, summary["samples"].as_u64().unwrap());
    // 16 KiB a CPU hold no more than four stacks of 4 KiB.
    let cpus = summary["rings"].as_array().unwrap().len() as u64 / 2;
    assert!((1..=4 * cpus).contains(&kept), "{kept} samples of {cpus} CPUs");
    let script = perf(
        &dir.path().join("perf.data"),
        &["script", "-F", "comm,time,ip,dso", "--show-mmap-events"],
    );
    assert!(script.contains("PERF_RECORD_MMAP2"), "what was mapped is not written over: {script}");
}

#[test]
fn a_recording_obeys_its_fifo() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fifo = |name: &str| {
        assert!(Command::new("mkfifo").arg(dir.path().join(name)).status().unwrap().success())
    };
    fifo("commands");
    fifo("answers");
    let options =
        ["-D", "-1", "--control", "fifo:commands,answers", "--overwrite", "--format", "json"];
    let running = Running::start(dir.path(), &options, &ENDLESS);
    let open = |name: &str| {
        std::fs::OpenOptions::new().read(true).write(true).open(dir.path().join(name)).unwrap()
    };
    let (mut commands, mut answers) = (open("commands"), open("answers"));
    let mut say = |word: &str| {
        commands.write_all(format!("{word}\n").as_bytes()).unwrap();
        let mut answer = [0; 4];
        answers.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ack\n", "{word}");
    };
    say("ping");
    say("enable");
    std::thread::sleep(Duration::from_millis(500));
    say("snapshot");
    assert_eq!(named(dir.path(), "perf.data.2").len(), 1);
    say("disable");
    say("stop");
    let (done, out, said) = running.end();
    assert!(done, "{said}");
    let summary: serde_json::Value = serde_json::from_str(&out).unwrap();
    let snapshot = samples(&named(dir.path(), "perf.data.2")[0]);
    let last = samples(&dir.path().join("perf.data"));
    assert!(
        snapshot > 0 && snapshot + last == summary["samples"].as_u64().unwrap(),
        "{snapshot} and {last}: {summary}"
    );
    let said = text(&planish(dir.path(), &["--control", "fifo:perf.data"], &BUSY).stderr);
    assert!(said.contains("mkfifo"), "{said}");
}

#[test]
fn a_full_disk_leaves_what_fits() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let stacks = ["--call-graph", "dwarf", "--mmap-flush=64K"];
    let check = |done: &Output, path: &Path| {
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{said}");
        assert!(
            said.contains("holds what was recorded up to there") && said.contains("is readable"),
            "{said}"
        );
        let bytes = std::fs::metadata(path).unwrap().len();
        assert!((1000..=4 << 20).contains(&bytes), "{bytes}");
        assert!(samples(path) > 0);
    };
    let program = ["--", "sh", "-c", "i=0; while [ $i -lt 1500000 ]; do i=$((i+1)); done"];
    for form in ["--no-compress", "-z"] {
        // In units of 512 bytes: compressed, the recording is much smaller.
        let limit = if form == "-z" { "40" } else { "4000" };
        let words = [&["record", form, "-o", "limited"], &CLOCK[..], &stacks, &program].concat();
        let mut shell = Command::new("sh");
        shell.current_dir(dir.path()).args([
            "-c",
            &format!("ulimit -f {limit}; exec \"$@\""),
            "sh",
        ]);
        let done = shell.arg(env!("CARGO_BIN_EXE_planish")).args(words).output().unwrap();
        check(&done, &dir.path().join("limited"));
    }
    let disk = dir.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=2M", "tmpfs"]).arg(&disk).output();
    if !mounted.is_ok_and(|done| done.status.success()) {
        return eprintln!("skipped: cannot mount a small disk");
    }
    let done = planish(
        dir.path(),
        &[&["--no-compress", "-o", "disk/perf.data"], &stacks[..]].concat(),
        &program,
    );
    let result = std::panic::catch_unwind(|| check(&done, &disk.join("perf.data")));
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    result.unwrap();
}

#[test]
fn what_cannot_be_streamed_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("taken")).unwrap();
    let cases: [(&[&str], &str); 12] = [
        (&["--threads", "--switch-output"], "--threads and --switch-output exclude each other"),
        (&["--threads", "--overwrite"], "exclude each other"),
        (&["--threads=sideways"], "cpu, core, package, node or numa"),
        (&["--affinity=moon"], "node, cpu or sys"),
        (&["-z=23"], "22"),
        (&["-r", "100"], "1..=99"),
        (&["--max-size", "10"], "a size with B, K, M or G"),
        (&["--switch-output=never"], "signal, a size"),
        (&["--control", "fd:3"], "fifo:PATH"),
        (&["--control", "fifo:nothing"], "nothing"),
        (&["--mmap-flush", "-"], "a size with B, K, M or G"),
        (&["--threads", "-o", "taken"], "will not be replaced"),
    ];
    for (options, expected) in cases {
        let done = planish(dir.path(), options, &["--", "true"]);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{options:?}: {said}");
        assert!(
            said.contains(expected) || said.contains("perf_event_paranoid"),
            "{options:?}: {said}"
        );
    }
}
