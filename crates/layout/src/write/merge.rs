//! The layouts of several images as one: for a build command that makes all of them with one list
//! of clusters and one order of symbols.
//!
//! Input: cc profile and ld profile of each image. Output: one of each, in which every function
//! stands once. clang ends on a function that stands in a list twice, and knows functions by name
//! (and module), not by image: of functions that several images have, as those of headers, the
//! first image's part is kept, and the others are told. Cost: linear.

use super::Error;
use super::cc::CcProfile;
use super::read_cc;
use rustc_hash::{FxHashMap, FxHashSet};

/// The files of one image's layout; both empty where nothing of it was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// The cc profile.
    pub cc: String,
    /// The ld profile.
    pub ld: String,
}

/// The files of all images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// The cc profile.
    pub cc: String,
    /// The ld profile.
    pub ld: String,
    /// Functions in it.
    pub functions: usize,
    /// Functions that several parts have: name, number of the part that was kept, number of the
    /// one that was left out.
    pub shared: Vec<(String, usize, usize)>,
}

/// Why parts cannot be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// A cc profile cannot be read or written; the number of its part.
    #[error("{1}")]
    Part(usize, Error),
    /// Parts of several versions.
    #[error(
        "its version is another than that of the layouts before it; write all with one --cc-version"
    )]
    Version(usize),
    /// There is nothing in any of them.
    #[error("none of the layouts names a function; record the programs again, and for longer")]
    Nothing,
}

impl MergeError {
    /// The part that it is about.
    pub fn part(&self) -> Option<usize> {
        match self {
            MergeError::Part(part, _) | MergeError::Version(part) => Some(*part),
            MergeError::Nothing => None,
        }
    }
}

/// Puts the layouts together, in this order.
///
/// # Errors
/// Where one cannot be read, or all are empty.
pub fn merge(parts: &[Part]) -> Result<Merged, MergeError> {
    let mut all: Option<CcProfile> = None;
    let mut merged = Merged::default();
    let mut kept: FxHashMap<String, Vec<(Option<String>, usize)>> = FxHashMap::default();
    let mut symbols = FxHashSet::default();
    for (number, part) in parts.iter().enumerate() {
        let read = match part.cc.trim().is_empty() {
            true => CcProfile::default(),
            false => read_cc::read(&part.cc).map_err(|error| MergeError::Part(number, error))?,
        };
        if read.functions.is_empty() {
            continue;
        }
        let version = read.version;
        let into = all.get_or_insert_with(|| CcProfile { version, ..CcProfile::default() });
        if into.version != version {
            return Err(MergeError::Version(number));
        }
        for function in read.functions {
            let name = function.name().to_owned();
            let known = kept.entry(name.clone()).or_default();
            // A function without a module is one of every module.
            let same = |module: &Option<String>| {
                module.is_none() || function.module.is_none() || *module == function.module
            };
            match known.iter().find(|(module, _)| same(module)) {
                Some((_, first)) => merged.shared.push((name, *first, number)),
                None => {
                    known.push((function.module.clone(), number));
                    into.functions.push(function);
                }
            }
        }
        // Where a symbol stands a second time, its first place counts.
        for symbol in part.ld.lines().filter(|line| !line.is_empty()) {
            if symbols.insert(symbol) {
                merged.ld.push_str(symbol);
                merged.ld.push('\n');
            }
        }
    }
    let all = all.ok_or(MergeError::Nothing)?;
    merged.functions = all.functions.len();
    merged.cc = all.render().map_err(|error| MergeError::Part(0, error))?;
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(cc: &str, ld: &str) -> Part {
        Part { cc: cc.to_owned(), ld: ld.to_owned() }
    }

    #[test]
    fn every_function_stands_once_and_those_of_two_images_are_told() {
        let program = part("v1\nf main\nc0 1\nf shared\nc0\n", "main\nshared\nmain.cold\n");
        let library =
            part("v1\nf shared\nc0 2\nf walk\nc0 1\nc2\n", "walk\nwalk.__part.1\nshared\n");
        let merged = merge(&[program, Part::default(), library]).unwrap();
        assert_eq!(merged.cc, "v1\nf main\nc0 1\nf shared\nc0\nf walk\nc0 1\nc2\n");
        assert_eq!(merged.ld, "main\nshared\nmain.cold\nwalk\nwalk.__part.1\n");
        assert_eq!(merged.shared, [("shared".to_owned(), 0, 2)]);
        assert!(super::super::check::text(&merged.cc).is_empty());
    }

    #[test]
    fn functions_of_one_name_in_two_modules_are_two() {
        let one = part("v1\nm a.c\nf f\nc0\n", "f\n");
        let two = part("v1\nm b.c\nf f\nc0\n", "f\n");
        let merged = merge(&[one, two]).unwrap();
        assert_eq!((merged.functions, merged.shared.len()), (2, 0));
    }

    /// clang takes a function without a module for one of the module that it compiles, and ends on
    /// the second one.
    #[test]
    fn a_function_without_a_module_is_the_same_as_one_of_any() {
        let of_two = part("v1\nm a.c\nf f\nc0\nm b.c\nf f\nc0\n", "f\n");
        let alone = part("v1\nf f\nc0\nf g\nc0\n", "f\ng\n");
        let merged = merge(&[of_two.clone(), alone.clone()]).unwrap();
        assert_eq!(merged.cc, "v1\nm a.c\nf f\nc0\nm b.c\nf f\nc0\nf g\nc0\n");
        assert_eq!(merged.shared, [("f".to_owned(), 0, 1)]);
        let merged = merge(&[alone, of_two]).unwrap();
        assert_eq!(merged.cc, "v1\nf f\nc0\nf g\nc0\n");
        assert_eq!(merged.shared.len(), 2);
    }

    #[test]
    fn what_cannot_be_merged_is_told_with_its_part() {
        assert_eq!(merge(&[Part::default()]), Err(MergeError::Nothing));
        let (one, two) = (part("v1\nf f\nc0\n", ""), part("!g\n!!0\n", ""));
        assert_eq!(merge(&[one.clone(), two]).unwrap_err().part(), Some(1));
        let broken = merge(&[one, part("v1\nx\n", "")]).unwrap_err();
        assert_eq!(broken.part(), Some(1));
        assert!(broken.to_string().contains("expected"), "{broken}");
    }
}
