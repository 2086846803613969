//! Which function does a stub of the procedure linkage table jump to?
//!
//! Calls to other libraries go through stubs that no symbol names: each jumps through an entry of
//! the global offset table, whose relocation names the function. perf shows them as `malloc@plt`.
//! Source: System V ABI, AMD64 supplement, "Procedure Linkage Table".

use iced_x86::{Code, Decoder, DecoderOptions};
use object::elf;
use rustc_hash::FxHashMap;

use crate::{Arch, Image, ImageAddr};

/// A stub with its name.
#[derive(Debug)]
pub(crate) struct Stub {
    start: u64,
    end: u64,
    name: String,
}

impl Image {
    /// The name of the stub at an address: that of the function it jumps to, and `@plt`. Only of
    /// x86-64.
    pub fn stub_name(&self, at: ImageAddr) -> Option<&str> {
        let stubs = self.stubs.get_or_init(|| self.find_stubs());
        let after = stubs.partition_point(|stub| stub.start <= at.0);
        let stub = stubs.get(after.checked_sub(1)?)?;
        (at.0 < stub.end).then_some(stub.name.as_str())
    }

    fn find_stubs(&self) -> Vec<Stub> {
        let mut found = Vec::new();
        if self.arch() != Arch::X86_64 || !self.is_64() || self.is_relocatable() {
            return found;
        }
        let names = self.names_by_slot();
        for section in self.sections().iter().filter(|section| section.is_code()) {
            // Stubs are as far apart as the linker aligns them.
            let step = match self.section_name(section) {
                ".plt" | ".plt.sec" => 16,
                ".plt.got" => section.align.clamp(8, 16),
                _ => continue,
            };
            let Some(bytes) = self.section_file_bytes(section) else { continue };
            let begin = section.address.0;
            for instruction in Decoder::with_ip(64, bytes, begin, DecoderOptions::NONE).iter() {
                if instruction.code() != Code::Jmp_rm64 || !instruction.is_ip_rel_memory_operand() {
                    continue;
                }
                let slot = instruction.ip_rel_memory_address();
                let Some(name) = names.get(&slot) else { continue };
                let into = instruction.ip().wrapping_sub(begin);
                let start = begin.wrapping_add(into - into % step);
                let (end, name) = (start.wrapping_add(step), format!("{name}@plt"));
                found.push(Stub { start, end, name });
            }
        }
        found.sort_by_key(|stub| stub.start);
        found
    }

    /// The functions whose addresses the loader puts into the global offset table, by place.
    fn names_by_slot(&self) -> FxHashMap<u64, &str> {
        /// Bytes of an entry of `SHT_RELA`.
        const ENTRY: usize = 24;
        let mut names = FxHashMap::default();
        let Some(symbols) = self.symbol_table(elf::SHT_DYNSYM) else { return names };
        let relocations = self
            .sections()
            .iter()
            .filter(|section| section.kind == elf::SHT_RELA.0 && section.is_loaded());
        for section in relocations {
            let bytes = self.section_file_bytes(section).unwrap_or_default();
            for entry in bytes.chunks_exact(ENTRY) {
                let number = |at, bytes| self.number(entry, at, bytes);
                // R_X86_64_GLOB_DAT and R_X86_64_JUMP_SLOT
                let (Some(slot), Some(6 | 7), Some(index)) =
                    (number(0, 8), number(8, 4), number(12, 4))
                else {
                    continue;
                };
                let symbol = usize::try_from(index).ok().and_then(|index| symbols.get(index));
                let name = symbol.and_then(|symbol| symbols.name(&symbol));
                let name = name.and_then(|name| std::str::from_utf8(name).ok());
                names.extend(name.filter(|name| !name.is_empty()).map(|name| (slot, name)));
            }
        }
        names
    }
}
