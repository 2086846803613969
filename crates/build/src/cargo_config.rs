//! What does cargo's configuration say?
//!
//! Cargo reads `.cargo/config.toml` of the directory and of each above it, and of its home; those further down count more
//! (The Cargo Book, "Configuration").

use crate::small_file::text;
use std::path::{Path, PathBuf};
use toml::Table;

/// Cargo's configurations with their files, the weakest first. Files that are not TOML are left out.
/// Where both names are there, cargo reads the one without an ending.
pub(crate) fn tables(directory: &Path) -> Vec<(PathBuf, Table)> {
    let of = |place: PathBuf| {
        ["config", "config.toml"].iter().find_map(|name| {
            let path = place.join(name);
            Some((path.clone(), text(&path)?.parse().ok()?))
        })
    };
    places(directory).into_iter().filter_map(of).collect()
}

/// Directories of configurations, the weakest first: cargo's home, then from the root down to the project.
fn places(directory: &Path) -> Vec<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME")?;
        Some(Path::new(&home).join(".cargo"))
    });
    let full = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let mut above: Vec<PathBuf> = full.ancestors().map(|place| place.join(".cargo")).collect();
    above.reverse();
    above.retain(|place| Some(place) != home.as_ref());
    home.into_iter().chain(above).collect()
}
