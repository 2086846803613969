//! Counts of a real recording equal what autofdo 0.19 and llvm-profgen 22 count in it, each under
//! its own rule.

use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::resolve::Rules;
use counts::{Counts, ImageCounts, artefact, merge};
use image::{FileOffset, Image};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

fn count(rules: Rules, threads: usize) -> (Aggregated, Arc<Image>) {
    let image = Arc::new(Image::open(&fixture("autofdo/test.binary")).expect("image"));
    let path = fixture("autofdo/test.lbr");
    let input = perfdata::Input::open(&path).expect("recording");
    let options = CountOptions { rules, threads, pid: None, paths: false };
    let found = aggregate(&path, &input, &[Arc::clone(&image)], options, &|_| {}).expect("counts");
    (found, image)
}

fn only_image(counts: &Counts) -> &ImageCounts {
    assert_eq!(counts.images.len(), 1);
    &counts.images[0]
}

/// The blocks of a listing in sample_merger's form.
fn blocks(text: &str) -> Vec<BTreeMap<String, u64>> {
    let mut lines = text.lines();
    let mut out = Vec::new();
    while let Some(n) = lines.next().and_then(|l| l.parse::<usize>().ok()) {
        let block = lines.by_ref().take(n).map(|line| {
            let (key, count) = line.rsplit_once(':').expect("key:count");
            (key.to_owned(), count.parse().expect("count"))
        });
        out.push(block.collect());
    }
    out
}

fn ranges(counts: &ImageCounts, shift: u64) -> BTreeMap<String, u64> {
    let key = |r: &counts::FallThrough| format!("{:x}-{:x}", r.first.0 - shift, r.last.0 - shift);
    counts.fall_throughs.iter().map(|r| (key(r), r.count)).collect()
}

fn branches(counts: &ImageCounts, shift: u64) -> BTreeMap<String, u64> {
    let both = counts.branches.iter().filter_map(|b| Some((b.from?, b.to?, b.count)));
    both.map(|(f, t, n)| (format!("{:x}->{:x}", f.0 - shift, t.0 - shift), n)).collect()
}

/// autofdo prints file offsets; the fixture's code segment is mapped from this far below its
/// addresses.
fn offset_shift(image: &Image) -> u64 {
    let address = image.address_of(FileOffset(0xfe0)).expect("code at 0xfe0");
    address.0 - 0xfe0
}

#[test]
fn autofdo_rules_give_what_sample_merger_prints() {
    let (found, image) = count(Rules::Autofdo, 2);
    let counts = only_image(&found.counts);
    let text = std::fs::read_to_string(fixture("peers/test.samples.txt")).expect("peer's listing");
    let peer = blocks(&text);
    let shift = offset_shift(&image);
    assert_eq!(ranges(counts, shift), peer[0]);
    assert_eq!(branches(counts, shift), peer[2]);
    let samples: BTreeMap<String, u64> =
        counts.samples.iter().map(|s| (format!("{:x}", s.address.0 - shift), s.count)).collect();
    assert_eq!(samples, peer[1]);
    assert_eq!((counts.fall_throughs.len(), counts.fall_through_total()), (357, 134_677));
    assert_eq!((peer[2].len(), peer[2].values().sum::<u64>()), (253, 142_946));
    assert!(found.counts.ledger.balances());
}

#[test]
fn profgen_rules_give_what_llvm_profgen_prints() {
    let (found, image) = count(Rules::Profgen, 1);
    let counts = only_image(&found.counts);
    let text = std::fs::read_to_string(fixture("peers/test.profgen.raw")).expect("peer's listing");
    let peer = blocks(&text);
    let shift = offset_shift(&image);
    assert_eq!(ranges(counts, shift), peer[0]);
    let internal: BTreeMap<String, u64> = peer[1]
        .iter()
        .filter(|(k, _)| !k.starts_with("ffff"))
        .map(|(k, &n)| (k.clone(), n))
        .collect();
    assert_eq!(branches(counts, shift), internal);
    let entries = counts.branches.iter().filter(|b| b.to.is_some());
    assert_eq!(entries.map(|b| b.count).sum::<u64>(), 143_003);
    assert_eq!((counts.fall_throughs.len(), counts.fall_through_total()), (354, 134_019));
}

#[test]
fn the_default_drops_what_cannot_have_run_and_its_books_balance() {
    let (found, _) = count(Rules::Auto, 2);
    let ledger = &found.counts.ledger;
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!(ledger.samples.entered, 9_232);
    assert_eq!(ledger.branches.entered, 147_712);
    assert_eq!(ledger.fall_throughs.entered, 147_712 - 9_232);
    // autofdo's ranges: none of them is impossible, and the linkage table's are real.
    let counts = only_image(&found.counts);
    assert_eq!((counts.fall_throughs.len(), counts.fall_through_total()), (357, 134_677));
}

#[test]
fn threads_and_the_artefact_change_nothing() {
    let (one, _) = count(Rules::Auto, 1);
    let (many, _) = count(Rules::Auto, 7);
    assert_eq!(one.counts, many.counts);
    let path = Path::new("memory");
    let (mut a, mut b) = (Vec::new(), Vec::new());
    artefact::write(path, &one.counts, &mut a).expect("written");
    artefact::write(path, &many.counts, &mut b).expect("written");
    assert_eq!(a, b);
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), &a).expect("written");
    assert_eq!(
        artefact::read(file.path(), std::fs::File::open(file.path()).unwrap()).expect("read back"),
        one.counts
    );
}

#[test]
fn merging_a_run_with_itself_doubles_every_count() {
    let (one, _) = count(Rules::Auto, 1);
    let twice = merge([one.counts.clone(), one.counts.clone()]).expect("merged");
    assert_eq!(twice.images[0].branch_total(), 2 * one.counts.images[0].branch_total());
    assert_eq!(twice.images[0].fall_throughs.len(), one.counts.images[0].fall_throughs.len());
    assert!(twice.ledger.balances());
}

#[test]
fn a_damaged_artefact_is_refused_or_read_but_never_fatal() {
    let (one, _) = count(Rules::Auto, 1);
    let mut bytes = Vec::new();
    artefact::write(Path::new("memory"), &one.counts, &mut bytes).expect("written");
    let file = tempfile::NamedTempFile::new().expect("temporary file");

    for at in (0..bytes.len()).step_by(bytes.len() / 400 + 1) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        std::fs::write(file.path(), &damaged).expect("written");
        let _ = artefact::read(file.path(), std::fs::File::open(file.path()).unwrap());
        std::fs::write(file.path(), &bytes[..at]).expect("written");
        assert!(
            artefact::read(file.path(), std::fs::File::open(file.path()).unwrap()).is_err(),
            "truncated at {at}"
        );
    }
}

/// The recording as a directory of three files, cut after whole records.
fn as_directory(directory: &Path) {
    let whole = std::fs::read(fixture("autofdo/test.lbr")).expect("recording");
    // The header says where the records are (perf.data-file-format.txt).
    let word =
        |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().expect("8 bytes")) as usize;
    let (start, size) = (word(40), word(48));
    let mut ends = Vec::new();
    let mut at = start;
    for share in 1..=3 {
        while at < start + size * share / 3 {
            let record = usize::from(u16::from_le_bytes([whole[at + 6], whole[at + 7]]));
            assert!(record >= 8, "a record at {at}");
            at += record;
        }
        ends.push(at);
    }
    let mut first = whole[..ends[0]].to_vec();
    first[48..56].copy_from_slice(&((ends[0] - start) as u64).to_le_bytes());
    // Which features lie behind the data: none.
    first[72..104].fill(0);
    for (name, bytes) in [
        ("data", &first[..]),
        ("data.0", &whole[ends[0]..ends[1]]),
        ("data.1", &whole[ends[1]..ends[2]]),
    ] {
        std::fs::write(directory.join(name), bytes).expect("piece");
    }
}

#[test]
fn the_streams_of_a_directory_count_as_one_recording_whatever_the_number_of_threads() {
    let (whole, image) = count(Rules::Auto, 1);
    let directory = tempfile::tempdir().expect("directory");
    as_directory(directory.path());
    let input = perfdata::Input::open(directory.path()).expect("directory form");
    assert_eq!(input.stream_count(), 3);
    for threads in [1, 2, 3, 8] {
        let options = CountOptions { rules: Rules::Auto, threads, pid: None, paths: false };
        let images = [Arc::clone(&image)];
        let found = aggregate(directory.path(), &input, &images, options, &|_| {}).expect("counts");
        assert_eq!(found.samples, whole.samples);
        assert_eq!(found.counts.images, whole.counts.images, "{threads} threads");
        // The recording in one file has eight bytes behind its last section, which its streams have
        // not.
        let ledger = counts::Ledger { surplus_bytes: 8, ..found.counts.ledger };
        assert_eq!(ledger, whole.counts.ledger, "{threads} threads");
    }
}

#[test]
fn a_damaged_stream_gives_the_same_error_whatever_the_number_of_threads() {
    let directory = tempfile::tempdir().expect("directory");
    as_directory(directory.path());
    for name in ["data.0", "data.1"] {
        let mut bytes = std::fs::read(directory.path().join(name)).expect("piece");
        bytes[6..8].fill(0);
        std::fs::write(directory.path().join(name), bytes).expect("damaged piece");
    }
    let input = perfdata::Input::open(directory.path()).expect("directory form");
    for threads in [1, 2, 8] {
        let options = CountOptions { rules: Rules::Auto, threads, pid: None, paths: false };
        let error =
            aggregate(directory.path(), &input, &[], options, &|_| {}).expect_err("damaged");
        let said = std::error::Error::source(&error).expect("cause").to_string();
        assert!(
            said.contains("data.0") && said.contains("record size of 0"),
            "{threads} threads: {said}"
        );
    }
}
