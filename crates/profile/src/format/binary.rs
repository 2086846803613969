//! LLVM's plain binary sample profile: summary, name table, function records.
//!
//! Source:
//! <https://github.com/llvm/llvm-project/blob/main/llvm/lib/ProfileData/SampleProfReader.cpp>.

use super::bytes::{Reader, put_uleb};
use super::record::{self, NameIndex, Tables};
use super::summary_section::{put_summary, skip_summary};
use super::{NameStorage, extbinary};
use crate::{Error, SampleProfile};

/// "SPROF42" and the format byte, as one number.
const MAGIC: u64 = 0x5350_524f_4634_32ff;
/// The only version that LLVM has written since 2017.
pub(crate) const VERSION: u64 = 103;
const FORMAT: &str = "binary";

/// Whether `bytes` start with the magic of this format.
pub fn detect(bytes: &[u8]) -> bool {
    Reader::new(bytes, FORMAT).uleb() == Ok(MAGIC)
}

/// Reads a binary profile.
///
/// # Errors
/// Truncated or malformed bytes, another version, calls nested too deep.
pub fn read(bytes: &[u8]) -> Result<SampleProfile, Error> {
    let mut reader = Reader::new(bytes, FORMAT);
    if reader.uleb()? != MAGIC {
        return Err(reader.error("another magic number"));
    }
    check_version(&mut reader, FORMAT)?;
    skip_summary(&mut reader)?;
    let names = record::names(&mut reader, NameStorage::Plain)?;
    let mut profile = SampleProfile::default();
    let tables = Tables { names: &names, vtables: false };
    while !reader.is_at_end() {
        let head = reader.uleb()?;
        let name = record::name(&mut reader, &names)?;
        let function = profile.function(&name);
        function.head = function.head.saturating_add(head);
        record::read_record(&mut reader, function, tables, 0)?;
    }
    Ok(profile)
}

/// Reads the version number and refuses unknown ones.
pub(crate) fn check_version(reader: &mut Reader<'_>, format: &'static str) -> Result<(), Error> {
    match reader.uleb()? {
        VERSION => Ok(()),
        found => Err(Error::Version { format, found, known: "103" }),
    }
}

/// Writes a binary profile. Checksums, attributes, the symbol list, flags and types of virtual
/// calls have no place in it.
///
/// # Errors
/// A profile with calling contexts: the format has no place for them.
pub fn write(profile: &SampleProfile) -> Result<Vec<u8>, Error> {
    extbinary::refuse_contexts(profile, FORMAT)?;
    let index = NameIndex::of(profile, false, false);
    let mut out = Vec::new();
    put_uleb(&mut out, MAGIC);
    put_uleb(&mut out, VERSION);
    put_summary(&mut out, profile);
    record::put_names(&mut out, &index, NameStorage::Plain);
    for function in profile.by_total() {
        put_uleb(&mut out, function.head);
        record::put_record(&mut out, function, &index, false);
    }
    Ok(out)
}
