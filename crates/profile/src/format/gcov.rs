//! gcc's AutoFDO profile, versions 1 to 3.
//!
//! gcc 5 to 11 want version 1, gcc 12 to 15 version 2, gcc 16 version 3; they differ in how strings are
//! stored and in what version 3 adds. Up to version 2 gcc looks locations up by line alone: of several
//! counts with different discriminators on one line it keeps the last one read, and an inlined call with a
//! discriminator it never finds. So these two versions are written with the discriminators folded: the
//! largest count of a line, the sum of its call targets, the merged inlined calls.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::MAX_DEPTH;
use super::bytes::{Reader, put_u32, put_u64};
use crate::operations::{Summary, add_function};
use crate::{BodySample, Error, FunctionProfile, Location, Name, SampleProfile};

const FORMAT: &str = "gcov";
const MAGIC: u32 = 0x6763_6461;
const TAG_SUMMARY: u32 = 0xa800_0000;
const TAG_NAMES: u32 = 0xaa00_0000;
const TAG_FUNCTIONS: u32 = 0xac00_0000;
const TAG_MODULES: u32 = 0xae00_0000;
const TAG_WORKING_SET: u32 = 0xaf00_0000;
/// The kind of value profile that a call target is: the most frequent callees of an indirect call.
const INDIRECT_CALLS: u32 = 7;
const NO_FILE: u32 = u32::MAX;
/// Entries of the working set table, which no gcc reads any more.
const WORKING_SET_ENTRIES: u32 = 128;

/// Version of the file, which must be the one that the compiler wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GcovVersion {
    /// gcc 5 to 11.
    V1,
    /// gcc 12 to 15.
    V2,
    /// gcc 16.
    V3,
}

impl GcovVersion {
    /// The version that gcc of this major release reads.
    pub fn for_gcc(major: u32) -> GcovVersion {
        match major {
            0..=11 => GcovVersion::V1,
            12..=15 => GcovVersion::V2,
            _ => GcovVersion::V3,
        }
    }

    /// The number in the file.
    pub fn number(self) -> u32 {
        match self {
            GcovVersion::V1 => 1,
            GcovVersion::V2 => 2,
            GcovVersion::V3 => 3,
        }
    }
}

/// Whether `bytes` start with the magic of this format.
pub fn detect(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC.to_le_bytes())
}

/// Reads a gcov profile. The file has no totals; they become the sums of the counts, as in gcc.
///
/// # Errors
/// Truncated or malformed bytes, another version, calls nested too deep.
pub fn read(bytes: &[u8]) -> Result<SampleProfile, Error> {
    let mut reader = Reader::new(bytes, FORMAT);
    if reader.u32()? != MAGIC {
        return Err(reader.error("another magic number"));
    }
    let version = match reader.u32()? {
        1 => GcovVersion::V1,
        2 => GcovVersion::V2,
        3 => GcovVersion::V3,
        found => return Err(Error::Version { format: FORMAT, found: u64::from(found), known: "1, 2 and 3" }),
    };
    reader.u32()?;
    if version == GcovVersion::V3 {
        skip_summary(&mut reader)?;
    }
    let names = read_names(&mut reader, version)?;
    expect_tag(&mut reader, TAG_FUNCTIONS)?;
    reader.u32()?;
    let mut profile = SampleProfile::default();
    for _ in 0..reader.u32()? {
        let head = counter(&mut reader)?;
        if version == GcovVersion::V3 {
            // The time of the first execution: nothing in this model, and zero in what this crate writes.
            counter(&mut reader)?;
        }
        let name = name(&mut reader, &names)?;
        let function = profile.function(&name);
        function.head = function.head.saturating_add(head);
        read_instance(&mut reader, function, &names, 0)?;
    }
    for function in profile.functions.values_mut() {
        sum_totals(function);
    }
    // The module and working set sections behind hold nothing that this model keeps.
    Ok(profile)
}

fn counter(reader: &mut Reader<'_>) -> Result<u64, Error> {
    // Two words, the low one first, which is what a little-endian 64-bit number is.
    reader.u64()
}

fn expect_tag(reader: &mut Reader<'_>, tag: u32) -> Result<(), Error> {
    match reader.u32()? {
        found if found == tag => Ok(()),
        found => Err(reader.error(format!("section {found:#x} where {tag:#x} belongs"))),
    }
}

fn skip_summary(reader: &mut Reader<'_>) -> Result<(), Error> {
    expect_tag(reader, TAG_SUMMARY)?;
    for _ in 0..5 {
        counter(reader)?;
    }
    for _ in 0..counter(reader)? {
        reader.u32()?;
        counter(reader)?;
        counter(reader)?;
    }
    Ok(())
}

fn read_names(reader: &mut Reader<'_>, version: GcovVersion) -> Result<Vec<Name>, Error> {
    expect_tag(reader, TAG_NAMES)?;
    reader.u32()?;
    if version == GcovVersion::V3 {
        for _ in 0..reader.u32()? {
            string(reader, version)?;
        }
    }
    let mut names = Vec::new();
    for _ in 0..reader.u32()? {
        names.push(Name::parse(string(reader, version)?));
        if version == GcovVersion::V3 {
            reader.u32()?;
        }
    }
    Ok(names)
}

fn string<'a>(reader: &mut Reader<'a>, version: GcovVersion) -> Result<&'a str, Error> {
    let length = u64::from(reader.u32()?);
    let length = if version == GcovVersion::V1 { length.saturating_mul(4) } else { length };
    Ok(reader.text(length)?.trim_end_matches('\0'))
}

fn name(reader: &mut Reader<'_>, names: &[Name]) -> Result<Name, Error> {
    let number = reader.u32()?;
    named(reader, names, u64::from(number))
}

fn named(reader: &Reader<'_>, names: &[Name], number: u64) -> Result<Name, Error> {
    let found = usize::try_from(number).ok().and_then(|number| names.get(number));
    found.cloned().ok_or_else(|| reader.error(format!("name {number} of a table of {}", names.len())))
}

fn location(packed: u32) -> Location {
    Location { line_offset: packed >> 16, discriminator: packed & 0xffff }
}

fn read_instance(
    reader: &mut Reader<'_>,
    function: &mut FunctionProfile,
    names: &[Name],
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep { limit: MAX_DEPTH });
    }
    let (positions, callsites) = (reader.u32()?, reader.u32()?);
    for _ in 0..positions {
        let at = location(reader.u32()?);
        let targets = reader.u32()?;
        let count = counter(reader)?;
        let sample = function.body.entry(at).or_default();
        sample.count = sample.count.saturating_add(count);
        for _ in 0..targets {
            reader.u32()?;
            let number = counter(reader)?;
            let callee = named(reader, names, number)?;
            let count = counter(reader)?;
            let sum = sample.targets.entry(callee).or_default();
            *sum = sum.saturating_add(count);
        }
    }
    for _ in 0..callsites {
        let at = location(reader.u32()?);
        let callee = name(reader, names)?;
        read_instance(reader, function.inlined(at, &callee), names, depth + 1)?;
    }
    Ok(())
}

/// Sets the totals from the counts, from the inside out.
fn sum_totals(function: &mut FunctionProfile) -> u64 {
    let own = function.body.values().fold(0u64, |sum, sample| sum.saturating_add(sample.count));
    let callees = function.callsites.values_mut().flat_map(|callees| callees.values_mut());
    function.total = callees.fold(own, |sum, callee| sum.saturating_add(sum_totals(callee)));
    function.total
}

/// Writes a gcov profile. Totals, checksums, attributes and the symbol list have no place in it; lines and
/// discriminators above 65535 are cut to 16 bits, as gcc cuts them.
///
/// # Errors
/// Names that are only hashes, and calling contexts: gcc knows neither.
pub fn write(profile: &SampleProfile, version: GcovVersion) -> Result<Vec<u8>, Error> {
    super::extbinary::refuse_contexts(profile, FORMAT)?;
    let mut names = BTreeSet::new();
    for function in profile.functions.values() {
        collect(function, &mut names);
    }
    if let Some(Name::Hash(hash)) = names.first() {
        let problem =
            format!("gcc needs names, this profile has hashes such as {hash}; start from one with names");
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
            writer.put_counter(function.head);
            if version == GcovVersion::V3 {
                writer.put_counter(0);
            }
            writer.put_instance(function);
        }
    });
    // Length and number of modules, both zero: gcc 12 stops with an internal error at anything else.
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

fn collect<'p>(function: &'p FunctionProfile, names: &mut BTreeSet<&'p Name>) {
    names.insert(&function.name);
    names.extend(function.body.values().flat_map(|sample| sample.targets.keys()));
    function.inlined_calls().for_each(|(_, callee)| collect(callee, names));
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
        let discriminator = if self.version == GcovVersion::V3 { at.discriminator & 0xffff } else { 0 };
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
        let mut callsites: BTreeMap<(u32, &Name), std::borrow::Cow<'_, FunctionProfile>> = BTreeMap::new();
        for (at, callee) in function.inlined_calls() {
            callsites
                .entry((self.packed(at), &callee.name))
                .and_modify(|sum| add_function(sum.to_mut(), callee, 1))
                .or_insert(std::borrow::Cow::Borrowed(callee));
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
