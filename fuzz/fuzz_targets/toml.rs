//! Whether any planish.toml makes its readers panic, hang or unfold it without bound.
#![no_main]

use build::Config;
use build::variants::CompareConfig;
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let path = Path::new("planish.toml");
    if let Ok(config) = Config::parse(&text, path) {
        let lines = config.workload.train.all().into_iter().chain(config.evaluate.command.all());
        lines.for_each(|line| drop(build::split_words(line)));
    }
    if let Ok(config) = CompareConfig::parse(&text, path) {
        let cells = config.cells().expect("what was checked can be laid out");
        assert!(cells.len() <= 10_000);
        let _ = config.matrix_variants();
    }
});
