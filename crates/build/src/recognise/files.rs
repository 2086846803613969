//! Files of a project that nobody vouches for: how are they read, and where are they?

use crate::small_file::text;
use std::path::{Path, PathBuf};

/// Directories below the project's own that are looked into.
const MOST_DEPTH: usize = 6;
/// Files and directories that are looked at.
const MOST_ENTRIES: usize = 20_000;

/// All files of one name in the directory and below, as (directory relative to it, text), those
/// nearer to it first, in the order of their names. Hidden directories and those of builds are left
/// out.
pub(super) fn all(directory: &Path, name: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut entries = 0;
    let mut level = vec![PathBuf::new()];
    for _ in 0..=MOST_DEPTH {
        let mut next = Vec::new();
        for folder in level {
            let full = directory.join(&folder);
            if let Some(text) = text(&full.join(name)) {
                found.push((folder.clone(), text));
            }
            let Ok(children) = std::fs::read_dir(&full) else { continue };
            let mut below: Vec<PathBuf> = Vec::new();
            for child in children.flatten() {
                entries += 1;
                let named = child.file_name();
                let named = named.to_string_lossy();
                let skipped = named.starts_with('.') || ["target", "build"].contains(&&*named);
                // A link may lead in a circle.
                if !skipped && child.file_type().is_ok_and(|kind| kind.is_dir()) {
                    below.push(folder.join(&*named));
                }
            }
            below.sort();
            next.extend(below);
            if entries > MOST_ENTRIES {
                return found;
            }
        }
        level = next;
    }
    found
}

/// What to do in a directory whose build system is unknown.
pub(super) fn hint(directory: &Path) -> String {
    let has = |name: &str| directory.join(name).is_file();
    let generated = "build.ninja is made by a generator from other files, so its flags cannot be \
                     handed over: give what makes it";
    if has("build.ninja") {
        return format!("{generated}, as --build 'COMMAND' with --program PATH");
    }
    if has("BUILD.bazel") || has("MODULE.bazel") || has("WORKSPACE") {
        return "Bazel builds in a place of its own: give a command that copies the program to \
                $PLANISH_OUT, as --build 'COMMAND' with --program PATH"
            .to_owned();
    }
    "go to the project's own directory, or give the build command as --build 'COMMAND' with \
     --program PATH"
        .to_owned()
}

/// What a Debian source package does besides its build system.
pub(super) fn debian_notes(directory: &Path) -> Vec<String> {
    let Some(rules) = text(&directory.join("debian/rules")) else { return Vec::new() };
    let joined = rules.replace("\\\n", " ");
    let given = joined.lines().filter_map(|line| {
        let line = line.trim();
        let (_, flags) = line.strip_prefix("dh_auto_configure")?.split_once("-- ")?;
        let flags = flags.split_whitespace().collect::<Vec<_>>().join(" ");
        Some(format!(
            "debian/rules configures with: {flags}. Add to the command what the program needs."
        ))
    });
    let mut notes: Vec<String> = given.collect();
    if notes.is_empty() {
        notes.push(
            "This is a Debian source package; it is built here by its own build system, without \
             debian/rules."
                .to_owned(),
        );
    }
    let series = text(&directory.join("debian/patches/series")).unwrap_or_default();
    let patches = series.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if patches && !directory.join(".pc").exists() {
        notes.push(
            "debian/patches are not applied; `dpkg-source --before-build .` applies them."
                .to_owned(),
        );
    }
    notes
}
