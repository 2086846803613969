//! The head of a perf.data file: magic, byte order, form, sections, attributes, feature table
//! (tools/perf/util/header.h, `struct perf_file_header` and `struct perf_pipe_file_header`).

use crate::attr::EventAttr;
use crate::bytes::{Cursor, Endian, Words};
use crate::error::{Error, RecordError};
use crate::feature_kinds::ID_BITS;
use crate::features::Features;
use crate::sys;
use std::fs::File;
use std::path::Path;

/// The magic as a little-endian machine writes it; a big-endian one writes the bytes in reverse.
pub(crate) const MAGIC: [u8; 8] = *b"PERFILE2";
pub(crate) const MAGIC_BIG: [u8; 8] = *b"2ELIFREP";
/// Size of the pipe form's header, in bytes.
pub(crate) const PIPE_HEADER_BYTES: u64 = 16;
/// Size of the file form's header, in bytes.
pub(crate) const FILE_HEADER_BYTES: u64 = 104;
/// Size of the header before feature bits were added to it.
const HEADER_WITHOUT_FEATURES: u64 = 72;
/// No attribute structure comes near this size; a larger one is a damaged header.
const LARGEST_ATTR_BYTES: u64 = 4096;
/// 16 million ids: far above any machine's processors times events.
const MOST_ID_BYTES: u64 = 128 << 20;
/// What all feature sections together may hold in memory.
const MOST_FEATURE_BYTES: u64 = 64 << 20;
/// What of one uninterpreted section is kept.
const MOST_UNKNOWN_BYTES: u64 = 1 << 20;

const NEXT_RECORD: &str = "the header is damaged; was `perf record` ended properly? record again";

/// A file that knows its name and length.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a File,
    pub(crate) path: &'a Path,
    pub(crate) len: u64,
}

impl Source<'_> {
    fn read(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
        let mut out = Vec::new();
        let want = usize::try_from(bytes.min(self.len.saturating_sub(offset))).unwrap_or(0);
        sys::read_at(self.file, offset, want, &mut out).map_err(|source| Error::Io {
            path: self.path.to_owned(),
            action: "read",
            source,
        })?;
        Ok(out)
    }

    fn corrupt(&self, offset: u64, expected: impl Into<String>, found: impl Into<String>) -> Error {
        Error::Corrupt {
            path: self.path.to_owned(),
            offset,
            expected: expected.into(),
            found: found.into(),
            next: NEXT_RECORD,
        }
    }
}

/// A part of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) offset: u64,
    pub(crate) size: u64,
}

impl Section {
    fn read(c: &mut Cursor<'_>) -> Result<Section, RecordError> {
        Ok(Section { offset: c.u64("offset")?, size: c.u64("size")? })
    }

    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// What the head of a file says.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) endian: Endian,
    /// The pipe form: no sections, everything stands in records.
    pub(crate) pipe: bool,
    pub(crate) attrs: Vec<EventAttr>,
    pub(crate) features: Features,
    pub(crate) data: Section,
    /// The header states no data size: the recorder was killed.
    pub(crate) unfinished: bool,
    pub(crate) wholeness: Wholeness,
}

/// What the header promises against what the file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wholeness {
    /// Bytes of data that the header promises.
    pub promised_data_bytes: u64,
    /// Bytes of data that lie within the file.
    pub present_data_bytes: u64,
    /// Number of feature sections that the header announces.
    pub announced_features: u64,
    /// Numbers (see [`crate::feature`]) of those that do not lie within the file.
    pub missing_features: Vec<u32>,
    /// Bytes behind the last section, which belong to nothing.
    pub surplus_bytes: u64,
    /// Of a directory: the first files that are not there though files with higher numbers are.
    pub absent_files: Vec<String>,
    /// How many such files there are.
    pub absent: u64,
    /// Files of a directory that are shorter than when they were recorded, with the bytes that lack.
    pub shortened: Vec<(String, u64)>,
    /// Whether the recorder did not end: its header states no size.
    pub unfinished: bool,
}

impl Wholeness {
    /// What the recording has lost, in words: files of a directory, or all that stands behind the
    /// records. What its records lack is counted when they are read.
    pub fn losses(&self) -> Vec<String> {
        let mut losses = Vec::new();
        if self.unfinished {
            losses.push(
                "its recorder did not finish: the recording ends with what was on disk by then"
                    .to_owned(),
            );
        }
        if self.absent > 0 {
            let named = self.absent_files.join(", ");
            let more = self.absent.saturating_sub(self.absent_files.len() as u64);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            losses.push(format!(
                "the recording lacks {named}{more}: what was in there is not in the numbers"
            ));
        }
        losses.extend(self.shortened.iter().take(5).map(|(name, bytes)| {
            format!("{name} lacks {bytes} bytes: what was in there is not in the numbers")
        }));
        losses
    }
}

/// Reads the head of a recording.
pub(crate) fn read_head(source: &Source<'_>) -> Result<Head, Error> {
    let start = source.read(0, FILE_HEADER_BYTES)?;
    let endian = match start.first_chunk::<8>() {
        Some(&MAGIC) => Endian::Little,
        Some(&MAGIC_BIG) => Endian::Big,
        None if !start.is_empty()
            && (MAGIC.starts_with(&start) || MAGIC_BIG.starts_with(&start)) =>
        {
            return Err(cut(source, FILE_HEADER_BYTES));
        }
        _ => {
            return Err(Error::NotPerfData {
                path: source.path.to_owned(),
                found: describe(&start),
            });
        }
    };
    if source.len < PIPE_HEADER_BYTES {
        return Err(cut(source, FILE_HEADER_BYTES));
    }
    let size = start.get(8..).and_then(|b| b.first_chunk::<8>()).map_or(0, |b| endian.u64(*b));
    if size == PIPE_HEADER_BYTES {
        return Ok(Head {
            endian,
            pipe: true,
            attrs: Vec::new(),
            features: Features::default(),
            data: Section {
                offset: PIPE_HEADER_BYTES,
                size: source.len.saturating_sub(PIPE_HEADER_BYTES),
            },
            unfinished: false,
            wholeness: Wholeness::default(),
        });
    }
    if size != FILE_HEADER_BYTES && size != HEADER_WITHOUT_FEATURES {
        let expected = "a header size of 104 (file) or 16 (pipe)";
        return Err(source.corrupt(8, expected, size.to_string()));
    }
    if source.len < size {
        return Err(cut(source, size));
    }
    let rest = start.get(16..).unwrap_or_default();
    let sections = Sections::read(&mut Cursor::new(rest, endian), endian, size).map_err(|_| {
        source.corrupt(0, format!("{size} bytes of header"), format!("{} bytes", start.len()))
    })?;
    read_file_head(source, sections, endian)
}

fn cut(source: &Source<'_>, expected_bytes: u64) -> Error {
    Error::Cut { path: source.path.to_owned(), expected_bytes, found_bytes: source.len }
}

/// What was found instead of the magic, as text or as hex.
fn describe(start: &[u8]) -> String {
    let head = start.get(..8).unwrap_or(start);
    if head.is_empty() {
        return "an empty file".to_owned();
    }
    if head.iter().all(|&b| b == 0) {
        return format!("{} zero bytes (the recorder never wrote its header)", head.len());
    }
    format!("{:02x?} \"{}\"", head, head.escape_ascii())
}

/// The header of the file form, behind its size.
struct Sections {
    attr_size: u64,
    attrs: Section,
    data: Section,
    feature_bits: Vec<u32>,
}

impl Sections {
    fn read(c: &mut Cursor<'_>, endian: Endian, header_size: u64) -> Result<Sections, RecordError> {
        let attr_size = c.u64("attr_size")?;
        let attrs = Section::read(c)?;
        let data = Section::read(c)?;
        let _event_types = Section::read(c)?;
        let has_bits = header_size == FILE_HEADER_BYTES;
        let feature_bits = if has_bits { feature_bits(c, endian)? } else { Vec::new() };
        Ok(Sections { attr_size, attrs, data, feature_bits })
    }
}

fn read_file_head(source: &Source<'_>, sections: Sections, endian: Endian) -> Result<Head, Error> {
    let Sections { attr_size, attrs, mut data, feature_bits } = sections;
    check_sections(source, attr_size, attrs, data)?;
    let mut attrs = read_attrs(source, attr_size, attrs, endian)?;
    let table = table_offset(source, data, &feature_bits, endian)?;
    let unfinished = data.size == 0 && table.is_none();
    if unfinished {
        data.size = source.len.saturating_sub(data.offset);
    }
    let mut features = Features::default();
    let mut wholeness = Wholeness {
        promised_data_bytes: data.size,
        present_data_bytes: data.size.min(source.len.saturating_sub(data.offset)),
        announced_features: feature_bits.len() as u64,
        ..Wholeness::default()
    };
    match table {
        Some(table) => {
            let end =
                read_features(source, table, &feature_bits, endian, &mut features, &mut wholeness)?;
            wholeness.surplus_bytes = source.len.saturating_sub(end);
        }
        None => wholeness.missing_features = feature_bits,
    }
    features.name_attrs(&mut attrs);
    Ok(Head { endian, pipe: false, attrs, features, data, unfinished, wholeness })
}

/// Numbers of the features that the header announces. The bit map is made of the recorder's
/// `unsigned long`s: a 32-bit big-endian machine has the halves of each word the other way round.
/// perf tells by HOSTNAME, which is always there.
fn feature_bits(c: &mut Cursor<'_>, endian: Endian) -> Result<Vec<u32>, RecordError> {
    let mut words = [0u64; ID_BITS as usize / 64];
    for word in &mut words {
        *word = c.u64("feature bits")?;
    }
    const HOSTNAME: u64 = 1 << crate::feature_kinds::feature::HOSTNAME;
    if endian == Endian::Big && words[0] & HOSTNAME == 0 && words[0].rotate_left(32) & HOSTNAME != 0
    {
        words = words.map(|word| word.rotate_left(32));
    }
    Ok((0..ID_BITS).filter(|&bit| words[bit as usize / 64] >> (bit % 64) & 1 != 0).collect())
}

fn check_sections(
    source: &Source<'_>,
    attr_size: u64,
    attrs: Section,
    data: Section,
) -> Result<(), Error> {
    let smallest = u64::from(EventAttr::SMALLEST_BYTES) + 16;
    if !(smallest..=LARGEST_ATTR_BYTES).contains(&attr_size) {
        let expected = format!("an attribute size of {smallest} to {LARGEST_ATTR_BYTES} bytes");
        return Err(source.corrupt(16, expected, attr_size.to_string()));
    }
    let len = source.len;
    if attrs.end().is_none_or(|end| end > len) || attrs.size < attr_size {
        let expected =
            format!("attributes (at least {attr_size} bytes) within the file's {len} bytes");
        let found = format!("{} bytes at offset {:#x}", attrs.size, attrs.offset);
        return Err(source.corrupt(24, expected, found));
    }
    // The data may end behind the file's end (a truncated file), but it must begin within it.
    if data.offset < HEADER_WITHOUT_FEATURES || data.offset > len || data.end().is_none() {
        let expected = format!("data within the file's {len} bytes");
        let found = format!("{} bytes at offset {:#x}", data.size, data.offset);
        return Err(source.corrupt(40, expected, found));
    }
    Ok(())
}

fn read_attrs(
    source: &Source<'_>,
    attr_size: u64,
    section: Section,
    endian: Endian,
) -> Result<Vec<EventAttr>, Error> {
    let bytes = source.read(section.offset, section.size.min(MOST_ID_BYTES))?;
    let mut attrs = Vec::new();
    let mut id_bytes_left = MOST_ID_BYTES;
    // attr_size is at most LARGEST_ATTR_BYTES here, so the conversion keeps its value.
    for (entry, index) in bytes.chunks_exact(attr_size as usize).zip(0u64..) {
        let at = section.offset.saturating_add(index * attr_size);
        let (attr, ids) = entry.split_at(entry.len() - 16);
        let mut attr = EventAttr::read(attr, endian).ok_or_else(|| {
            let size = attr.get(4..8).map_or(0, |b| endian.u32([b[0], b[1], b[2], b[3]]));
            let expected = format!("an event attribute of 64 to {} bytes", attr_size - 16);
            source.corrupt(at + 4, expected, format!("size {size}"))
        })?;
        let mut c = Cursor::new(ids, endian);
        let ids = Section::read(&mut c).unwrap_or_default();
        if ids.end().is_none_or(|end| end > source.len) || ids.size > id_bytes_left {
            let expected = format!("event ids within the file's {} bytes", source.len);
            let found = format!("{} bytes at offset {:#x}", ids.size, ids.offset);
            return Err(source.corrupt(at + attr_size - 16, expected, found));
        }
        id_bytes_left -= ids.size;
        attr.ids = Words::new(&source.read(ids.offset, ids.size)?, endian).iter().collect();
        attrs.push(attr);
    }
    Ok(attrs)
}

/// Where the feature table lies: right after the data, when that is within the file. With a data
/// size of 0 it is there only if its first entry points right behind the table; else the recorder
/// was killed before it wrote one.
fn table_offset(
    source: &Source<'_>,
    data: Section,
    bits: &[u32],
    endian: Endian,
) -> Result<Option<u64>, Error> {
    let Some(table) = data.end().filter(|&end| end <= source.len) else { return Ok(None) };
    let table_end = table.saturating_add(bits.len() as u64 * 16);
    if data.size > 0 || (bits.is_empty() && table == source.len) {
        return Ok(Some(table));
    }
    let first = source.read(table, 16)?;
    let section = Section::read(&mut Cursor::new(&first, endian)).unwrap_or_default();
    let fits = !bits.is_empty()
        && section.offset == table_end
        && section.end().is_some_and(|e| e <= source.len);
    Ok(fits.then_some(table))
}

/// Reads the sections that lie within the file; the answer is the end of the last one.
fn read_features(
    source: &Source<'_>,
    table: u64,
    bits: &[u32],
    endian: Endian,
    features: &mut Features,
    wholeness: &mut Wholeness,
) -> Result<u64, Error> {
    let mut end = table.saturating_add(bits.len() as u64 * 16);
    let table = source.read(table, bits.len() as u64 * 16)?;
    let mut left = MOST_FEATURE_BYTES;
    let mut c = Cursor::new(&table, endian);
    for &bit in bits {
        let Ok(section) = Section::read(&mut c) else {
            features.damaged += 1;
            wholeness.missing_features.push(bit);
            continue;
        };
        if section.end().is_none_or(|end| end > source.len) {
            features.damaged += 1;
            wholeness.missing_features.push(bit);
            continue;
        }
        end = end.max(section.offset.saturating_add(section.size));
        let most = if Features::interprets(bit) { left } else { left.min(MOST_UNKNOWN_BYTES) };
        let bytes = source.read(section.offset, section.size.min(most))?;
        left -= bytes.len() as u64;
        features.add(bit, &bytes, section.offset, section.size, endian);
    }
    Ok(end)
}
