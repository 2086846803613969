//! LLVM's extensible binary sample profile: a table of sections, then the sections.
//!
//! Source:
//! <https://github.com/llvm/llvm-project/blob/main/llvm/include/llvm/ProfileData/SampleProf.h>.

mod write;

pub use write::write;

use std::io::Read;

use super::bytes::Reader;
use super::record::{self, Tables};
use super::summary_section::skip_summary;
use super::{MAX_DEPTH, NameStorage, binary};
use crate::{Context, Error, FunctionProfile, Location, Name, SampleProfile};

const MAGIC: u64 = 0x5350_524f_4634_3204;
const FORMAT: &str = "extbinary";
/// All sections together may decompress to this many bytes and so many times the file's size;
/// profiles compress to a tenth of their size at best.
const FREE_BYTES: u64 = 4 << 20;
const MAX_RATIO: u64 = 32;
/// A file may hold so many names, and one more for each of its bytes: what is held of a name is far
/// larger than the byte that an empty one takes.
const FREE_NAMES: u64 = 1 << 20;

/// What a file of a size may still hold.
struct Allowance {
    bytes: u64,
    names: u64,
}

impl Allowance {
    fn of(file: &[u8]) -> Allowance {
        let size = file.len() as u64;
        let bytes = FREE_BYTES.saturating_add(size.saturating_mul(MAX_RATIO));
        Allowance { bytes, names: FREE_NAMES.saturating_add(size) }
    }

    fn bytes(&mut self, bytes: u64) -> Result<(), Error> {
        let limit = self.bytes;
        self.bytes = limit.checked_sub(bytes).ok_or(Error::TooLarge { limit })?;
        Ok(())
    }

    fn names(&mut self, names: u64) -> Result<(), Error> {
        let limit = self.names;
        self.names = limit.checked_sub(names).ok_or(Error::TooManyNames { limit })?;
        Ok(())
    }
}

mod section {
    /// How counts are distributed.
    pub const SUMMARY: u64 = 1;
    /// Names, or their hashes.
    pub const NAMES: u64 = 2;
    /// All functions of the recorded program.
    pub const SYMBOLS: u64 = 3;
    /// Where each function's counts lie.
    pub const OFFSETS: u64 = 4;
    /// Checksums and attributes of functions.
    pub const METADATA: u64 = 5;
    /// Calling contexts.
    pub const CONTEXTS: u64 = 6;
    /// The counts.
    pub const FUNCTIONS: u64 = 32;
    /// Ours: the bytes `plan`, far from the numbers that LLVM gives. Its reader skips sections of
    /// kinds that it does not know (`SampleProfileReaderExtBinary::readCustomSection`, since
    /// LLVM 11).
    pub const PROVENANCE: u64 = 0x6e61_6c70;
}

mod flag {
    pub const COMPRESSED: u64 = 1;
    const OWN: u32 = 32;
    /// Names are MD5 hashes.
    pub const NAMES_HASHED: u64 = 1 << OWN;
    /// Hashes have eight bytes each.
    pub const NAMES_FIXED: u64 = 2 << OWN;
    /// Names have suffixes that make them unique.
    pub const NAMES_UNIQUE_SUFFIX: u64 = 4 << OWN;
    /// The profile is of a part of the program.
    pub const SUMMARY_PARTIAL: u64 = 1 << OWN;
    /// The profile has calling contexts.
    pub const SUMMARY_CONTEXTS: u64 = 2 << OWN;
    /// Discriminators are flow-sensitive.
    pub const SUMMARY_FS: u64 = 4 << OWN;
    /// Contexts were chosen by a pre-inliner.
    pub const SUMMARY_PREINLINED: u64 = 16 << OWN;
    /// The profile has virtual tables.
    pub const SUMMARY_VTABLES: u64 = 32 << OWN;
    /// Functions with contexts stand in their order.
    pub const OFFSETS_ORDERED: u64 = 1 << OWN;
    pub const METADATA_PROBES: u64 = 1 << OWN;
    pub const METADATA_ATTRIBUTES: u64 = 2 << OWN;
}

/// Whether `bytes` start with the magic of this format.
pub fn detect(bytes: &[u8]) -> bool {
    Reader::new(bytes, FORMAT).uleb() == Ok(MAGIC)
}

struct Section<'a> {
    kind: u64,
    flags: u64,
    bytes: &'a [u8],
}

/// Reads an extensible binary profile: plain and hashed names, compressed sections, split layouts,
/// contexts.
///
/// # Errors
/// Truncated or malformed bytes, another version, calls nested too deep, a decompression bomb.
pub fn read(bytes: &[u8]) -> Result<SampleProfile, Error> {
    let sections = sections(bytes)?;
    let mut profile = SampleProfile::default();
    let mut names = Vec::new();
    let mut contexts = None;
    let mut vtables = false;
    let mut allowance = Allowance::of(bytes);
    for section in &sections {
        let data = content(section, &mut allowance)?;
        let mut reader = Reader::new(&data, FORMAT);
        match section.kind {
            section::SUMMARY if !data.is_empty() => {
                skip_summary(&mut reader)?;
                profile.partial = section.flags & flag::SUMMARY_PARTIAL != 0;
                profile.fs_discriminators = section.flags & flag::SUMMARY_FS != 0;
                vtables = section.flags & flag::SUMMARY_VTABLES != 0;
                if section.flags & flag::SUMMARY_CONTEXTS != 0 {
                    contexts = Some(Vec::new());
                    profile.context_sensitive = true;
                }
            }
            section::NAMES if !data.is_empty() => {
                allowance.names(Reader::new(&data, FORMAT).uleb()?)?;
                names = record::names(&mut reader, storage(section.flags))?;
            }
            section::CONTEXTS if contexts.is_some() && !data.is_empty() => {
                contexts = Some(read_contexts(&mut reader, &names, &mut allowance)?);
            }
            section::FUNCTIONS => {
                let own = contexts.as_deref().unwrap_or(&names);
                read_functions(&mut reader, &mut profile, own, Tables { names: &names, vtables })?;
            }
            section::SYMBOLS => read_symbols(&mut reader, &mut profile, &mut allowance)?,
            section::METADATA => {
                let own = contexts.as_deref().unwrap_or(&names);
                read_metadata_section(
                    &mut reader,
                    &mut profile,
                    section.flags,
                    own,
                    contexts.is_some(),
                )?;
            }
            section::PROVENANCE => read_provenance(&mut reader, &mut profile)?,
            // The offset table is an index into the functions, which are all read; sections of
            // kinds that LLVM adds later speak about things this model does not hold.
            _ => {}
        }
    }
    Ok(profile)
}

fn storage(flags: u64) -> NameStorage {
    if flags & flag::NAMES_FIXED != 0 {
        NameStorage::FixedHash
    } else if flags & flag::NAMES_HASHED != 0 {
        NameStorage::VariableHash
    } else {
        NameStorage::Plain
    }
}

fn sections(bytes: &[u8]) -> Result<Vec<Section<'_>>, Error> {
    let mut reader = Reader::new(bytes, FORMAT);
    if reader.uleb()? != MAGIC {
        return Err(reader.error("another magic number"));
    }
    binary::check_version(&mut reader, FORMAT)?;
    let count = reader.u64()?;
    if count > reader.remaining() as u64 / 32 {
        return Err(reader.error(format!("a table of {count} sections, which cannot fit")));
    }
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut used = 0u64;
    for _ in 0..count {
        let (kind, flags, offset, size) =
            (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
        // Sections that overlap would make a small file cost as much as a large one.
        used = used.saturating_add(size);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let data = Reader::starting_at(bytes, start, FORMAT).take(size)?;
        if used > bytes.len() as u64 || start > bytes.len() {
            return Err(reader.error("sections that overlap or lie past the end"));
        }
        sections.push(Section { kind, flags, bytes: data });
    }
    Ok(sections)
}

/// The bytes of a section, decompressed.
fn content<'a>(
    section: &Section<'a>,
    allowance: &mut Allowance,
) -> Result<std::borrow::Cow<'a, [u8]>, Error> {
    if section.flags & flag::COMPRESSED == 0 || section.bytes.is_empty() {
        return Ok(section.bytes.into());
    }
    let mut reader = Reader::new(section.bytes, FORMAT);
    let size = reader.uleb()?;
    let compressed_size = reader.uleb()?;
    let compressed = reader.take(compressed_size)?;
    allowance.bytes(size)?;
    let mut data = Vec::new();
    let done = flate2::read::ZlibDecoder::new(compressed)
        .take(size.saturating_add(1))
        .read_to_end(&mut data);
    match done {
        Ok(_) if data.len() as u64 == size => Ok(data.into()),
        Ok(_) => {
            Err(reader.error(format!("a section that decompresses to another size than {size}")))
        }
        Err(error) => Err(reader.error(format!("a section that does not decompress: {error}"))),
    }
}

fn read_contexts(
    reader: &mut Reader<'_>,
    names: &[Name],
    allowance: &mut Allowance,
) -> Result<Vec<Name>, Error> {
    let mut contexts = Vec::new();
    // A frame may name a long function with three bytes; the texts together count as if they were
    // in the file.
    for _ in 0..reader.uleb()? {
        allowance.names(1)?;
        let mut text = String::new();
        let frames = reader.uleb()?;
        for frame in 0..frames {
            let name = record::name(reader, names)?;
            let at = record::location(reader)?;
            text.push_str(&name.to_string());
            if frame + 1 < frames {
                text.push_str(&format!(":{at} @ "));
            }
            if text.len() as u64 > allowance.bytes {
                return Err(Error::TooLarge { limit: allowance.bytes });
            }
        }
        allowance.bytes(text.len() as u64)?;
        contexts.push(Context::parse(&text).name());
    }
    Ok(contexts)
}

fn read_functions(
    reader: &mut Reader<'_>,
    profile: &mut SampleProfile,
    own_names: &[Name],
    tables: Tables<'_>,
) -> Result<(), Error> {
    while !reader.is_at_end() {
        let head = reader.uleb()?;
        let name = record::name(reader, own_names)?;
        let function = profile.function(&name);
        function.head = function.head.saturating_add(head);
        record::read_record(reader, function, tables, 0)?;
    }
    Ok(())
}

fn read_symbols(
    reader: &mut Reader<'_>,
    profile: &mut SampleProfile,
    allowance: &mut Allowance,
) -> Result<(), Error> {
    while !reader.is_at_end() {
        allowance.names(1)?;
        let symbol = reader.c_string()?;
        profile.symbol_list.push(symbol.to_owned());
    }
    profile.symbol_list.sort_unstable();
    profile.symbol_list.dedup();
    Ok(())
}

/// The section holds the lines of the provenance as text, each with a line feed.
fn read_provenance(reader: &mut Reader<'_>, profile: &mut SampleProfile) -> Result<(), Error> {
    let text = reader.text(reader.remaining() as u64)?;
    match text.lines().find(|line| !profile.provenance.take_line(line)) {
        None => Ok(()),
        Some(line) => {
            let line: String = line.chars().take(80).collect();
            Err(reader.error(format!("a provenance with the line `{}`", line.escape_debug())))
        }
    }
}

fn read_metadata_section(
    reader: &mut Reader<'_>,
    profile: &mut SampleProfile,
    flags: u64,
    own_names: &[Name],
    contexts: bool,
) -> Result<(), Error> {
    if flags & (flag::METADATA_PROBES | flag::METADATA_ATTRIBUTES) == 0 {
        return Ok(());
    }
    while !reader.is_at_end() {
        let name = record::name(reader, own_names)?;
        let mut absent = FunctionProfile::default();
        let function = profile.functions.get_mut(&name).unwrap_or(&mut absent);
        read_metadata(reader, function, flags, own_names, contexts, 0)?;
    }
    Ok(())
}

fn read_metadata(
    reader: &mut Reader<'_>,
    function: &mut FunctionProfile,
    flags: u64,
    names: &[Name],
    contexts: bool,
    depth: usize,
) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::TooDeep { limit: MAX_DEPTH });
    }
    if flags & flag::METADATA_PROBES != 0 {
        function.checksum = Some(reader.uleb()?);
    }
    if flags & flag::METADATA_ATTRIBUTES != 0 {
        function.attributes = reader.uleb32()?;
    }
    if contexts {
        return Ok(());
    }
    for _ in 0..reader.uleb()? {
        let at: Location = record::location(reader)?;
        let callee = record::name(reader, names)?;
        let mut absent = FunctionProfile::default();
        let inlined = function.callsites.get_mut(&at).and_then(|callees| callees.get_mut(&callee));
        read_metadata(reader, inlined.unwrap_or(&mut absent), flags, names, contexts, depth + 1)?;
    }
    Ok(())
}

/// Refuses a profile with calling contexts, which only text and extbinary carry.
pub(crate) fn refuse_contexts(profile: &SampleProfile, format: &'static str) -> Result<(), Error> {
    match profile.functions.keys().find(|name| name.is_context()) {
        None => Ok(()),
        Some(name) => Err(Error::Unwritable {
            format,
            problem: format!(
                "it has calling contexts such as {name}; write text or extbinary instead"
            ),
        }),
    }
}
