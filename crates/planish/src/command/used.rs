//! Which evidence do two programs give that the compiler of the second one used a profile?
//!
//! Names are looked for where the compiler has its own: symbols, linkage names, strings that look like one. Hot functions
//! are compared by their instructions without addresses, so that a link that moves code shows no change. Flags come from
//! the debug information, where the compiler recorded them.

use crate::cli::Global;
use anyhow::{Context, bail};
use build::verify::{self, Evidence, Matched, NameRule};
use image::code::{Fingerprint, fingerprints};
use image::debug::{CompiledUnit, DebugInfo, Language};
use image::{DebugSearch, Image, ImageAddr};
use profile::format::Format as ProfileFormat;
use profile::format::gcov::GcovVersion;
use profile::{FunctionProfile, SampleProfile};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

/// Hot functions have this share of the samples.
const HOT_PCT: u128 = 90;

/// More files than this are counted, not named.
const MOST_FILES: usize = 10;

/// What names a profile on the command lines of clang and gcc.
const PROFILE_FLAGS: [&str; 3] = ["-fprofile-sample-use", "-fauto-profile", "-fprofile-use"];

/// Compares the profile in `path` with the program that was rebuilt with it, and that with the one before.
pub fn examine(
    base: &Image,
    rebuilt: &Image,
    path: &Path,
    global: &Global,
) -> anyhow::Result<(Matched, Evidence)> {
    let shown = || path.display().to_string();
    let bytes = std::fs::read(path).with_context(shown)?;
    let rule = match profile::format::detect(&bytes) {
        Some(ProfileFormat::Gcov) => NameRule::Gcc,
        _ => NameRule::Clang,
    };
    let profile = profile::format::read(&bytes).with_context(shown)?;
    let debug = DebugInfo::load(rebuilt, &DebugSearch::default())?;
    let main = debug.main_unit(global.threads()).unwrap_or_default();
    if rule == NameRule::Gcc {
        refuse_other_version(&bytes, &main, path)?;
    }
    let mut matched = names(rebuilt, &debug, &profile, rule, global);
    if main.language == Language::Rust {
        matched.explain_rust();
    }
    let hot = hot_functions(&profile);
    Ok((matched, evidence(base, rebuilt, &debug, &hot, rule, global)))
}

/// Says where the compiler that made a program could not find the functions of its profile by their names.
pub fn warn_of_plain_names(image: &Image, debug: &DebugInfo, profile: &SampleProfile, global: &Global) {
    let mut matched = names(image, debug, profile, NameRule::Clang, global);
    matched.explain_rust();
    if let Some(cause) = &matched.cause {
        let missing = report::pct(1.0 - matched.share());
        eprintln!("warning: {missing} of the samples belong to names that rustc does not know: {cause}");
    }
}

/// gcc reads one version of its profiles; for another it may only warn, or its build was told to go on.
fn refuse_other_version(bytes: &[u8], main: &CompiledUnit, path: &Path) -> anyhow::Result<()> {
    let version = bytes.get(4..8).and_then(|word| word.try_into().ok()).map(u32::from_le_bytes);
    let Some((found, major)) = version.zip(main.gcc_major()) else { return Ok(()) };
    let wanted = GcovVersion::for_gcc(major).number();
    if found != wanted {
        bail!(
            "{}: a profile of version {found}, of which gcc {major} uses nothing: it reads version {wanted}; make it again \
             with planish profile --format gcov --gcc-version {major}",
            path.display()
        );
    }
    Ok(())
}

fn names(
    rebuilt: &Image,
    debug: &DebugInfo,
    profile: &SampleProfile,
    rule: NameRule,
    global: &Global,
) -> Matched {
    let named = debug.compiler_names(global.threads());
    // A function that was optimised away may have left its linkage name and nothing else.
    let strings = debug_strings(debug);
    let absent = strings.split(|&b| b == 0).filter_map(|s| std::str::from_utf8(s).ok());
    let absent = absent.filter(|name| {
        name.contains(".__uniq.") || ["_Z", "_RN", "_RI", "_RX"].iter().any(|begin| name.starts_with(begin))
    });
    let symbols: Vec<String> = rebuilt.functions().iter().map(|f| f.name.to_string()).collect();
    let symbols = symbols.iter().map(String::as_str);
    let known: Vec<&str> = named.iter().map(String::as_str).chain(symbols).chain(absent).collect();
    let mut own: BTreeMap<OwnName, u64> = BTreeMap::new();
    profile.functions.values().for_each(|function| add_own_samples(function, &mut own));
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
            OwnName::Hash(hash) => {
                (by_hash.get(&hash).map_or_else(|| hash.to_string(), |name| (*name).to_owned()), samples)
            }
        })
        .collect();
    verify::compare(texts.iter().map(|(name, samples)| (name.as_str(), *samples)), known, rule)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum OwnName<'p> {
    Text(&'p str),
    Hash(u64),
}

/// Samples of each function's own lines. Inlined functions count under their own name: the compiler repeats an inlining
/// of the profile only where it finds a callee of that name.
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
    let named = profile.functions.values().filter_map(|f| Some((f.name.as_text()?.to_owned(), whole(f))));
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

/// The instructions of the functions that a profile calls by one name: all copies, one behind the other.
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

fn evidence(
    base: &Image,
    rebuilt: &Image,
    debug: &DebugInfo,
    hot: &[(String, u64)],
    rule: NameRule,
    global: &Global,
) -> Evidence {
    let (before, after) = (Code::of(base, rule), Code::of(rebuilt, rule));
    let mut found = Evidence::default();
    let mut places: BTreeMap<ImageAddr, u64> = BTreeMap::new();
    for (name, samples) in hot {
        let name = rule.canonical(name);
        // Without a symbol in the baseline there is nothing to compare with; without one in the rebuild it was inlined.
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
    let units = debug.units_at(&addresses, global.threads());
    let mut without: BTreeMap<Arc<CompiledUnit>, u64> = BTreeMap::new();
    for (unit, samples) in units.into_iter().zip(places.values()) {
        let Some(unit) = unit else { continue };
        match unit.flags() {
            None => {}
            Some(flags) if PROFILE_FLAGS.iter().any(|flag| flags.contains(flag)) => {
                found.samples_with_flag = found.samples_with_flag.saturating_add(*samples);
            }
            Some(_) => {
                found.samples_without_flag = found.samples_without_flag.saturating_add(*samples);
                *without.entry(unit).or_default() += samples;
            }
        }
    }
    let mut without: Vec<(Arc<CompiledUnit>, u64)> = without.into_iter().collect();
    without.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    found.files_without_flag =
        without.into_iter().take(MOST_FILES).map(|(unit, _)| unit.name.clone()).collect();
    found
}
