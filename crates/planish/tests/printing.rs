//! What is printed: does every command end with 2 where a standard stream takes no more, and does
//! nothing that it prints move the cursor, colour the rest or forge a line?

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures");

/// A name that clears the screen, sets a title, rings, turns the line around and looks like a
/// message of its own.
const HOSTILE: &str = "evil\x1b[2J\x1b]0;t\x07\u{9b}31m\u{202e}\nplanish: forged\n";

fn planish(directory: &Path, words: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.args(words).current_dir(directory).stdin(Stdio::null());
    // Nothing of the user's terminal.
    command.env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    command
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("/dev/full is there")
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(|word| word.replace('@', &format!("{FIXTURES}/"))).collect()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// All commands with their subcommands, as the man pages name them; the first has no word.
fn commands() -> Vec<Vec<String>> {
    let pages = tempfile::tempdir().expect("temporary directory");
    let made = planish(pages.path(), &words("man .")).output().expect("planish runs");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let names: BTreeSet<String> = std::fs::read_dir(pages.path())
        .expect("man pages")
        .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.strip_suffix(".1")?.to_owned()))
        .collect();
    assert!(names.len() > 30, "{names:?}");
    let parent = |name: &str| {
        let before = |other: &&String| {
            name.strip_prefix(other.as_str()).is_some_and(|rest| rest.starts_with('-'))
        };
        names.iter().filter(before).max_by_key(|other| other.len()).cloned()
    };
    let path = |name: &String| {
        let (mut path, mut name) = (Vec::new(), name.clone());
        while let Some(parent) = parent(&name) {
            path.insert(0, name[parent.len() + 1..].to_owned());
            name = parent;
        }
        path
    };
    names.iter().map(path).collect()
}

/// Runs it with each stream full, then closed, and wants 2 wherever that stream would have got
/// something.
fn check(directory: &Path, line: &[String], normal: &Output) {
    let said = line.join(" ");
    let run = |set: &dyn Fn(&mut Command)| {
        let mut command = planish(directory, line);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        set(&mut command);
        command.output().expect("planish runs")
    };
    let closed = |which: &str| {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("exec \"$0\" \"$@\" {which}>&-"),
            env!("CARGO_BIN_EXE_planish"),
        ]);
        command.args(line).current_dir(directory).stdin(Stdio::null()).output().expect("sh runs")
    };
    if !normal.stdout.is_empty() {
        for (how, found) in [
            (
                "full",
                run(&|c| {
                    c.stdout(full());
                }),
            ),
            ("closed", closed("1")),
        ] {
            let error = text(&found.stderr);
            assert_eq!(code(&found), 2, "{said}: standard output is {how}: {error}");
            assert_eq!(error.matches("standard output: ").count(), 1, "{said}: {how}: {error}");
        }
    }
    if !normal.stderr.is_empty() {
        for (how, found) in [
            (
                "full",
                run(&|c| {
                    c.stderr(full());
                }),
            ),
            ("closed", closed("2")),
        ] {
            assert_eq!(code(&found), 2, "{said}: standard error is {how}: {:?}", found.status);
        }
    }
    let neither = run(&|c| {
        c.stdout(full()).stderr(full());
    });
    if !normal.stdout.is_empty() || !normal.stderr.is_empty() {
        assert_eq!(code(&neither), 2, "{said}: both are full");
    }
}

#[test]
fn every_command_ends_with_2_where_its_help_or_its_complaint_cannot_be_printed() {
    let directory = tempfile::tempdir().expect("temporary directory");
    for command in commands() {
        for last in ["--help", "--no-such-option"] {
            let line: Vec<String> = command.iter().cloned().chain([last.to_owned()]).collect();
            let normal = planish(directory.path(), &line).output().expect("planish runs");
            let printed = if last == "--help" { &normal.stdout } else { &normal.stderr };
            assert!(!printed.is_empty(), "{line:?} prints nothing");
            check(directory.path(), &line, &normal);
        }
    }
}

/// Runs of commands that print a result, in an order in which each has what it needs.
const RUNS: &[&str] = &[
    "--version",
    "completions bash",
    "doctor",
    "doctor --format json @autofdo/test.binary",
    "aggregate @autofdo/test.lbr --binary @autofdo/test.binary -o run.counts",
    "aggregate @autofdo/test.lbr --binary @autofdo/test.binary --emit text -q",
    "aggregate @autofdo/test.lbr --binary @autofdo/test.binary --format json",
    "aggregate @autofdo/test.lbr --binary @autofdo/test.binary -o -",
    "aggregate run.counts run.counts -o both.counts",
    "aggregate run.counts run.counts -o -",
    "profile run.counts --binary @autofdo/test.binary -o app.afdo",
    "profile run.counts --binary @autofdo/test.binary --emit text -o -",
    "profile show app.afdo",
    "profile show app.afdo --format json",
    "profile show app.afdo --function main",
    "profile merge app.afdo app.afdo -o -",
    "profile diff app.afdo app.afdo",
    "profile trim app.afdo --keep-top 1 -o -",
    "profile match app.afdo --binary @autofdo/test.binary",
    "report waits @autofdo/test.lbr",
    "pages check @autofdo/test.binary",
    "pages check --format json @autofdo/test.binary",
    "livepatch flags",
    "livepatch flags --format json",
    "kernel config fragment --profile",
    "init other.toml",
    "stat -- true",
    "stat --format json -- true",
    "record -o fresh.perf.data -- true",
    "report nothing.json",
    "optimize --dry-run",
];

#[test]
fn every_result_that_cannot_be_printed_is_an_error() {
    let directory = tempfile::tempdir().expect("temporary directory");
    for line in RUNS.iter().map(|line| words(line)) {
        let normal = planish(directory.path(), &line).output().expect("planish runs");
        assert_ne!(code(&normal), 101, "{line:?}: {}", text(&normal.stderr));
        // What is written once is refused the second time; what was refused says why again.
        let again = planish(directory.path(), &line).output().expect("planish runs");
        check(directory.path(), &line, &again);
    }
}

#[test]
fn a_reader_that_went_away_ends_it_quietly() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let script =
        format!("{} completions bash 2>said | true; cat said", env!("CARGO_BIN_EXE_planish"));
    let run = Command::new("sh")
        .args(["-c", &script])
        .current_dir(directory.path())
        .output()
        .expect("sh runs");
    assert_eq!(text(&run.stdout), "");
}

fn is_clean(what: &str, bytes: &[u8]) {
    let said = text(bytes);
    let hidden = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!said.contains(hidden), "{what}: {said:?}");
    assert!(
        !said.lines().any(|line| line.trim_start().starts_with("planish: forged")),
        "{what}: {said:?}"
    );
}

#[test]
fn an_argument_forges_no_line_of_a_message() {
    let directory = tempfile::tempdir().expect("temporary directory");
    for command in commands() {
        let lines = [
            vec![HOSTILE.to_owned()],
            vec![format!("--{HOSTILE}")],
            vec![format!("--top={HOSTILE}")],
        ];
        for more in lines {
            let line: Vec<String> = command.iter().cloned().chain(more).collect();
            // These would run a command of that name, which is not there, or keep to themselves
            // until the end.
            let found = planish(directory.path(), &line).output().expect("planish runs");
            is_clean(&format!("{line:?}"), &found.stderr);
            is_clean(&format!("{line:?}"), &found.stdout);
        }
    }
}

/// A file of this hostile name in a directory of its own.
fn hostile_file(directory: &Path, content: &[u8]) -> PathBuf {
    let path = directory.join(std::ffi::OsStr::from_bytes(HOSTILE.as_bytes()));
    std::fs::write(&path, content).expect("written");
    path
}

#[test]
fn names_in_files_are_shown_and_obeyed_by_no_terminal() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let here = directory.path();
    let binary = std::fs::read(format!("{FIXTURES}/autofdo/test.binary")).expect("fixture");
    let named = hostile_file(here, &binary).to_string_lossy().into_owned();
    // Names of the profile's functions and of the compiler; the text format takes all but line ends
    // and colons.
    let profile = "evil\x1b[2J\x07\u{202e}:100:10\n 1: 100 other\x1b[1m\u{9b}:50\n";
    std::fs::write(here.join("evil.txt"), profile).expect("written");
    let mut lines: Vec<Vec<String>> = [
        "profile show evil.txt",
        "profile show evil.txt --format json",
        "profile diff evil.txt @peers/test.profgen.textprof",
        "profile diff evil.txt evil.txt --format json",
    ]
    .map(words)
    .to_vec();
    for line in [
        "aggregate @autofdo/test.lbr --emit text --binary",
        "aggregate @autofdo/test.lbr -v --format json --binary",
        "profile @autofdo/test.lbr -o out.afdo -v --binary",
        "profile match evil.txt --binary",
        "layout @autofdo/test.lbr --prefix out --binary",
        "layout show @autofdo/test.lbr --binary",
        "pages check",
        "pages check --format json",
        "doctor",
        "doctor --format json",
        "report waits",
        "livepatch closure",
        "report",
        "kernel check",
        "stat --",
    ] {
        lines.push(words(line).into_iter().chain([named.clone()]).collect());
    }
    for line in lines {
        let found = planish(here, &line).output().expect("planish runs");
        assert!(found.stdout.len() + found.stderr.len() > 0, "{line:?} says nothing");
        is_clean(&format!("{line:?}"), &found.stdout);
        is_clean(&format!("{line:?}"), &found.stderr);
    }
}
