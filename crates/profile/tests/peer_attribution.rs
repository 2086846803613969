//! Invented counts of freshly compiled programs give the text that llvm-profgen makes of the same
//! counts.

#![allow(clippy::unwrap_used)]

mod invented;

use std::path::Path;
use std::process::Command;

use counts::{FallThrough, ImageCounts, SampleCount};
use image::debug::DebugInfo;
use image::{DebugSearch, Image};
use invented::{invent, raw};
use profile::attribute::{AttributeOptions, attribute};
use profile::{Format, WriteOptions, format};

fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

fn run(directory: &Path, tool: &str, arguments: &[&str]) {
    let output = Command::new(tool).args(arguments).current_dir(directory).output().unwrap();
    assert!(
        output.status.success(),
        "{tool} {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn agree(compiler: &str, flags: &[&str]) {
    if !has(compiler) || !has("llvm-profgen-22") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let programs = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/programs");
    let sources = [format!("{programs}/shapes.cc"), format!("{programs}/other.cc")];
    run(
        directory.path(),
        compiler,
        &[&[&*sources[0], &*sources[1], "-o", "program"], flags].concat(),
    );
    let image = Image::open(&directory.path().join("program")).unwrap();
    let counts = invent(&image);
    std::fs::write(directory.path().join("raw"), raw(&image, &counts)).unwrap();
    let arguments =
        ["--binary=program", "--unsymbolized-profile=raw", "--format=text", "--output=theirs"];
    run(directory.path(), "llvm-profgen-22", &arguments);
    let theirs = std::fs::read_to_string(directory.path().join("theirs")).unwrap();
    let debug = DebugInfo::load(&image, &DebugSearch::default()).unwrap();
    let (profile, _) = attribute(&image, &debug, &counts, &AttributeOptions::default()).unwrap();
    let ours = format::write(&profile, Format::Text, &WriteOptions::default()).unwrap();
    let ours = String::from_utf8(ours).unwrap();
    assert!(theirs.lines().count() > 100, "llvm-profgen must have made a profile");
    let differing = ours.lines().zip(theirs.lines()).find(|(ours, theirs)| ours != theirs);
    assert!(ours == theirs, "{flags:?}: ours and theirs first differ in {differing:?}");
}

#[test]
fn clang_with_dwarf_5_agrees() {
    agree("clang++-22", &["-O2", "-g", "-fdebug-info-for-profiling"]);
}

#[test]
fn clang_with_unrolled_loops_and_duplication_factors_agrees() {
    agree(
        "clang++-22",
        &["-O3", "-gmlt", "-gdwarf-4", "-fdebug-info-for-profiling", "-funroll-loops"],
    );
}

#[test]
fn flow_sensitive_discriminators_are_taken_whole() {
    let flags =
        ["-O2", "-gmlt", "-fdebug-info-for-profiling", "-mllvm", "-enable-fs-discriminator"];
    agree("clang++-22", &flags);
}

#[test]
fn unique_names_of_local_functions_agree() {
    agree(
        "clang++-22",
        &["-O2", "-gmlt", "-fdebug-info-for-profiling", "-funique-internal-linkage-names"],
    );
}

#[test]
fn gcc_with_split_cold_code_agrees() {
    agree("g++", &["-O2", "-g", "-freorder-blocks-and-partition"]);
}

#[test]
fn clang_uses_a_profile_of_plain_samples() {
    if !has("clang++-22") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../image/tests/programs/other.cc");
    let common =
        ["-O2", "-gmlt", "-fdebug-info-for-profiling", "-shared", "-fPIC", "-nostdlib", source];
    run(directory.path(), "clang++-22", &[&common[..], &["-o", "other.so"]].concat());
    let image = Image::open(&directory.path().join("other.so")).unwrap();
    let sample = |range: &FallThrough| SampleCount { address: range.last, count: range.count };
    let samples = invent(&image).fall_throughs.iter().map(sample).collect();
    let counts = ImageCounts { samples, ..ImageCounts::default() };
    let debug = DebugInfo::load(&image, &DebugSearch::default()).unwrap();
    let (profile, _) = attribute(&image, &debug, &counts, &AttributeOptions::default()).unwrap();
    for (name, form) in [("text", Format::Text), ("extbinary", Format::ExtBinary)] {
        let bytes = format::write(&profile, form, &WriteOptions::default()).unwrap();
        std::fs::write(directory.path().join(name), bytes).unwrap();
        let with_profile = format!("-fprofile-sample-use={name}");
        let output = Command::new("clang++-22")
            .args(common)
            .args([&with_profile, "-Werror", "-Rpass-analysis=sample-profile", "-o", "again.so"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let remarks = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{remarks}");
        assert!(
            remarks.contains("Applied"),
            "{name}: clang must say which samples it applied: {remarks}"
        );
    }
}
