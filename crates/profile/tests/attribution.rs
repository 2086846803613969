//! Profiles of recorded and of freshly compiled programs equal what llvm-profgen makes of the same
//! counts.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use counts::{Branch, FallThrough, ImageCounts, SampleCount};
use image::debug::DebugInfo;
use image::{DebugSearch, Image, ImageAddr};
use profile::attribute::{
    AttributeError, AttributeOptions, AttributeReport, CountSource, attribute,
};
use profile::{Format, SampleProfile, WriteOptions, format};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// Reads llvm-profgen's unsymbolised form: a number of ranges, ranges, a number of branches,
/// branches; hexadecimal offsets from the text base, where an outside source wraps around.
fn raw_counts(text: &str, base: u64) -> ImageCounts {
    let hex = |digits: &str| u64::from_str_radix(digits, 16).unwrap();
    let address = |offset: u64| ImageAddr(offset.wrapping_add(base));
    let mut counts = ImageCounts { path: "test.binary".to_owned(), ..ImageCounts::default() };
    for line in text.lines().filter(|line| line.contains(':')) {
        let (key, count) = line.split_once(':').unwrap();
        let count = count.parse().unwrap();
        if let Some((from, to)) = key.split_once("->") {
            let from = Some(address(hex(from))).filter(|from| from.0 != 1);
            counts.branches.push(Branch {
                from,
                to: Some(address(hex(to))),
                count,
                mispredicted: 0,
            });
        } else {
            let (first, last) = key.split_once('-').unwrap();
            counts.fall_throughs.push(FallThrough {
                first: address(hex(first)),
                last: address(hex(last)),
                count,
            });
        }
    }
    counts.branches.sort_unstable();
    counts.fall_throughs.sort_unstable();
    counts
}

fn recorded() -> (Image, ImageCounts) {
    let image = Image::open(Path::new(&format!("{FIXTURES}/autofdo/test.binary"))).unwrap();
    let raw = std::fs::read_to_string(format!("{FIXTURES}/peers/test.profgen.raw")).unwrap();
    (image, raw_counts(&raw, 0x40_0000))
}

fn profile_of(
    image: &Image,
    counts: &ImageCounts,
    options: &AttributeOptions,
) -> Result<(SampleProfile, AttributeReport), AttributeError> {
    let debug = DebugInfo::load(image, &DebugSearch::default()).unwrap();
    attribute(image, &debug, counts, options)
}

fn text(profile: &SampleProfile) -> String {
    String::from_utf8(format::write(profile, Format::Text, &WriteOptions::default()).unwrap())
        .unwrap()
}

/// The lines by which two texts differ, the first few of them.
fn differences(ours: &str, theirs: &str) -> String {
    let mut result = String::new();
    let pairs =
        ours.lines().zip(theirs.lines()).enumerate().filter(|(_, (ours, theirs))| ours != theirs);
    for (number, (ours, theirs)) in pairs.take(10) {
        writeln!(result, "line {}: ours `{ours}`, theirs `{theirs}`", number + 1).unwrap();
    }
    writeln!(result, "{} lines and {} lines", ours.lines().count(), theirs.lines().count())
        .unwrap();
    result
}

#[test]
fn the_recorded_program_gives_the_text_that_llvm_profgen_gives() {
    let (image, counts) = recorded();
    let (profile, report) = profile_of(&image, &counts, &AttributeOptions::default()).unwrap();
    let ours = text(&profile);
    let theirs =
        std::fs::read_to_string(format!("{FIXTURES}/peers/test.profgen.textprof")).unwrap();
    assert!(ours == theirs, "{}", differences(&ours, &theirs));
    let accounted =
        report.matched + report.outside_functions + report.outside_code + report.backwards;
    assert_eq!(report.counted, accounted, "every count is accounted for");
    assert!(report.matched_pct() > 99.0, "{:?}", report.lines());
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let (image, counts) = recorded();
    let one = profile_of(&image, &counts, &AttributeOptions::default()).unwrap();
    let three = profile_of(&image, &counts, &AttributeOptions { threads: 3, ..Default::default() })
        .unwrap();
    assert_eq!(one, three);
}

#[test]
fn plain_samples_give_bodies_without_heads_and_zeros() {
    let (image, branches) = recorded();
    let mut samples: Vec<SampleCount> = branches
        .fall_throughs
        .iter()
        .map(|range| SampleCount { address: range.first, count: range.count })
        .collect();
    samples.dedup_by_key(|sample| sample.address);
    let counts = ImageCounts { samples, ..ImageCounts::default() };
    let (profile, report) = profile_of(&image, &counts, &AttributeOptions::default()).unwrap();
    assert!(!report.from_branches);
    assert!(profile.functions.values().all(|function| function.head == 0));
    let zeros = profile
        .functions
        .values()
        .flat_map(|function| function.body.values())
        .filter(|body| body.count == 0);
    assert_eq!(zeros.count(), 0);
    let forced = AttributeOptions { source: CountSource::Branches, ..Default::default() };
    assert!(matches!(profile_of(&image, &counts, &forced), Err(AttributeError::NoCounts { .. })));
}

#[test]
fn counts_that_miss_every_function_are_an_error_with_numbers() {
    let (image, _) = recorded();
    let address = ImageAddr(0x40_09e0); // the procedure linkage table
    let fall_throughs = vec![FallThrough { first: address, last: address, count: 1000 }];
    let counts = ImageCounts { fall_throughs, ..ImageCounts::default() };
    let error = profile_of(&image, &counts, &AttributeOptions::default()).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("0 of 1000") && message.contains("-g1"), "{message}");
}

#[test]
fn ranges_that_make_no_sense_are_counted_and_do_no_harm() {
    let (image, mut counts) = recorded();
    let before = profile_of(&image, &counts, &AttributeOptions::default()).unwrap();
    counts.fall_throughs.push(FallThrough {
        first: ImageAddr(0x40_2000),
        last: ImageAddr(0x40_1000),
        count: 5,
    });
    counts.fall_throughs.push(FallThrough {
        first: ImageAddr(u64::MAX),
        last: ImageAddr(u64::MAX),
        count: 7,
    });
    counts.fall_throughs.push(FallThrough {
        first: ImageAddr(0x10),
        last: ImageAddr(0x20),
        count: 11,
    });
    let (profile, report) = profile_of(&image, &counts, &AttributeOptions::default()).unwrap();
    assert_eq!(profile, before.0);
    assert_eq!((report.backwards, report.outside_code), (12, 11));
}

#[test]
fn the_symbol_list_names_every_function() {
    let (image, counts) = recorded();
    let options = AttributeOptions { symbol_list: true, ..Default::default() };
    let (profile, _) = profile_of(&image, &counts, &options).unwrap();
    assert!(profile.symbol_list.len() > profile.functions.len());
    assert!(profile.symbol_list.iter().any(|name| name == "longest_match"));
}
