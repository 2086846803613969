//! The headers of ELF files whose text is rewritten for superpages: whatever they say, checking and
//! rewriting end with a result or an error, and what is rewritten has at least as much text on
//! superpages as before.
//!
//! Text of 2 MiB is more than a fuzzer moves about, so an input is the two ends of a file of zeros:
//! four bytes for its size, two for the length of the first end, then both ends. The file itself
//! lives in memory.

#![no_main]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::{Corpus, fuzz_target};
use superpages::{Writes, align, check};

/// Files are at most so large, in bytes: room for two superpages of text and what stands around
/// them.
const MOST: u64 = 7 << 20;

fn folder() -> &'static tempfile::TempDir {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let make = || {
        let memory = PathBuf::from("/dev/shm");
        tempfile::tempdir_in(&memory)
            .or_else(|_| tempfile::tempdir())
            .expect("a folder for the outputs")
    };
    FOLDER.get_or_init(make)
}

fn file(data: &[u8]) -> Option<File> {
    let (size, rest) = data.split_first_chunk::<4>()?;
    let (first, rest) = rest.split_first_chunk::<2>()?;
    let (head, tail) = rest.split_at(usize::from(u16::from_le_bytes(*first)).min(rest.len()));
    let size = u64::from(u32::from_le_bytes(*size)) % MOST;
    let file = tempfile::tempfile_in(folder().path()).ok()?;
    file.write_all_at(head, 0).ok()?;
    file.write_all_at(tail, size.saturating_sub(tail.len() as u64)).ok()?;
    file.set_len(size).ok()?;
    Some(file)
}

fuzz_target!(|data: &[u8]| -> Corpus {
    let Some(file) = file(data) else { return Corpus::Reject };
    let input = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let Ok(before) = check(&input) else { return Corpus::Keep };
    assert_eq!(before.eligible_bytes + before.losses.values().sum::<u64>(), before.text_bytes);
    for fill in [false, true] {
        let output = folder().path().join(if fill { "filled" } else { "aligned" });
        let Ok(done) = align(&input, &output, fill, Writes::Large) else { continue };
        let after = check(&output).expect("what was rewritten can be read");
        assert!(done.eligible_bytes >= before.eligible_bytes, "{before:?} {done:?}");
        assert_eq!(after.eligible_bytes, done.eligible_bytes + done.filled_bytes, "{done:?}");
        let places = |found: &superpages::Assessment| {
            found.segments.iter().map(|segment| segment.address).collect::<Vec<_>>()
        };
        assert_eq!(places(&before), places(&after));
    }
    Corpus::Keep
});
