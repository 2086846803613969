//! Was the profile really used? Compares the profile's functions with those the rebuilt program has.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How much of a profile speaks about functions that the rebuilt program knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// Functions in the profile.
    pub functions: u64,
    /// Those the compiler saw (own code or inlined) in the rebuild.
    pub functions_matched: u64,
    /// Samples in the profile.
    pub samples: u64,
    /// Samples of matched functions.
    pub samples_matched: u64,
    /// The unmatched functions with the most samples, at most ten.
    pub largest_unmatched: Vec<(String, u64)>,
    /// The likely cause, when much is unmatched.
    pub cause: Option<String>,
}

impl Matched {
    /// Matched samples per sample, in 0..=1.
    pub fn share(&self) -> f64 {
        self.samples_matched as f64 / self.samples.max(1) as f64
    }
}

/// Under this share the rebuild is refused: what the compiler did has little to do with what was recorded.
pub const LEAST_SHARE: f64 = 0.5;

/// How a profile's names relate to those of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Suffixes of copies are dropped, `.__uniq.HASH` stays.
    Clang,
    /// Everything from the first dot on is dropped (gcov profiles).
    Gcc,
}

/// Compares names. `profile`: every function with its own samples; `known`: every function of the rebuilt program.
///
/// clang gives a static function the name `f.__uniq.HASH`; a name that fits but for the hash means that its source
/// file was compiled by another path.
pub fn compare<'a>(
    profile: impl IntoIterator<Item = (&'a str, u64)>,
    known: impl IntoIterator<Item = &'a str>,
    rule: NameRule,
) -> Matched {
    let canonical = |name: &'a str| match rule {
        NameRule::Clang => canonical(name),
        NameRule::Gcc => name.split('.').next().filter(|n| !n.is_empty()).unwrap_or(name),
    };
    let mut names = BTreeSet::new();
    let mut without_hash: BTreeMap<&str, &str> = BTreeMap::new();
    for name in known {
        let name = canonical(name);
        names.insert(name);
        if let Some((stem, _)) = name.split_once(UNIQUE) {
            without_hash.insert(stem, name);
        }
    }
    let mut matched = Matched::default();
    let mut unmatched: Vec<(&str, u64)> = Vec::new();
    let (mut other_hash, mut lost_hash) = (0u64, 0u64);
    for (name, samples) in profile {
        matched.functions += 1;
        matched.samples += samples;
        if names.contains(canonical(name)) {
            matched.functions_matched += 1;
            matched.samples_matched += samples;
            continue;
        }
        unmatched.push((name, samples));
        if let Some((stem, _)) = name.split_once(UNIQUE) {
            let there = if without_hash.contains_key(stem) { Some(&mut other_hash) } else { None };
            match there {
                Some(count) => *count += samples,
                None if names.contains(stem) => lost_hash += samples,
                None => {}
            }
        }
    }
    unmatched.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    matched.largest_unmatched = unmatched.iter().take(10).map(|&(n, s)| (n.to_owned(), s)).collect();
    matched.cause = cause(&matched, other_hash, lost_hash);
    matched
}

const UNIQUE: &str = ".__uniq.";

/// The name without what the compiler appends to copies of a function; clang drops the same suffixes when it looks a
/// function up in a profile.
fn canonical(name: &str) -> &str {
    let mut end = name.len();
    for suffix in [".llvm.", ".part.", ".isra.", ".constprop.", ".cold", ".localalias", ".lto_priv."] {
        end = end.min(name.find(suffix).filter(|&at| at > 0).unwrap_or(end));
    }
    &name[..end]
}

fn cause(matched: &Matched, other_hash: u64, lost_hash: u64) -> Option<String> {
    let lost = matched.samples - matched.samples_matched;
    if lost * 10 < matched.samples {
        return None;
    }
    if other_hash * 2 > lost {
        return Some(
            "their names differ only in the hash after .__uniq., which is made from the path the source file was \
             compiled by: both builds must name it by the same path (relative, or absolute, but not one each, and not \
             below a directory with a changing name)"
                .into(),
        );
    }
    if lost_hash * 2 > lost {
        return Some(
            "the rebuild was made without -funique-internal-linkage-names, the recorded program with it: \
             pass PLANISH_CFLAGS on in both builds"
                .into(),
        );
    }
    Some("the program was built from other sources than the recorded one, or the profile is of another program".into())
}

/// Decides: an error when the rebuild cannot have used the profile.
///
/// `same_code` says that both programs hold the same machine code.
pub fn judge(matched: &Matched, same_code: bool) -> Result<(), Error> {
    if matched.samples == 0 {
        return Err(Error::Unused("the profile has no samples, so it cannot change the program".into()));
    }
    let pct = matched.share() * 100.0;
    if matched.share() < LEAST_SHARE {
        let worst = matched.largest_unmatched.iter().take(3);
        let worst: Vec<String> = worst.map(|(name, samples)| format!("{name} ({samples} samples)")).collect();
        return Err(Error::Unused(format!(
            "only {pct:.1} % of the profile's samples ({} of {} functions) belong to functions of the rebuilt program; \
             missing are {}. Likely cause: {}",
            matched.functions_matched,
            matched.functions,
            worst.join(", "),
            matched.cause.as_deref().unwrap_or("unknown")
        )));
    }
    if same_code {
        return Err(Error::Unused(format!(
            "{pct:.1} % of the profile fits, yet the rebuilt program has the same code as the baseline: the profile \
             was not used. Does the build command pass PLANISH_CFLAGS (PLANISH_CXXFLAGS, PLANISH_RUSTFLAGS) on?"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_weigh_and_suffixes_of_copies_do_not_matter() {
        let profile = [("hot", 900), ("helper.__uniq.1", 50), ("gone", 50)];
        let m = compare(profile, ["hot.llvm.77", "helper.__uniq.1", "main"], NameRule::Clang);
        assert_eq!((m.functions, m.functions_matched, m.samples_matched), (3, 2, 950));
        assert_eq!(m.cause, None);
        assert!(judge(&m, false).is_ok());
        assert!(judge(&m, true).unwrap_err().to_string().contains("PLANISH_CFLAGS"));
    }

    #[test]
    fn a_build_by_another_path_is_recognised() {
        let m = compare([("f.__uniq.111", 90), ("main", 10)], ["f.__uniq.222", "main"], NameRule::Clang);
        let message = judge(&m, false).unwrap_err().to_string();
        assert!(message.contains("only 10.0 %") && message.contains("compiled by"), "{message}");
        assert!(message.contains("f.__uniq.111 (90 samples)"), "{message}");
    }

    #[test]
    fn a_rebuild_without_unique_names_is_recognised() {
        let m = compare([("f.__uniq.111", 90), ("main", 10)], ["f", "main"], NameRule::Clang);
        assert!(m.cause.unwrap().contains("-funique-internal-linkage-names"));
    }

    #[test]
    fn an_empty_profile_is_an_error() {
        assert!(
            judge(&compare([], ["main"], NameRule::Clang), false)
                .unwrap_err()
                .to_string()
                .contains("no samples")
        );
    }
}
