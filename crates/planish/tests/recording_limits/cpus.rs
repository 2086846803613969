//! A CPU that goes offline while the system is recorded. This takes a CPU from the whole machine
//! for a moment, so it is done only where the variable PLANISH_TEST_OFFLINE_CPU names one.

use super::{planish, text};
use std::path::PathBuf;
use std::time::Duration;

/// A CPU that comes back however the test ends.
struct Offline(PathBuf);

impl Drop for Offline {
    fn drop(&mut self) {
        std::fs::write(&self.0, "1").unwrap();
    }
}

#[test]
fn a_cpu_that_goes_offline_is_told_and_the_others_are_recorded() {
    let Ok(cpu) = std::env::var("PLANISH_TEST_OFFLINE_CPU") else {
        return eprintln!(
            "skipped: PLANISH_TEST_OFFLINE_CPU names no CPU that may go offline for a moment"
        );
    };
    let switch = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
    if std::fs::OpenOptions::new().write(true).open(&switch).is_err() {
        return eprintln!("skipped: {} cannot be written", switch.display());
    }
    let going = {
        let switch = switch.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(700));
            let offline = Offline(switch);
            std::fs::write(&offline.0, "0").unwrap();
            std::thread::sleep(Duration::from_millis(1300));
        })
    };
    let dir = tempfile::tempdir().unwrap();
    let busy = ["--", "sh", "-c", "sleep 3; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"];
    let done = planish(dir.path(), &[&["record", "-a", "-e", "cpu-clock", "-c", "1000000"], &busy]);
    going.join().unwrap();
    let said = text(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains(&format!("CPU {cpu} went offline")), "{said}");
}
