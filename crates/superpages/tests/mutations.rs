//! Damaged ELF files: whatever bytes change, checking and rewriting end with a result or an error,
//! and what is rewritten is a file that can be rewritten again to the same bytes.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fs;

use proptest::prelude::*;
use superpages::{Assessment, SUPERPAGE, Writes, align, check};

/// Two segments, of which the second has skewed text of 5 MiB, and two section headers.
fn program() -> Vec<u8> {
    const TEXT: usize = 5 << 20;
    let mut bytes = vec![0x90; 4096 + TEXT + 128];
    bytes[..4096].fill(0);
    let sections = 4096 + TEXT;
    bytes[sections..].fill(0);
    let mut put = |at: usize, value: u64, size: usize| {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    };
    for (at, value) in [(16, 3), (18, 62), (52, 64), (54, 56), (56, 2), (58, 64), (60, 2)] {
        put(at, value, 2);
    }
    put(32, 64, 8);
    put(40, sections as u64, 8);
    for (entry, [flags, offset, address, size]) in
        [(64, [4, 0, 0, 176]), (120, [5, 4096, 0x3000, TEXT as u64])]
    {
        put(entry, 1, 4);
        put(entry + 4, flags, 4);
        for (field, value) in
            [(8, offset), (16, address), (24, address), (32, size), (40, size), (48, 4096)]
        {
            put(entry + field, value, 8);
        }
    }
    put(sections + 64 + 4, 1, 4);
    for (field, value) in [(16, 0x3000), (24, 4096), (32, TEXT as u64), (48, 16)] {
        put(sections + 64 + field, value, 8);
    }
    // The first bytes of the magic number, least significant first.
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes
}

#[test]
fn the_program_itself_is_aligned() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, program()).unwrap();
    let done = align(&input, &output, false, Writes::Large).unwrap();
    assert_eq!(done.eligible_bytes, SUPERPAGE, "{done:?}");
    assert_eq!(done.growth_bytes, 0x2000, "{done:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_change_of_the_headers_makes_anything_panic_or_an_output_that_is_refused(
        changes in prop::collection::vec((0usize..304, any::<u8>(), 0u8..4), 1..6),
        cut in prop::option::of(0usize..5_248_000),
        fill in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let (input, output) = (folder.path().join("in"), folder.path().join("out"));
        let mut bytes = program();
        let sections = bytes.len() - 128;
        for (at, value, kind) in changes {
            let at = if at < 176 { at } else { sections + at - 176 };
            bytes[at] = match kind { 0 => 0, 1 => 0xff, 2 => bytes[at] ^ 1 << (value % 8), _ => value };
        }
        bytes.truncate(cut.unwrap_or(bytes.len()).min(bytes.len()));
        fs::write(&input, &bytes).unwrap();
        let Ok(before) = check(&input) else {
            prop_assert!(align(&input, &output, fill, Writes::Large).is_err());
            return Ok(());
        };
        prop_assert_eq!(before.eligible_bytes + before.losses.values().sum::<u64>(), before.text_bytes);
        if let Ok(done) = align(&input, &output, fill, Writes::Large) {
            let after = check(&output).unwrap();
            prop_assert!(after.eligible_bytes >= before.eligible_bytes, "{:?} {:?}", before, after);
            prop_assert!(done.eligible_bytes >= before.eligible_bytes, "{:?} {:?}", before, done);
            // Filler is text afterwards; what was text before is counted apart from it.
            prop_assert_eq!(after.eligible_bytes, done.eligible_bytes + done.filled_bytes);
            let places = |found: &Assessment| found.segments.iter().map(|s| s.address).collect::<Vec<_>>();
            prop_assert_eq!(places(&before), places(&after));
            prop_assert_eq!(before.kind, after.kind);
            let again = folder.path().join("again");
            let second = align(&output, &again, fill, Writes::Large).unwrap();
            prop_assert_eq!((second.eligible_bytes, second.growth_bytes), (after.eligible_bytes, 0));
            prop_assert!(fs::read(&output).unwrap() == fs::read(&again).unwrap());
        }
    }
}
