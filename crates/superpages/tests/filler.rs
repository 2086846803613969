//! Filler is made text where that completes a superpage, and only there; what stands in filler
//! keeps a place.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that panics fails")]

use std::fs;

use superpages::{SUPERPAGE, Writes, align, check};

/// A position-independent file of zeros whose text begins at its first byte, is that long and lies
/// at that address.
fn file(size: u64, text: u64, address: u64) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let fields = [
        (16, 3),
        (18, 62),
        (20, 1),
        (32, 64),
        (52, 64),
        (54, 56),
        (56, 1),
        (58, 64),
        (64, 1),
        (68, 5),
    ];
    fields.iter().for_each(|&(at, value)| bytes[at] = value);
    for (at, value) in [(80, address), (88, address), (96, text), (104, text), (112, 4096)] {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[test]
fn filler_behind_text_that_cannot_move_is_no_gain() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    // Its start is the start of the file, so it keeps the distance between offset and address: no
    // superpage.
    fs::write(&input, file(4 * SUPERPAGE, 2 * SUPERPAGE, 0x3000)).unwrap();
    let refused = align(&input, &output, true, Writes::Large).unwrap_err().to_string();
    assert!(refused.contains("cannot move"), "{refused}");
    let found = check(&input).unwrap();
    assert_eq!((found.aligned_pct, found.filled_pct), (None, None));
    assert!(!output.exists());
}

#[test]
fn filler_behind_text_on_superpages_completes_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    fs::write(&input, file(4 * SUPERPAGE, 2 * SUPERPAGE + 4096, 0)).unwrap();
    let done = align(&input, &output, true, Writes::Large).unwrap();
    assert_eq!(
        (done.eligible_bytes, done.filled_bytes),
        (2 * SUPERPAGE + 4096, SUPERPAGE - 4096),
        "{done:?}"
    );
    assert_eq!(check(&output).unwrap().eligible_bytes, 3 * SUPERPAGE);
}

#[test]
fn tables_that_lie_over_each_other_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let mut bytes = file(4 * SUPERPAGE, 2 * SUPERPAGE + 4096, 0);
    // The table of sections begins within that of segments.
    (bytes[40], bytes[60]) = (100, 1);
    fs::write(&input, bytes).unwrap();
    check(&input).unwrap();
    let refused = align(&input, &output, true, Writes::Large).unwrap_err().to_string();
    assert!(refused.contains("over each other"), "{refused}");
}

#[test]
fn a_table_of_no_sections_in_filler_that_goes_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let mut bytes = file(4 * SUPERPAGE, 2 * SUPERPAGE + 4096, 0);
    bytes[40..48].copy_from_slice(&(3 * SUPERPAGE + 0x7000).to_le_bytes());
    fs::write(&input, bytes).unwrap();
    let done = align(&input, &output, true, Writes::Large).unwrap();
    assert_eq!(check(&output).unwrap().eligible_bytes, done.eligible_bytes + done.filled_bytes);
}

#[test]
fn an_empty_segment_in_filler_that_goes_keeps_a_place_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let mut bytes = file(4 * SUPERPAGE, 2 * SUPERPAGE + 4096, 0);
    (bytes[56], bytes[120], bytes[124]) = (2, 1, 6);
    let (address, memory) = (8 * SUPERPAGE + 0x3000, 0x100);
    for (at, value) in
        [(128, 3 * SUPERPAGE + 0x7000), (136, address), (144, address), (160, memory), (168, 4096)]
    {
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    fs::write(&input, bytes).unwrap();
    let done = align(&input, &output, true, Writes::Large).unwrap();
    assert_eq!(check(&output).unwrap().eligible_bytes, done.eligible_bytes + done.filled_bytes);
    assert_eq!(fs::metadata(&output).unwrap().len(), 3 * SUPERPAGE);
    let written = fs::read(&output).unwrap();
    assert_eq!(u64::from_le_bytes(written[128..136].try_into().unwrap()), 3 * SUPERPAGE);
}
