//! Invented counts of programs with pseudo probes give the text that llvm-profgen makes of them,
//! and clang uses it.

#![allow(clippy::unwrap_used, reason = "a helper that cannot go on shall fail its test")]

mod invented;

use std::path::Path;
use std::process::Command;

use counts::{FallThrough, ImageCounts, SampleCount};
use image::probes::{Guid, Probes};
use image::{Image, ImageAddr};
use invented::{invent, raw};
use profile::attribute::{AttributeError, AttributeOptions, AttributeReport, attribute_probes};
use profile::format::NameStorage;
use profile::{Format, FunctionProfile, SampleProfile, WriteOptions, format};

const SOURCES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/programs/shapes.cc"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/programs/other.cc"),
];
const FLAGS: [&str; 4] =
    ["-O2", "-gmlt", "-fdebug-info-for-profiling", "-fpseudo-probe-for-profiling"];

/// What a tool prints on both streams; `None`, with a note, when it is not installed.
fn run(directory: &Path, tool: &str, arguments: &[&str]) -> Option<String> {
    let output = match Command::new(tool).args(arguments).current_dir(directory).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped: {tool}: {error}");
            return None;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {text}");
    Some(text.into_owned())
}

fn profile_of(
    image: &Image,
    counts: &ImageCounts,
) -> Result<(SampleProfile, AttributeReport), AttributeError> {
    attribute_probes(image, &Probes::read(image).unwrap(), counts, &AttributeOptions::default())
}

fn text_of(profile: &SampleProfile) -> String {
    String::from_utf8(format::write(profile, Format::Text, &WriteOptions::default()).unwrap())
        .unwrap()
}

fn agree(flags: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [&FLAGS[..], &SOURCES, &["-o", "program"], flags].concat();
    if run(directory.path(), "clang++-22", &arguments).is_none() {
        return;
    }
    let image = Image::open(&directory.path().join("program")).unwrap();
    let counts = invent(&image);
    std::fs::write(directory.path().join("raw"), raw(&image, &counts)).unwrap();
    let arguments =
        ["--binary=program", "--unsymbolized-profile=raw", "--format=text", "--output=theirs"];
    if run(directory.path(), "llvm-profgen-22", &arguments).is_none() {
        return;
    }
    let theirs = std::fs::read_to_string(directory.path().join("theirs")).unwrap();
    let (profile, report) = profile_of(&image, &counts).unwrap();
    assert!(report.from_probes && report.probes > 0);
    assert_eq!(report.without_descriptor, 0);
    let accounted =
        report.matched + report.outside_functions + report.outside_code + report.backwards;
    assert_eq!(report.counted, accounted, "every count is accounted for");
    let ours = text_of(&profile);
    assert!(theirs.lines().count() > 100, "llvm-profgen must have made a profile");
    let differing = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
    assert!(ours == theirs, "{flags:?}: ours and theirs first differ in {differing:?}");
}

#[test]
fn a_cxx_program_gives_the_text_that_llvm_profgen_gives() {
    agree(&["-fuse-ld=lld"]);
}

#[test]
fn split_functions_give_the_text_that_llvm_profgen_gives() {
    agree(&["-fuse-ld=lld", "-O3", "-ffunction-sections", "-mllvm", "-hot-cold-split"]);
}

#[test]
fn a_program_optimised_at_link_time_gives_the_text_that_llvm_profgen_gives() {
    agree(&["-fuse-ld=lld", "-flto=thin"]);
}

#[test]
fn copied_blocks_give_the_text_that_llvm_profgen_gives() {
    agree(&["-fuse-ld=lld", "-O3", "-funroll-loops", "-no-pie", "-fno-pie"]);
}

/// The body of a shared library and its image; `None` without clang.
fn library(directory: &Path) -> Option<(Image, ImageCounts)> {
    let arguments =
        [&FLAGS[..], &["-shared", "-fPIC", "-nostdlib", SOURCES[1], "-o", "other.so"]].concat();
    run(directory, "clang++-22", &arguments)?;
    let image = Image::open(&directory.join("other.so")).unwrap();
    let counts = invent(&image);
    Some((image, counts))
}

fn each(function: &FunctionProfile, visit: &mut impl FnMut(&FunctionProfile)) {
    visit(function);
    function.inlined_calls().for_each(|(_, callee)| each(callee, visit));
}

#[test]
fn every_function_has_the_checksum_of_its_descriptor_and_what_is_written_is_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let Some((image, counts)) = library(directory.path()) else { return };
    let probes = Probes::read(&image).unwrap();
    let (profile, _) = profile_of(&image, &counts).unwrap();
    assert!(profile.is_probe_based());
    let mut seen = 0;
    for function in profile.functions.values() {
        each(function, &mut |function| {
            let descriptor = probes.descriptor(Guid(function.name.hash())).unwrap();
            assert_eq!(function.checksum, Some(descriptor.checksum), "{}", function.name);
            seen += 1;
        });
    }
    assert!(seen > 3, "{seen}");
    for (form, names, compress) in [
        (Format::Text, NameStorage::Plain, false),
        (Format::ExtBinary, NameStorage::Plain, false),
        (Format::ExtBinary, NameStorage::Plain, true),
    ] {
        let options = WriteOptions { names, compress, ..WriteOptions::default() };
        let bytes = format::write(&profile, form, &options).unwrap();
        assert_eq!(format::read(&bytes).unwrap(), profile, "{form} {names:?} {compress}");
    }
    let options = WriteOptions { names: NameStorage::FixedHash, ..WriteOptions::default() };
    let bytes = format::write(&profile, Format::ExtBinary, &options).unwrap();
    assert_eq!(format::read(&bytes).unwrap(), profile.with_hashes());
}

#[test]
fn llvm_profdata_reads_and_merges_what_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let Some((image, counts)) = library(directory.path()) else { return };
    let (profile, _) = profile_of(&image, &counts).unwrap();
    let ours = text_of(&profile);
    for (name, form, compress) in [
        ("text", Format::Text, false),
        ("ext", Format::ExtBinary, false),
        ("packed", Format::ExtBinary, true),
    ] {
        let options = WriteOptions { compress, ..WriteOptions::default() };
        std::fs::write(
            directory.path().join(name),
            format::write(&profile, form, &options).unwrap(),
        )
        .unwrap();
        let arguments = ["merge", "--sample", "--text", name, "-o", "theirs"];
        if run(directory.path(), "llvm-profdata-22", &arguments).is_none() {
            return;
        }
        assert_eq!(
            std::fs::read_to_string(directory.path().join("theirs")).unwrap(),
            ours,
            "{name}"
        );
        let shown = run(directory.path(), "llvm-profdata-22", &["show", "--sample", name]).unwrap();
        assert!(shown.contains("CFG checksum"), "{name}: {shown}");
    }
    // Ours and theirs as extbinary are the same bytes.
    let arguments = ["merge", "--sample", "--extbinary", "text", "-o", "theirs"];
    run(directory.path(), "llvm-profdata-22", &arguments).unwrap();
    let theirs = std::fs::read(directory.path().join("theirs")).unwrap();
    assert!(
        theirs == std::fs::read(directory.path().join("ext")).unwrap(),
        "extbinary differs from llvm-profdata's"
    );
}

#[test]
fn clang_applies_it_without_a_mismatch_and_sees_one_when_a_checksum_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let Some((image, counts)) = library(directory.path()) else { return };
    let (profile, _) = profile_of(&image, &counts).unwrap();
    let mut wrong = profile.clone();
    for function in wrong.functions.values_mut() {
        function.checksum = function.checksum.map(|checksum| checksum ^ 1);
    }
    let rebuild = |profile: &SampleProfile, form: Format| {
        let bytes = format::write(profile, form, &WriteOptions::default()).unwrap();
        std::fs::write(directory.path().join("p.afdo"), bytes).unwrap();
        let own = ["-shared", "-fPIC", "-nostdlib", SOURCES[1], "-o", "again.so"];
        let use_it = ["-fprofile-sample-use=p.afdo", "-Werror", "-Rpass-analysis=sample-profile"];
        let stale =
            ["-mllvm", "-report-profile-staleness", "-mllvm", "-salvage-stale-profile=false"];
        run(directory.path(), "clang++-22", &[&FLAGS[..], &own, &use_it, &stale].concat()).unwrap()
    };
    for form in [Format::Text, Format::ExtBinary] {
        let said = rebuild(&profile, form);
        assert!(
            said.contains("Applied"),
            "{form}: clang must say which samples it applied: {said}"
        );
        assert!(said.contains("(0/"), "{form}: no function may be stale: {said}");
        let said = rebuild(&wrong, form);
        assert!(!said.contains("Applied"), "{form}: nothing fits a wrong checksum: {said}");
    }
}

#[test]
fn what_is_no_profile_of_probes_is_an_error_with_the_next_step() {
    let directory = tempfile::tempdir().unwrap();
    let Some((image, counts)) = library(directory.path()) else { return };
    let sample = |range: &FallThrough| SampleCount { address: range.last, count: range.count };
    let samples = counts.fall_throughs.iter().map(sample).collect();
    let plain = ImageCounts { samples, path: "other.so".to_owned(), ..ImageCounts::default() };
    let message = profile_of(&image, &plain).unwrap_err().to_string();
    assert!(
        message.contains("--branches=auto") && message.contains("--probes ignore"),
        "{message}"
    );

    let none = Probes::default();
    let options = AttributeOptions::default();
    let message = attribute_probes(&image, &none, &counts, &options).unwrap_err().to_string();
    assert!(message.contains("-fpseudo-probe-for-profiling"), "{message}");

    let shift = |at: ImageAddr| ImageAddr(at.0 + 0x1000_0000);
    let elsewhere = counts.fall_throughs.iter().map(|range| FallThrough {
        first: shift(range.first),
        last: shift(range.last),
        ..*range
    });
    let elsewhere = ImageCounts { fall_throughs: elsewhere.collect(), ..ImageCounts::default() };
    let message = profile_of(&image, &elsewhere).unwrap_err().to_string();
    assert!(
        message.contains("only 0 of") && message.contains("the build that was recorded"),
        "{message}"
    );
}
