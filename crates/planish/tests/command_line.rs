//! The command as a user meets it: results, exit codes, errors that say what to do, files that are
//! whole or absent.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

fn planish() -> Command {
    Command::new(env!("CARGO_BIN_EXE_planish"))
}

/// Runs planish with words; paths under `fixtures/` are written `@name`.
fn run(directory: &Path, words: &[&str]) -> Output {
    let mut command = planish();
    command.current_dir(directory).stdin(Stdio::null());
    for word in words {
        match word.strip_prefix('@') {
            Some(name) => command.arg(fixture(name)),
            None => command.arg(word),
        };
    }
    command.output().expect("planish runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
}

/// One error, exit code 2, no panic, and all of `parts` in it.
#[track_caller]
fn refuses(output: &Output, parts: &[&str]) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    assert_eq!(message.lines().filter(|l| l.starts_with("planish:")).count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary directory")
}

#[test]
fn a_recording_becomes_the_profile_that_llvm_profgen_makes_of_it() {
    let dir = directory();
    let made = run(
        dir.path(),
        &[
            "profile",
            "@autofdo/test.lbr",
            "--binary",
            "@autofdo/test.binary",
            "--dedup=profgen",
            "--emit=text",
            "-o",
            "-",
        ],
    );
    succeeds(&made);
    let peer =
        std::fs::read_to_string(fixture("peers/test.profgen.textprof")).expect("peer's profile");
    // All but the comments that say which program was counted.
    let written = text(&made.stdout);
    let lines: Vec<&str> = written.lines().filter(|line| !line.starts_with("# ")).collect();
    assert_eq!(lines, peer.lines().collect::<Vec<_>>());
    assert!(lines.len() < written.lines().count(), "{written}");
    let ledger = text(&made.stderr);
    assert!(ledger.contains("samples: 9232 in"), "{ledger}");
}

#[test]
fn counts_and_recording_give_the_same_profile_whatever_the_threads() {
    let dir = directory();
    let binary = ["--binary", "@autofdo/test.binary"];
    let mut first = vec!["aggregate", "@autofdo/test.lbr", "-o", "run.counts", "--threads=1"];
    first.extend(binary);
    succeeds(&run(dir.path(), &first));
    for (input, output, threads) in [
        ("run.counts", "a.afdo", "1"),
        ("@autofdo/test.lbr", "b.afdo", "2"),
        ("@autofdo/test.lbr", "c.afdo", "5"),
    ] {
        let mut words = vec!["profile", input, "-o", output, "--threads", threads];
        words.extend(binary);
        succeeds(&run(dir.path(), &words));
    }
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).expect("written");
    assert_eq!(bytes("a.afdo"), bytes("b.afdo"));
    assert_eq!(bytes("b.afdo"), bytes("c.afdo"));
}

#[test]
fn a_pipe_on_standard_input_is_read_like_a_file() {
    let dir = directory();
    let words = ["--binary", "@autofdo/test.binary", "--emit=text", "-q"];
    let mut from_file = vec!["aggregate", "@autofdo/test.lbr"];
    from_file.extend(words);
    let expected = run(dir.path(), &from_file);
    succeeds(&expected);
    let mut command = planish();
    command
        .args(["aggregate", "-", "--emit=text", "-q", "--binary"])
        .arg(fixture("autofdo/test.binary"));
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("planish runs");
    let bytes = std::fs::read(fixture("autofdo/test.lbr")).expect("fixture");
    let mut stdin = child.stdin.take().expect("piped");
    let feeder = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, &bytes));
    let piped = child.wait_with_output().expect("finished");
    feeder.join().expect("fed").expect("all of it");
    succeeds(&piped);
    assert_eq!(text(&piped.stdout), text(&expected.stdout));
}

#[test]
fn text_of_aggregate_has_three_blocks_an_image() {
    let dir = directory();
    let made = run(
        dir.path(),
        &["aggregate", "@autofdo/test.lbr", "--binary", "@autofdo/test.binary", "--emit=text"],
    );
    succeeds(&made);
    let listing = text(&made.stdout);
    let mut lines = listing.lines();
    assert!(lines.next().expect("header").starts_with("# image "), "{listing}");
    for block in 0..3 {
        let count: usize = lines.next().expect("a count").parse().expect("a decimal count");
        assert_eq!(
            lines.by_ref().take(count).filter(|l| l.contains(':')).count(),
            count,
            "block {block}"
        );
    }
    assert_eq!(lines.next(), None);
}

#[test]
fn json_of_aggregate_balances() {
    let dir = directory();
    let made = run(
        dir.path(),
        &[
            "aggregate",
            "@autofdo/test.lbr",
            "--binary",
            "@autofdo/test.binary",
            "--format=json",
            "-q",
        ],
    );
    succeeds(&made);
    assert!(made.stderr.is_empty(), "quiet prints nothing: {}", text(&made.stderr));
    let value: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
    for book in ["samples", "branches", "fall_throughs"] {
        let book = &value["ledger"][book];
        let unused: u64 =
            book["unused"].as_object().expect("reasons").values().filter_map(|n| n.as_u64()).sum();
        assert_eq!(book["entered"].as_u64(), book["used"].as_u64().map(|used| used + unused));
    }
}

#[test]
fn merging_counts_is_independent_of_their_order() {
    let dir = directory();
    for (name, dedup) in [("a.counts", "auto"), ("b.counts", "none")] {
        let words = [
            "aggregate",
            "@autofdo/test.lbr",
            "--binary",
            "@autofdo/test.binary",
            "--dedup",
            dedup,
            "-o",
            name,
        ];
        succeeds(&run(dir.path(), &words));
    }
    succeeds(&run(dir.path(), &["aggregate", "a.counts", "b.counts", "-o", "ab.counts"]));
    succeeds(&run(dir.path(), &["aggregate", "b.counts", "a.counts", "-o", "ba.counts"]));
    let bytes = |name: &str| std::fs::read(dir.path().join(name)).expect("written");
    assert_eq!(bytes("ab.counts"), bytes("ba.counts"));
}

#[test]
fn bad_inputs_get_one_error_that_names_the_file() {
    let dir = directory();
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(dir.path().join(name), bytes).expect("written");
    write("empty", b"");
    write("zeros", &[0; 4096]);
    write("text", b"hello world\nthis is not a recording\n");
    let lbr = std::fs::read(fixture("autofdo/test.lbr")).expect("fixture");
    write("head", &lbr[..12]);
    for name in ["empty", "zeros", "text", "head", "absent"] {
        refuses(&run(dir.path(), &["aggregate", name, "-o", "x.counts"]), &[name]);
        let words = ["profile", name, "--binary", "@autofdo/test.binary", "-o", "x.afdo"];
        refuses(&run(dir.path(), &words), &[name]);
    }
    for name in ["empty", "zeros", "text", "absent"] {
        let words = ["profile", "@autofdo/test.lbr", "--binary", name, "-o", "x.afdo"];
        refuses(&run(dir.path(), &words), &[name]);
    }
    let left: Vec<_> = std::fs::read_dir(dir.path())
        .expect("listed")
        .map(|e| e.expect("entry").file_name())
        .collect();
    assert_eq!(left.len(), 4, "no half-written file stays: {left:?}");
}

#[test]
fn the_wrong_image_is_refused_with_where_the_samples_lie() {
    let dir = directory();
    let words = [
        "profile",
        "@autofdo/test.lbr",
        "--binary",
        "@autofdo/propeller_sample.bin",
        "-o",
        "x.afdo",
    ];
    refuses(&run(dir.path(), &words), &["samples", "--binary"]);
}

#[test]
fn a_truncated_recording_is_used_and_its_missing_bytes_are_told() {
    let dir = directory();
    let lbr = std::fs::read(fixture("autofdo/test.lbr")).expect("fixture");
    std::fs::write(dir.path().join("cut.data"), &lbr[..lbr.len() / 2 + 3]).expect("written");
    let made = run(
        dir.path(),
        &["aggregate", "cut.data", "--binary", "@autofdo/test.binary", "-o", "cut.counts"],
    );
    succeeds(&made);
    assert!(text(&made.stderr).contains("truncated"), "{}", text(&made.stderr));
}

#[test]
fn wrong_usage_ends_with_two_and_help_with_zero() {
    let dir = directory();
    assert_eq!(run(dir.path(), &["no-such-verb"]).status.code(), Some(2));
    assert_eq!(run(dir.path(), &["aggregate"]).status.code(), Some(2));
    for verb in [
        "doctor",
        "record",
        "aggregate",
        "profile",
        "init",
        "build",
        "compare",
        "optimize",
        "report",
    ] {
        let help = run(dir.path(), &[verb, "--help"]);
        succeeds(&help);
        assert!(text(&help.stdout).contains("Usage:"), "{verb}");
    }
}

#[test]
fn completions_and_man_pages_come_from_the_command_itself() {
    let dir = directory();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(dir.path(), &["completions", shell]);
        succeeds(&script);
        assert!(text(&script.stdout).contains("aggregate"), "{shell}");
    }
    succeeds(&run(dir.path(), &["man", "pages"]));
    let page = std::fs::read_to_string(dir.path().join("pages/planish-aggregate.1")).expect("page");
    assert!(page.contains("fall"), "{page}");
}
