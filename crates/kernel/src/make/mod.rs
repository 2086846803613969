//! With which variables does make build a kernel after a profile or a layout?
//!
//! kbuild compiles an object again when its command changes, not when a profile changes that the
//! command names. So profile and layout are copied into the build under names that hold a hash of
//! their content, with the list of the objects that they are for. The variables are those of
//! `kernel/Makefile.autofdo` and `kernel/Makefile.propeller`.

mod call;
mod run;

pub use call::Make;
pub use run::{Made, run};

use crate::error::Error;
use crate::objects::{Chosen, FunctionsOfObjects, choose};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The directory in a build that holds profiles, layouts and lists.
pub const DIRECTORY: &str = "planish";
/// Samples of the objects that are built with a profile, of all that belong to the build.
pub const SHARE_BUILT: f64 = 0.9995;
/// With less of its samples in functions of the build, a profile is of something else.
const LEAST_KNOWN: f64 = 0.5;

/// What a build is to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The sample profile.
    pub profile: Option<PathBuf>,
    /// The profile comes from a kernel that was built without one: what reads it late in code
    /// generation stays off.
    pub first_round: bool,
    /// Split functions even though blocks could be mapped.
    pub split: bool,
    /// The layout: what `_cc_profile.txt` and `_ld_profile.txt` are appended to.
    pub layout: Option<PathBuf>,
    /// Build all objects with the profile and the layout, also those that hold no samples.
    pub whole: bool,
}

/// What make is called with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// `NAME=value`, one word each.
    pub words: Vec<String>,
    /// The objects that the profile is for; absent without one, or where it is for all.
    pub profiled: Option<Chosen>,
    /// The objects that the layout is for; absent without one, or where it is for all.
    pub laid_out: Option<Chosen>,
}

/// Copies what the request names into the build and says with which variables make uses it.
/// `samples` are those of the profile by function.
///
/// # Errors
/// A file cannot be read or written, or most samples of the profile, or functions of the layout,
/// belong to nothing in the build.
pub fn variables(
    build: &Path,
    request: &Request,
    functions: &FunctionsOfObjects,
    samples: &BTreeMap<String, u64>,
) -> Result<Variables, Error> {
    let folder = std::path::absolute(build.join(DIRECTORY)).map_err(Error::io(build))?;
    std::fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    let mut variables = Variables::default();
    let set =
        |words: &mut Vec<String>, name: &str, value: &str| words.push(format!("{name}={value}"));
    if let Some(profile) = &request.profile {
        let bytes = read(profile)?;
        let hash = content_hash(&[&bytes]);
        let kept = keep(&folder, &format!("profile-{hash}.afdo"), &bytes)?;
        set(&mut variables.words, "CLANG_AUTOFDO_PROFILE", &kept);
        let chosen = choose(functions, samples, SHARE_BUILT);
        fits(profile, "samples", &chosen)?;
        if !request.whole {
            let list = list(&folder, &format!("profile-{hash}.objects"), &chosen)?;
            set(&mut variables.words, "CLANG_AUTOFDO_OBJECTS", &list);
            variables.profiled = Some(chosen);
        }
        if request.first_round {
            set(&mut variables.words, "CLANG_AUTOFDO_ROUND", "1");
        }
        if request.split {
            set(&mut variables.words, "CLANG_AUTOFDO_SPLIT", "y");
        }
    }
    if let Some(prefix) = &request.layout {
        let (blocks, order) = (with(prefix, "_cc_profile.txt"), with(prefix, "_ld_profile.txt"));
        let blocks_bytes = read(&blocks)?;
        let order_bytes = read(&order)?;
        let stem = format!("layout-{}", content_hash(&[&blocks_bytes, &order_bytes]));
        keep(&folder, &format!("{stem}_cc_profile.txt"), &blocks_bytes)?;
        keep(&folder, &format!("{stem}_ld_profile.txt"), &order_bytes)?;
        set(&mut variables.words, "CLANG_PROPELLER_PROFILE_PREFIX", &word(&folder.join(&stem))?);
        let chosen =
            choose(functions, &functions_of_layout(&String::from_utf8_lossy(&blocks_bytes)), 1.0);
        fits(&blocks, "functions", &chosen)?;
        if !request.whole {
            let list = list(&folder, &format!("{stem}.objects"), &chosen)?;
            set(&mut variables.words, "CLANG_PROPELLER_OBJECTS", &list);
            variables.laid_out = Some(chosen);
        }
    }
    Ok(variables)
}

/// The functions that a cc profile of either version lays out, each once with the number 1.
fn functions_of_layout(text: &str) -> BTreeMap<String, u64> {
    let names = text.lines().filter_map(|line| {
        let names = line
            .strip_prefix("f ")
            .or_else(|| line.strip_prefix('!').filter(|l| !l.starts_with('!')))?;
        // The first of several names of one function.
        names.split_whitespace().next()?.split('/').next()
    });
    names.map(|name| (name.to_owned(), 1)).collect()
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    beside::given::read(path, beside::given::DATA).map_err(Error::io(path))
}

fn with(prefix: &Path, end: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// A file name as make takes it.
///
/// # Errors
/// It has blanks or characters that make gives a meaning.
pub fn word(path: &Path) -> Result<String, Error> {
    let word = path
        .to_str()
        .filter(|text| !text.contains(|c: char| c.is_whitespace() || "$#'\"\\".contains(c)));
    word.map(str::to_owned).ok_or_else(|| Error::Path { path: path.to_owned() })
}

fn content_hash(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut digits = hex::encode(hash.finalize());
    digits.truncate(16);
    digits
}

/// Writes a file of the build beside and renames it; one that is there already has this content.
fn keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<String, Error> {
    let path = folder.join(name);
    if !path.is_file() {
        beside::write(&path, bytes).map_err(Error::io(&path))?;
    }
    word(&path)
}

/// The list that belongs to a profile is made once: the functions of the objects change with each
/// build, and objects that come and go would be compiled again for nothing.
fn list(folder: &Path, name: &str, chosen: &Chosen) -> Result<String, Error> {
    keep(folder, name, (chosen.objects.join("\n") + "\n").as_bytes())
}

fn fits(path: &Path, what: &'static str, chosen: &Chosen) -> Result<(), Error> {
    if chosen.known_share() >= LEAST_KNOWN {
        return Ok(());
    }
    Err(Error::ForeignProfile {
        path: path.to_owned(),
        what,
        per_cent: (chosen.known_share() * 100.0).round() as u32,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    fn functions() -> FunctionsOfObjects {
        [("a.o", "alpha"), ("b.o", "beta")]
            .map(|(o, f)| (o.to_owned(), vec![f.to_owned()]))
            .into_iter()
            .collect()
    }

    fn samples(name: &str) -> BTreeMap<String, u64> {
        [(name.to_owned(), 7)].into_iter().collect()
    }

    #[test]
    fn a_changed_profile_under_the_same_name_has_another_name_in_the_build() {
        let dir = tempfile::tempdir().unwrap();
        let profile = dir.path().join("kernel.afdo");
        let request =
            Request { profile: Some(profile.clone()), first_round: true, ..Request::default() };
        let mut seen = Vec::new();
        for content in ["one", "two", "one"] {
            std::fs::write(&profile, content).unwrap();
            let made = variables(dir.path(), &request, &functions(), &samples("alpha")).unwrap();
            let kept = made.words[0].strip_prefix("CLANG_AUTOFDO_PROFILE=").unwrap();
            assert_eq!(std::fs::read_to_string(kept).unwrap(), content);
            let list = made.words[1].strip_prefix("CLANG_AUTOFDO_OBJECTS=").unwrap();
            assert_eq!(std::fs::read_to_string(list).unwrap(), "a.o\n");
            assert_eq!(made.words[2], "CLANG_AUTOFDO_ROUND=1");
            seen.push(made);
        }
        assert!(seen[0] == seen[2] && seen[0] != seen[1]);
    }

    #[test]
    fn a_layout_is_for_the_objects_of_its_functions() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().join("lay");
        std::fs::write(with(&prefix, "_cc_profile.txt"), "v1\nm b.c\nf beta/beta_alias\nc 0 2 1\n")
            .unwrap();
        std::fs::write(with(&prefix, "_ld_profile.txt"), "beta\n").unwrap();
        let request = Request { layout: Some(prefix), ..Request::default() };
        let made = variables(dir.path(), &request, &functions(), &BTreeMap::new()).unwrap();
        assert_eq!(made.laid_out.unwrap().objects, ["b.o"]);
        let prefix = made.words[0].strip_prefix("CLANG_PROPELLER_PROFILE_PREFIX=").unwrap();
        assert!(Path::new(&format!("{prefix}_ld_profile.txt")).is_file());
        assert_eq!(
            functions_of_layout("!one M=x\n!!1 2\n!two/alias\n").into_keys().collect::<Vec<_>>(),
            ["one", "two"]
        );
    }

    #[test]
    fn a_profile_of_another_tree_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let profile = dir.path().join("p.afdo");
        std::fs::write(&profile, "x").unwrap();
        let request = Request { profile: Some(profile), ..Request::default() };
        let refused = variables(dir.path(), &request, &functions(), &samples("main"))
            .unwrap_err()
            .to_string();
        assert!(refused.contains("p.afdo") && refused.contains("0 %"), "{refused}");
        assert!(!dir.path().join(DIRECTORY).join("p").exists());
    }

    #[test]
    fn a_build_whose_name_make_cannot_take_is_refused() {
        assert!(word(Path::new("/a b/c")).is_err() && word(Path::new("/a$b")).is_err());
    }
}
