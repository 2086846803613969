//! Trimming, comparing and listing, on small profiles whose answers are plain.

use profile::format::{self, Format, WriteOptions};
use profile::operations::{Trim, diff, hot_functions, merge, trim};
use profile::{Error, Name, SampleProfile};

const TEXT: &str = "hot:1000:10\n 1: 900 warm:5\n 2: 100\nwarm:50:5\n 1: 50\ncold:0:1\n 1: 0\n";

fn profile() -> SampleProfile {
    format::text::read(TEXT.as_bytes()).expect("text")
}

fn names(profile: &SampleProfile) -> Vec<String> {
    profile.functions.keys().map(ToString::to_string).collect()
}

#[test]
fn trimming_the_cold_removes_what_is_below_the_last_cutoff() {
    let mut profile = profile();
    let report = trim(&mut profile, &Trim::cold());
    assert_eq!(names(&profile), ["hot", "warm"]);
    assert_eq!(
        (report.kept, report.removed, report.kept_total, report.removed_total),
        (2, 1, 1050, 0)
    );
}

#[test]
fn trimming_by_number_keeps_the_largest() {
    let mut profile = profile();
    trim(&mut profile, &Trim { keep_top: Some(1), ..Trim::default() });
    assert_eq!(names(&profile), ["hot"]);
}

#[test]
fn trimming_by_name_also_works_on_hashes_and_reports_unknown_names() {
    let mut profile = profile();
    let warm = profile.functions.remove(&Name::text("warm")).expect("there");
    let hash = Name::Hash(Name::text("warm").hash());
    profile.functions.insert(hash.clone(), profile::FunctionProfile { name: hash, ..warm });
    let wanted = Trim { drop: vec!["warm".into(), "nobody".into()], ..Trim::default() };
    let report = trim(&mut profile, &wanted);
    assert_eq!(names(&profile), ["cold", "hot"]);
    assert_eq!(report.unknown_names, ["nobody"]);
}

#[test]
fn the_largest_change_of_share_comes_first() {
    let base = profile();
    let test = format::text::read(b"hot:500:10\n 1: 500\nnew:500:1\n 1: 500\n").expect("text");
    let difference = diff(&base, &test);
    let order: Vec<&str> =
        difference.functions.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(order, ["new", "hot", "warm", "cold"]);
    assert_eq!(difference.functions[0].base_samples, None);
    assert_eq!(difference.functions[0].change_points(), 50.0);
}

#[test]
fn hot_functions_are_those_with_a_count_in_the_hottest_99_percent() {
    let hot = hot_functions(&profile());
    let order: Vec<&str> = hot.iter().map(|function| function.name.as_str()).collect();
    assert_eq!(order, ["hot", "warm"]);
    assert_eq!((hot[0].max_count, hot[0].head), (900, 10));
}

#[test]
fn functions_of_different_checksums_are_not_added() {
    let a = format::text::read(b"f:5:1\n 1: 5\n !CFGChecksum: 1\n").expect("text");
    let b = format::text::read(b"f:7:1\n 1: 7\n !CFGChecksum: 2\n").expect("text");
    let (merged, report) = merge([(&a, 1), (&b, 1)]);
    assert_eq!((merged.functions[&"f".into()].total, report.checksum_conflicts), (5, 1));
}

#[test]
fn a_profile_of_probes_is_not_written_where_its_numbers_would_be_taken_for_lines() {
    let profile =
        format::read(b"f:10:5\n 1: 5\n 2: 5 g:5\n !CFGChecksum: 7\n").expect("a text profile");
    assert!(profile.is_probe_based());
    for form in Format::ALL {
        let written = format::write(&profile, form, &WriteOptions::default());
        match form {
            Format::Text | Format::ExtBinary => {
                assert_eq!(
                    format::read(&written.expect("writable")),
                    Ok(profile.clone()),
                    "{form}"
                );
            }
            _ => assert!(matches!(written, Err(Error::Unwritable { .. })), "{form}"),
        }
    }
}

#[test]
fn a_merged_profile_names_the_compilers_of_all_its_inputs_once() {
    let of = |release: &str| {
        let mut profile = profile();
        profile.provenance.add_compiler(release);
        profile
    };
    let (old, new) = (of("clang version 21.1.8"), of("clang version 22.1.8"));
    assert_eq!(merge([(&old, 2), (&old, 1)]).0.provenance, old.provenance);
    let both = merge([(&new, 1), (&profile(), 1), (&old, 1)]).0.provenance;
    assert_eq!(
        both.compilers().collect::<Vec<_>>(),
        ["clang version 21.1.8", "clang version 22.1.8"]
    );
    assert_eq!(merge([(&new, 1), (&old, 0)]).0.provenance, new.provenance);
}
