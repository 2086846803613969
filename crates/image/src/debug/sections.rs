//! The debug sections of an opened file, borrowed where they stand in it as they are.

use std::borrow::Cow;
use std::sync::Arc;

use gimli::{EndianSlice, RunTimeEndian, SectionId};

use super::form::Slice;
use super::unit::Dwarf;
use crate::{Endian, Error, Image};

/// The sections that resolving addresses reads.
const SECTIONS: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugCuIndex,
];

/// Sections that nothing is read from, but that a package divides among its units with the others.
const PACKAGED: [SectionId; 5] = [
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
];

/// Who keeps the file open.
#[derive(Debug)]
pub(super) enum Holder<'i> {
    /// The caller.
    Caller(&'i Image),
    /// The debug information itself.
    Own(Arc<Image>),
}

/// A file with debug sections.
#[derive(Debug)]
pub(super) struct DebugFile<'i> {
    holder: Holder<'i>,
    /// Sections that had to be decompressed or relocated.
    owned: Vec<(SectionId, Vec<u8>)>,
    /// Whether the sections carry `.dwo` names.
    split: bool,
}

impl<'i> DebugFile<'i> {
    /// Prepares the sections. Fails when one is compressed and its bytes are unusable.
    pub(super) fn load(holder: Holder<'i>, split: bool) -> Result<DebugFile<'i>, Error> {
        let mut file = DebugFile { holder, owned: Vec::new(), split };
        let mut owned = Vec::new();
        for id in SECTIONS.into_iter().chain(PACKAGED) {
            let Some(name) = file.name(id).filter(|_| file.wants(id)) else { continue };
            if let Some(Cow::Owned(bytes)) = file.image().try_section(name)? {
                owned.push((id, bytes));
            }
        }
        file.owned = owned;
        Ok(file)
    }

    /// The file.
    pub(super) fn image(&self) -> &Image {
        match &self.holder {
            Holder::Caller(image) => image,
            Holder::Own(image) => image,
        }
    }

    /// Whether the file holds any entries.
    pub(super) fn has_entries(&self) -> bool {
        !self.bytes(SectionId::DebugInfo).is_empty()
    }

    fn wants(&self, id: SectionId) -> bool {
        SECTIONS.contains(&id) || (self.split && PACKAGED.contains(&id))
    }

    fn name(&self, id: SectionId) -> Option<&'static str> {
        if self.split { id.dwo_name() } else { Some(id.name()) }
    }

    fn bytes(&self, id: SectionId) -> &[u8] {
        if let Some((_, bytes)) = self.owned.iter().find(|(owned, _)| *owned == id) {
            return bytes;
        }
        match self.name(id).and_then(|name| self.image().section(name)) {
            Some(Cow::Borrowed(bytes)) => bytes,
            _ => &[],
        }
    }

    fn slice(&self, id: SectionId) -> Slice<'_> {
        EndianSlice::new(if self.wants(id) { self.bytes(id) } else { &[] }, self.endian())
    }

    fn endian(&self) -> RunTimeEndian {
        match self.image().endian() {
            Endian::Little => RunTimeEndian::Little,
            Endian::Big => RunTimeEndian::Big,
        }
    }

    /// The sections as gimli takes them.
    pub(super) fn dwarf(&self) -> Dwarf<'_> {
        let load = |id| Ok::<_, gimli::Error>(self.slice(id));
        // Loading a section from a slice cannot fail.
        Dwarf::load(load).unwrap_or_default()
    }

    /// The sections of a package that belong to one unit.
    pub(super) fn package_unit<'a>(
        &'a self,
        id: u64,
        parent: &Dwarf<'a>,
    ) -> gimli::Result<Option<Dwarf<'a>>> {
        let load = |id| Ok::<_, gimli::Error>(self.slice(id));
        let empty = EndianSlice::new(&[][..], self.endian());
        let package = gimli::DwarfPackage::load(load, empty)?;
        let mut unit = package.find_cu(gimli::DwoId(id), parent)?;
        if let Some(unit) = &mut unit {
            unit.make_dwo(parent);
        }
        Ok(unit)
    }
}
