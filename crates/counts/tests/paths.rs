//! Paths: what is counted of pairs of branches, and that nothing else changes by it.
#![allow(clippy::unwrap_used, reason = "a test may fail by panic")]

use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::resolve::Rules;
use counts::{Counts, artefact, merge, script, text};
use image::{Image, ImageAddr};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RULES: [Rules; 4] = [Rules::Auto, Rules::Profgen, Rules::Autofdo, Rules::None];

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

fn count(rules: Rules, threads: usize, paths: bool) -> Aggregated {
    let image = Arc::new(Image::open(&fixture("autofdo/test.binary")).unwrap());
    let path = fixture("autofdo/test.lbr");
    let input = perfdata::Input::open(&path).unwrap();
    let options = CountOptions { rules, threads, pid: None, paths };
    aggregate(&path, &input, &[image], options, &|_| {}).unwrap()
}

fn bytes(counts: &Counts) -> Vec<u8> {
    let mut out = Vec::new();
    artefact::write(Path::new("memory"), counts, &mut out).unwrap();
    out
}

fn read_back(bytes: &[u8]) -> Result<Counts, counts::Error> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    artefact::read(file.path(), std::fs::File::open(file.path()).unwrap())
}

#[test]
fn paths_add_up_to_the_ranges_in_their_middle_and_stay_below_the_branches_at_their_ends() {
    for rules in RULES {
        let found = count(rules, 2, true);
        let ledger = &found.counts.ledger;
        assert!(ledger.balances(), "{rules:?}: {ledger:?}");
        assert_eq!(ledger.paths, ledger.fall_throughs, "{rules:?}");
        let image = &found.counts.images[0];
        let mut ranges: BTreeMap<(ImageAddr, ImageAddr), u64> = BTreeMap::new();
        let mut entered: BTreeMap<(Option<ImageAddr>, Option<ImageAddr>), u64> = BTreeMap::new();
        for path in &image.paths {
            *ranges.entry((path.first, path.last)).or_default() += path.count;
            *entered.entry((path.from, Some(path.first))).or_default() += path.count;
        }
        let expected: BTreeMap<_, _> =
            image.fall_throughs.iter().map(|r| ((r.first, r.last), r.count)).collect();
        assert_eq!(ranges, expected, "{rules:?}");
        assert!(image.paths.len() > image.fall_throughs.len());
        if rules == Rules::Autofdo {
            // Its rule for branches wants both ends inside; paths may come from outside.
            continue;
        }
        for branch in &image.branches {
            let through = entered.remove(&(branch.from, branch.to)).unwrap_or(0);
            assert!(through <= branch.count, "{rules:?}: {branch:?} has paths {through}");
        }
        assert!(
            entered.is_empty(),
            "{rules:?}: paths through branches that were not seen: {entered:?}"
        );
    }
}

#[test]
fn counting_paths_changes_no_other_count_and_threads_change_no_path() {
    for rules in RULES {
        let (without, mut with) = (count(rules, 2, false), count(rules, 1, true));
        assert_eq!(bytes(&with.counts), bytes(&count(rules, 7, true).counts), "{rules:?}");
        assert!(!with.counts.images[0].paths.is_empty());
        with.counts.images[0].paths.clear();
        with.counts.ledger.paths = counts::Book::default();
        assert_eq!(with.counts, without.counts, "{rules:?}");
        assert!(!serde_json::to_string(&without.counts.ledger).unwrap().contains("paths"));
    }
}

#[test]
fn the_artefact_keeps_paths_and_files_without_them_are_as_before() {
    let (with, without) = (count(Rules::Auto, 1, true).counts, count(Rules::Auto, 1, false).counts);
    assert_eq!(read_back(&bytes(&with)).unwrap(), with);
    let plain = bytes(&without);
    assert_eq!(read_back(&plain).unwrap(), without);
    let undivided = |counts: &Counts| {
        let mut counts = counts.clone();
        counts.images.iter_mut().for_each(|image| image.first_half = counts::FirstHalf::default());
        let bytes = bytes(&counts);
        assert_eq!(read_back(&bytes).unwrap(), counts);
        bytes
    };
    for (bytes, version, columns) in [
        (undivided(&with), "2", true),
        (undivided(&without), "1", false),
        (bytes(&with), "4", true),
        (plain, "4", false),
    ] {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let at = text.rfind("planish.counts.version").unwrap();
        let value: String =
            text[at..].chars().skip(22).find(char::is_ascii_digit).into_iter().collect();
        assert_eq!(value, version);
        assert_eq!(text.contains("before"), columns);
    }
}

#[test]
fn merging_adds_paths_and_a_file_without_them_adds_none() {
    let (with, without) = (count(Rules::Auto, 1, true).counts, count(Rules::Auto, 1, false).counts);
    let all = merge([without.clone(), with.clone(), with.clone()]).unwrap();
    assert!(all.ledger.balances());
    assert_eq!(all.ledger.paths.used, 2 * with.ledger.paths.used);
    assert_eq!(all.ledger.branches.used, 3 * with.ledger.branches.used);
    let doubled: Vec<_> =
        with.images[0].paths.iter().map(|p| counts::Path { count: 2 * p.count, ..*p }).collect();
    assert_eq!(all.images[0].paths, doubled);
    assert_eq!(bytes(&all), bytes(&merge([with.clone(), with, without]).unwrap()));
}

#[test]
fn a_damaged_artefact_with_paths_is_refused_or_read_but_never_fatal() {
    let whole = bytes(&count(Rules::Auto, 1, true).counts);
    for at in (0..whole.len()).step_by(whole.len() / 200 + 1) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        let _ = read_back(&damaged);
        assert!(read_back(&whole[..at]).is_err(), "truncated at {at}");
    }
}

#[test]
fn a_stack_gives_one_path_for_each_pair_of_neighbours() {
    // Real ranges of the fixture, so that the code agrees with them.
    let known = count(Rules::Auto, 1, false).counts;
    let ranges = &known.images[0].fall_throughs;
    let (a, b) = (ranges[3], ranges[9]);
    let image = Arc::new(Image::open(&fixture("autofdo/test.binary")).unwrap());
    let entry = |from: u64, to: u64| format!("0x{from:x}/0x{to:x}/P/-/-/0");
    // Newest first: from the end of b to nowhere, from the end of a to b, from nowhere to a.
    let line = format!(
        " {:x} {} {} {}\n",
        a.first.0,
        entry(b.last.0, 0x10),
        entry(a.last.0, b.first.0),
        entry(0x20, a.first.0)
    );
    let options = CountOptions { rules: Rules::Auto, threads: 1, pid: None, paths: true };
    let found =
        script::aggregate(Path::new("text"), line.repeat(3).as_bytes(), &[image], options).unwrap();
    let mut expected = vec![
        counts::Path { from: None, first: a.first, last: a.last, to: Some(b.first), count: 3 },
        counts::Path { from: Some(a.last), first: b.first, last: b.last, to: None, count: 3 },
    ];
    expected.sort();
    assert_eq!(found.counts.images[0].paths, expected);
    assert_eq!(found.counts.ledger.paths.used, 6);
    let shown = text::render(&found.counts);
    let wanted = format!("external->{:x}-{:x}->{:x}:3", a.first.0, a.last.0, b.first.0);
    assert!(shown.lines().any(|l| l == wanted), "{shown}");
}
