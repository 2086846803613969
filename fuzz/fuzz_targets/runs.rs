//! Whether any kept runs make their reader, or what is said of them, panic or hang.
#![no_main]

use compare::runs;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let Ok(first) = runs::read(Path::new("runs.jsonl"), bytes) else { return };
    let mut written = Vec::new();
    runs::write_head(&mut written, &first.design).expect("memory takes it");
    for run in &first.runs {
        runs::write_run(&mut written, run).expect("memory takes it");
    }
    for stopped in &first.stopped {
        runs::write_stopped(&mut written, stopped).expect("memory takes it");
    }
    let again =
        runs::read(Path::new("again.jsonl"), &written[..]).expect("what we wrote is readable");
    assert_eq!(first.runs.len(), again.runs.len());
});
