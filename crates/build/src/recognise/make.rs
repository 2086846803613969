//! Which programs does a makefile make, and how?
//!
//! Source: the GNU make manual, "Overriding Variables" and "Makefile Conventions".

use super::{Found, Made, is_named_after};
use crate::small_file::text;
use std::path::Path;

/// Variables that usually name a program.
const NAMES: [&str; 11] = [
    "PROG",
    "PROGRAM",
    "PROGRAMS",
    "PROGS",
    "BIN",
    "BINARY",
    "TARGET",
    "TARGETS",
    "EXE",
    "EXECUTABLE",
    "NAME",
];

/// A makefile builds where it lies, so it gets a copy of the sources for each build, always at the
/// same place. Objects of an earlier build had other flags.
const COPIED: &str = "tar -cf - --exclude=./.planish --exclude=./.git --exclude='*.o' . | tar -xf - \
                      -C \"$PLANISH_OUT\"";

/// The level of optimisation that a makefile sets for its C or C++.
fn own_level(text: &str) -> Option<&str> {
    let sets = |line: &&str| {
        let name =
            line.split_once('=').map(|(name, _)| name.trim().trim_end_matches([':', '?', '+']));
        name.is_some_and(|name| name.trim().ends_with("FLAGS"))
    };
    let mut words = text.lines().filter(sets).flat_map(str::split_whitespace);
    let levels = ["-O0", "-O1", "-O2", "-O3", "-Os", "-Oz", "-Ofast", "-Og", "-O"];
    words.rfind(|word| levels.contains(word))
}

/// What the rules of a makefile are for.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    let rule = |line: &&str| !line.starts_with(['\t', '#', '.', ' ']);
    let named = |line| -> Option<&str> {
        let (targets, rest): (&str, &str) = str::split_once(line, ':')?;
        (!targets.contains('=') && !rest.starts_with('=')).then_some(targets)
    };
    text.lines().filter(rule).filter_map(named).flat_map(str::split_whitespace)
}

/// What a makefile says.
pub(super) fn found(directory: &Path, file: &str) -> Found {
    let text = text(&directory.join(file)).unwrap_or_default().replace("\\\n", " ");
    let mut names: Vec<String> = Vec::new();
    for line in text.lines() {
        let Some((name, value)) = line.split_once('=') else { continue };
        let name = name.trim_end_matches([':', '?', '+']).trim();
        if NAMES.contains(&name) {
            names.extend(value.split_whitespace().map(str::to_owned));
        }
    }
    // The first rule, and what usually stands for everything.
    let mut needed: Vec<String> = Vec::new();
    for target in ["all", "default"] {
        let rules = text.lines().filter_map(|line| line.strip_prefix(target)?.strip_prefix(':'));
        needed.extend(rules.flat_map(|line| line.split_whitespace().map(str::to_owned)));
    }
    let is_program = |name: &String| {
        !name.is_empty()
            && !name.starts_with(['-', '/', '#', ':'])
            && !name.contains(['$', '=', '*', '%', '.', '@', '(', ')'])
            && !["all", "default", "clean", "install", "test", "check", "doc", "docs", "man"]
                .contains(&name.as_str())
    };
    names.retain(is_program);
    needed.retain(is_program);
    if names.is_empty() {
        // No variable names a program: then it may be a target that the project is named after.
        let own = targets(&text).filter(|target| is_named_after(directory, target));
        names.extend(own.map(str::to_owned).filter(is_program).max_by_key(String::len));
    }
    // What `.PHONY` lists is rarely a file.
    let phony: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix(".PHONY"))
        .flat_map(|line| line.trim_start().trim_start_matches(':').split_whitespace())
        .collect();
    let (unlikely, files): (Vec<String>, Vec<String>) =
        needed.into_iter().partition(|name| phony.contains(&name.as_str()));
    names.extend(files);
    if names.is_empty() {
        names = unlikely;
    }
    let mut seen: Vec<String> = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    let made = |path: String| Made {
        name: path.rsplit('/').next().unwrap_or(&path).to_owned(),
        binary: path,
    };
    let mut notes = Vec::new();
    if directory.join("configure").is_file() {
        notes.push(
            "There is a configure script, which is not called here: put it before make if the \
             makefile needs it."
                .to_owned(),
        );
    }
    if let Some(level) = own_level(&text) {
        notes.push(format!(
            "The makefile says {level} itself, which comes after [build] optimize and counts."
        ));
    }
    Found {
        programs: names.into_iter().map(made).collect(),
        // The flags go with the compilers: given as CFLAGS they would replace those that the makefile
        // needs.
        command: format!(
            "{COPIED} && f=-Wno-unused-command-line-argument && make -C \
                  \"$PLANISH_OUT\" -j\"$(nproc)\" CC=\"$PLANISH_CC $PLANISH_CFLAGS \
                  $PLANISH_LDFLAGS $f\" CXX=\"$PLANISH_CXX $PLANISH_CXXFLAGS $PLANISH_LDFLAGS $f\""
        ),
        release: format!("{COPIED} && make -C \"$PLANISH_OUT\" -j\"$(nproc)\""),
        optimize: None,
        takes_paths: true,
        notes,
    }
}
