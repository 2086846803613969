//! The installed compilers take our files without a warning and really use them.

use std::path::Path;

use profile::format::gcov::GcovVersion;
use profile::format::{self, Format, NameStorage, WriteOptions};
use profile::{Location, SampleProfile};

use crate::tools::run;

const SOURCE: &str = "\
__attribute__((noinline)) int cold(int x) { return x * 7 + 3; }
static int odd_even(int x) {
  if (x & 1)
    return x * x;
  return x + 1;
}
__attribute__((noinline)) int hot(int n) {
  int s = 0;
  for (int i = 0; i < n; i++) {
    if (i % 1000 == 999)
      s += cold(i);
    else
      s += odd_even(i);
  }
  return s;
}
int main(int argc, char **argv) {
  (void)argv;
  return hot(argc * 100000) & 1;
}
";

/// Lines and discriminators as clang and gcc number them.
const PROFILE: &str = "\
hot:4000000:1
 1: 1
 2: 1000001
 2.1: 1000001
 2.3: 1000000
 3: 1000000
 4: 1000 cold:1000
 6: odd_even:2000000
  1: 1000000
  2: 500000
  3: 500000
cold:1000:1000
 0: 1000
main:2:1
 2: 1
";

fn profile() -> SampleProfile {
    let mut profile = format::text::read(PROFILE.as_bytes()).expect("text");
    // What only our readers know must not disturb theirs.
    profile.provenance.add_compiler("Debian clang version 22.1.8 (1~deb12u1)");
    profile.provenance.add_build_id("1196848fa8e39e61".parse().expect("a build ID"));
    profile
}

fn prepare(directory: &Path, format: Format, options: &WriteOptions) {
    std::fs::write(directory.join("t.c"), SOURCE).expect("written");
    let bytes = format::write(&profile(), format, options).expect("writable");
    std::fs::write(directory.join("profile"), bytes).expect("written");
}

#[test]
fn clang_uses_every_llvm_format_without_a_warning() {
    let hashed = |names| WriteOptions { names, compress: true, ..WriteOptions::default() };
    for (format, options) in [
        (Format::Text, WriteOptions::default()),
        (Format::Binary, WriteOptions::default()),
        (Format::ExtBinary, WriteOptions::default()),
        (Format::ExtBinary, WriteOptions { compress: true, ..WriteOptions::default() }),
        (Format::ExtBinary, hashed(NameStorage::FixedHash)),
        (Format::ExtBinary, hashed(NameStorage::VariableHash)),
    ] {
        let directory = tempfile::tempdir().expect("temporary directory");
        prepare(directory.path(), format, &options);
        let args = [
            "-O2",
            "-gmlt",
            "-fdebug-info-for-profiling",
            "-fprofile-sample-use=profile",
            "-Wall",
            "-Rpass-analysis=sample-profile",
            "-Rpass=sample-profile",
            "-c",
            "t.c",
            "-o",
            "t.o",
        ];
        let Some(output) = run("clang-22", directory.path(), &args) else { return };
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !messages.contains("warning"),
            "{format} {options:?}: {messages}"
        );
        assert!(
            messages.contains("Applied 1000000 samples from profile"),
            "{format} {options:?}: {messages}"
        );
    }
}

/// The major version of gcc, when it is there and knows AutoFDO.
fn gcc_major(directory: &Path) -> Option<u32> {
    let output = run("gcc", directory, &["-dumpversion"])?;
    String::from_utf8_lossy(&output.stdout).trim().split('.').next()?.parse().ok()
}

/// What gcc's optimised code says about the number of executions.
fn gcc_counts(directory: &Path) -> String {
    let args = [
        "-O2",
        "-fauto-profile=profile",
        "-Wall",
        "-fdump-ipa-afdo-details=dump",
        "-c",
        "t.c",
        "-o",
        "t.o",
    ];
    let output = run("gcc", directory, &args).expect("gcc ran before");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && messages.is_empty(), "{messages}");
    std::fs::read_to_string(directory.join("dump")).expect("gcc's dump")
}

#[test]
fn gcc_takes_the_version_it_wants_and_annotates_its_blocks_with_our_counts() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let Some(major) = gcc_major(directory.path()) else { return };
    let options = WriteOptions { gcov: GcovVersion::for_gcc(major), ..WriteOptions::default() };
    prepare(directory.path(), Format::Gcov, &options);
    let dump = gcc_counts(directory.path());
    for count in ["[count: 1000000]", "[count: 500000]", "[count: 1000]"] {
        assert!(dump.contains(count), "{count} is not in gcc's dump");
    }
    let object = run("objdump", directory.path(), &["-h", "t.o"]);
    if let Some(headers) = object {
        assert!(
            String::from_utf8_lossy(&headers.stdout).contains(".text.hot"),
            "gcc placed nothing as hot"
        );
    }
}

#[test]
fn gcc_takes_the_sum_of_clones_whose_names_it_cuts() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let Some(major) = gcc_major(directory.path()) else { return };
    std::fs::write(directory.path().join("t.c"), SOURCE).expect("written");
    let mut profile = profile();
    let clone = profile.function(&"cold.constprop.0".into());
    clone.head = 234;
    clone.body.entry(Location::new(0, 0)).or_default().count = 234;
    let options = WriteOptions { gcov: GcovVersion::for_gcc(major), ..WriteOptions::default() };
    let bytes = format::write(&profile, Format::Gcov, &options).expect("writable");
    std::fs::write(directory.path().join("profile"), bytes).expect("written");
    assert!(
        gcc_counts(directory.path()).contains("[count: 1234]"),
        "cold and its clone are not one function"
    );
}

#[test]
fn a_profile_of_hashes_is_not_written_for_gcc() {
    let profile = format::text::read(b"12345:5:1\n 1: 5\n").expect("text");
    assert!(format::write(&profile, Format::Gcov, &WriteOptions::default()).is_err());
}
