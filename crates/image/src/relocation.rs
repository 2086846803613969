//! Relocatable files (`.o`, `.ko`): what the linker would write into sections that hold addresses.
//!
//! Every loaded section stands at its file offset (see [`crate::ImageAddr`]); so debug information
//! that is relocated here states addresses that agree with [`Image::segments`]. Only plain absolute
//! and relative relocations are applied: debug sections and address maps use no others, save
//! thread-local offsets that nobody asks for here.

use object::elf::{FileHeader32, FileHeader64};
use object::read::elf::{ElfFile, FileHeader};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{Endianness, RelocationKind, RelocationTarget, SectionIndex};
use rustc_hash::FxHashMap;

use crate::bytes::byte_range;
use crate::code::Instruction;
use crate::image::CodeRelocation;
use crate::{Image, ImageAddr, Section};

impl Image {
    pub(crate) fn has_relocations(&self, section: u32) -> bool {
        let sections = self.relocation_sections.get_or_init(|| {
            let mut map: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
            let is_table = |section: &&Section| {
                [object::elf::SHT_RELA.0, object::elf::SHT_REL.0, object::elf::SHT_CREL.0]
                    .contains(&section.kind)
            };
            for table in self.sections().iter().filter(is_table) {
                map.entry(table.info).or_default().push(table.index);
            }
            map
        });
        sections.contains_key(&section)
    }

    /// Applies the relocations of a section to a copy of its bytes.
    pub(crate) fn relocate(&self, section: &Section, bytes: &mut [u8]) -> Result<(), String> {
        self.each_relocation(&[section], |_, relocation| {
            if relocation.kind != RelocationKind::Absolute
                && relocation.kind != RelocationKind::Relative
            {
                return;
            }
            let size = u64::from(relocation.size / 8);
            let field = byte_range(relocation.offset, size).and_then(|range| bytes.get_mut(range));
            let Some(field) = field else { return };
            let mut value = relocation.value;
            if relocation.implicit {
                value = value.wrapping_add(self.number(field, 0, field.len()).unwrap_or(0));
            }
            if relocation.kind == RelocationKind::Relative {
                value = value.wrapping_sub(section.address.0).wrapping_sub(relocation.offset);
            }
            let length = field.len();
            match self.endian() {
                crate::Endian::Little => {
                    field.iter_mut().zip(value.to_le_bytes()).for_each(|(to, from)| *to = from)
                }
                crate::Endian::Big => {
                    let bytes = value.to_be_bytes();
                    let tail = bytes.iter().skip(bytes.len().saturating_sub(length));
                    field.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
                }
            }
        })
    }

    /// Corrects the target of a direct branch whose field is relocated: as it stands it points
    /// nowhere.
    pub(crate) fn relocate_target(&self, instruction: &mut Instruction) {
        if instruction.target.is_none() {
            return;
        }
        let relocations =
            self.code_relocations.get_or_init(|| self.read_code_relocations().unwrap_or_default());
        let first =
            relocations.partition_point(|relocation| relocation.address < instruction.address);
        let end = instruction.address.0.saturating_add(u64::from(instruction.len));
        if let Some(found) = relocations.get(first).filter(|relocation| relocation.address.0 < end)
        {
            instruction.target = found.target.map(ImageAddr);
        }
    }

    fn read_code_relocations(&self) -> Result<Vec<CodeRelocation>, String> {
        let mut list = Vec::new();
        let is_relocated =
            |section: &&Section| section.is_code() && self.has_relocations(section.index);
        let sections: Vec<&Section> = self.sections().iter().filter(is_relocated).collect();
        // The addend of x86 branches is counted from the field, the target from the end of it.
        let after_field = if self.arch() == crate::Arch::Aarch64 { 0 } else { 4 };
        self.each_relocation(&sections, |section, relocation| {
            let Some(address) = section.address.checked_add(relocation.offset) else { return };
            let near =
                matches!(relocation.kind, RelocationKind::Relative | RelocationKind::PltRelative);
            let target = near && relocation.defined && !relocation.implicit;
            let target = target.then(|| relocation.value.wrapping_add(after_field));
            list.push(CodeRelocation { address, target });
        })?;
        list.sort_by_key(|relocation| (relocation.address, relocation.target));
        Ok(list)
    }

    fn each_relocation(
        &self,
        sections: &[&Section],
        apply: impl FnMut(&Section, &Relocation),
    ) -> Result<(), String> {
        match self.is_64() {
            true => self.each_relocation_of::<FileHeader64<Endianness>>(sections, apply),
            false => self.each_relocation_of::<FileHeader32<Endianness>>(sections, apply),
        }
    }

    fn each_relocation_of<E: FileHeader<Endian = Endianness>>(
        &self,
        sections: &[&Section],
        mut apply: impl FnMut(&Section, &Relocation),
    ) -> Result<(), String> {
        let file = ElfFile::<E>::parse(self.bytes())
            .map_err(|error| format!("its relocations: {error}"))?;
        for section in sections {
            let index = SectionIndex(section.index as usize);
            let found = file
                .section_by_index(index)
                .map_err(|error| format!("its relocations: {error}"))?;
            for (offset, relocation) in found.relocations() {
                let (base, defined) = self.target_value(&file, relocation.target());
                apply(
                    section,
                    &Relocation {
                        offset,
                        kind: relocation.kind(),
                        size: relocation.size(),
                        value: base.wrapping_add_signed(relocation.addend()),
                        implicit: relocation.has_implicit_addend(),
                        defined,
                    },
                );
            }
        }
        Ok(())
    }

    /// The address of what a relocation refers to, and whether this file defines it.
    fn target_value<E: FileHeader<Endian = Endianness>>(
        &self,
        file: &ElfFile<'_, E>,
        target: RelocationTarget,
    ) -> (u64, bool) {
        let base =
            |index: Option<SectionIndex>| index.and_then(|index| self.sections().get(index.0));
        match target {
            RelocationTarget::Symbol(index) => {
                let symbols = file.symbol_table();
                let Some(symbol) = symbols.and_then(|table| table.symbol_by_index(index).ok())
                else {
                    return (0, false);
                };
                let section = base(symbol.section_index());
                let start = section
                    .filter(|section| section.is_loaded())
                    .map_or(0, |section| section.address.0);
                (symbol.address().wrapping_add(start), section.is_some())
            }
            RelocationTarget::Section(index) => {
                let section = base(Some(index)).filter(|section| section.is_loaded());
                (section.map_or(0, |section| section.address.0), true)
            }
            _ => (0, false),
        }
    }
}

/// A relocation with its target already looked up.
struct Relocation {
    /// Offset of the field in its section, in bytes.
    offset: u64,
    kind: RelocationKind,
    /// Size of the field in bits.
    size: u8,
    /// Target plus addend.
    value: u64,
    /// Whether the field itself holds a part of the addend.
    implicit: bool,
    /// Whether the target stands in this file.
    defined: bool,
}
