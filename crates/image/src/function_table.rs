//! Functions, and the table that finds them by address.

use crate::ImageAddr;
use std::cmp::Reverse;

/// A function of the symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function<'i> {
    /// Address of its first byte.
    pub address: ImageAddr,
    /// Its size in bytes; never reaches past its section.
    pub size: u64,
    /// Its name as the symbol table has it (mangled), with U+FFFD for what is no UTF-8.
    pub name: &'i str,
    /// Whether the symbol stated no size, so that it was taken from what follows.
    pub size_inferred: bool,
    /// Whether the symbol is visible outside its object file (global or weak).
    pub global: bool,
    /// Whether it is weak: other objects may define it too, and the linker keeps one (inline
    /// functions of C++).
    pub weak: bool,
}

impl Function<'_> {
    /// The first address after the function.
    pub fn end(&self) -> ImageAddr {
        ImageAddr(self.address.0.saturating_add(self.size))
    }
}

/// The functions of an image, see [`Image::functions`].
#[derive(Debug, Clone, Copy)]
pub struct Functions<'i> {
    /// Of the files that the names stand in.
    pub(crate) bytes: [&'i [u8]; 2],
    pub(crate) table: &'i FunctionTable,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) address: u64,
    pub(crate) size: u64,
    /// Where the name stands in the file, in bytes from its begin.
    pub(crate) name_offset: u64,
    pub(crate) name_len: u32,
    /// 0 global, 1 weak, 2 local; 3 for untyped labels.
    pub(crate) rank: u8,
    /// Which of the files has the name; [`REPLACED`] where the table itself has it.
    pub(crate) source: u8,
    /// Position among all symbols that are functions, as the symbol tables list them.
    pub(crate) order: u32,
    pub(crate) size_inferred: bool,
}

/// The source of names that are no UTF-8: [`FunctionTable::replaced`].
pub(crate) const REPLACED: u8 = 2;

impl Entry {
    /// The name, where it stands in one of the files or among the replaced ones.
    pub(crate) fn name<'i>(&self, files: [&'i [u8]; 2], replaced: &'i str) -> &'i [u8] {
        let file = match self.source {
            REPLACED => replaced.as_bytes(),
            source => files.get(usize::from(source)).copied().unwrap_or(&[]),
        };
        let start = usize::try_from(self.name_offset).unwrap_or(usize::MAX);
        file.get(start..start.saturating_add(self.name_len as usize)).unwrap_or(&[])
    }
}

/// From `start` to the next interval, `entry` is the function (if any).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interval {
    pub(crate) start: u64,
    pub(crate) entry: Option<u32>,
}

/// What [`Functions`] looks into.
#[derive(Debug, Default)]
pub(crate) struct FunctionTable {
    pub(crate) entries: Vec<Entry>,
    pub(crate) intervals: Vec<Interval>,
    /// Untyped local labels in code that is no function's, by address, each with a size.
    pub(crate) labels: Vec<Entry>,
    /// The names that are no UTF-8, with U+FFFD for what is none, one after the other.
    pub(crate) replaced: String,
    /// Function symbols that could not be used: address not in code, or no name.
    pub(crate) unusable: u64,
}

impl<'i> Functions<'i> {
    /// How many functions there are, aliases included.
    pub fn len(&self) -> usize {
        self.table.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.table.entries.is_empty()
    }

    /// Function symbols that could not be used: their address is not in code, or they have no
    /// name.
    pub fn unusable_symbols(&self) -> u64 {
        self.table.unusable
    }

    /// All functions by address; at one address the larger ones first, then global, weak and local
    /// ones, then by name.
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = Function<'i>> + DoubleEndedIterator + use<'i> {
        let functions = *self;
        functions.table.entries.iter().map(move |entry| functions.function(entry))
    }

    /// The function that contains the address. Of several aliases: the global one, then the first
    /// by name.
    pub fn find(&self, address: ImageAddr) -> Option<Function<'i>> {
        let after = self.table.intervals.partition_point(|interval| interval.start <= address.0);
        let interval = self.table.intervals.get(after.checked_sub(1)?)?;
        Some(self.function(self.table.entries.get(interval.entry? as usize)?))
    }

    /// As [`Functions::find`], but as perf shows it. Of several aliases: a strong one rather than a
    /// weak one, a global one rather than a local one, then the one whose name begins with fewer
    /// underscores, then the longest name, then the first of the symbol table. Where no function
    /// is, or one that states no size reaches, the [local label](Functions::local_labels) before
    /// the address. Source: `choose_best_symbol` and `elf_sym__is_label` in Linux's
    /// `tools/perf/util`.
    pub fn find_shown(&self, address: ImageAddr) -> Option<Function<'i>> {
        let found = self.find(address);
        let inner = |entry: &Entry| {
            found.is_none_or(|found| found.size_inferred && found.address.0 < entry.address)
        };
        let label = self.best(&self.table.labels, address).filter(|label| inner(label));
        let shown = match (label, found) {
            (None, Some(found)) => {
                let entries = &self.table.entries;
                let after = entries.partition_point(|entry| entry.address <= found.address.0);
                entries.get(..after).and_then(|upto| self.best(upto, address))
            }
            (label, _) => label,
        };
        shown.map(|entry| self.function(entry))
    }

    /// Of the last entries that begin at or before an address and reach beyond it, the one that perf
    /// shows.
    fn best<'e>(&self, entries: &'e [Entry], address: ImageAddr) -> Option<&'e Entry> {
        let after = entries.partition_point(|entry| entry.address <= address.0);
        let upto = entries.get(..after)?;
        let start = upto.last()?.address;
        let aliases = upto.iter().rev().take_while(|entry| entry.address == start);
        let aliases = aliases.filter(|entry| entry.address.saturating_add(entry.size) > address.0);
        aliases.min_by_key(|entry| {
            let name = self.name(entry);
            let underscores = name.iter().take_while(|&&byte| byte == b'_').count();
            // The names that old kernels give their system calls beside the real ones.
            let old = name.starts_with(b"SyS") || name.starts_with(b"compat_SyS");
            let (weak, local) = (entry.rank == 1, entry.rank > 1);
            (weak, local, underscores, Reverse(name.len()), old, entry.order)
        })
    }

    /// Untyped local labels in code that no function covers, or that only a function without a size
    /// reaches, by address: entry code of assembly, and the parts of functions that clang splits.
    /// They are no functions to a compiler, so only [`Functions::find_shown`] finds them. A label
    /// without a size reaches to the next label or function, or to the end of its section.
    pub fn local_labels(&self) -> impl ExactSizeIterator<Item = Function<'i>> + use<'i> {
        let functions = *self;
        functions.table.labels.iter().map(move |entry| functions.function(entry))
    }

    /// Every function that begins exactly at the address, the preferred one first.
    pub fn at(&self, address: ImageAddr) -> impl Iterator<Item = Function<'i>> + use<'i> {
        let functions = *self;
        let first = functions.table.entries.partition_point(|entry| entry.address < address.0);
        let entries = functions.table.entries.get(first..).unwrap_or(&[]).iter();
        entries
            .take_while(move |entry| entry.address == address.0)
            .map(move |entry| functions.function(entry))
    }

    fn name(&self, entry: &Entry) -> &'i [u8] {
        entry.name(self.bytes, &self.table.replaced)
    }

    fn function(&self, entry: &Entry) -> Function<'i> {
        Function {
            address: ImageAddr(entry.address),
            size: entry.size,
            // Only names that are UTF-8 are entered.
            name: std::str::from_utf8(self.name(entry)).unwrap_or(""),
            size_inferred: entry.size_inferred,
            global: entry.rank < 2,
            weak: entry.rank == 1,
        }
    }
}
