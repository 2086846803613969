//! What is written comes back, for arbitrary profiles.

use proptest::prelude::*;

use profile::format::gcov::GcovVersion;
use profile::format::{self, Format, NameStorage, WriteOptions};
use profile::operations::{add_function, merge, overlap};
use profile::{FunctionProfile, Location, Name, SampleProfile};

use crate::samples::{ALL, Features, profile};

fn round_trip(profile: &SampleProfile, format: Format, options: &WriteOptions) -> SampleProfile {
    let bytes = format::write(profile, format, options).expect("writable");
    assert_eq!(format::detect(&bytes), Some(format));
    assert_eq!(
        bytes,
        format::write(profile, format, options).expect("writable"),
        "not deterministic"
    );
    format::read(&bytes).expect("readable")
}

fn hashed(profile: &SampleProfile) -> SampleProfile {
    fn hash(name: &Name) -> Name {
        Name::Hash(name.hash())
    }
    fn function(from: &FunctionProfile) -> FunctionProfile {
        let mut to = FunctionProfile {
            name: hash(&from.name),
            callsites: Default::default(),
            vtables: Default::default(),
            ..from.clone()
        };
        for sample in to.body.values_mut() {
            sample.targets =
                sample.targets.iter().map(|(name, count)| (hash(name), *count)).collect();
        }
        for (at, types) in &from.vtables {
            to.vtables
                .insert(*at, types.iter().map(|(name, count)| (hash(name), *count)).collect());
        }
        for (at, callees) in &from.callsites {
            to.callsites.insert(
                *at,
                callees.values().map(|callee| (hash(&callee.name), function(callee))).collect(),
            );
        }
        to
    }
    let functions =
        profile.functions.values().map(|from| (hash(&from.name), function(from))).collect();
    SampleProfile { functions, ..profile.clone() }
}

/// What gcc's format can carry: totals are sums.
fn with_sums(profile: &SampleProfile) -> SampleProfile {
    fn set(function: &mut FunctionProfile) {
        function.total = function.body_sum();
        function.callsites.values_mut().flat_map(|callees| callees.values_mut()).for_each(set);
    }
    let mut profile = profile.clone();
    profile.functions.values_mut().for_each(set);
    profile
}

/// As the gcov format keeps it: sums for totals, and at least one entry of what ran.
fn as_gcov(profile: &SampleProfile) -> SampleProfile {
    let ran = |function: &FunctionProfile| u64::from(function.body_sum() > 0);
    let heads = profile.functions.values().map(|function| function.head.max(ran(function)));
    let mut kept = with_sums(profile);
    kept.functions.values_mut().zip(heads).for_each(|(function, head)| function.head = head);
    kept
}

fn without_discriminators(profile: &SampleProfile) -> bool {
    fn flat(function: &FunctionProfile) -> bool {
        let plain = |at: &Location| at.discriminator == 0;
        function.body.keys().all(plain)
            && function.callsites.keys().all(plain)
            && function.inlined_calls().all(|(_, callee)| flat(callee))
    }
    profile.functions.values().all(flat)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn text_keeps_everything_but_flags_and_symbols(profile in profile(Features { flags: false, ..ALL })) {
        prop_assert_eq!(round_trip(&profile, Format::Text, &WriteOptions::default()), profile);
    }

    #[test]
    fn binary_keeps_counts_and_calls(
        profile in profile(Features { hashes: true, large_discriminators: true, ..Features::default() })
    ) {
        prop_assert_eq!(round_trip(&profile, Format::Binary, &WriteOptions::default()), profile);
    }

    #[test]
    fn extbinary_keeps_everything(profile in profile(Features { hashes: false, ..ALL }), compress: bool) {
        let options = WriteOptions { compress, ..WriteOptions::default() };
        prop_assert_eq!(round_trip(&profile, Format::ExtBinary, &options), profile);
    }

    #[test]
    fn extbinary_with_hashes_keeps_everything_but_the_names(profile in profile(ALL), compress: bool, fixed: bool) {
        let names = if fixed { NameStorage::FixedHash } else { NameStorage::VariableHash };
        let options = WriteOptions { names, compress, ..WriteOptions::default() };
        prop_assert_eq!(round_trip(&profile, Format::ExtBinary, &options), hashed(&profile));
    }

    #[test]
    fn gcov_of_version_3_keeps_counts_and_calls(profile in profile(Features::default())) {
        let options = WriteOptions { gcov: GcovVersion::V3, ..WriteOptions::default() };
        prop_assert_eq!(round_trip(&profile, Format::Gcov, &options), as_gcov(&profile));
    }

    #[test]
    fn older_gcov_keeps_the_same_where_lines_have_one_block(profile in profile(Features::default()), first: bool) {
        let gcov = if first { GcovVersion::V1 } else { GcovVersion::V2 };
        let options = WriteOptions { gcov, ..WriteOptions::default() };
        let back = round_trip(&profile, Format::Gcov, &options);
        if without_discriminators(&profile) {
            prop_assert_eq!(back, as_gcov(&profile));
        } else {
            prop_assert!(without_discriminators(&back));
            prop_assert_eq!(round_trip(&back, Format::Gcov, &options), back);
        }
    }

    #[test]
    fn pprof_read_back_is_stable(profile in profile(Features::default())) {
        let bytes = format::write(&profile, Format::Pprof, &WriteOptions::default()).expect("writable");
        // A profile without any location is empty there.
        if let Ok(back) = format::read(&bytes) {
            for (name, function) in &back.functions {
                if let Some(original) = profile.functions.get(name) {
                    for (at, sample) in &original.body {
                        prop_assert_eq!(sample.count, function.body[at].count);
                    }
                }
            }
            let again = format::write(&back, Format::Pprof, &WriteOptions::default()).expect("writable");
            prop_assert_eq!(format::read(&again).expect("readable"), back);
        }
    }

    #[test]
    fn merging_is_commutative_and_associative(a in profile(MERGED), b in profile(MERGED), c in profile(MERGED)) {
        let sum = |a: &SampleProfile, b: &SampleProfile| merge([(a, 1), (b, 1)]).0;
        prop_assert_eq!(sum(&a, &b), sum(&b, &a));
        prop_assert_eq!(sum(&sum(&a, &b), &c), sum(&a, &sum(&b, &c)));
    }

    #[test]
    fn weight_k_is_a_k_fold_merge(a in profile(MERGED), k in 1u64..6) {
        let many = merge((0..k).map(|_| (&a, 1))).0;
        prop_assert_eq!(merge([(&a, k)]).0, many);
    }

    #[test]
    fn a_profile_overlaps_itself_completely(a in profile(Features::default())) {
        // Sums that stopped at the limit have lost their proportions.
        if let Some(overlap) = overlap(&a, &a).filter(|overlap| overlap.base_samples < u64::MAX) {
            prop_assert!((overlap.overlap_pct - 100.0).abs() < 1e-9);
            prop_assert!((overlap.similarity_pct - 100.0).abs() < 1e-3);
        }
    }

    #[test]
    fn any_bytes_are_a_result_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = format::read(&bytes);
    }
}

/// Numbers of sections that LLVM may give, and others, in place of the one that the provenance has.
const PROVENANCE: [u8; 8] = *b"plan\0\0\0\0";

#[test]
fn a_section_of_an_unknown_kind_is_skipped_and_a_provenance_that_is_none_is_an_error() {
    let mut profile = format::text::read(b"main:5:1\n 1: 5\n").expect("text");
    let plain =
        format::write(&profile, Format::ExtBinary, &WriteOptions::default()).expect("writable");
    let without = profile.clone();
    profile.provenance.add_compiler("clang version 22.1.8");
    profile.provenance.add_build_id("0123abcd".parse().expect("a build ID"));
    let bytes =
        format::write(&profile, Format::ExtBinary, &WriteOptions::default()).expect("writable");
    assert_eq!(
        bytes.len(),
        plain.len() + 32 + "compiler: clang version 22.1.8\nbuild ID: 0123abcd\n".len()
    );
    let at = bytes
        .windows(8)
        .position(|window| window == PROVENANCE)
        .expect("the number of the section");
    for kind in [7, 8, 31, 33, 64, 1 << 32, u64::MAX] {
        let mut other = bytes.clone();
        other[at..at + 8].copy_from_slice(&kind.to_le_bytes());
        assert_eq!(format::read(&other).as_ref(), Ok(&without), "kind {kind}");
    }
    let text = bytes
        .windows(9)
        .position(|window| window == b"compiler:")
        .expect("the text of the section");
    for (place, byte) in [(0, b'C'), (0, 0xff), (8, b';'), (31, b'B'), (42, b'g')] {
        let mut broken = bytes.clone();
        broken[text + place] = byte;
        let refused = format::read(&broken).expect_err("a line that is none");
        assert!(refused.to_string().contains("extbinary profile, offset"), "{refused}");
    }
}

#[test]
fn comments_in_text_that_say_nothing_are_no_error() {
    let text = b"# hello\n#compiler: clang version 22.1.8\n# build ID: xyz\n# compiler:\nmain:5:1\n# compiler: GCC: (a) 12\n 1: 5\n";
    let profile = format::read(text).expect("text");
    let compilers: Vec<&str> = profile.provenance.compilers().collect();
    assert_eq!(
        (compilers, profile.provenance.build_ids().len()),
        (vec!["GCC: (a) 12", "clang version 22.1.8"], 0)
    );
    assert_eq!(
        String::from_utf8(format::text::write(&profile)).expect("text"),
        "# compiler: GCC: (a) 12\n# compiler: clang version 22.1.8\nmain:5:1\n 1: 5\n"
    );
}

const MERGED: Features = Features { checksums: false, ..ALL };

#[test]
fn adding_saturates() {
    let mut a = FunctionProfile::new("a".into());
    a.total = u64::MAX - 1;
    a.body.entry(Location::default()).or_default().count = 2;
    let mut sum = a.clone();
    add_function(&mut sum, &a, u64::MAX);
    assert_eq!((sum.total, sum.body[&Location::default()].count), (u64::MAX, u64::MAX));
}
