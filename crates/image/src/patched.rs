//! Where a kernel rewrites its own code while it runs, so that what was executed is not what the
//! file holds.
//!
//! x86 kernels replace instructions by better ones of the CPU at hand (alternatives,
//! `arch/x86/include/asm/alternative.h`), turn jumps on and off (jump labels,
//! `include/linux/jump_label.h`), aim calls at once-chosen functions (static calls, `include/linux/
//! static_call_types.h`), and turn calls of retpolines into the shorter indirect calls that they
//! stand for (`arch/x86/kernel/alternative.c`). Four tables say where; they lie between symbols of
//! the linker script, and in a module they are sections. arm64 has the first two of them
//! (`arch/arm64/include/asm/alternative-macros.h`).

use crate::code::instructions;
use crate::{Arch, Image, ImageAddr, ImageKind};
use std::borrow::Cow;
use std::ops::Range;

/// An entry of the alternatives, by its size: where the length of the replaced code stands in it.
/// 12 bytes until Linux 6.2 (14 from 6.3 on, with flags), 13 before 5.18 (with a length of
/// padding). On arm64 always 12.
const ALTERNATIVES: [(usize, usize); 3] = [(14, 12), (12, 10), (13, 10)];
/// A jump label: two offsets of 4 bytes, a key of 8.
const JUMP_LABEL: usize = 16;
/// A static call: two offsets.
const STATIC_CALL: usize = 8;
/// The call or jump of a static call.
const CALL_BYTES: u64 = 5;
/// A jump of a label, which is short or near, and the call or jump of a retpoline, which may have
/// prefixes.
const LONGEST: u64 = 7;
/// A call of a retpoline: an offset.
const RETPOLINE: usize = 4;
/// The symbols around the tables, and their sections in modules (`scripts/module.lds.S` and
/// `arch/x86/kernel/module.c` of Linux).
const ALTERNATIVES_TABLE: [&str; 3] =
    ["__alt_instructions", "__alt_instructions_end", ".altinstructions"];
const JUMP_LABELS_TABLE: [&str; 3] =
    ["__start___jump_table", "__stop___jump_table", "__jump_table"];
const RETPOLINES_TABLE: [&str; 3] =
    ["__retpoline_sites", "__retpoline_sites_end", ".retpoline_sites"];
const STATIC_CALLS_TABLE: [&str; 3] =
    ["__start_static_call_sites", "__stop_static_call_sites", ".static_call_sites"];
/// Tables beyond this are damage: a kernel with all its drivers has 100 KiB of each.
const LARGEST_TABLE: usize = 64 << 20;

impl Image {
    /// The code that the kernel rewrites, its own or a module's: sorted, disjoint ranges. Empty for
    /// programs and tables that make no sense.
    pub fn patched_code(&self) -> &[Range<ImageAddr>] {
        self.patched.get_or_init(|| self.find_patched())
    }

    fn find_patched(&self) -> Vec<Range<ImageAddr>> {
        // Programs are not searched for the symbols.
        let known = matches!(self.arch(), Arch::X86_64 | Arch::Aarch64);
        if !known || !matches!(self.kind(), ImageKind::Kernel | ImageKind::KernelModule) {
            return Vec::new();
        }
        let mut sites = self.alternatives();
        let jumps = self.table(JUMP_LABELS_TABLE);
        sites.extend(jumps.into_iter().flat_map(|table| self.one_instruction(&table, JUMP_LABEL)));
        let retpolines = self.table(RETPOLINES_TABLE);
        sites.extend(
            retpolines.into_iter().flat_map(|table| self.one_instruction(&table, RETPOLINE)),
        );
        let calls = self.table(STATIC_CALLS_TABLE);
        sites.extend(calls.into_iter().flat_map(|table| {
            let call = |(at, _): (u64, &[u8])| Some(at..at.checked_add(CALL_BYTES)?);
            table.entries(STATIC_CALL).filter_map(call).collect::<Vec<_>>()
        }));
        sites.retain(|site| self.is_executable_address(ImageAddr(site.start)));
        sites.sort_unstable_by_key(|site| (site.start, site.end));
        let mut merged: Vec<Range<ImageAddr>> = Vec::with_capacity(sites.len());
        for site in sites {
            match merged.last_mut() {
                Some(last) if site.start < last.end.0 => {
                    last.end = ImageAddr(last.end.0.max(site.end))
                }
                _ => merged.push(ImageAddr(site.start)..ImageAddr(site.end)),
            }
        }
        merged
    }

    /// The bytes between two symbols, or of a module's section.
    fn table(&self, [start, stop, section]: [&str; 3]) -> Option<Table<'_>> {
        if self.kind() == ImageKind::KernelModule {
            let found = self.section_by_name(section)?;
            let bytes = self.section(section).filter(|bytes| bytes.len() <= LARGEST_TABLE)?;
            return Some(Table { address: found.address.0, bytes });
        }
        let (start, stop) = (self.kernel_symbol(start)?, self.kernel_symbol(stop)?);
        let bytes =
            usize::try_from(stop.0.checked_sub(start.0)?).ok().filter(|&n| n <= LARGEST_TABLE)?;
        let offset = usize::try_from(self.offset_of(start)?.0).ok()?;
        let bytes = self.bytes().get(offset..offset.checked_add(bytes)?)?;
        Some(Table { address: start.0, bytes: Cow::Borrowed(bytes) })
    }

    fn alternatives(&self) -> Vec<Range<u64>> {
        let Some(table) = self.table(ALTERNATIVES_TABLE) else {
            return Vec::new();
        };
        let of_size = |(size, length_at): (usize, usize)| -> Option<Vec<Range<u64>>> {
            if table.bytes.is_empty() || !table.bytes.len().is_multiple_of(size) {
                return None;
            }
            // A wrong size gives nonsense within a few entries.
            let site = |(at, entry): (u64, &[u8])| {
                let length = u64::from(*entry.get(length_at)?);
                let known = length > 0 && self.is_executable_address(ImageAddr(at));
                known.then(|| at.checked_add(length).map(|end| at..end))?
            };
            table.entries(size).map(site).collect()
        };
        ALTERNATIVES.into_iter().find_map(of_size).unwrap_or_default()
    }

    /// The instructions that a table with entries of this size points at.
    fn one_instruction(&self, table: &Table<'_>, size: usize) -> Vec<Range<u64>> {
        let site = |(at, _): (u64, &[u8])| {
            let mut code = instructions(self, ImageAddr(at));
            let (_, next) = (code.next()?, code.next()?);
            let length = next.address.0.checked_sub(at).filter(|length| *length <= LONGEST)?;
            Some(at..at.checked_add(length)?)
        };
        table.entries(size).filter_map(site).collect()
    }
}

/// A table of entries that begin with the distance from themselves to the code they speak of.
struct Table<'i> {
    address: u64,
    bytes: Cow<'i, [u8]>,
}

impl Table<'_> {
    /// The address of the code, and the entry.
    fn entries(&self, size: usize) -> impl Iterator<Item = (u64, &[u8])> {
        let address = self.address;
        self.bytes.chunks_exact(size).enumerate().filter_map(move |(index, entry)| {
            let distance = i32::from_le_bytes(entry.get(..4)?.try_into().ok()?);
            let at = address
                .wrapping_add((index * size) as u64)
                .wrapping_add_signed(i64::from(distance));
            Some((at, entry))
        })
    }
}
