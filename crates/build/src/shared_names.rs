//! Which functions have counts in the profiles of several images of a project?
//!
//! A compiler knows functions by name alone, so it gets the sum. That is right where they are one
//! function, of a header say, and wrong for two of one name: clang's unique names of static functions
//! prevent it, gcc has none.

use crate::Error;
use beside::given;
use profile::SampleProfile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A function of several profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedName {
    /// Its name.
    pub name: String,
    /// The numbers of the profiles, ascending.
    pub profiles: Vec<usize>,
    /// Samples in all of them.
    pub samples: u64,
}

/// The functions with samples in more than one of these files, those with the most samples first.
///
/// # Errors
/// Where a file cannot be read, or is no profile.
pub fn read(paths: &[PathBuf]) -> Result<Vec<SharedName>, Error> {
    let read = |path: &PathBuf| {
        let unread = |source| Error::Read { path: path.clone(), source };
        let bytes = given::read(path, given::DATA).map_err(unread)?;
        let wrong = |source| Error::Profile { path: path.clone(), source };
        profile::format::read(&bytes).map_err(wrong)
    };
    Ok(of(&paths.iter().map(read).collect::<Result<Vec<_>, _>>()?))
}

fn of(profiles: &[SampleProfile]) -> Vec<SharedName> {
    let mut names: BTreeMap<String, SharedName> = BTreeMap::new();
    for (number, profile) in profiles.iter().enumerate() {
        for function in profile.functions.values() {
            let samples = function.body_sum();
            let Some(name) = function.name.as_text().filter(|_| samples > 0) else { continue };
            let shared = names.entry(name.to_owned()).or_insert_with(|| SharedName {
                name: name.to_owned(),
                profiles: Vec::new(),
                samples: 0,
            });
            shared.profiles.push(number);
            shared.samples = shared.samples.saturating_add(samples);
        }
    }
    let mut all: Vec<SharedName> =
        names.into_values().filter(|shared| shared.profiles.len() > 1).collect();
    all.sort_by_key(|shared| std::cmp::Reverse(shared.samples));
    all
}

/// One sentence about them; none where there are none. `images` are the names of the images, in the
/// order of the profiles.
pub fn told(shared: &[SharedName], images: &[&str]) -> Option<String> {
    const MOST: usize = 5;
    let named = |one: &SharedName| {
        let of: Vec<&str> =
            one.profiles.iter().filter_map(|number| images.get(*number).copied()).collect();
        format!("{} ({})", one.name, of.join(", "))
    };
    let first: Vec<String> = shared.iter().take(MOST).map(named).collect();
    let more = match shared.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shared.is_empty()).then(|| {
        format!(
            "functions with counts in several images, which the compiler knows by name alone and \
             gets as a sum: {}{more}; right for one function of a header, wrong for different \
             functions of one name",
            first.join(", ")
        )
    })
}

/// The profile of an image alone, given that of all.
pub(crate) fn part(whole: &Path, image: &str) -> PathBuf {
    let ending = whole.extension().unwrap_or_default().to_string_lossy();
    whole.with_file_name(format!("{image}.part.{ending}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_one_name_in_two_images_are_told_with_the_hotter_ones_first() {
        let profile = |text: &str| profile::format::read(text.as_bytes()).unwrap();
        let program = profile("main:3:1\n 1: 3\nhelp:20:1\n 1: 20\nwarm:5:1\n 1: 5\n");
        let library = profile("help:30:1\n 1: 30\nwarm:5:1\n 1: 5\nown:9:1\n 1: 9\n");
        let shared = of(&[program, library]);
        let found: Vec<(&str, u64)> = shared.iter().map(|s| (s.name.as_str(), s.samples)).collect();
        assert_eq!(found, [("help", 50), ("warm", 10)]);
        let told = told(&shared, &["app", "libapp.so"]).unwrap();
        assert!(told.contains("help (app, libapp.so), warm (app, libapp.so);"), "{told}");
        assert_eq!(super::told(&[], &[]), None);
    }
}
