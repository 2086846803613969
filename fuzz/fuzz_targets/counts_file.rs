//! Whether any counts artefact makes its reader panic, hang or take memory without bound. It is a
//! Parquet file, and lies in memory.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::OnceLock;

/// One file for all inputs: to make one costs more than to read most.
fn file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| {
        tempfile::tempfile_in("/dev/shm")
            .or_else(|_| tempfile::tempfile())
            .expect("a file in memory")
    })
}

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let file = file();
    file.set_len(0).and_then(|()| file.write_all_at(bytes, 0)).expect("memory takes it");
    let name = Path::new("fuzzed");
    let again = || file.try_clone().expect("descriptors are left");
    if let Ok((_, mut rows)) = counts::artefact::rows::Rows::open(name, again(), "") {
        let mut spare = Vec::new();
        while let Ok(Some(block)) = rows.next_block(spare) {
            spare = block.rows;
        }
    }
    let Ok(counts) = counts::artefact::read(name, again()) else {
        // Nothing but the magic bytes at both ends lets a file get anywhere.
        return if bytes.starts_with(b"PAR1") { Corpus::Keep } else { Corpus::Reject };
    };
    let _ = counts::text::render(&counts);
    let mut written = Vec::new();
    counts::artefact::write(name, &counts, &mut written).expect("what was read can be written");
    Corpus::Keep
});
