//! What do the unwind data of a `vmlinux` say about an address, and what are its functions?
//!
//! Form: the kernel's `arch/x86/include/asm/orc_types.h`. `.orc_unwind_ip` holds the distance of
//! each entry's first address from the entry itself, sorted when the kernel is linked;
//! `.orc_unwind` holds entries of six bytes beside them. Kernels with a section `.orc_header`
//! number the types of frames as 6.12 does, older ones as 6.1.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// What an entry finds something by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    Undefined,
    PreviousStack,
    Register(Register),
    /// The word at base pointer plus offset.
    AtBasePointer,
    /// The word at the stack pointer, plus offset.
    AtStackPointer,
    Unknown(u8),
}

/// Registers that entries name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    Dx,
    Di,
    Bp,
    Sp,
    R10,
    R13,
}

/// What lies on the stack where an entry's frame ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Undefined,
    EndOfStack,
    Call,
    Registers,
    InterruptRegisters,
    Unknown(u8),
}

/// How to get from a place in the code to its caller.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub stack: (Base, i16),
    pub base_pointer: (Base, i16),
    pub kind: Kind,
    /// The caller's address is that of an instruction, not where a call returns to.
    pub signal: bool,
}

impl Entry {
    fn read(bytes: &[u8], has_header: bool) -> Entry {
        let offset = |at: usize| i16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let (bases, rest) = (bytes[4], bytes[5]);
        let (kind, signal) = if has_header {
            let kind = match rest & 7 {
                0 => Kind::Undefined,
                1 => Kind::EndOfStack,
                2 => Kind::Call,
                3 => Kind::Registers,
                4 => Kind::InterruptRegisters,
                other => Kind::Unknown(other),
            };
            (kind, rest & 8 != 0)
        } else {
            let kind = match (bases & 15, rest & 3, rest & 4 != 0) {
                (0, _, true) => Kind::EndOfStack,
                (0, _, false) => Kind::Undefined,
                (_, 0, _) => Kind::Call,
                (_, 1, _) => Kind::Registers,
                (_, 2, _) => Kind::InterruptRegisters,
                (_, other, _) => Kind::Unknown(other),
            };
            (kind, matches!(kind, Kind::Registers | Kind::InterruptRegisters))
        };
        Entry {
            stack: (base(bases & 15), offset(0)),
            base_pointer: (base(bases >> 4), offset(2)),
            kind,
            signal,
        }
    }
}

fn base(number: u8) -> Base {
    match number {
        0 => Base::Undefined,
        1 => Base::PreviousStack,
        2 => Base::Register(Register::Dx),
        3 => Base::Register(Register::Di),
        4 => Base::Register(Register::Bp),
        5 => Base::Register(Register::Sp),
        6 => Base::Register(Register::R10),
        7 => Base::Register(Register::R13),
        8 => Base::AtBasePointer,
        9 => Base::AtStackPointer,
        other => Base::Unknown(other),
    }
}

/// A function, or the cold part of one.
#[derive(Clone, Debug)]
pub struct Function {
    pub start: u64,
    pub end: u64,
    pub name: String,
}

/// A kernel's text and unwind data, at the addresses it was linked to.
pub struct Kernel {
    /// From `.orc_unwind_ip`, ascending.
    addresses: Vec<u64>,
    entries: Vec<Entry>,
    /// Where the entries lie.
    pub entries_at: u64,
    /// All that have a name, ascending.
    pub functions: Vec<Function>,
    /// Sections with instructions.
    text: Vec<std::ops::Range<u64>>,
    pub build_id: Vec<u8>,
    /// Text that the kernel frees once it is up: where it begins, and its bytes.
    freed: (u64, Vec<u8>),
}

impl Kernel {
    /// Reads a `vmlinux`; panics, as tests do, when it is none with unwind data.
    pub fn read(bytes: &[u8]) -> Kernel {
        let file = object::File::parse(bytes).unwrap();
        let section = |name: &str| {
            let found = file.section_by_name(name);
            found.unwrap_or_else(|| {
                panic!("vmlinux has no {name}: is it built with CONFIG_UNWINDER_ORC?")
            })
        };
        let (distances, entries) = (section(".orc_unwind_ip"), section(".orc_unwind"));
        let has_header = file.section_by_name(".orc_header").is_some();
        let distance = |(index, word): (usize, &[u8])| {
            let distance = i32::from_le_bytes(word.try_into().unwrap());
            distances.address().wrapping_add(4 * index as u64).wrapping_add_signed(distance.into())
        };
        let addresses: Vec<u64> =
            distances.data().unwrap().chunks_exact(4).enumerate().map(distance).collect();
        let data = entries.data().unwrap();
        let read: Vec<Entry> =
            data.chunks_exact(6).map(|bytes| Entry::read(bytes, has_header)).collect();
        assert_eq!(addresses.len(), read.len());
        assert!(addresses.is_sorted(), "unwind data are not sorted");
        Kernel {
            addresses,
            entries: read,
            entries_at: entries.address(),
            functions: functions(&file),
            text: file
                .sections()
                .filter(|section| section.kind() == object::SectionKind::Text)
                .map(|section| section.address()..section.address() + section.size())
                .collect(),
            freed: file.section_by_name(".init.text").map_or((0, Vec::new()), |section| {
                (section.address(), section.data().unwrap().to_vec())
            }),
            build_id: file.build_id().unwrap().unwrap_or_default().to_vec(),
        }
    }

    /// The number of the entry that holds at an address: the last that does not begin behind it.
    pub fn entry_number(&self, address: u64) -> Option<usize> {
        self.addresses.partition_point(|start| *start <= address).checked_sub(1)
    }

    /// The entry that holds at an address.
    pub fn entry(&self, address: u64) -> Option<Entry> {
        self.entry_number(address).map(|number| self.entries[number])
    }

    /// Makes an entry wrong: the stack of its frames ends so many bytes higher.
    pub fn shift(&mut self, number: usize, bytes: i16) {
        let entry = &mut self.entries[number];
        entry.stack.1 = entry.stack.1.wrapping_add(bytes);
    }

    pub fn is_text(&self, address: u64) -> bool {
        self.text.iter().any(|range| range.contains(&address))
    }

    /// Bytes of text that the kernel frees once it is up: the boot CPU's stack goes on to return
    /// there.
    pub fn freed_text(&self, address: u64, count: usize) -> Option<Vec<u8>> {
        let from = usize::try_from(address.checked_sub(self.freed.0)?).ok()?;
        self.freed.1.get(from..from.checked_add(count)?).map(<[u8]>::to_vec)
    }

    /// The function or part that an address lies in.
    pub fn function(&self, address: u64) -> Option<&Function> {
        let behind = self.functions.partition_point(|function| function.start <= address);
        self.functions[..behind]
            .last()
            .filter(|function| address < function.end.max(function.start + 1))
    }

    /// The address as `name+0xoffset`.
    pub fn shown(&self, address: u64) -> String {
        match self.function(address) {
            Some(function) => format!("{}+{:#x}", function.name, address - function.start),
            None => format!("{address:#x}"),
        }
    }

    /// Parts of functions that were split off since they are cold.
    pub fn cold_parts(&self) -> impl Iterator<Item = &Function> {
        self.functions
            .iter()
            .filter(|function| function.name.ends_with(".cold") && function.end > function.start)
    }
}

fn functions(file: &object::File<'_>) -> Vec<Function> {
    let mut functions: Vec<Function> = file
        .symbols()
        .filter(|symbol| {
            let cold = symbol.kind() == SymbolKind::Unknown || symbol.kind() == SymbolKind::Label;
            let has_code = symbol.section_index().is_some_and(|index| {
                file.section_by_index(index).is_ok_and(|it| it.kind() == object::SectionKind::Text)
            });
            has_code && (symbol.kind() == SymbolKind::Text || cold && symbol.size() > 0)
        })
        .map(|symbol| Function {
            start: symbol.address(),
            end: symbol.address() + symbol.size(),
            name: symbol.name().unwrap_or("?").to_owned(),
        })
        .collect();
    // Of several at one place the longest, so that it is found for all that it covers.
    functions.sort_by(|one, other| (one.start, other.end).cmp(&(other.start, one.end)));
    functions.dedup_by_key(|function| function.start);
    functions
}
