//! Which functions does a stripped program name in its compressed copy of the symbol table?
//!
//! Fedora and others strip programs but leave in them `.gnu_debugdata`, "MiniDebugInfo": an ELF
//! file, compressed with xz, whose `.symtab` holds the functions that `.dynsym` does not. It is
//! unpacked when functions are first asked for, within bounds, since a few bytes of xz can stand
//! for gigabytes. Source: gdb manual, "Debugging information in a special section"; the xz file
//! format, 1.2.

use std::io::Read as _;

use lzma_rust2::XzReader;
use object::elf;

use crate::{Error, Image};

/// The section.
const SECTION: &str = ".gnu_debugdata";
/// Most bytes of the unpacked file. Those of the largest programs have some megabytes.
const MOST_BYTES: u64 = 512 << 20;
/// It may unpack to this many times its size, and some more; real ones reach about 10.
const MAX_RATIO: u64 = 256;
const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Most memory of the decompressor in KiB: xz's own levels take up to 65 MiB.
const DECODER_KIB: u32 = 160 << 10;

impl Image {
    /// The file in `.gnu_debugdata`, of use for its `.symtab` alone; none where there is none, or
    /// where it cannot be unpacked ([`Image::try_mini_debug`] says why).
    pub(crate) fn mini_debug(&self) -> Option<&Image> {
        let unpack = || self.try_mini_debug().ok().flatten().map(Box::new);
        self.mini_debug.get_or_init(unpack).as_deref()
    }

    /// Unpacks `.gnu_debugdata`; none where there is no such section.
    ///
    /// # Errors
    /// Where it is damaged, unpacks to too much, or holds no ELF file of the same machine.
    pub fn try_mini_debug(&self) -> Result<Option<Image>, Error> {
        let Some(section) = self.section_by_name(SECTION) else { return Ok(None) };
        let fail = |reason: String| self.section_error(section, reason);
        let Some(packed) = self.section_bytes(section)? else { return Ok(None) };
        let most = (packed.len() as u64).saturating_mul(MAX_RATIO).saturating_add(RATIO_FREE_BYTES);
        let most = most.min(MOST_BYTES);
        let mut bytes = Vec::new();
        // The reader would give what it has of a damaged file, and the name table could lack
        // anything: all or nothing.
        XzReader::new_mem_limit(&*packed, false, DECODER_KIB)
            .take(most.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| fail(format!("not an xz file that can be unpacked: {error}")))?;
        if bytes.len() as u64 > most {
            return Err(fail(format!(
                "it unpacks from {} to more than {most} bytes, which no symbol table does; the \
                 file is corrupt",
                packed.len()
            )));
        }
        let name = format!("{}({SECTION})", self.path().display());
        let unpacked = Image::from_bytes(&name, bytes)?;
        if unpacked.arch() != self.arch() || unpacked.is_64() != self.is_64() {
            let (wanted, found) = (self.arch(), unpacked.arch());
            return Err(fail(format!("expected symbols for {wanted:?}, found {found:?}")));
        }
        Ok(Some(unpacked))
    }

    /// The file whose symbol table names this image's functions: itself, or its debug file.
    pub fn symbols_path(&self) -> &std::path::Path {
        let source = self.symbol_sources().into_iter().flatten().next();
        // What it carries packed is its own.
        let debug = self.debug_symbols.as_deref();
        let is_debug =
            debug.zip(source).is_some_and(|(debug, (source, _))| std::ptr::eq(debug, source));
        debug.filter(|_| is_debug).unwrap_or(self).path()
    }

    /// The files whose symbol tables name this image's functions: its own, else those of its
    /// debug file, else those it carries compressed, beside which `.dynsym` holds the rest.
    pub(crate) fn symbol_sources(&self) -> [Option<(&Image, elf::SectionType)>; 2] {
        let whole = elf::SHT_SYMTAB;
        let has = |image: &Image| image.symbol_table(whole).is_some();
        if has(self) {
            return [Some((self, whole)), None];
        }
        if let Some(debug) = self.debug_symbols.as_deref().filter(|debug| has(debug)) {
            return [Some((debug, whole)), None];
        }
        let dynamic = Some((self, elf::SHT_DYNSYM));
        match self.mini_debug().filter(|mini| has(mini)) {
            Some(mini) => [Some((mini, whole)), dynamic],
            None => [dynamic, None],
        }
    }
}
