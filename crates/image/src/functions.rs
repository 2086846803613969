//! The functions of the symbol table as a map from addresses.
//!
//! Input: `.symtab` (else the one of the separate debug file, else the one in `.gnu_debugdata` with
//! `.dynsym`, else `.dynsym`). Output: functions
//! sorted by address, each with a size, aliases kept, and a flat list of disjoint intervals so that
//! a look-up is one binary search.
//! * A symbol without size reaches to the next function or to the end of its section; hand-written
//!   assembly has them.
//! * Untyped global labels in code count as functions where no typed function covers them (kernel
//!   entry code).
//! * Where functions overlap, the one that begins last is taken: it is the more exact statement.

use object::elf;

use crate::function_table::{Entry, FunctionTable, Functions, Interval};
use crate::symbols::{Symbol, SymbolTable};
use crate::{Image, ImageAddr};

impl Image {
    /// The functions of the symbol table, sorted by address. Read when first asked for.
    pub fn functions(&self) -> Functions<'_> {
        let sources = self.symbol_sources();
        let bytes = sources.map(|source| source.map_or(&[][..], |(image, _)| image.bytes()));
        let build = || FunctionTable::build(self, sources, bytes);
        let table = self.function_table.get_or_init(build);
        Functions { bytes, table }
    }

    /// Whether the symbols are only those of the dynamic symbol table, that is the image is
    /// stripped and no debug file was given: most functions are unknown then.
    pub fn has_only_dynamic_symbols(&self) -> bool {
        let mut sources = self.symbol_sources().into_iter().flatten();
        sources.all(|(_, kind)| kind == elf::SHT_DYNSYM)
    }
}

impl FunctionTable {
    fn build(
        image: &Image,
        sources: [Option<(&Image, elf::SectionType)>; 2],
        bytes: [&[u8]; 2],
    ) -> FunctionTable {
        let mut table = FunctionTable::default();
        for (number, source) in (0..).zip(sources) {
            let symbols = source.and_then(|(source, kind)| source.symbol_table(kind));
            let Some(symbols) = symbols else { continue };
            for symbol in symbols.iter() {
                table.add(image, &symbols, &symbol, number);
            }
        }
        let name = |entry: &Entry| entry.name(bytes);
        let order = |a: &Entry, b: &Entry| {
            let key = |entry: &Entry| (entry.address, u64::MAX - entry.size, entry.rank);
            key(a).cmp(&key(b)).then_with(|| name(a).cmp(name(b)))
        };
        table.entries.sort_by(order);
        table.drop_covered_labels();
        table.infer_sizes(image);
        table.entries.sort_by(order);
        table
            .entries
            .dedup_by(|b, a| a.address == b.address && a.size == b.size && name(a) == name(b));
        table.build_intervals();
        table
    }

    fn add(&mut self, image: &Image, symbols: &SymbolTable<'_>, symbol: &Symbol, source: u8) {
        if symbol.section.is_none() {
            return;
        }
        let local = symbol.binding == elf::STB_LOCAL.0;
        let rank = match elf::SymbolType(symbol.kind) {
            elf::STT_FUNC | elf::STT_GNU_IFUNC if local => 2,
            elf::STT_FUNC | elf::STT_GNU_IFUNC => u8::from(symbol.binding == elf::STB_WEAK.0),
            elf::STT_NOTYPE if !local => 3,
            _ => return,
        };
        let code = symbols
            .address(symbol)
            .and_then(|address| Some((address, image.executable_range(address)?)));
        let name = symbols
            .name(symbol)
            .filter(|name| !name.is_empty() && std::str::from_utf8(name).is_ok());
        let (Some((address, range)), Some(name)) = (code, name) else {
            // Untyped labels outside code are data and marks of the linker, not functions.
            self.unusable += u64::from(rank < 3);
            return;
        };
        self.entries.push(Entry {
            address: address.0,
            size: symbol.size.min(range.end.saturating_sub(address.0)),
            name_offset: symbols.strings_offset.saturating_add(u64::from(symbol.name)),
            name_len: name.len() as u32,
            rank,
            source,
            order: self.entries.len() as u32,
            size_inferred: symbol.size == 0,
        });
    }

    /// Drops untyped labels that stand at or inside a function: they name places, not functions. An
    /// untyped label with a size is a function too; the kernel marks entry code so, and puts
    /// labels into it.
    fn drop_covered_labels(&mut self) {
        let mut typed: Vec<u64> =
            self.entries.iter().filter(|entry| entry.rank < 3).map(|entry| entry.address).collect();
        typed.dedup();
        let mut covered_to = 0;
        self.entries.retain(|entry| {
            let inside = entry.address < covered_to || typed.binary_search(&entry.address).is_ok();
            let kept = entry.rank < 3 || !inside;
            if kept {
                covered_to = covered_to.max(entry.address.saturating_add(entry.size));
            }
            kept
        });
    }

    fn infer_sizes(&mut self, image: &Image) {
        let mut next_start = u64::MAX;
        let mut group_end = self.entries.len();
        while let Some(last) = group_end.checked_sub(1).and_then(|last| self.entries.get(last)) {
            let address = last.address;
            let group_start = self.entries.partition_point(|entry| entry.address < address);
            let range_end =
                image.executable_range(ImageAddr(address)).map_or(address, |range| range.end);
            let group = self.entries.get_mut(group_start..group_end).unwrap_or(&mut []);
            // An alias without a size is as large as the function it stands for; sized ones sort
            // first.
            let sized = group.first().map_or(0, |entry| entry.size);
            let inferred =
                if sized != 0 { sized } else { next_start.min(range_end).saturating_sub(address) };
            group
                .iter_mut()
                .filter(|entry| entry.size == 0)
                .for_each(|entry| entry.size = inferred);
            next_start = address;
            group_end = group_start;
        }
    }

    /// Sweeps over the sorted functions with a stack of those still open; the top of the stack owns
    /// the address.
    fn build_intervals(&mut self) {
        let mut intervals: Vec<Interval> = Vec::new();
        let mut push = |start: u64, entry: Option<u32>| {
            match intervals.last_mut() {
                Some(last) if last.start == start => last.entry = entry,
                _ => intervals.push(Interval { start, entry }),
            };
        };
        let mut open: Vec<(u64, u32)> = Vec::new();
        let mut previous = None;
        for (index, entry) in (0..).zip(&self.entries) {
            if previous == Some((entry.address, entry.size)) || entry.size == 0 {
                continue;
            }
            previous = Some((entry.address, entry.size));
            close_until(&mut open, entry.address, &mut push);
            push(entry.address, Some(index));
            open.push((entry.address.saturating_add(entry.size), index));
        }
        close_until(&mut open, u64::MAX, &mut push);
        self.intervals = intervals;
    }
}

/// Ends the open functions that end at or before `address`, giving what follows them to the next
/// one still open.
fn close_until(open: &mut Vec<(u64, u32)>, address: u64, push: &mut impl FnMut(u64, Option<u32>)) {
    while let Some(&(end, _)) = open.last() {
        if end > address {
            return;
        }
        open.pop();
        // A function below the top may have ended earlier than the top did.
        while open.last().is_some_and(|&(below, _)| below <= end) {
            open.pop();
        }
        push(end, open.last().map(|&(_, index)| index));
    }
}
