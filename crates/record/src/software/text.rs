//! Which code of a process cannot change: what is mapped from a file, executable and not writable.

use lookahead::Text;
use perfdata::RuntimeAddr;
use std::collections::BTreeMap;

const PROT_WRITE: u32 = 2;
const MAP_SHARED: u32 = 1;

/// The executable mappings of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Code {
    /// By start: end, and whether it lasts.
    mappings: BTreeMap<u64, (u64, bool)>,
}

/// A mapping, as an MMAP2 record tells of it (`include/uapi/linux/perf_event.h`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapped<'r> {
    pub pid: i32,
    pub start: u64,
    pub len: u64,
    pub prot: u32,
    pub flags: u32,
    pub path: &'r [u8],
}

impl<'r> Mapped<'r> {
    /// Reads a record of kind MMAP2.
    pub(crate) fn read(record: &'r [u8]) -> Option<Mapped<'r>> {
        let word = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
        let half = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
        let path = record.get(72..)?.split(|byte| *byte == 0).next()?;
        Some(Mapped {
            pid: half(8)? as i32,
            start: word(16)?,
            len: word(24)?,
            prot: half(64)?,
            flags: half(68)?,
            path,
        })
    }

    /// Memory files are written through another mapping by programs that make code.
    fn lasts(&self) -> bool {
        let file = self.path.starts_with(b"/")
            && !self.path.starts_with(b"//")
            && !self.path.starts_with(b"/memfd:")
            && !self.path.starts_with(b"/dev/");
        let vdso = self.path == b"[vdso]";
        (file || vdso) && self.prot & PROT_WRITE == 0 && self.flags & MAP_SHARED == 0
    }
}

impl Code {
    /// Takes a mapping over; true when it lies where something was known before, which is to be
    /// forgotten.
    pub(crate) fn map(&mut self, mapped: &Mapped<'_>) -> bool {
        let end = mapped.start.saturating_add(mapped.len);
        let overlapping: Vec<u64> = self
            .mappings
            .range(..end)
            .filter(|(_, (other_end, _))| *other_end > mapped.start)
            .map(|(start, _)| *start)
            .collect();
        for start in &overlapping {
            let Some((old_end, lasts)) = self.mappings.remove(start) else { continue };
            // What the new one leaves over stays.
            if *start < mapped.start {
                self.mappings.insert(*start, (mapped.start, lasts));
            }
            if old_end > end {
                self.mappings.insert(end, (old_end, lasts));
            }
        }
        self.mappings.insert(mapped.start, (end, mapped.lasts()));
        !overlapping.is_empty()
    }

    /// How the code at an address may be remembered.
    pub(crate) fn kind(&self, address: RuntimeAddr) -> Text {
        match self.mappings.range(..=address.0).next_back() {
            Some((_, (end, true))) if address.0 < *end => Text::Lasting,
            _ => Text::Passing,
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.mappings.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(start: u64, len: u64, path: &[u8]) -> Mapped<'_> {
        Mapped { pid: 1, start, len, prot: 5, flags: 2, path }
    }

    #[test]
    fn only_files_last() {
        let mut code = Code::default();
        assert!(!code.map(&mapped(0x1000, 0x3000, b"/bin/x")));
        assert!(!code.map(&mapped(0x8000, 0x1000, b"//anon")));
        assert!(!code.map(&Mapped { prot: 7, ..mapped(0xa000, 0x1000, b"/bin/x") }));
        assert!(!code.map(&mapped(0xc000, 0x1000, b"/memfd:jit")));
        let kinds = [0x0fff, 0x1000, 0x3fff, 0x4000, 0x8000, 0xa000, 0xc000]
            .map(|at| code.kind(RuntimeAddr(at)));
        use Text::{Lasting as L, Passing as P};
        assert_eq!(kinds, [P, L, L, P, P, P, P]);
    }

    #[test]
    fn a_mapping_over_another_takes_its_place() {
        let mut code = Code::default();
        code.map(&mapped(0x1000, 0x5000, b"/bin/x"));
        assert!(code.map(&mapped(0x2000, 0x1000, b"//anon")));
        let kinds = [0x1000, 0x2000, 0x3000, 0x5fff, 0x6000].map(|at| code.kind(RuntimeAddr(at)));
        use Text::{Lasting as L, Passing as P};
        assert_eq!(kinds, [L, P, L, L, P]);
    }
}
