//! The bytes of sections: as they stand in the file, and as the program or a debugger sees them.
//!
//! A section may be compressed (`SHF_COMPRESSED`, or the older `.zdebug_` form) and, in relocatable
//! files, may hold addresses that only its relocations know. Both are undone the first time the
//! section is asked for, and kept. Everything else is a slice of the mapped file.

use std::borrow::Cow;

use object::elf;
use object::read::{CompressedData, CompressionFormat};

use crate::bytes::{byte_range, c_string};
use crate::headers::Endian;
use crate::{Error, Image, Section};

/// A compressed section may unpack to at most this many times its size in the file, plus
/// [`RATIO_FREE_BYTES`].
///
/// Real debug sections reach about 30. zlib cannot exceed 1032, zstd can exceed 10,000; this is
/// where a bomb starts.
const MAX_RATIO: u64 = 256;
/// Unpacked bytes that are allowed whatever the ratio, so that a small section of zeros is no
/// error.
const RATIO_FREE_BYTES: u64 = 1 << 20;

impl Image {
    /// The sections in the order of the section header table; empty when the table was stripped.
    pub fn sections(&self) -> &[Section] {
        &self.headers().sections
    }

    /// The name of a section; empty when the name table does not have it.
    pub fn section_name(&self, section: &Section) -> &str {
        let names = self
            .headers()
            .sections
            .get(self.headers().names)
            .and_then(|names| self.section_file_bytes(names));
        let name = names.and_then(|names| c_string(names, u64::from(section.name)));
        name.and_then(|name| std::str::from_utf8(name).ok()).unwrap_or("")
    }

    /// The first section of that name.
    pub fn section_by_name(&self, name: &str) -> Option<&Section> {
        self.sections().iter().find(|section| self.section_name(section) == name)
    }

    /// The bytes of a section as they stand in the file: neither decompressed nor relocated. `None`
    /// when the section has no bytes in the file or lies outside it.
    pub fn section_file_bytes(&self, section: &Section) -> Option<&[u8]> {
        if section.is_empty_in_file() {
            return None;
        }
        self.bytes().get(byte_range(section.offset.0, section.size)?)
    }

    /// The content of the first section of that name, decompressed, and relocated in relocatable
    /// files. `.debug_x` is also found as `.zdebug_x`. `None` when there is no such section, or
    /// when it cannot be read; [`Image::try_section`] tells these two apart.
    pub fn section(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.try_section(name).ok().flatten()
    }

    /// As [`Image::section`], with the reason why a section that exists cannot be read.
    pub fn try_section(&self, name: &str) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if let Some(section) = self.section_by_name(name) {
            return self.section_bytes(section);
        }
        let old = name.strip_prefix(".debug_").map(|rest| format!(".zdebug_{rest}"));
        match old.and_then(|old| self.section_by_name(&old)) {
            Some(section) => self.section_bytes(section),
            None => Ok(None),
        }
    }

    /// The content of a section, decompressed, and relocated in relocatable files. `None` when the
    /// file holds no bytes of it (`SHT_NOBITS`).
    pub fn section_bytes(&self, section: &Section) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if section.is_empty_in_file() {
            return Ok(None);
        }
        let Some(raw) = self.section_file_bytes(section) else {
            let reason = format!(
                "expected {} bytes at offset {}, but the file has {} bytes; the file is \
                 truncated, copy or build it again",
                section.size,
                section.offset,
                self.bytes().len()
            );
            return Err(self.section_error(section, reason));
        };
        let format =
            self.compression(section, raw).map_err(|reason| self.section_error(section, reason))?;
        let relocated =
            self.is_relocatable() && !section.is_code() && self.has_relocations(section.index);
        if format.format == CompressionFormat::None && !relocated {
            return Ok(Some(Cow::Borrowed(raw)));
        }
        let Some(slot) = self.prepared.get(section.index as usize) else { return Ok(None) };
        let prepared = slot.get_or_init(|| {
            let mut bytes = decompress(format)?;
            if relocated {
                self.relocate(section, bytes.to_mut())?;
            }
            Ok(bytes.into_owned())
        });
        match prepared {
            Ok(bytes) => Ok(Some(Cow::Borrowed(bytes))),
            Err(reason) => Err(self.section_error(section, reason.clone())),
        }
    }

    pub(crate) fn section_error(&self, section: &Section, reason: String) -> Error {
        Error::Section {
            path: self.path().to_owned(),
            section: self.section_name(section).to_owned(),
            reason,
        }
    }

    /// Recognises both compressed forms. Source: System V ABI, "Section Compression"; binutils,
    /// `bfd/compress.c`.
    fn compression<'b>(
        &self,
        section: &Section,
        raw: &'b [u8],
    ) -> Result<CompressedData<'b>, String> {
        if section.flags & elf::SHF_COMPRESSED.0 != 0 {
            let header_bytes = if self.is_64() { 24 } else { 12 };
            let (header, data) =
                raw.split_at_checked(header_bytes).ok_or("compression header is cut off")?;
            let (kind, size) = match (self.is_64(), self.number(header, 0, 4)) {
                (true, kind) => (kind, self.number(header, 8, 8)),
                (false, kind) => (kind, self.number(header, 4, 4)),
            };
            let format = match kind {
                Some(1) => CompressionFormat::Zlib,
                Some(2) => CompressionFormat::Zstandard,
                _ => {
                    return Err(format!(
                        "compression type {kind:?} is not known; expected 1 (zlib) or 2 (zstd)"
                    ));
                }
            };
            return Ok(CompressedData { format, data, uncompressed_size: size.unwrap_or(0) });
        }
        if self.section_name(section).starts_with(".zdebug_") {
            let (header, data) = raw.split_at_checked(12).ok_or("compression header is cut off")?;
            let (magic, size) =
                header.split_at_checked(4).ok_or("compression header is cut off")?;
            if magic != b"ZLIB" {
                return Err(format!(
                    "expected the bytes \"ZLIB\" at its begin, found {magic:02x?}"
                ));
            }
            let size = size.try_into().map(u64::from_be_bytes).unwrap_or(0);
            return Ok(CompressedData {
                format: CompressionFormat::Zlib,
                data,
                uncompressed_size: size,
            });
        }
        Ok(CompressedData::none(raw))
    }

    /// A number of `bytes` bytes (1 to 8) at an offset, in the byte order of the file.
    pub(crate) fn number(&self, data: &[u8], offset: usize, bytes: usize) -> Option<u64> {
        let field = data.get(offset..offset.checked_add(bytes)?)?;
        let join = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
        Some(match self.endian() {
            Endian::Little => field.iter().rev().fold(0, join),
            Endian::Big => field.iter().fold(0, join),
        })
    }
}

fn decompress(data: CompressedData<'_>) -> Result<Cow<'_, [u8]>, String> {
    let packed = data.data.len() as u64;
    let limit = packed.saturating_mul(MAX_RATIO).saturating_add(RATIO_FREE_BYTES);
    if data.uncompressed_size > limit {
        return Err(format!(
            "claims to unpack from {packed} to {} bytes; more than {MAX_RATIO} times is not \
             believed, the file is corrupt",
            data.uncompressed_size
        ));
    }
    data.decompress()
        .map_err(|error| format!("{error}; the file is corrupt, copy or build it again"))
}
