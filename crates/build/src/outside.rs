//! Which sources outside its project's directory was a program built from?
//!
//! `../common/a.c` and a crate by its path are sources as those inside are. The program's line tables
//! name them, and headers with code in them; headers of types and macros alone are not known.

use image::debug::DebugInfo;
use image::{DebugSearch, Image};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where systems keep sources that nobody edits: headers, mostly.
const SYSTEM: [&str; 4] = ["/usr", "/lib", "/nix/store", "/gnu/store"];

/// The files outside `directory` that a program names as its sources and that are there, by their
/// whole paths. None of a file that is no program, or that says nothing.
pub(crate) fn sources(program: &Path, directory: &Path) -> BTreeSet<PathBuf> {
    let Ok(image) = Image::open(program) else { return BTreeSet::new() };
    let Ok(debug) = DebugInfo::load(&image, &DebugSearch::default()) else {
        return BTreeSet::new();
    };
    let project = std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    let named = debug.source_files().into_iter().filter(|path| path.is_absolute());
    let there = named.filter_map(|path| std::fs::canonicalize(path).ok());
    let is_system = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
    there
        .filter(|path| {
            !path.starts_with(&project)
                && !is_system(path)
                && path.is_file()
                && path.to_str().is_some()
        })
        .collect()
}
