//! Recordings through the kernel: perf and our own reader agree on them.

mod support;

use record::live::{self, Branches, Rate, RecordOptions, Target};
use record::{Error, Stdout, Workload};
use support::{check, compile, has, run};

fn options() -> RecordOptions {
    RecordOptions {
        branches: Branches::Auto,
        rate: Some(Rate::Period(100_000)),
        ..RecordOptions::default()
    }
}

#[test]
fn a_command_is_recorded_from_its_first_instruction() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "sort.c", &[]) else { return };
    let workload = Workload {
        argv: vec![program.clone().into(), "40".into()],
        stdout: Stdout::Discard,
        ..Workload::default()
    };
    let output = dir.path().join("perf.data");
    let summary = match live::record(&Target::Command, Some(&workload), &output, &options()) {
        Err(Error::Refused { reason, .. }) => return eprintln!("skipped: {reason}"),
        result => result.unwrap(),
    };
    let facts = check(&output);
    assert_eq!((facts.samples, facts.pids.len()), (summary.samples, 1));
    assert!(facts.files.contains(program.to_str().unwrap()), "{:?}", facts.files);
    assert!(facts.comms.contains("sort"));
    if has("perf") {
        let (done, text, errors) =
            run("perf", &["script", "-i", output.to_str().unwrap(), "-F", "ip,sym"]);
        assert!(done, "{errors}");
        assert_eq!(text.lines().count() as u64, summary.samples);
        assert!(text.contains("msort") || text.contains("compare"), "symbols are resolved");
    }
    let again = live::record(&Target::Command, Some(&workload), &output, &options()).unwrap();
    assert!(again.samples > 0 && dir.path().join("perf.data.old").is_file());
}

#[test]
fn a_running_process_is_recorded_with_what_it_mapped_before() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = compile(dir.path(), "sort.c", &[]) else { return };
    let mut running = std::process::Command::new(&program)
        .arg("100000")
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let output = dir.path().join("perf.data");
    let pid = running.id() as i32;
    let timer = Workload::new(["sleep", "0.3"]);
    let result = live::record(&Target::Processes(vec![pid]), Some(&timer), &output, &options());
    running.kill().unwrap();
    running.wait().unwrap();
    match result {
        Err(Error::Refused { reason, .. }) => eprintln!("skipped: {reason}"),
        result => {
            let summary = result.unwrap();
            let facts = check(&output);
            assert_eq!(
                (facts.samples, facts.pids.into_iter().collect::<Vec<_>>()),
                (summary.samples, vec![pid])
            );
            assert!(facts.files.contains(program.to_str().unwrap()));
        }
    }
}

#[test]
fn a_process_that_is_not_there_is_named() {
    let output = std::env::temp_dir().join("planish-no-process");
    let error =
        live::record(&Target::Processes(vec![0x3fff_fff0]), None, &output, &options()).unwrap_err();
    assert!(matches!(error, Error::NoProcess { .. } | Error::Refused { .. }), "{error}");
}
