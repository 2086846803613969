//! Does the repository keep its own rules: documents name files that exist, every source file says
//! what it is for, `unsafe` stays where it belongs, fixtures are what their README says?
//!
//! Looks at the files git tracks; without git it says so and checks nothing.

#[path = "tidy/circles.rs"]
mod circles;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A file above this length holds two concepts.
const MAX_LINES: usize = 600;

/// Where `unsafe` may stand: system calls, memory maps and the libraries that another program
/// loads.
const UNSAFE_ALLOWED: &[&str] =
    &["/sys.rs", "/sys/", "/memory_map.rs", "crates/qemu-branches/", "crates/hugetext/"];

/// The tracked files, as paths from the root; empty when this is not a git checkout.
fn tracked() -> Vec<String> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(ROOT).output();
    let Ok(output) = output else {
        eprintln!("skipped: tidy checks, git is not installed");
        return Vec::new();
    };
    if !output.status.success() {
        eprintln!("skipped: tidy checks, not a git checkout");
        return Vec::new();
    }
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    // A file that is deleted but not yet committed is still listed.
    listing
        .split('\0')
        .filter(|path| !path.is_empty() && at_root(path).is_file())
        .map(str::to_owned)
        .collect()
}

fn at_root(path: &str) -> PathBuf {
    Path::new(ROOT).join(path)
}

/// The text of every tracked file with one of these endings; `None` for binary files.
fn texts(endings: &[&str]) -> Vec<(String, String)> {
    let wanted =
        |path: &String| endings.is_empty() || endings.iter().any(|ending| path.ends_with(ending));
    let read = |path: String| std::fs::read_to_string(at_root(&path)).ok().map(|text| (path, text));
    tracked().into_iter().filter(wanted).filter_map(read).collect()
}

fn assert_none(what: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{what}:\n  {}", found.join("\n  "));
}

#[test]
fn every_source_file_starts_by_saying_what_it_is_for() {
    let silent = texts(&[".rs"]).into_iter().filter(|(_, text)| !text.starts_with("//! "));
    assert_none(
        "files that do not start with a `//! ` sentence",
        silent.map(|(path, _)| path).collect(),
    );
}

#[test]
fn no_source_file_is_longer_than_it_should_be() {
    let long = texts(&[".rs"]).into_iter().filter(|(_, text)| text.lines().count() > MAX_LINES);
    let named = long.map(|(path, text)| format!("{path}: {} lines", text.lines().count()));
    assert_none(&format!("files of more than {MAX_LINES} lines"), named.collect());
}

#[test]
fn unsafe_code_stands_only_where_it_is_expected() {
    // Put together here so that this file does not find itself.
    let words = ["{", "fn", "impl", "extern"].map(|next| format!("{} {next}", "unsafe"));
    let mut found = Vec::new();
    for (path, text) in texts(&[".rs"]) {
        if UNSAFE_ALLOWED.iter().any(|allowed| path.contains(allowed)) {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or("");
            if words.iter().any(|word| code.contains(word.as_str())) {
                found.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none("unsafe code outside sys.rs and the other allowed places", found);
}

/// Where files may be opened for writing without `crates/beside`: what is written there exists
/// already and is no file that a command makes (devices, fifos of the user, cgroups, what the
/// emulator's plugin maps), or it makes and removes files of its own.
const WRITES_ALLOWED: &[&str] = &[
    "crates/beside/",
    "crates/qemu-branches/",
    "crates/record/src/cgroups.rs",
    "crates/record/src/sys/readers.rs",
    "crates/kernel/src/time/mod.rs",
    "crates/superpages/src/read_elf.rs",
];

#[test]
fn files_are_made_in_one_place() {
    let ways = [
        ("File::cr", "eate("),
        ("fs::wr", "ite("),
        ("OpenOptions:", ":new("),
        ("File::opt", "ions("),
    ];
    let ways = ways.map(|(one, other)| format!("{one}{other}"));
    let mut found = Vec::new();
    for (path, text) in texts(&[".rs"]) {
        let product =
            path.starts_with("crates/") && path.contains("/src/") && !path.ends_with("/tests.rs");
        if !product || WRITES_ALLOWED.iter().any(|allowed| path.contains(allowed)) {
            continue;
        }
        // Unit tests stand at the end of a file, also those for some architectures alone.
        let end = ["\nmod tests {", "\npub(crate) mod tests {", "\n#[cfg(all(test"]
            .map(|begin| text.find(begin));
        let code = &text[..end.into_iter().flatten().min().unwrap_or(text.len())];
        for (index, line) in code.lines().enumerate() {
            if ways.iter().any(|way| line.contains(way.as_str())) {
                found.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none("files made without crates/beside", found);
}

#[test]
fn no_test_is_ignored_and_nothing_is_left_to_be_written() {
    let markers = [
        concat!("#[ig", "nore"),
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("db", "g!("),
    ];
    let mut found = Vec::new();
    for (path, text) in texts(&[".rs"]) {
        for (index, line) in text.lines().enumerate() {
            if markers.iter().any(|marker| line.contains(marker)) {
                found.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none("unfinished or ignored code", found);
}

#[test]
fn everything_is_printed_one_way() {
    // The macros of `crates/planish` take the place of the standard library's, which panic where a
    // stream is full; the libraries print nothing.
    let main = std::fs::read_to_string(at_root("crates/planish/src/main.rs"))
        .expect("main.rs is readable");
    let code = main.lines().find(|line| !line.is_empty() && !line.starts_with("//"));
    assert_eq!(code, Some("#[macro_use]"), "the macros of `output` stand before all that prints");
    let streams = at_root("crates/planish/src/output/streams.rs");
    let own = std::fs::read_to_string(streams).expect("streams.rs is readable");
    let names = ["println", "eprintln", "print", "eprint"];
    for name in names {
        assert!(own.contains(&format!("macro_rules! {name} {{")), "{name} is not the own one");
    }
    let mut found = Vec::new();
    for (path, text) in texts(&[".rs"]) {
        let Some((folder, _)) =
            path.split_once("/src/").filter(|(folder, _)| folder.starts_with("crates/"))
        else {
            continue;
        };
        // What tests print is for whoever runs them.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        if path.ends_with("/tests.rs") || path.ends_with("output/streams.rs") {
            continue;
        }
        let forbidden: Vec<String> = match folder {
            "crates/planish" => names
                .iter()
                .map(|name| format!("std::{name}!"))
                .chain(
                    [
                        "io::stdout().lock",
                        "io::stdout().write",
                        "io::stderr().lock",
                        "&mut std::io::std",
                    ]
                    .map(String::from),
                )
                .collect(),
            _ => names.iter().map(|name| format!("{name}!(")).collect(),
        };
        for (index, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if forbidden.iter().any(|word| line.contains(word.as_str())) {
                found.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none("printed past crates/planish/src/output", found);
}

#[test]
fn no_file_names_a_developers_machine() {
    let private = [
        concat!("/wo", "rk/"),
        concat!("/fa", "rm/"),
        concat!("/ro", "ot/"),
        concat!("/tmp/", "tgt"),
        concat!("/tmp/bash", "_jobs"),
        concat!("/ho", "me/"),
        concat!("index.cra", "tes.io"),
    ];
    let mut found = Vec::new();
    for (path, text) in texts(&[]) {
        // Lock files name the registry, and recordings the paths of the machine they come from.
        if path.ends_with(".lock") || path.starts_with("fixtures/") && !path.ends_with(".md") {
            continue;
        }
        for (index, line) in text.lines().enumerate() {
            if private.iter().any(|word| line.contains(word)) {
                found.push(format!("{path}:{}: {}", index + 1, line.trim()));
            }
        }
    }
    assert_none("paths or hosts of one machine", found);
}

/// Paths in backquotes that start with a tracked top-level folder, without patterns and
/// placeholders.
fn paths_named<'a>(text: &'a str, folders: &BTreeSet<String>) -> Vec<&'a str> {
    let candidates = text.split('`').skip(1).step_by(2);
    let plain = |path: &&str| path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    // `fuzz/corpus/TARGET` stands for any target.
    let placeholder = |part: &str| part.len() > 1 && part.chars().all(|c| c.is_ascii_uppercase());
    let plain = |path: &&str| plain(path) && !path.split('/').any(placeholder);
    let ours = |path: &&str| path.split_once('/').is_some_and(|(top, _)| folders.contains(top));
    candidates.filter(plain).filter(ours).collect()
}

/// Targets of `[text](target)` that are files, without their `#anchor`.
fn links(text: &str) -> Vec<&str> {
    let targets =
        text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    let files = targets.filter(|target| {
        !target.contains("://") && !target.starts_with('#') && !target.contains(' ')
    });
    files.map(|target| target.split('#').next().unwrap_or(target)).collect()
}

/// The document without its fenced blocks, whose contents are examples.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

#[test]
fn documents_name_only_files_that_exist() {
    let files = tracked();
    let folders: BTreeSet<String> =
        files.iter().filter_map(|path| Some(path.split_once('/')?.0.to_owned())).collect();
    let mut missing = Vec::new();
    for (document, text) in texts(&[".md"]) {
        let text = prose(&text);
        let base = at_root(&document).parent().map(Path::to_path_buf).unwrap_or_default();
        // What a build or a run makes is named too, and is not tracked.
        let made = |path: &str| {
            path.contains("/target") || path.contains("/.planish") || path.contains("/artifacts")
        };
        let named = paths_named(&text, &folders)
            .into_iter()
            .filter(|path| !made(path) && !at_root(path).exists());
        missing.extend(named.map(|path| format!("{document}: `{path}`")));
        let linked = links(&text).into_iter().filter(|target| !base.join(target).exists());
        missing.extend(linked.map(|target| format!("{document}: ({target})")));
    }
    assert_none("documents name files that do not exist", missing);
}

#[test]
fn every_command_has_a_page_in_docs() {
    let Ok(cli) = std::fs::read_to_string(at_root("crates/planish/src/cli.rs")) else { return };
    let verbs = cli.split("(command::").skip(1).filter_map(|rest| rest.split_once("::Args)"));
    let undocumented = verbs
        .map(|(verb, _)| verb)
        .filter(|verb| !at_root(&format!("docs/reference/{verb}.md")).exists());
    let undocumented = undocumented.map(str::to_owned);
    assert_none("commands without a page docs/reference/NAME.md", undocumented.collect());
}

#[test]
fn fixtures_are_what_their_readme_says() {
    let readme = std::fs::read_to_string(at_root("fixtures/README.md"))
        .expect("fixtures/README.md is readable");
    let listed: Vec<(&str, &str)> = readme
        .lines()
        .filter_map(|line| line.split_once("  "))
        .filter(|(hash, _)| hash.len() == 64)
        .collect();
    let mut wrong = Vec::new();
    for (hash, name) in &listed {
        match std::fs::read(at_root(&format!("fixtures/{name}"))) {
            Err(error) => wrong.push(format!("{name}: {error}")),
            Ok(bytes) => {
                let actual: String =
                    Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
                if actual != *hash {
                    wrong.push(format!("{name}: is {actual}, the README says {hash}"));
                }
            }
        }
    }
    let names: BTreeSet<&str> = listed.iter().map(|(_, name)| *name).collect();
    for path in tracked() {
        let Some(name) = path.strip_prefix("fixtures/").filter(|name| !name.ends_with("README.md"))
        else {
            continue;
        };
        if !names.contains(name) {
            wrong.push(format!("{name}: not in the sha256 list of fixtures/README.md"));
        }
    }
    assert_none("fixtures and fixtures/README.md disagree", wrong);
}

#[test]
fn every_fuzz_target_is_built() {
    let manifest =
        std::fs::read_to_string(at_root("fuzz/Cargo.toml")).expect("fuzz/Cargo.toml is readable");
    let targets = tracked().into_iter().filter_map(|path| {
        Some(path.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs")?.to_owned())
    });
    let unknown = targets.filter(|name| !manifest.contains(&format!("\"fuzz_targets/{name}.rs\"")));
    assert_none("fuzz targets that fuzz/Cargo.toml does not build", unknown.collect());
}
