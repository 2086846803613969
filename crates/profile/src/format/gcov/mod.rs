//! gcc's AutoFDO profile, versions 1 to 3.
//!
//! gcc 5 to 11 want version 1, gcc 12 to 15 version 2, gcc 16 version 3; they differ in how strings
//! are stored and in what version 3 adds. Up to version 2 gcc looks locations up by line alone: of
//! several counts with different discriminators on one line it keeps the last one read, and an
//! inlined call with a discriminator it never finds. So these two versions are written with the
//! discriminators folded: the largest count of a line, the sum of its call targets, the merged
//! inlined calls.
//!
//! Source: <https://github.com/gcc-mirror/gcc/blob/master/gcc/auto-profile.cc>.

mod prepare;
mod write;

pub use prepare::prepare;
pub use write::write;

use super::MAX_DEPTH;
use super::bytes::Reader;
use crate::{Error, FunctionProfile, Location, Name, SampleProfile};

const FORMAT: &str = "gcov";
const MAGIC: u32 = 0x6763_6461;
const TAG_SUMMARY: u32 = 0xa800_0000;
const TAG_NAMES: u32 = 0xaa00_0000;
const TAG_FUNCTIONS: u32 = 0xac00_0000;
const TAG_MODULES: u32 = 0xae00_0000;
const TAG_WORKING_SET: u32 = 0xaf00_0000;

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
        found => {
            return Err(Error::Version {
                format: FORMAT,
                found: u64::from(found),
                known: "1, 2 and 3",
            });
        }
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
            // The time of the first execution: nothing in this model, and zero in what this crate
            // writes.
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
    found
        .cloned()
        .ok_or_else(|| reader.error(format!("name {number} of a table of {}", names.len())))
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
