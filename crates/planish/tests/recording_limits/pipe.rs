//! The pipe form compressed, and with tracepoints: what perf and planish read out of it is what the
//! summary tells.

use super::{BUSY, planish, possible, text};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A command that gets the recording on its standard input.
fn fed(program: &str, words: &[&str], recording: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: {program} is not installed");
        return None;
    };
    let mut input = child.stdin.take().unwrap();
    let recording = recording.to_vec();
    let feeding = std::thread::spawn(move || input.write_all(&recording));
    let done = child.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    Some(done)
}

/// Records into a pipe; the number of samples that the summary tells, and what went through the
/// pipe.
fn recorded(dir: &Path, options: &[&str], command: &[&str]) -> Option<(usize, Vec<u8>)> {
    let done = planish(dir, &[&["record", "-o", "-"], options, command]);
    let said = text(&done.stderr);
    if said.contains("perf_event_paranoid") || said.contains("tracefs") {
        eprintln!("skipped: {said}");
        return None;
    }
    assert!(done.status.success(), "{said}");
    let told = said.split_whitespace().nth(1).unwrap().parse().unwrap();
    Some((told, done.stdout))
}

#[test]
fn the_pipe_form_can_be_compressed() {
    if !possible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let event = ["-e", "cpu-clock:u", "-c", "200000"];
    for level in ["-z", "-z=9"] {
        let Some((told, piped)) = recorded(dir.path(), &[&event[..], &[level]].concat(), &BUSY)
        else {
            return;
        };
        let input = perfdata::Input::from_pipe(piped.as_slice()).unwrap();
        let mut own = 0;
        for chunk in input.chunks().unwrap() {
            let chunk = chunk.unwrap();
            let records = perfdata::raw_records(&chunk.bytes, chunk.offset, input.endian());
            own += records.filter(|raw| raw.kind == perfdata::kind::SAMPLE).count();
        }
        assert_eq!(own, told);
        assert!(input.features().compressed.is_some());
        let script = fed("perf", &["script", "-F", "time", "-i", "-"], &piped);
        let Some(script) = script else { return };
        assert!(script.status.success(), "{}", text(&script.stderr));
        assert_eq!(text(&script.stdout).lines().count(), told);
        let out = dir.path().join("counts");
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let words =
            ["aggregate", "-", "--binary", shell.to_str().unwrap(), "-o", out.to_str().unwrap()];
        let counted = fed(env!("CARGO_BIN_EXE_planish"), &words, &piped).unwrap();
        let said = text(&counted.stderr);
        assert!(
            counted.status.success() && said.contains(&format!("samples: {told} in")),
            "{said}"
        );
    }
}

#[test]
fn tracepoints_keep_their_fields_in_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let command = ["--", "sh", "-c", "sleep 0.01; sleep 0.01"];
    for options in
        [&["-e", "sched:sched_switch"][..], &["-z", "-e", "cpu-clock", "-e", "sched:sched_switch"]]
    {
        let Some((told, piped)) = recorded(dir.path(), options, &command) else { return };
        let Some(script) = fed("perf", &["script", "-i", "-"], &piped) else { return };
        let shown = text(&script.stdout);
        assert!(script.status.success(), "{}", text(&script.stderr));
        assert_eq!(shown.lines().count(), told, "{shown}");
        assert!(
            shown.contains("sched:sched_switch:") && shown.contains("prev_comm=sleep"),
            "{shown}"
        );
        let input = perfdata::Input::from_pipe(piped.as_slice()).unwrap();
        assert!(input.attrs().iter().any(|attr| attr.kind == 2));
    }
}
