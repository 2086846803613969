//! Was the profile really used? Weighs the evidence that the rebuilt program gives.
//!
//! No single sign will do: names fit where the flag never reached the compiler, code differs where
//! only the linker's flags do, and a flag says nothing of a profile whose names the compiler does
//! not know. So three are asked for:
//! * names: the profile's functions are among those by which the compiler itself knows functions
//!   ([`compare`]);
//! * code: hot functions have other instructions than in the baseline ([`Evidence`]);
//! * flags: where the compiler recorded its command line, it names a profile; rustc, which records
//!   none, has left remarks.

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

/// Under this share the rebuild is refused: what the compiler did has little to do with what was
/// recorded.
pub const LEAST_SHARE: f64 = 0.5;

/// What the hot functions of the rebuilt program show. Hot are the functions with nine tenths of
/// the samples, inlined callees included in their callers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Hot functions that the baseline has by name, so that their code can be compared.
    pub hot_functions: u64,
    /// Those with other code in the rebuild, addresses and padding aside.
    pub hot_functions_changed: u64,
    /// Samples of the first.
    pub hot_samples: u64,
    /// Samples of the second.
    pub hot_samples_changed: u64,
    /// Samples of hot functions in files whose recorded command line names a profile.
    pub samples_with_flag: u64,
    /// Samples of hot functions in files whose recorded command line names none.
    pub samples_without_flag: u64,
    /// Those files, the ones with the most samples first, at most ten.
    pub files_without_flag: Vec<String>,
    /// Samples of hot functions in files that were compiled without the profile, since the compiler
    /// crashed over it.
    #[serde(default)]
    pub samples_profile_dropped: u64,
    /// Those with the most samples of the files that were compiled without optimisation, as their
    /// recorded command lines say: compilers then read no profile.
    #[serde(default)]
    pub files_unoptimized: Vec<String>,
    /// Samples of hot functions in them.
    #[serde(default)]
    pub samples_unoptimized: u64,
    /// What rustc said; absent for programs of other compilers.
    pub rustc: Option<Remarks>,
    /// Percent of the samples on lines that have code in the baseline, in functions that it has:
    /// few are a profile of other sources. Absent where that cannot be told.
    pub lines_with_code_pct: Option<f64>,
}

/// The remarks that rustc left beside the profile (`-Cremark=sample-profile
/// -Zremark-dir=PROFILE.remarks`). It records no command line, so nothing else tells a rebuild with
/// a profile from one that differs for another reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remarks {
    /// There are files of remarks, made after the profile.
    pub there: bool,
    /// Functions in which LLVM's pass for sample profiles gave counts to branches.
    pub functions: u64,
}

/// Below this, a profile is said to be of other sources. Two versions of SQLite reach 95.
const LEAST_LINES_PCT: f64 = 90.0;

impl Evidence {
    /// What to say of a profile whose functions fit and whose lines do not.
    pub fn stale(&self) -> Option<String> {
        let pct = self.lines_with_code_pct.filter(|pct| *pct < LEAST_LINES_PCT)?;
        Some(format!(
            "only {pct:.1} % of the profile's samples are on lines that have code in the \
             baseline: its counts stand at wrong places, most likely since the sources have \
             changed; record again, or carry it over with planish profile match"
        ))
    }

    /// The evidence in words, for people.
    pub fn words(&self) -> String {
        let mut words = match self.hot_functions {
            0 => "no hot function can be compared".to_owned(),
            all => format!("code of {} of {all} hot functions changed", self.hot_functions_changed),
        };
        let recorded = self.samples_with_flag + self.samples_without_flag;
        if let Some(remarks) = self.rustc {
            words +=
                &format!(", rustc gave counts to the branches of {} functions", remarks.functions);
        } else if recorded > 0 {
            let pct = self.samples_with_flag as f64 / recorded as f64 * 100.0;
            words +=
                &format!(", {pct:.1} % of their samples in files whose flags name the profile");
        } else {
            words += ", by the profile or by something else: the compiler recorded no flags \
                      (-grecord-command-line)";
        }
        words
    }
}

/// How a profile's names relate to those of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// Suffixes of copies are dropped, `.__uniq.HASH` stays.
    Clang,
    /// Everything from the first dot on is dropped (gcov profiles).
    Gcc,
}

impl NameRule {
    /// A symbol's name as a profile has it.
    pub fn canonical(self, name: &str) -> &str {
        match self {
            NameRule::Clang => canonical(name),
            NameRule::Gcc => name.split('.').next().filter(|n| !n.is_empty()).unwrap_or(name),
        }
    }
}

/// Compares names. `profile`: every function with its own samples; `known`: every function of the
/// rebuilt program.
///
/// clang gives a static function the name `f.__uniq.HASH`; a name that fits but for the hash means
/// that its source file was compiled by another path.
pub fn compare<'a>(
    profile: impl IntoIterator<Item = (&'a str, u64)>,
    known: impl IntoIterator<Item = &'a str>,
    rule: NameRule,
) -> Matched {
    let canonical = |name: &'a str| rule.canonical(name);
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
    matched.largest_unmatched =
        unmatched.iter().take(10).map(|&(n, s)| (n.to_owned(), s)).collect();
    matched.cause = cause(&matched, other_hash, lost_hash);
    matched
}

const UNIQUE: &str = ".__uniq.";

/// The name without what the compiler appends to copies of a function; clang drops the same
/// suffixes when it looks a function up in a profile.
fn canonical(name: &str) -> &str {
    let mut end = name.len();
    for suffix in
        [".llvm.", ".part.", ".isra.", ".constprop.", ".cold", ".localalias", ".lto_priv."]
    {
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
            "their names differ only in the hash after .__uniq., which is made from the path the \
             source file was compiled by: both builds must name it by the same path (relative, or \
             absolute, but not one each, and not below a directory with a changing name)"
                .into(),
        );
    }
    if lost_hash * 2 > lost {
        return Some(
            "the rebuild was made without -funique-internal-linkage-names, the recorded program \
             with it: pass PLANISH_CFLAGS on in both builds"
                .into(),
        );
    }
    Some(
        "the program was built from other sources than the recorded one, or the profile is of \
         another program"
            .into(),
    )
}

/// What is wrong when the profile names functions of Rust as the source does.
const PLAIN_RUST: &str = "the profile has plain names where rustc knows mangled ones: the \
                          recorded program has no linkage names in its debug information. Build \
                          it with -Cdebuginfo=1 -Cstrip=none in place of line-tables-only \
                          (PLANISH_RUSTFLAGS has them) and record again";

impl Matched {
    /// For a program that is Rust's: names the cause where most of what is missing has names that
    /// no rustc makes, of functions that it has. `known` are the names by which the compiler
    /// knows functions.
    pub fn explain_rust<'a>(&mut self, known: impl IntoIterator<Item = &'a str> + Clone) {
        if self.cause.is_none() {
            return;
        }
        let mangled = |name: &str| name.starts_with("_R") || name.starts_with("_Z");
        // Both manglings write an identifier behind its length.
        let of_this = |(name, _): &&(String, u64)| {
            let part = format!("{}{name}", name.len());
            !mangled(name)
                && known.clone().into_iter().any(|known| mangled(known) && known.contains(&part))
        };
        if !self.largest_unmatched.iter().any(|one| of_this(&one)) {
            return;
        }
        let sum = |plain: bool| {
            let of = self.largest_unmatched.iter().filter(|(name, _)| mangled(name) != plain);
            of.map(|(_, samples)| *samples).fold(0, u64::saturating_add)
        };
        if sum(true) > sum(false) {
            self.cause = Some(PLAIN_RUST.to_owned());
        }
    }
}

/// Decides: an error when the rebuild cannot have used the profile.
///
/// `same_code` says that both programs hold the same machine code.
pub fn judge(matched: &Matched, evidence: &Evidence, same_code: bool) -> Result<(), Error> {
    if matched.samples == 0 {
        return Err(Error::Unused(
            "the profile has no samples, so it cannot change the program".into(),
        ));
    }
    let pct = matched.share() * 100.0;
    if matched.share() < LEAST_SHARE {
        let worst = matched.largest_unmatched.iter().take(3);
        let worst: Vec<String> =
            worst.map(|(name, samples)| format!("{name} ({})", samples_words(*samples))).collect();
        return Err(Error::Unused(format!(
            "only {pct:.1} % of the profile's samples ({} of {} functions) belong to functions \
             that the compiler knows by the profile's names; missing are {}. Likely cause: {}",
            matched.functions_matched,
            matched.functions,
            worst.join(", "),
            matched.cause.as_deref().unwrap_or("unknown")
        )));
    }
    let told = evidence.samples_with_flag + evidence.samples_without_flag;
    let recorded = told + evidence.samples_profile_dropped;
    let dropped = evidence.samples_profile_dropped as f64;
    if dropped > 0.0 && dropped >= recorded as f64 * LEAST_SHARE {
        return Err(Error::Unused(format!(
            "{pct:.1} % of the profile fits, but the compiler crashed over it, and files with {:.0} % of \
             the hot samples are compiled without: another release of it, or clang, may take this \
             profile",
            dropped / recorded as f64 * 100.0
        )));
    }
    if (evidence.samples_with_flag as f64) < recorded as f64 * LEAST_SHARE {
        return Err(Error::Unused(format!(
            "{pct:.1} % of the profile fits, yet the profile was not used: {} compiled without \
             it, or with another one, as the flags recorded in the debug information say. Does \
             the build command pass PLANISH_CFLAGS (PLANISH_CXXFLAGS) on for them?",
            files_words(&evidence.files_without_flag)
        )));
    }
    if evidence.samples_unoptimized as f64 > recorded as f64 * (1.0 - LEAST_SHARE) {
        return Err(Error::Unused(format!(
            "{pct:.1} % of the profile fits, yet {} compiled with -O0, as the flags recorded in \
             the debug information say, and compilers use a profile only where they optimise. \
             Which flag of the project's own comes behind PLANISH_CFLAGS (PLANISH_CXXFLAGS)? A \
             debug build has one",
            files_words(&evidence.files_unoptimized)
        )));
    }
    if let Some(remarks) = evidence.rustc.filter(|remarks| remarks.functions == 0) {
        let (what, why) = match remarks.there {
            true => {
                ("rustc's remarks name no function that got counts: the profile was not used", "")
            }
            false => (
                "rustc left no remarks of this profile, and nothing else tells whether it used it",
                "Build with all of PLANISH_RUSTFLAGS, into PLANISH_OUT or another empty \
                 directory, where cargo compiles everything again. By hand that is \
                 -Cremark=sample-profile -Zremark-dir=PROFILE.remarks beside \
                 -Zprofile-sample-use=PROFILE. ",
            ),
        };
        return Err(Error::Unused(format!(
            "{pct:.1} % of the profile fits, yet {what}. {why}Does the build command pass \
             PLANISH_RUSTFLAGS on?"
        )));
    }
    let hot_is_the_same = evidence.hot_functions > 0 && evidence.hot_functions_changed == 0;
    if same_code || hot_is_the_same {
        let what = match same_code {
            true => "the rebuilt program has the same code as the baseline".to_owned(),
            false => format!(
                "none of its {} hot functions has other code than in the baseline",
                evidence.hot_functions
            ),
        };
        return Err(Error::Unused(format!(
            "{pct:.1} % of the profile fits, yet {what}: the profile was not used. Does the build \
             command pass PLANISH_CFLAGS (PLANISH_CXXFLAGS, PLANISH_RUSTFLAGS) on?"
        )));
    }
    Ok(())
}

fn samples_words(samples: u64) -> String {
    if samples == 1 { "1 sample".to_owned() } else { format!("{samples} samples") }
}

fn files_words(files: &[String]) -> String {
    match files {
        [one] => format!("{one} was"),
        [first, second, rest @ ..] if !rest.is_empty() => {
            format!("{first}, {second} and {} more were", rest.len())
        }
        files => format!("{} were", files.join(" and ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed() -> Evidence {
        Evidence {
            hot_functions: 4,
            hot_functions_changed: 3,
            hot_samples: 900,
            hot_samples_changed: 700,
            ..Evidence::default()
        }
    }

    #[test]
    fn a_link_that_moved_code_or_a_flag_that_got_lost_is_no_use_of_a_profile() {
        let m = compare([("hot", 900), ("main", 100)], ["hot", "main"], NameRule::Clang);
        let moved = Evidence { hot_functions_changed: 0, hot_samples_changed: 0, ..changed() };
        let message = judge(&m, &moved, false).unwrap_err().to_string();
        assert!(
            message.contains("none of its 4 hot functions") && message.contains("was not used"),
            "{message}"
        );
        let files_without_flag = vec!["a.c".to_owned(), "b.c".to_owned()];
        let lost = Evidence {
            samples_with_flag: 100,
            samples_without_flag: 800,
            files_without_flag,
            ..changed()
        };
        let message = judge(&m, &lost, false).unwrap_err().to_string();
        assert!(
            message.contains("a.c and b.c were compiled without it, or with another one"),
            "{message}"
        );
        assert!(
            lost.words().contains("code of 3 of 4 hot functions changed, 11.1 %"),
            "{}",
            lost.words()
        );
        assert!(
            judge(&m, &Evidence::default(), false).is_ok(),
            "without symbols and flags there is no evidence"
        );
    }

    #[test]
    fn rustc_must_have_said_that_it_used_the_profile() {
        let m = compare([("hot", 900)], ["hot"], NameRule::Clang);
        let said = |there, functions| {
            let rustc = Some(Remarks { there, functions });
            judge(&m, &Evidence { rustc, ..changed() }, false).map_err(|error| error.to_string())
        };
        assert!(said(true, 3).is_ok());
        assert!(said(true, 0).unwrap_err().contains("was not used"));
        assert!(said(false, 0).unwrap_err().contains("left no remarks"));
    }

    #[test]
    fn samples_weigh_and_suffixes_of_copies_do_not_matter() {
        let profile = [("hot", 900), ("helper.__uniq.1", 50), ("gone", 50)];
        let m = compare(profile, ["hot.llvm.77", "helper.__uniq.1", "main"], NameRule::Clang);
        assert_eq!((m.functions, m.functions_matched, m.samples_matched), (3, 2, 950));
        assert_eq!(m.cause, None);
        assert!(judge(&m, &changed(), false).is_ok());
        assert!(judge(&m, &changed(), true).unwrap_err().to_string().contains("PLANISH_CFLAGS"));
        // What the compiler crashed over.
        let lost = |samples_with_flag, samples_profile_dropped| {
            judge(&m, &Evidence { samples_with_flag, samples_profile_dropped, ..changed() }, false)
        };
        assert!(lost(60, 40).is_ok());
        for (with, dropped) in [(40, 60), (0, 7)] {
            let said = lost(with, dropped).unwrap_err().to_string();
            assert!(said.contains("the compiler crashed over it"), "{said}");
        }
    }

    #[test]
    fn a_build_by_another_path_is_recognised() {
        let m = compare(
            [("f.__uniq.111", 90), ("main", 10)],
            ["f.__uniq.222", "main"],
            NameRule::Clang,
        );
        let message = judge(&m, &changed(), false).unwrap_err().to_string();
        assert!(message.contains("only 10.0 %") && message.contains("compiled by"), "{message}");
        assert!(message.contains("f.__uniq.111 (90 samples)"), "{message}");
        let m = compare([("gone", 1)], ["main"], NameRule::Clang);
        let message = judge(&m, &changed(), false).unwrap_err().to_string();
        assert!(message.contains("gone (1 sample)"), "{message}");
    }

    #[test]
    fn a_rebuild_without_unique_names_is_recognised() {
        let m = compare([("f.__uniq.111", 90), ("main", 10)], ["f", "main"], NameRule::Clang);
        assert!(m.cause.unwrap().contains("-funique-internal-linkage-names"));
    }

    #[test]
    fn an_empty_profile_is_an_error() {
        assert!(
            judge(&compare([], ["main"], NameRule::Clang), &changed(), false)
                .unwrap_err()
                .to_string()
                .contains("no samples")
        );
    }
}
