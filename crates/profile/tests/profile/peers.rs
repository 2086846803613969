//! llvm-profdata reads what we write and we read what it writes, byte for byte where it can be.

use profile::format::{self, Format, NameStorage, WriteOptions};
use profile::operations::{Summary, overlap};

use crate::samples::FIXTURES;
use crate::tools::{PROFDATA, fixture, fixture_bytes, stdout};

/// What llvm-profdata writes for `input`.
fn profdata(input: &std::path::Path, options: &[&str]) -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().expect("temporary directory");
    let input = input.to_str().expect("path");
    let args = [&["merge", "--sample"], options, &[input, "-o", "out"]].concat();
    stdout(PROFDATA, directory.path(), &args)?;
    Some(std::fs::read(directory.path().join("out")).expect("output"))
}

fn profdata_text(bytes: &[u8]) -> Option<String> {
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    profdata(file.path(), &["--text"]).map(|text| String::from_utf8(text).expect("text"))
}

#[test]
fn uncompressed_files_equal_llvm_profdata_byte_for_byte() {
    for name in FIXTURES {
        let profile = format::read(&fixture_bytes(name)).expect(name);
        let hashed = WriteOptions { names: NameStorage::FixedHash, ..WriteOptions::default() };
        for (format, options, flags) in [
            (Format::Text, WriteOptions::default(), &["--text"][..]),
            (Format::Binary, WriteOptions::default(), &["--binary"]),
            (Format::ExtBinary, WriteOptions::default(), &["--extbinary"]),
            (Format::ExtBinary, hashed, &["--extbinary", "--use-md5"]),
        ] {
            let Some(theirs) = profdata(&fixture(name), flags) else { return };
            let ours = format::write(&profile, format, &options).expect("writable");
            assert!(ours == theirs, "{name} as {format} {flags:?} differs from llvm-profdata");
            // Functions of equal totals are ordered by name, which a file of hashes has lost.
            if options.names == NameStorage::Plain {
                let back = format::read(&theirs).expect("readable");
                assert_eq!(format::write(&back, format, &options).expect("writable"), theirs);
            }
        }
    }
}

#[test]
fn llvm_profdata_reads_every_variant_to_the_same_text() {
    for name in FIXTURES {
        let mut profile = format::read(&fixture_bytes(name)).expect(name);
        profile.symbol_list = vec!["cold_one".into(), "cold_two".into()];
        let text = String::from_utf8(format::text::write(&profile)).expect("text");
        for compress in [false, true] {
            let options = WriteOptions { compress, ..WriteOptions::default() };
            let bytes = format::write(&profile, Format::ExtBinary, &options).expect("writable");
            let Some(theirs) = profdata_text(&bytes) else { return };
            assert_eq!(theirs, text, "{name}, compressed: {compress}");
        }
        for names in [NameStorage::FixedHash, NameStorage::VariableHash] {
            let options = WriteOptions { names, compress: true, ..WriteOptions::default() };
            let bytes = format::write(&profile, Format::ExtBinary, &options).expect("writable");
            let Some(theirs) = profdata_text(&bytes) else { return };
            let ours = format::text::write(&format::read(&bytes).expect("readable"));
            assert_eq!(theirs.as_bytes(), ours, "{name}, {names:?}");
        }
    }
}

#[test]
fn every_llvm_skips_the_provenance_without_a_word() {
    let plain = format::read(&fixture_bytes(FIXTURES[0])).expect("fixture");
    let mut profile = plain.clone();
    profile.provenance.add_compiler("Debian clang version 22.1.8 (1~deb12u1)");
    profile.provenance.add_build_id("1196848fa8e39e61".parse().expect("a build ID"));
    let directory = tempfile::tempdir().expect("temporary directory");
    for tool in (14..=40)
        .map(|release| format!("llvm-profdata-{release}"))
        .chain(["llvm-profdata".to_owned()])
    {
        for (form, compress) in
            [(Format::Text, false), (Format::ExtBinary, false), (Format::ExtBinary, true)]
        {
            let options = WriteOptions { compress, ..WriteOptions::default() };
            for (name, profile) in [("with", &profile), ("without", &plain)] {
                let bytes = format::write(profile, form, &options).expect("writable");
                std::fs::write(directory.path().join(name), bytes).expect("written");
            }
            let said = |name: &str, out: &str| {
                let merge = ["merge", "--sample", "--text", "-o", out, name];
                let output = std::process::Command::new(&tool)
                    .args(merge)
                    .current_dir(&directory)
                    .output()
                    .ok()?;
                assert!(
                    output.status.success() && output.stderr.is_empty(),
                    "{tool}, {name} {form}: {output:?}"
                );
                std::fs::read_to_string(directory.path().join(out)).ok()
            };
            let Some(theirs) = said("with", "a") else { break };
            assert_eq!(Some(&theirs), said("without", "b").as_ref(), "{tool}, {form}");
            assert_eq!(format::read(theirs.as_bytes()).expect("text"), plain, "{tool}, {form}");
        }
    }
}

#[test]
fn we_read_every_variant_of_llvm_profdata() {
    for name in FIXTURES {
        let plain = format::read(&fixture_bytes(name)).expect(name);
        for flags in [
            &["--extbinary", "--compress-all-sections"][..],
            &["--extbinary", "--use-md5", "--compress-all-sections"],
            &["--extbinary", "--gen-partial-profile"],
            &["--extbinary", "--split-layout"],
            &["--extbinary", "--split-layout", "--use-md5", "--compress-all-sections"],
        ] {
            let Some(bytes) = profdata(&fixture(name), flags) else { return };
            let read = format::read(&bytes).expect("readable");
            assert_eq!(read.partial, flags.contains(&"--gen-partial-profile"));
            if !flags.contains(&"--use-md5") {
                assert_eq!(read.functions, plain.functions, "{name} {flags:?}");
            }
            assert_eq!(
                Some(String::from_utf8(format::text::write(&read)).expect("text")),
                profdata_text(&bytes)
            );
        }
    }
}

#[test]
fn metadata_of_probe_profiles_reads_like_llvm_profdata_reads_it() {
    let text =
        "a:10:1\n 1: 5\n 2: x:5\n  1: 3\n  !CFGChecksum: 8\n  !Attributes: 2\n !CFGChecksum: 7\n";
    let profile = format::text::read(text.as_bytes()).expect("text");
    assert_eq!(String::from_utf8(format::text::write(&profile)).expect("text"), text);
    let bytes =
        format::write(&profile, Format::ExtBinary, &WriteOptions::default()).expect("writable");
    if let Some(theirs) = profdata_text(&bytes) {
        assert_eq!(theirs, text);
    }
}

#[test]
fn context_profiles_are_read_and_kept_as_names() {
    let text = "[main]:50:4\n 1: 5\n[main:3 @ foo]:50:4\n 1: 5\n !Attributes: 1\n[main:3.1 @ foo:4 @ bar]:40:4\n 1: 5 baz:5\n";
    let profile = format::text::read(text.as_bytes()).expect("text");
    let names: Vec<String> = profile.functions.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["[main:3 @ foo]", "[main:3.1 @ foo:4 @ bar]", "main"]);
    let file = tempfile::NamedTempFile::new().expect("temporary file");
    std::fs::write(file.path(), text).expect("written");
    for flags in [&["--extbinary"][..], &["--extbinary", "--compress-all-sections"]] {
        let Some(bytes) = profdata(file.path(), flags) else { return };
        assert_eq!(format::read(&bytes).expect("readable"), profile);
        assert_eq!(
            Some(String::from_utf8(format::text::write(&profile)).expect("text")),
            profdata_text(&bytes)
        );
    }
}

#[test]
fn contexts_are_written_so_that_llvm_profdata_reads_them() {
    // Alone, deep, with the same text order as frame order and with another one, and one with a
    // checksum.
    let texts = [
        "[main]:50:4\n 1: 5\n",
        "[main:10 @ foo]:50:4\n 1: 5 baz:3 foo:2\n[main:3 @ foo]:50:4\n 1: 5\n[main:3.1 @ foo:4 @ bar]:40:4\n 1: 5 baz:5\n\
         [bar]:7:1\n 2: 7\n[bar:2 @ foo]:7:0\n 2.5: 0\n",
        "[a:1 @ b]:9:9\n 1: 9\n !CFGChecksum: 12345\n !Attributes: 3\n[b]:1:1\n 1: 1\n !CFGChecksum: 12345\n",
    ];
    for text in texts {
        let profile = format::text::read(text.as_bytes()).expect("text");
        assert!(profile.context_sensitive);
        let own = String::from_utf8(format::text::write(&profile)).expect("text");
        assert_eq!(format::text::read(own.as_bytes()).expect("text"), profile);
        for compress in [false, true] {
            let options = WriteOptions { compress, ..WriteOptions::default() };
            let bytes = format::write(&profile, Format::ExtBinary, &options).expect("writable");
            assert_eq!(format::read(&bytes).expect("readable"), profile);
            let Some(theirs) = profdata_text(&bytes) else { return };
            assert_eq!(theirs, own);
            let file = tempfile::NamedTempFile::new().expect("temporary file");
            std::fs::write(file.path(), &bytes).expect("written");
            let Some(again) = profdata(file.path(), &["--extbinary"]) else { return };
            assert_eq!(format::read(&again).expect("readable"), profile);
            if !compress {
                assert_eq!(again.len(), bytes.len(), "the sections are those of llvm-profdata");
            }
        }
        let options = WriteOptions { names: NameStorage::FixedHash, ..WriteOptions::default() };
        let bytes = format::write(&profile, Format::ExtBinary, &options).expect("writable");
        assert_eq!(format::read(&bytes).expect("readable"), profile.with_hashes());
        assert!(profdata_text(&bytes).is_some());
        for form in [Format::Binary, Format::Gcov] {
            let refused = format::write(&profile, form, &WriteOptions::default());
            assert_eq!(refused.is_err(), text.contains('@'), "{form}");
        }
    }
}

#[test]
fn what_looks_like_a_context_and_is_none_is_an_error() {
    for text in [
        "[main @ foo]:1:1\n",
        "[main:x @ foo]:1:1\n",
        "[]:1:1\n",
        "[:3 @ foo]:1:1\n",
        "[a:3 @ ]:1:1\n",
    ] {
        assert!(format::text::read(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn the_summary_equals_the_detailed_summary_of_llvm_profdata() {
    for name in FIXTURES {
        let path = fixture(name);
        let args = ["show", "--sample", "--detailed-summary", path.to_str().expect("path")];
        let Some(theirs) = stdout(PROFDATA, std::path::Path::new("."), &args) else { return };
        let summary = Summary::of(&format::read(&fixture_bytes(name)).expect(name));
        let mut ours = vec![
            format!("Total functions: {}", summary.functions),
            format!("Maximum function count: {}", summary.max_function_count),
            format!("Total number of blocks: {}", summary.counts),
            format!("Total count: {}", summary.total_count),
        ];
        for cutoff in &summary.cutoffs {
            let (counts, min_count) = (cutoff.counts, cutoff.min_count);
            let share = counts as f64 / summary.counts as f64 * 100.0;
            let percent = f64::from(cutoff.share_millionths) / 10_000.0;
            ours.push(format!(
                "{counts} blocks ({share:.2}%) with count >= {min_count} account for {percent}% of the total counts."
            ));
        }
        for line in ours {
            assert!(
                theirs.lines().any(|theirs| theirs == line),
                "{name}: `{line}` is not in\n{theirs}"
            );
        }
    }
}

#[test]
fn the_overlap_equals_that_of_llvm_profdata() {
    let text = String::from_utf8(fixture_bytes("peers/test.profgen.textprof")).expect("text");
    // Some lines gone, some counts changed, one function renamed, one call inlined elsewhere.
    let changed: String = text
        .lines()
        .enumerate()
        .filter(|(number, line)| {
            number % 7 != 5
                || !line.starts_with(' ')
                || !line.ends_with(|c: char| c.is_ascii_digit())
        })
        .map(|(number, line)| match line.rsplit_once(": ") {
            Some((at, count))
                if number % 3 == 0 && count.len() > 2 && !count.contains([':', ' ']) =>
            {
                format!("{at}: {}\n", &count[1..])
            }
            _ => format!("{}\n", line.replace("updcrc", "renamed")),
        })
        .collect();
    let directory = tempfile::tempdir().expect("temporary directory");
    let golden =
        String::from_utf8(fixture_bytes("autofdo/llvm_autoprof.golden.textprof")).expect("text");
    let cases = [
        (text.clone(), changed.clone()),
        (changed, text.clone()),
        (golden.clone(), golden.replace(" 4: _Z8computeii", " 4: other").replace(": 1941", ": 3")),
        (text.clone(), golden),
        (text.clone(), text),
    ];
    for (base, test) in cases {
        std::fs::write(directory.path().join("base"), &base).expect("written");
        std::fs::write(directory.path().join("test"), &test).expect("written");
        let Some(theirs) =
            stdout(PROFDATA, directory.path(), &["overlap", "--sample", "base", "test"])
        else {
            return;
        };
        let read = |text: &str| format::text::read(text.as_bytes()).expect("text");
        let ours = overlap(&read(&base), &read(&test)).expect("samples");
        let expected = [
            format!("  Whole program profile similarity: {:.3}%", ours.similarity_pct),
            format!("  Whole program sample overlap: {:.3}%", ours.overlap_pct),
            format!(
                "    percentage of samples unique in base profile: {:.3}%",
                ours.base_unique_pct
            ),
            format!(
                "    percentage of samples unique in test profile: {:.3}%",
                ours.test_unique_pct
            ),
            format!("    total samples in base profile: {}", ours.base_samples),
            format!("    total samples in test profile: {}", ours.test_samples),
            format!("  Function overlap: {:.3}%", ours.functions.overlap_pct()),
            format!("    overlap functions: {}", ours.functions.both),
            format!("  Hot-function overlap: {:.3}%", ours.hot_functions.overlap_pct()),
            format!("    hot functions unique in base profile: {}", ours.hot_functions.base_only),
            format!("  Hot-block overlap: {:.3}%", ours.hot_blocks.overlap_pct()),
            format!("    hot blocks unique in test profile: {}", ours.hot_blocks.test_only),
        ];
        for line in expected {
            assert!(theirs.lines().any(|theirs| theirs == line), "`{line}` is not in\n{theirs}");
        }
    }
}

#[test]
fn merged_profiles_equal_those_of_llvm_profdata() {
    let base = fixture("peers/test.profgen.textprof");
    let other = fixture("autofdo/llvm_autoprof.golden.binprof");
    let weighted = |weight: u32, path: &std::path::Path| {
        format!("--weighted-input={weight},{}", path.display())
    };
    let directory = tempfile::tempdir().expect("temporary directory");
    let args = [weighted(2, &base), weighted(3, &other), weighted(1, &base)];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let args = [&["merge", "--sample", "--text", "-o", "out"][..], &args].concat();
    if stdout(PROFDATA, directory.path(), &args).is_none() {
        return;
    }
    let read = |path: &std::path::Path| {
        format::read(&std::fs::read(path).expect("fixture")).expect("profile")
    };
    let (base, other) = (read(&base), read(&other));
    let (merged, _) = profile::operations::merge([(&base, 2), (&other, 3), (&base, 1)]);
    let theirs = std::fs::read_to_string(directory.path().join("out")).expect("output");
    assert_eq!(String::from_utf8(format::text::write(&merged)).expect("text"), theirs);
}

#[test]
fn pprof_shows_our_counts_where_go_is_installed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let profile =
        format::read(&fixture_bytes("autofdo/llvm_autoprof.golden.textprof")).expect("fixture");
    let bytes = format::write(&profile, Format::Pprof, &WriteOptions::default()).expect("writable");
    std::fs::write(directory.path().join("p.pb.gz"), bytes).expect("written");
    let Some(top) = stdout("go", directory.path(), &["tool", "pprof", "-top", "p.pb.gz"]) else {
        return;
    };
    assert!(top.contains("100% of 4009 total"), "{top}");
    assert!(top.lines().any(|line| line.contains("2004") && line.contains("(inline)")), "{top}");
}
