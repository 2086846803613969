//! What cannot be recorded: one clear error, before the program starts where that can be known, and
//! no half file.

use super::{planish, said, works};
use std::process::Command;

#[test]
fn senseless_options_are_refused_before_the_program_starts() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&[&str], &str); 7] = [
        (&["--depth", "0"], "2048"),
        (&["--depth", "5000"], "2048"),
        (&["--budget", "0"], "0.01%"),
        (&["--budget", "half"], "%"),
        (&["-a"], "-p PID"),
        (&["-g"], "-g"),
        (&["-e", "cpu-clock"], "-e"),
    ];
    for (options, hint) in cases {
        let words = [&["record", "--branches=software"], options, &["--", "sh", "-c", "echo >ran"]]
            .concat();
        let done = planish(dir.path(), &words).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{options:?}");
        assert!(said(&done).contains(hint), "{options:?}: {}", said(&done));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{options:?}");
    }
}

#[test]
fn a_full_disk_is_one_error_and_no_half_file() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // A file may take some blocks of 512 or 1024 bytes; what goes beyond is refused like on a full
    // disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f 40; exec {} record --branches=software --depth 1024 -c 200000 -- \
         sh -c 'i=0; while [ $i -lt 900000 ]; do i=$((i+1)); done'",
        env!("CARGO_BIN_EXE_planish")
    );
    let done = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    let said = said(&done);
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("perf.data") && said.contains("arge"), "{said}");
    assert_eq!(said.matches("error").count(), 1, "{said}");
    assert!(!dir.path().join("perf.data").exists());
}
