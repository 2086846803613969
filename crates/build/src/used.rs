//! Which evidence do two programs give that the compiler of the second one used a profile?
//!
//! Names are looked for where the compiler has its own: symbols, linkage names, strings that look
//! like one. Hot functions are compared by their instructions without addresses, so that a link
//! that moves code shows no change. Flags come from the debug information, where the compiler
//! recorded them.

use crate::reuse::is_without_profile;
use crate::verify::{self, Evidence, Matched, NameRule, Remarks};
use crate::{Error, flags};
use beside::given;
use image::code::{Fingerprint, fingerprints};
use image::debug::{CompiledUnit, DebugInfo, Language};
use image::{DebugSearch, Image, ImageAddr};
use profile::format::Format as ProfileFormat;
use profile::format::gcov::GcovVersion;
use profile::matching::{ProgramShape, match_profile};
use profile::{FunctionProfile, SampleProfile};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::Arc;

/// Hot functions have this share of the samples.
const HOT_PCT: u128 = 90;

/// More files than this are counted, not named.
const MOST_FILES: usize = 10;

/// What names a profile on the command lines of clang and gcc, and what takes it back.
const PROFILE_FLAGS: [(&str, &str); 3] = [
    ("-fprofile-sample-use", "-fno-profile-sample-use"),
    ("-fauto-profile", "-fno-auto-profile"),
    ("-fprofile-use", "-fno-profile-use"),
];

/// Compares a profile, by its path and what it holds, with the program that was rebuilt with it, and that with the one
/// before. `used` is the profile that the compiler was given: the same, or one of more images.
///
/// # Errors
/// Where the profile cannot be read, or the compiler of the program reads another version of it.
pub fn examine(
    base: &Image,
    rebuilt: &Image,
    (path, bytes): (&Path, &[u8]),
    used: &Path,
    threads: usize,
) -> Result<(Matched, Evidence), Error> {
    let rule = match profile::format::detect(bytes) {
        Some(ProfileFormat::Gcov) => NameRule::Gcc,
        _ => NameRule::Clang,
    };
    let profile = profile::format::read(bytes)
        .map_err(|source| Error::Profile { path: path.to_owned(), source })?;
    let debug = DebugInfo::load(rebuilt, &DebugSearch::default())?;
    let main = debug.main_unit(threads).unwrap_or_default();
    if rule == NameRule::Gcc {
        refuse_other_version(bytes, &main, path)?;
    }
    let matched = names(rebuilt, &debug, &profile, rule, main.language, threads);
    let hot = hot_functions(&profile);
    let mut evidence = evidence(base, rebuilt, &debug, (&hot, used), rule, threads);
    if main.language == Language::Rust {
        evidence.rustc = Some(remarks(used));
    }
    evidence.lines_with_code_pct = lines_with_code(base, &profile, threads);
    Ok((matched, evidence))
}

/// How much of a profile is on lines that the program has code for, in percent.
fn lines_with_code(program: &Image, profile: &SampleProfile, threads: usize) -> Option<f64> {
    let debug = DebugInfo::load(program, &DebugSearch::default()).ok()?;
    let shape = ProgramShape::read(program, &debug, threads).ok()?;
    let (_, report) = match_profile(profile, &shape).ok()?;
    (report.samples.carried() > 0).then(|| report.with_code_pct().0)
}

/// What rustc's remarks beside a profile say. They are YAML, of which one line in each names the
/// function.
fn remarks(profile: &Path) -> Remarks {
    let made = |path: &Path| path.metadata().and_then(|about| about.modified()).ok();
    let folder = flags::remarks_of(&profile.to_string_lossy());
    let files: Vec<_> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let mut found =
        Remarks { there: files.iter().any(|file| made(file) >= made(profile)), functions: 0 };
    if !found.there {
        return found;
    }
    let mut functions = BTreeSet::new();
    for file in files {
        let Ok(file) = given::open(&file) else { continue };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            functions.extend(line.strip_prefix("Function:").map(|name| name.trim().to_owned()));
        }
    }
    found.functions = functions.len() as u64;
    found
}

/// How many functions of a profile rustc could find by their names in the program that it made, and
/// why not more.
pub fn rust_names(
    image: &Image,
    debug: &DebugInfo,
    profile: &SampleProfile,
    threads: usize,
) -> Matched {
    names(image, debug, profile, NameRule::Clang, Language::Rust, threads)
}

/// gcc reads one version of its profiles; for another it may only warn, or its build was told to go
/// on.
fn refuse_other_version(bytes: &[u8], main: &CompiledUnit, path: &Path) -> Result<(), Error> {
    let version = bytes.get(4..8).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    let Some((found, major)) = version.zip(main.gcc_major()) else { return Ok(()) };
    let wanted = GcovVersion::for_gcc(major).number();
    if found != wanted {
        return Err(Error::OtherGcc { path: path.to_owned(), found, major, wanted });
    }
    Ok(())
}

fn names(
    rebuilt: &Image,
    debug: &DebugInfo,
    profile: &SampleProfile,
    rule: NameRule,
    language: Language,
    threads: usize,
) -> Matched {
    let named = debug.compiler_names(threads);
    // A function that was optimised away may have left its linkage name and nothing else.
    let strings = debug_strings(debug);
    let absent = strings.split(|&b| b == 0).filter_map(|s| std::str::from_utf8(s).ok());
    let absent = absent.filter(|name| {
        name.contains(".__uniq.")
            || ["_Z", "_RN", "_RI", "_RX"].iter().any(|begin| name.starts_with(begin))
    });
    let symbols: Vec<String> = rebuilt.functions().iter().map(|f| f.name.to_string()).collect();
    let symbols = symbols.iter().map(String::as_str);
    let known: Vec<&str> = named.iter().map(String::as_str).chain(symbols).chain(absent).collect();
    let mut own: BTreeMap<OwnName, u64> = BTreeMap::new();
    // Others are listed to be known as cold.
    let ran = profile.functions.values().filter(|function| whole(function) > 0);
    ran.for_each(|function| add_own_samples(function, &mut own));
    let hashed = own.keys().any(|name| matches!(name, OwnName::Hash(_)));
    // Names that the profile holds as hashes are found by the hashes of the program's.
    let by_hash: HashMap<u64, &str> = match hashed {
        true => known.iter().map(|name| (profile::name_hash(name), *name)).collect(),
        false => HashMap::new(),
    };
    let texts: Vec<(String, u64)> = own
        .into_iter()
        .map(|(name, samples)| match name {
            OwnName::Text(text) => (text.to_owned(), samples),
            OwnName::Hash(hash) => (
                by_hash.get(&hash).map_or_else(|| hash.to_string(), |name| (*name).to_owned()),
                samples,
            ),
        })
        .collect();
    let profiled = texts.iter().map(|(name, samples)| (name.as_str(), *samples));
    let mut matched = verify::compare(profiled, known.iter().copied(), rule);
    if language == Language::Rust {
        matched.explain_rust(known.iter().copied());
    }
    matched
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OwnName<'p> {
    Text(&'p str),
    Hash(u64),
}

/// Samples of each function's own lines. Inlined functions count under their own name: the compiler
/// repeats an inlining of the profile only where it finds a callee of that name.
fn add_own_samples<'p>(function: &'p FunctionProfile, own: &mut BTreeMap<OwnName<'p>, u64>) {
    let name = function.name.as_text().map_or(OwnName::Hash(function.name.hash()), OwnName::Text);
    *own.entry(name).or_default() += function.body_sum();
    function.inlined_calls().for_each(|(_, callee)| add_own_samples(callee, own));
}

/// The strings of the debug information.
fn debug_strings(debug: &DebugInfo) -> Vec<u8> {
    let image = Image::open(&debug.path()).ok();
    image.and_then(|i| i.section(".debug_str").map(|s| s.into_owned())).unwrap_or_default()
}

/// The functions with nine tenths of the samples, each with its own, inlined callees included.
fn hot_functions(profile: &SampleProfile) -> Vec<(String, u64)> {
    let named =
        profile.functions.values().filter_map(|f| Some((f.name.as_text()?.to_owned(), whole(f))));
    let mut all: Vec<(String, u64)> = named.filter(|(_, samples)| *samples > 0).collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let total: u128 = all.iter().map(|(_, samples)| u128::from(*samples)).sum();
    let mut before = 0_u128;
    all.retain(|(_, samples)| {
        let kept = before * 100 < total * HOT_PCT;
        before += u128::from(*samples);
        kept
    });
    all
}

fn whole(function: &FunctionProfile) -> u64 {
    let inlined = function.inlined_calls().map(|(_, callee)| whole(callee));
    inlined.fold(function.body_sum(), u64::saturating_add)
}

/// The instructions of the functions that a profile calls by one name: all copies, one behind the
/// other.
struct Code<'i> {
    image: &'i Image,
    by_name: HashMap<String, Vec<(ImageAddr, ImageAddr)>>,
}

impl<'i> Code<'i> {
    fn of(image: &'i Image, rule: NameRule) -> Code<'i> {
        let mut by_name: HashMap<String, Vec<(ImageAddr, ImageAddr)>> = HashMap::new();
        for function in image.functions().iter() {
            let name = function.name.to_string();
            let ranges = by_name.entry(rule.canonical(&name).to_owned()).or_default();
            ranges.push((function.address, function.end()));
        }
        Code { image, by_name }
    }

    fn begin(&self, name: &str) -> Option<ImageAddr> {
        self.by_name.get(name)?.first().map(|range| range.0)
    }

    /// Instructions of each copy; the copies sorted, since links order them differently.
    fn instructions(&self, name: &str) -> Option<Vec<Vec<u64>>> {
        let of = |&(begin, end): &(ImageAddr, ImageAddr)| {
            let list: Vec<Fingerprint> = fingerprints(self.image, begin, end);
            list.into_iter().map(|one| one.with_operands).collect::<Vec<u64>>()
        };
        let mut copies: Vec<Vec<u64>> = self.by_name.get(name)?.iter().map(of).collect();
        copies.sort_unstable();
        copies.dedup();
        Some(copies)
    }
}

/// Whether a recorded command line asks for this profile. As with all flags, the last one counts.
fn names_profile(flags: &str, profile: &Path) -> bool {
    let mut named = None;
    for word in flags.split(' ') {
        for (flag, no) in PROFILE_FLAGS {
            match word.strip_prefix(flag) {
                // Without a name it is one that the compiler knows itself.
                Some("") => named = Some(""),
                Some(value) => named = value.strip_prefix('=').or(named),
                None if word == no => named = None,
                None => {}
            }
        }
    }
    named.is_some_and(|named| named.is_empty() || is_same_file(Path::new(named), profile))
}

/// Whether a recorded command line turns optimisation off in the end.
fn is_unoptimized(flags: &str) -> bool {
    flags.split(' ').rfind(|word| word.starts_with("-O")) == Some("-O0")
}

/// Whether a compiler that was given `named`, in a directory that is not known, read `profile`.
fn is_same_file(named: &Path, profile: &Path) -> bool {
    let full = std::path::absolute(profile).unwrap_or_else(|_| profile.to_owned());
    let plain = named.strip_prefix(".").unwrap_or(named);
    // Blanks in names are written in more than one way.
    if full.ends_with(plain) || full.as_os_str().to_string_lossy().contains(' ') {
        return true;
    }
    match (given::read(named, given::DATA), given::read(profile, given::DATA)) {
        (Ok(one), Ok(other)) => one == other,
        // What the compiler read is gone, or lies where we do not look.
        _ => named.file_name() == profile.file_name(),
    }
}

fn evidence(
    base: &Image,
    rebuilt: &Image,
    debug: &DebugInfo,
    (hot, profile): (&[(String, u64)], &Path),
    rule: NameRule,
    threads: usize,
) -> Evidence {
    let (before, after) = (Code::of(base, rule), Code::of(rebuilt, rule));
    let mut found = Evidence::default();
    let mut places: BTreeMap<ImageAddr, u64> = BTreeMap::new();
    for (name, samples) in hot {
        let name = rule.canonical(name);
        // Without a symbol in the baseline there is nothing to compare with; without one in the
        // rebuild it was inlined.
        let Some(old) = before.instructions(name) else { continue };
        let changed = after.instructions(name) != Some(old);
        found.hot_functions += 1;
        found.hot_samples = found.hot_samples.saturating_add(*samples);
        if changed {
            found.hot_functions_changed += 1;
            found.hot_samples_changed = found.hot_samples_changed.saturating_add(*samples);
        }
        if let Some(address) = after.begin(name) {
            *places.entry(address).or_default() += samples;
        }
    }
    let addresses: Vec<ImageAddr> = places.keys().copied().collect();
    let units = debug.units_at(&addresses, threads);
    let mut without: BTreeMap<Arc<CompiledUnit>, u64> = BTreeMap::new();
    let mut unoptimized: BTreeMap<Arc<CompiledUnit>, u64> = BTreeMap::new();
    for (unit, samples) in units.into_iter().zip(places.values()) {
        let Some(unit) = unit else { continue };
        let Some(flags) = unit.flags() else { continue };
        if is_unoptimized(flags) {
            found.samples_unoptimized = found.samples_unoptimized.saturating_add(*samples);
            *unoptimized.entry(unit.clone()).or_default() += samples;
        }
        if is_without_profile(flags) {
            found.samples_profile_dropped = found.samples_profile_dropped.saturating_add(*samples);
        } else if names_profile(flags, profile) {
            found.samples_with_flag = found.samples_with_flag.saturating_add(*samples);
        } else {
            found.samples_without_flag = found.samples_without_flag.saturating_add(*samples);
            *without.entry(unit).or_default() += samples;
        }
    }
    found.files_without_flag = heaviest(without);
    found.files_unoptimized = heaviest(unoptimized);
    found
}

/// Names of the files with the most samples, at most [`MOST_FILES`].
fn heaviest(files: BTreeMap<Arc<CompiledUnit>, u64>) -> Vec<String> {
    let mut files: Vec<(Arc<CompiledUnit>, u64)> = files.into_iter().collect();
    files.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    files.into_iter().take(MOST_FILES).map(|(unit, _)| unit.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_flag_says_which_profile_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, content: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            path
        };
        let (own, other, copy) = (at("own.afdo", "a"), at("other.afdo", "b"), at("copy.afdo", "a"));
        let shown = |path: &Path| path.display().to_string();
        let asks = |flags: String| names_profile(&flags, &own);
        assert!(asks(format!("-O2 -fprofile-sample-use={} -c a.c", shown(&own))));
        assert!(asks(format!("-fprofile-sample-use={}", shown(&copy))), "equal in content");
        assert!(!asks(format!("-fprofile-sample-use={}", shown(&other))));
        assert!(!asks(format!("-fprofile-sample-use={} -fno-profile-sample-use", shown(&own))));
        assert!(
            asks("-fprofile-sample-use=gone/own.afdo".into())
                && asks("-fauto-profile=./own.afdo".into())
        );
        assert!(!asks("-fprofile-sample-use=gone/else.afdo".into()));
        assert!(asks("-fprofile-use".into()) && !asks("-O2 -fno-auto-profile".into()));
    }

    #[test]
    fn the_last_level_says_whether_the_compiler_optimised() {
        let words = ["-O2 -g -O0 -c a.c", "-O0", "-O0 -O2", "-Og", "-c a.c"];
        assert_eq!(words.map(is_unoptimized), [true, true, false, false, false]);
    }
}
