//! Broken files end in a result or an error, soon, and without growing.

use std::fmt::Write;
use std::time::{Duration, Instant};

use profile::format::gcov::GcovVersion;
use profile::format::{self, Format, MAX_DEPTH, NameStorage, WriteOptions};
use profile::{Error, FunctionProfile, Location, SampleProfile};

use crate::tools::fixture_bytes;

/// A small file of every format and variant.
fn small_files() -> Vec<Vec<u8>> {
    let mut profile =
        format::read(&fixture_bytes("autofdo/llvm_autoprof.golden.textprof")).expect("fixture");
    let first = profile.functions.keys().next().cloned().expect("a function");
    let function = profile.function(&first);
    function.attributes = 2;
    function.checksum = Some(77);
    function.vtables.entry(Location::new(2, 0)).or_default().insert("_ZTV1A".into(), 4);
    profile.symbol_list = vec!["abc".into(), "def".into()];
    profile.provenance.add_compiler("GCC: (GNU) 12");
    profile.provenance.add_build_id("ab".parse().expect("a build ID"));
    let mut files = Vec::new();
    let mut of_lines = profile.clone();
    of_lines.function(&first).checksum = None;
    for format in Format::ALL {
        let has_checksums = matches!(format, Format::Text | Format::ExtBinary);
        let profile = if has_checksums { &profile } else { &of_lines };
        files.push(format::write(profile, format, &WriteOptions::default()).expect("writable"));
    }
    for names in [NameStorage::FixedHash, NameStorage::VariableHash] {
        let options = WriteOptions { names, compress: true, ..WriteOptions::default() };
        files.push(format::write(&profile, Format::ExtBinary, &options).expect("writable"));
    }
    for gcov in [GcovVersion::V1, GcovVersion::V3] {
        let options = WriteOptions { gcov, ..WriteOptions::default() };
        files.push(format::write(&of_lines, Format::Gcov, &options).expect("writable"));
    }
    files
}

fn size(function: &FunctionProfile) -> usize {
    let targets: usize = function.body.values().map(|sample| 1 + sample.targets.len()).sum();
    1 + targets + function.inlined_calls().map(|(_, callee)| size(callee)).sum::<usize>()
}

fn check(bytes: &[u8]) {
    if let Ok(profile) = format::read(bytes) {
        // Nothing in a profile is made without a byte that asks for it; a compressed byte asks for
        // 1032 at most.
        let parts: usize = profile.functions.values().map(size).sum();
        assert!(parts <= bytes.len() * 1032, "{parts} parts out of {} bytes", bytes.len());
    }
}

#[test]
fn every_truncation_and_byte_change_ends_soon() {
    let start = Instant::now();
    for file in small_files() {
        for length in 0..file.len() {
            check(&file[..length]);
        }
        let mut changed = file.clone();
        for at in 0..file.len() {
            for value in [0, 1, 0x20, 0x7f, 0x80, 0xff, file[at] ^ 1, file[at].wrapping_add(1)] {
                changed[at] = value;
                check(&changed);
            }
            changed[at] = file[at];
        }
    }
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_huge_count_of_anything_is_refused_at_once() {
    // Magic and version of the extensible format, then 2^64 - 1 sections.
    let mut bytes =
        format::write(&SampleProfile::default(), Format::ExtBinary, &WriteOptions::default())
            .expect("ok");
    bytes[10..18].fill(0xff);
    assert!(matches!(format::read(&bytes), Err(Error::Corrupt { .. })));
    let mut gcov = format::write(&SampleProfile::default(), Format::Gcov, &WriteOptions::default())
        .expect("ok");
    gcov[20..24].fill(0xff);
    assert!(matches!(format::read(&gcov), Err(Error::Corrupt { .. })));
}

#[test]
fn calls_nested_as_deep_as_allowed_are_kept_and_deeper_ones_refused() {
    let nested = |depth: usize| {
        let mut text = String::from("f:1:1\n");
        for level in 1..=depth {
            writeln!(text, "{:level$}1: f:1", "").expect("memory");
        }
        text
    };
    let profile = format::text::read(nested(MAX_DEPTH).as_bytes()).expect("allowed");
    for format in [Format::Binary, Format::ExtBinary, Format::Gcov] {
        let bytes = format::write(&profile, format, &WriteOptions::default()).expect("writable");
        let back = format::read(&bytes).expect("readable");
        assert_eq!(size(&back.functions[&"f".into()]), MAX_DEPTH + 1);
    }
    let refused = format::text::read(nested(MAX_DEPTH + 1).as_bytes());
    assert_eq!(refused, Err(Error::TooDeep { limit: MAX_DEPTH }));
}

#[test]
fn a_decompression_bomb_is_refused() {
    let options = WriteOptions { compress: true, ..WriteOptions::default() };
    let profile =
        format::read(&fixture_bytes("autofdo/llvm_autoprof.golden.textprof")).expect("fixture");
    let mut bytes = format::write(&profile, Format::ExtBinary, &options).expect("writable");
    // The first section starts behind the header with its claimed size, one byte here: claim 2^35
    // instead.
    let header = 242;
    bytes.splice(header..header + 1, [0x80, 0x80, 0x80, 0x80, 0x80, 0x01]);
    assert!(format::read(&bytes).is_err());
}

#[test]
fn errors_say_where_and_what() {
    let error = format::read(b"main:5:1\n 1: 3\n 2 4\n").expect_err("line 3 is wrong");
    let Error::Text { line, found, .. } = &error else { panic!("{error}") };
    assert_eq!((*line, found.as_str()), (3, " 2 4"));
    assert!(format::read(b"").is_err_and(|error| error == Error::Empty));
    assert!(matches!(format::read(b"\x7fELF"), Err(Error::UnknownFormat { .. })));
    let gcda = format::read(b"adcgB22*\0\0\0\0").expect_err("gcc's own counters");
    assert!(matches!(gcda, Error::Version { .. }), "{gcda}");
}

#[test]
fn names_that_a_format_cannot_spell_are_refused_and_not_written_wrongly() {
    for name in ["", "a\nb", "#a", " a", "a:5 b", "5 x", "vtables x", "[a]", "a\0b"] {
        let mut profile = SampleProfile::default();
        profile.function(&profile::Name::text(name)).total = 1;
        let options = WriteOptions::default();
        assert!(
            matches!(
                format::write(&profile, Format::Text, &options),
                Err(Error::Unwritable { .. })
            ),
            "{name:?}"
        );
        if let Ok(bytes) = format::write(&profile, Format::Binary, &options) {
            assert_eq!(format::read(&bytes), Ok(profile), "{name:?}");
        }
    }
}

#[test]
fn names_with_the_sign_of_a_context_that_are_none_are_refused_in_text() {
    for (name, in_both) in [("a @ b", false), ("[a @ b]", true), ("[a:65536 @ b]", true)] {
        for context_sensitive in [false, true] {
            let mut profile = SampleProfile { context_sensitive, ..SampleProfile::default() };
            profile.function(&profile::Name::text(name)).total = 1;
            match format::write(&profile, Format::Text, &WriteOptions::default()) {
                Ok(bytes) => assert_eq!(format::read(&bytes), Ok(profile), "{name}"),
                Err(Error::Unwritable { .. }) => assert!(context_sensitive || in_both, "{name}"),
                Err(error) => panic!("{name}: {error}"),
            }
        }
    }
}

#[test]
fn a_context_with_a_line_that_no_other_format_holds_is_no_context() {
    assert!(matches!(
        format::read(b"c:1:1\n[a:65536 @ b]:1:1\n"),
        Err(Error::Text { line: 2, .. })
    ));
    format::read(b"[a:65535 @ b]:1:1\n 1: 1\n").expect("the last one that there is");
}
