//! Whether any bytes make the perf.data reader panic, hang or take memory without bound.
#![no_main]

use libfuzzer_sys::fuzz_target;
use perfdata::{Input, OrderOptions, Record, kind, raw_records};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

/// One file in memory for all inputs: to make one costs more than to read most.
fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| {
        tempfile::tempfile_in("/dev/shm")
            .or_else(|_| tempfile::tempfile())
            .expect("a file in memory")
    })
}

fuzz_target!(|bytes: &[u8]| {
    let file = file();
    file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("memory takes it");
    let Ok(input) = Input::open(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())))
    else {
        return;
    };
    let layouts = input.layouts();
    if let Ok(chunks) = input.chunks() {
        let mut unpacked = 0;
        for chunk in chunks {
            let Ok(chunk) = chunk else { break };
            for record in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
                let _ = Record::parse(&record, layouts);
                if record.kind != kind::SAMPLE {
                    continue;
                }
                let Ok(layout) = layouts.for_sample(record.body) else { continue };
                let full = layout.parse(&record);
                let Ok(fast) = layout.fast(&record) else { continue };
                let entries = fast.branches.iter().count();
                assert_eq!(entries, fast.branches.len());
                // The quick way must not see what the thorough one refuses, where that one accepts.
                if let Ok(full) = full {
                    assert_eq!(full.ip.unwrap_or(fast.ip), fast.ip);
                }
            }
            unpacked += chunk.bytes.len();
            // A compressed recording may hold much; the promise is bounded memory, not a short
            // walk.
            if unpacked > 64 << 20 {
                break;
            }
        }
    }
    if let Ok(mut ordered) = input.ordered(OrderOptions { window_bytes: 1 << 20 }) {
        let mut seen = 0;
        while let Some(Ok(record)) = ordered.next() {
            let _ = record.parse();
            seen += 1;
            if seen > 1_000_000 {
                break;
            }
        }
    }
});
