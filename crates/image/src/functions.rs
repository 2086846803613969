//! The functions of the symbol table as a map from addresses.
//!
//! Input: `.symtab` (else the one of the separate debug file, else the one in `.gnu_debugdata` with
//! `.dynsym`, else `.dynsym`). Output: functions
//! sorted by address, each with a size, aliases kept, and a flat list of disjoint intervals so that
//! a look-up is one binary search.
//! * A symbol without size reaches to the next function or to the end of its section; hand-written
//!   assembly has them.
//! * Untyped global labels in code count as functions where no typed function covers them (kernel
//!   entry code). Local ones are kept apart, for what is shown to people alone.
//! * Where functions overlap, the one that begins last is taken: it is the more exact statement.

use object::elf;
use std::borrow::Cow;

use crate::function_table::{Entry, FunctionTable, Functions, Interval, REPLACED};
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
        let replaced = std::mem::take(&mut table.replaced);
        let name = |entry: &Entry| entry.name(bytes, &replaced);
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
        table.place_labels(image);
        table.replaced = replaced;
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
            elf::STT_NOTYPE => 3,
            _ => return,
        };
        let code = symbols
            .address(symbol)
            .and_then(|address| Some((address, image.executable_range(address)?)));
        let name = symbols.name(symbol).filter(|name| !name.is_empty());
        let name = name
            .map(String::from_utf8_lossy)
            .filter(|name| matches!(name, Cow::Borrowed(_)) || self.has_room_for(name));
        let (Some((address, range)), Some(name)) = (code, name) else {
            // Untyped labels outside code are data and marks of the linker, not functions.
            self.unusable += u64::from(rank < 3);
            return;
        };
        let label = rank == 3 && local;
        // Marks of assemblers: where data stands in code (AArch64's `$d`), temporary names.
        if label && name.starts_with(['$', '.']) {
            return;
        }
        let (name_offset, name_len, source) = match name {
            Cow::Borrowed(name) => {
                (symbols.strings_offset.saturating_add(u64::from(symbol.name)), name.len(), source)
            }
            Cow::Owned(name) => {
                let offset = self.replaced.len() as u64;
                self.replaced.push_str(&name);
                (offset, name.len(), REPLACED)
            }
        };
        let to = if label { &mut self.labels } else { &mut self.entries };
        to.push(Entry {
            address: address.0,
            size: symbol.size.min(range.end.saturating_sub(address.0)),
            name_offset,
            name_len: name_len as u32,
            rank,
            source,
            order: to.len() as u32,
            size_inferred: symbol.size == 0,
        });
    }

    /// Whether a name can be kept: one that is no UTF-8 is copied, and a small file may give the same
    /// long one to any number of symbols.
    fn has_room_for(&self, name: &str) -> bool {
        const MOST: usize = 16 << 20;
        self.replaced.len().saturating_add(name.len()) <= MOST
    }

    /// Keeps the local labels that stand in no function whose size is known, with sizes that end at
    /// the next label or function.
    fn place_labels(&mut self, image: &Image) {
        let mut labels = std::mem::take(&mut self.labels);
        labels.retain(|label| match self.covering(label.address) {
            None => true,
            Some(function) => function.size_inferred && function.address < label.address,
        });
        labels.sort_by_key(|label| (label.address, label.order));
        let mut next: Option<u64> = None;
        let mut group = u64::MAX;
        for label in labels.iter_mut().rev() {
            if label.address != group {
                next = (group != u64::MAX).then_some(group);
                group = label.address;
            }
            let first = self.entries.partition_point(|entry| entry.address <= label.address);
            let function = self.entries.get(first).map(|entry| entry.address);
            let section = image.executable_range(ImageAddr(label.address)).map(|range| range.end);
            let end = [next, function, section].into_iter().flatten().min();
            let most = end.unwrap_or(label.address).saturating_sub(label.address);
            label.size = if label.size == 0 { most } else { label.size.min(most) };
        }
        labels.retain(|label| label.size > 0);
        self.labels = labels;
    }

    /// The function that an address lies in.
    fn covering(&self, address: u64) -> Option<&Entry> {
        let after = self.intervals.partition_point(|interval| interval.start <= address);
        let interval = self.intervals.get(after.checked_sub(1)?)?;
        self.entries.get(interval.entry? as usize)
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
