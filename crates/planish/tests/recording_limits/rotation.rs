//! Files of one recording: each knows the kernel's text, not only the first.

use super::{planish, text};
use std::process::Command;

#[test]
fn every_file_knows_the_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let record = [
        "record",
        "-a",
        "-e",
        "cpu-clock",
        "-F",
        "500",
        "--switch-output=1s",
        "--",
        "sleep",
        "2.5",
    ];
    let done = planish(dir.path(), &[&record]);
    let said = text(&done.stderr);
    if said.contains("perf_event_paranoid") {
        return eprintln!("skipped: {said}");
    }
    assert!(done.status.success(), "{said}");
    let mut mapped = Vec::new();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let script =
            Command::new("perf").args(["script", "--show-mmap-events", "-i"]).arg(&path).output();
        let Ok(script) = script else { return eprintln!("skipped: perf is not installed") };
        assert!(script.status.success(), "{}: {}", path.display(), text(&script.stderr));
        let shown = text(&script.stdout);
        let kernel = |line: &str| line.contains("MMAP") && line.contains("[kernel.kallsyms]_text");
        mapped.push(shown.lines().any(kernel));
    }
    assert!(mapped.len() > 1, "{said}");
    if mapped.iter().all(|mapped| !mapped) {
        return eprintln!("skipped: the kernel's addresses are not shown here");
    }
    assert!(mapped.iter().all(|mapped| *mapped), "{mapped:?}");
}
