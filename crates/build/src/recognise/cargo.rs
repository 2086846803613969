//! Which programs does a cargo project make, and how?
//!
//! Source: The Cargo Book, "The Manifest Format" and "Workspaces".

use super::{Found, Made, rustflags};
use crate::small_file::text;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Members of a workspace that are looked at.
const MOST_MEMBERS: usize = 2000;

/// What Cargo.toml says; a workspace's members are read too.
pub(super) fn found(directory: &Path) -> Found {
    let root = manifest(directory).unwrap_or_default();
    let mut packages = vec![(directory.to_owned(), root.clone())];
    packages.extend(members(directory, &root));
    // Those that cargo builds when nothing is said come first.
    let defaults: Vec<PathBuf> =
        strings(root.get("workspace").and_then(|w| w.get("default-members")))
            .map(|member| directory.join(member))
            .collect();
    packages.sort_by_key(|(place, _)| !(place == directory || defaults.contains(place)));
    let mut names: Vec<String> = Vec::new();
    for (place, manifest) in &packages {
        names.extend(programs(place, manifest));
    }
    let mut seen = Vec::new();
    names.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    // Named for the machine, so that flags reach the program and neither build scripts nor macros.
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let programs = names
        .into_iter()
        .map(|name| Made { binary: format!("{triple}/release/{name}"), name })
        .collect();
    let own = ["rust-toolchain.toml", "rust-toolchain"]
        .iter()
        .find_map(|name| text(&directory.join(name)))
        .is_some_and(|text| text.contains("nightly"));
    // A stable rustc takes sample profiles only so.
    let bootstrap = if own { "" } else { "RUSTC_BOOTSTRAP=1 " };
    let (own, notes) = rustflags::configured(directory, &triple);
    // What RUSTFLAGS says stands before planish's, as cargo would take it: the configuration's flags
    // count where the variable is not set.
    let own =
        if own.is_empty() { "${RUSTFLAGS-}".to_owned() } else { format!("${{RUSTFLAGS-{own}}}") };
    Found {
        programs,
        command: format!(
            "{bootstrap}RUSTFLAGS=\"{own} $PLANISH_RUSTFLAGS\" CC=\"$PLANISH_CC\" CXX=\"$PLANISH_CXX\" \
             CFLAGS=\"$PLANISH_CFLAGS\" CXXFLAGS=\"$PLANISH_CXXFLAGS\" cargo build --release --bin \
             @PROGRAM@ --target {triple} --target-dir \"$PLANISH_OUT\""
        ),
        release: format!(
            "cargo build --release --bin @PROGRAM@ --target {triple} --target-dir \"$PLANISH_OUT\""
        ),
        // The crate cc compiles C at the level of the profile, but flags of the environment come last.
        optimize: Some("-O3"),
        takes_paths: false,
        notes,
    }
}

fn manifest(directory: &Path) -> Option<Table> {
    text(&directory.join("Cargo.toml"))?.parse().ok()
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The members of a workspace. `*` stands for one name, as in `crates/*`.
fn members(directory: &Path, root: &Table) -> Vec<(PathBuf, Table)> {
    let Some(workspace) = root.get("workspace") else { return Vec::new() };
    let excluded: Vec<PathBuf> =
        strings(workspace.get("exclude")).map(|name| directory.join(name)).collect();
    let mut places: Vec<PathBuf> = Vec::new();
    for pattern in strings(workspace.get("members")) {
        let mut matched = vec![directory.to_owned()];
        for part in pattern.split('/') {
            matched = matched.into_iter().flat_map(|place| step(&place, part)).collect();
            matched.truncate(MOST_MEMBERS);
        }
        places.extend(matched);
    }
    let inside = places.into_iter().filter(|place| !excluded.contains(place)).take(MOST_MEMBERS);
    inside.filter_map(|place| Some((place.clone(), manifest(&place)?))).collect()
}

/// The places that one part of a pattern names.
fn step(place: &Path, part: &str) -> Vec<PathBuf> {
    let Some((before, after)) = part.split_once('*') else { return vec![place.join(part)] };
    let Ok(children) = std::fs::read_dir(place) else { return Vec::new() };
    let mut names: Vec<String> = children
        .flatten()
        .filter(|child| child.path().is_dir())
        .map(|child| child.file_name().to_string_lossy().into_owned())
        .filter(|name| {
            name.len() >= before.len() + after.len()
                && name.starts_with(before)
                && name.ends_with(after)
                && !name.starts_with('.')
        })
        .collect();
    names.sort();
    names.into_iter().map(|name| place.join(name)).collect()
}

/// The programs of a package: its default-run first, then by rule and by name.
fn programs(place: &Path, manifest: &Table) -> Vec<String> {
    let Some(package) = manifest.get("package") else { return Vec::new() };
    let string = |key: &str| package.get(key).and_then(Value::as_str).map(str::to_owned);
    let Some(name) = string("name") else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    names.extend(string("default-run"));
    let listed = manifest.get("bin").and_then(Value::as_array).into_iter().flatten();
    names.extend(listed.filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)));
    let finds = package.get("autobins").and_then(Value::as_bool) != Some(false);
    // A listed program may have this file for its source under another name.
    let main_is_listed = manifest
        .get("bin")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|bin| bin.get("path").and_then(Value::as_str) == Some("src/main.rs"));
    if finds {
        if place.join("src/main.rs").is_file() && !main_is_listed {
            names.push(name);
        }
        let mut others: Vec<String> = std::fs::read_dir(place.join("src/bin"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let is_program = match path.extension() {
                    Some(extension) => extension == "rs",
                    None => path.join("main.rs").is_file(),
                };
                is_program.then(|| path.file_stem().map(|s| s.to_string_lossy().into_owned()))?
            })
            .collect();
        others.sort();
        names.extend(others);
    }
    names
}
