//! Writing gcc's AutoFDO profile.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::super::bytes::{put_u32, put_u64};
use super::super::extbinary::refuse_contexts;
use super::{
    FORMAT, GcovVersion, MAGIC, TAG_FUNCTIONS, TAG_MODULES, TAG_NAMES, TAG_SUMMARY, TAG_WORKING_SET,
};
use crate::operations::{Summary, add_function};
use crate::{BodySample, Error, FunctionProfile, Location, Name, SampleProfile};

/// The kind of value profile that a call target is: the most frequent callees of an indirect call.
const INDIRECT_CALLS: u32 = 7;
const NO_FILE: u32 = u32::MAX;
/// Entries of the working set table, which no gcc reads any more.
const WORKING_SET_ENTRIES: u32 = 128;

/// Writes a gcov profile. Totals, checksums, attributes and the symbol list have no place in it;
/// lines and discriminators above 65535 are cut to 16 bits, as gcc cuts them.
///
/// gcc cuts names at the first dot when it reads them (`foo.constprop.0` becomes `foo`), and of two
/// that become equal it keeps one. So the names are cut here already, and functions that become one
/// are added up.
///
/// # Errors
/// Names that are only hashes, and calling contexts: gcc knows neither.
pub fn write(profile: &SampleProfile, version: GcovVersion) -> Result<Vec<u8>, Error> {
    refuse_contexts(profile, FORMAT)?;
    let profile = &*without_suffixes(profile);
    let mut names = BTreeSet::new();
    for function in profile.functions.values() {
        collect(function, &mut names);
    }
    if let Some(Name::Hash(hash)) = names.first() {
        let problem = format!(
            "gcc needs names, this profile has hashes such as {hash}; start from one with names"
        );
        return Err(Error::Unwritable { format: FORMAT, problem });
    }
    // gcc never refers to name 0; its tools keep it empty.
    let empty = Name::text("");
    names.remove(&empty);
    let names: Vec<&Name> = std::iter::once(&empty).chain(names).collect();
    let index: FxHashMap<&Name, u32> = names.iter().copied().zip(0u32..).collect();
    let mut writer = Writer { out: Vec::new(), index, version };
    put_u32(&mut writer.out, MAGIC);
    put_u32(&mut writer.out, version.number());
    put_u32(&mut writer.out, 0);
    if version == GcovVersion::V3 {
        writer.put_summary(profile);
    }
    writer.put_section(TAG_NAMES, |writer| writer.put_names(&names));
    writer.put_section(TAG_FUNCTIONS, |writer| {
        put_u32(&mut writer.out, profile.functions.len() as u32);
        for function in profile.functions.values() {
            writer.put_counter(head_for_gcc(function));
            if version == GcovVersion::V3 {
                writer.put_counter(0);
            }
            writer.put_instance(function);
        }
    });
    // Length and number of modules, both zero: gcc 12 stops with an internal error at anything
    // else.
    for word in [TAG_MODULES, 0, 0] {
        put_u32(&mut writer.out, word);
    }
    writer.put_section(TAG_WORKING_SET, |writer| {
        for _ in 0..WORKING_SET_ENTRIES {
            put_u32(&mut writer.out, 0);
            writer.put_counter(0);
        }
    });
    Ok(writer.out)
}

/// gcc scales a function's counts by its head count, and takes all of them for zero where that is
/// zero. A function that was entered once, before or between the samples, has such a head and may
/// still be the hottest: one entry then stands for those that were not seen.
fn head_for_gcc(function: &FunctionProfile) -> u64 {
    function.head.max(u64::from(function.body_sum() > 0))
}

fn collect<'p>(function: &'p FunctionProfile, names: &mut BTreeSet<&'p Name>) {
    names.insert(&function.name);
    names.extend(function.body.values().flat_map(|sample| sample.targets.keys()));
    function.inlined_calls().for_each(|(_, callee)| collect(callee, names));
}

/// The name as gcc compares it.
fn cut(name: &Name) -> Name {
    match name.as_text().and_then(|text| text.split_once('.')) {
        Some((original, _)) if !original.is_empty() => Name::text(original),
        _ => name.clone(),
    }
}

fn has_suffix(function: &FunctionProfile) -> bool {
    let targets = function.body.values().flat_map(|sample| sample.targets.keys());
    std::iter::once(&function.name).chain(targets).any(|name| cut(name) != *name)
        || function.inlined_calls().any(|(_, callee)| has_suffix(callee))
}

fn without_suffixes(profile: &SampleProfile) -> Cow<'_, SampleProfile> {
    if !profile.functions.values().any(has_suffix) {
        return Cow::Borrowed(profile);
    }
    let mut cut_profile = SampleProfile::default();
    for function in profile.functions.values() {
        let function = without_suffix(function);
        add_function(cut_profile.function(&function.name), &function, 1);
    }
    Cow::Owned(cut_profile)
}

fn without_suffix(function: &FunctionProfile) -> FunctionProfile {
    let mut result = FunctionProfile {
        total: function.total,
        head: function.head,
        ..FunctionProfile::new(cut(&function.name))
    };
    for (at, sample) in &function.body {
        let cut_sample = result.body.entry(*at).or_default();
        cut_sample.count = sample.count;
        for (name, count) in &sample.targets {
            let sum = cut_sample.targets.entry(cut(name)).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
    for (at, callee) in function.inlined_calls() {
        let callee = without_suffix(callee);
        add_function(result.inlined(at, &callee.name), &callee, 1);
    }
    result
}

struct Writer<'p> {
    out: Vec<u8>,
    index: FxHashMap<&'p Name, u32>,
    version: GcovVersion,
}

impl Writer<'_> {
    /// A tag, the length of what `body` writes (words in version 1, bytes since), and that.
    fn put_section(&mut self, tag: u32, body: impl FnOnce(&mut Self)) {
        put_u32(&mut self.out, tag);
        let at = self.out.len();
        put_u32(&mut self.out, 0);
        body(self);
        let bytes = self.out.len() - at - 4;
        // The old tools state the working set in words in every version, and no reader looks.
        let words = self.version == GcovVersion::V1 || tag == TAG_WORKING_SET;
        let length = if words { bytes / 4 } else { bytes };
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        if let Some(field) = self.out.get_mut(at..at + 4) {
            field.copy_from_slice(&length);
        }
    }

    /// gcc's counters are signed, so the largest stands for all above it.
    fn put_counter(&mut self, count: u64) {
        put_u64(&mut self.out, count.min(i64::MAX as u64));
    }

    fn put_summary(&mut self, profile: &SampleProfile) {
        let summary = Summary::of(profile);
        put_u32(&mut self.out, TAG_SUMMARY);
        self.put_counter(summary.total_count);
        self.put_counter(summary.max_count);
        self.put_counter(summary.max_function_count);
        self.put_counter(summary.counts);
        self.put_counter(summary.functions);
        self.put_counter(summary.cutoffs.len() as u64);
        for cutoff in &summary.cutoffs {
            put_u32(&mut self.out, cutoff.share_millionths);
            self.put_counter(cutoff.min_count);
            self.put_counter(cutoff.counts);
        }
    }

    fn put_names(&mut self, names: &[&Name]) {
        if self.version == GcovVersion::V3 {
            // No file names: gcc uses them only to tell static functions of one name apart.
            put_u32(&mut self.out, 0);
        }
        put_u32(&mut self.out, names.len() as u32);
        for name in names {
            self.put_string(name.as_text().unwrap_or(""));
            if self.version == GcovVersion::V3 {
                put_u32(&mut self.out, NO_FILE);
            }
        }
    }

    fn put_string(&mut self, text: &str) {
        // The length counts the closing NUL: words with padding in version 1, bytes without since.
        let bytes = text.len() + 1;
        let (length, padded) = match self.version {
            GcovVersion::V1 => (bytes.div_ceil(4), bytes.next_multiple_of(4)),
            GcovVersion::V2 | GcovVersion::V3 => (bytes, bytes),
        };
        put_u32(&mut self.out, length as u32);
        let end = self.out.len() + padded;
        self.out.extend_from_slice(text.as_bytes());
        self.out.resize(end, 0);
    }

    fn number(&self, name: &Name) -> u32 {
        self.index.get(name).copied().unwrap_or_default()
    }

    fn packed(&self, at: Location) -> u32 {
        let discriminator =
            if self.version == GcovVersion::V3 { at.discriminator & 0xffff } else { 0 };
        (at.line_offset & 0xffff) << 16 | discriminator
    }

    /// An inlined instance, or a function behind its head count.
    fn put_instance(&mut self, function: &FunctionProfile) {
        let mut body: BTreeMap<u32, BodySample> = BTreeMap::new();
        for (at, sample) in &function.body {
            let folded = body.entry(self.packed(*at)).or_default();
            folded.count = folded.count.max(sample.count);
            for (name, count) in &sample.targets {
                let sum = folded.targets.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        let mut callsites: BTreeMap<(u32, &Name), Cow<'_, FunctionProfile>> = BTreeMap::new();
        for (at, callee) in function.inlined_calls() {
            callsites
                .entry((self.packed(at), &callee.name))
                .and_modify(|sum| add_function(sum.to_mut(), callee, 1))
                .or_insert(Cow::Borrowed(callee));
        }
        let number = self.number(&function.name);
        put_u32(&mut self.out, number);
        put_u32(&mut self.out, body.len() as u32);
        put_u32(&mut self.out, callsites.len() as u32);
        for (at, sample) in &body {
            put_u32(&mut self.out, *at);
            put_u32(&mut self.out, sample.targets.len() as u32);
            self.put_counter(sample.count);
            for (name, count) in &sample.targets {
                put_u32(&mut self.out, INDIRECT_CALLS);
                let number = self.number(name);
                self.put_counter(u64::from(number));
                self.put_counter(*count);
            }
        }
        for ((at, _), callee) in &callsites {
            put_u32(&mut self.out, *at);
            self.put_instance(callee);
        }
    }
}
