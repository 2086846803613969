//! One unit of debug information, opened: where its entries are and from which bases its indexes
//! count.

use gimli::{
    DebugAddrBase, DebugStrOffsetsBase, DwarfFileType, Encoding, Reader as _, Section as _,
};

use super::abbreviation::{Abbreviation, Abbreviations};
use super::damage::{Damage, Reading};
use super::form::{Slice, Value};

/// The debug sections of one file.
pub(super) type Dwarf<'a> = gimli::Dwarf<Slice<'a>>;

/// A half-open range of addresses.
pub(super) type Span = (u64, u64);

/// A longer list of ranges is damage, not code.
const MAX_LIST: usize = 1 << 20;

/// What the header and the root entry of a unit say.
pub(super) struct Root<'a> {
    /// Offset of the unit in its section.
    pub(super) offset: usize,
    /// The unit's bytes from its very start, so that a reference within the unit is an index.
    pub(super) bytes: Slice<'a>,
    /// Where the root entry starts in `bytes`.
    pub(super) entries_at: usize,
    pub(super) encoding: Encoding,
    pub(super) abbreviations_at: usize,
    /// Whether the root entry is a full or skeleton compilation unit (not a type or partial unit).
    pub(super) is_compile_unit: bool,
    pub(super) has_children: bool,
    pub(super) low_pc: u64,
    high_pc: Option<Value<'a>>,
    ranges: Option<Value<'a>>,
    pub(super) lines: Option<u64>,
    str_offsets_base: u64,
    addr_base: u64,
    rnglists_base: u64,
    gnu_ranges_base: u64,
    pub(super) dwo_id: Option<u64>,
    dwo_name: Option<Value<'a>>,
    name: Option<Value<'a>>,
    comp_dir: Option<Value<'a>>,
    producer: Option<Value<'a>>,
    /// `DW_AT_language`, 0 when it is not stated.
    pub(super) language: u64,
}

/// What a unit of a `.dwo` file takes over from its skeleton.
#[derive(Clone, Copy)]
pub(super) struct Inherited {
    low_pc: u64,
    addr_base: u64,
    gnu_ranges_base: u64,
}

impl<'a> Root<'a> {
    /// Reads the unit at `offset` of `.debug_info`. `abbreviation` finds the root entry's
    /// abbreviation from the offset of the table, the encoding, and the number.
    pub(super) fn read(
        dwarf: &Dwarf<'a>,
        offset: usize,
        skeleton: Option<Inherited>,
        abbreviation: impl FnOnce(usize, Encoding, u64) -> Reading<std::rc::Rc<Abbreviation>>,
    ) -> Reading<Root<'a>> {
        let header = dwarf.debug_info.header_from_offset(gimli::DebugInfoOffset(offset))?;
        let section = *dwarf.debug_info.reader();
        let mut bytes = section;
        bytes.skip(offset)?;
        bytes.truncate(header.length_including_self())?;
        let encoding = header.encoding();
        let inherited =
            skeleton.unwrap_or(Inherited { low_pc: 0, addr_base: 0, gnu_ranges_base: 0 });
        let file_type = if skeleton.is_some() { DwarfFileType::Dwo } else { DwarfFileType::Main };
        let str_offsets_base: usize =
            DebugStrOffsetsBase::default_for_encoding_and_file(encoding, file_type).0;
        let rnglists_base: usize =
            gimli::DebugRngListsBase::default_for_encoding_and_file(encoding, file_type).0;
        let mut root = Root {
            offset,
            bytes,
            entries_at: header.size_of_header(),
            encoding,
            abbreviations_at: header.debug_abbrev_offset().0,
            is_compile_unit: false,
            has_children: false,
            low_pc: inherited.low_pc,
            high_pc: None,
            ranges: None,
            lines: None,
            str_offsets_base: str_offsets_base as u64,
            addr_base: inherited.addr_base,
            rnglists_base: rnglists_base as u64,
            gnu_ranges_base: inherited.gnu_ranges_base,
            dwo_id: match header.type_() {
                gimli::UnitType::Skeleton(id) | gimli::UnitType::SplitCompilation(id) => Some(id.0),
                _ => None,
            },
            dwo_name: None,
            name: None,
            comp_dir: None,
            producer: None,
            language: 0,
        };
        let is_type = matches!(
            header.type_(),
            gimli::UnitType::Type { .. } | gimli::UnitType::SplitType { .. }
        );
        let mut input = bytes;
        input.skip(root.entries_at)?;
        let code = input.read_uleb128()?;
        if code == 0 {
            return Ok(root);
        }
        let abbreviation = abbreviation(root.abbreviations_at, encoding, code)?;
        root.is_compile_unit = !is_type && !abbreviation.is_partial_unit();
        root.has_children = abbreviation.has_children;
        root.read_attributes(dwarf, &abbreviation, &mut input)?;
        Ok(root)
    }

    fn read_attributes(
        &mut self,
        dwarf: &Dwarf<'a>,
        abbreviation: &Abbreviation,
        input: &mut Slice<'a>,
    ) -> Reading<()> {
        let mut low_pc = None;
        abbreviation.read(input, self.encoding, |name, value| match name {
            gimli::DW_AT_low_pc => low_pc = Some(value),
            gimli::DW_AT_high_pc => self.high_pc = Some(value),
            gimli::DW_AT_ranges => self.ranges = Some(value),
            gimli::DW_AT_stmt_list => self.lines = value.offset(),
            gimli::DW_AT_str_offsets_base => self.str_offsets_base = value.number(),
            gimli::DW_AT_addr_base | gimli::DW_AT_GNU_addr_base => self.addr_base = value.number(),
            gimli::DW_AT_rnglists_base => self.rnglists_base = value.number(),
            gimli::DW_AT_GNU_ranges_base => self.gnu_ranges_base = value.number(),
            gimli::DW_AT_GNU_dwo_id => self.dwo_id = Some(value.number()),
            gimli::DW_AT_dwo_name | gimli::DW_AT_GNU_dwo_name => self.dwo_name = Some(value),
            gimli::DW_AT_name => self.name = Some(value),
            gimli::DW_AT_comp_dir => self.comp_dir = Some(value),
            gimli::DW_AT_producer => self.producer = Some(value),
            gimli::DW_AT_language => self.language = value.number(),
            _ => {}
        })?;
        if let Some(value) = low_pc {
            self.low_pc = self.address(dwarf, value).unwrap_or(self.low_pc);
        }
        Ok(())
    }

    /// What the unit in the `.dwo` file takes from this skeleton.
    pub(super) fn inherited(&self) -> Inherited {
        Inherited {
            low_pc: self.low_pc,
            addr_base: self.addr_base,
            gnu_ranges_base: self.gnu_ranges_base,
        }
    }

    /// Name of the `.dwo` file and the directory of the compilation, for a skeleton unit.
    pub(super) fn dwo_file(&self, dwarf: &Dwarf<'a>) -> Option<(&'a [u8], &'a [u8])> {
        let name = self.string(dwarf, None, self.dwo_name?)?;
        let directory = self.comp_dir.and_then(|value| self.string(dwarf, None, value));
        Some((name, directory.unwrap_or_default()))
    }

    /// The unit's name: the source file as the compiler was given it.
    pub(super) fn name(
        &self,
        dwarf: &Dwarf<'a>,
        supplement: Option<&Dwarf<'a>>,
    ) -> Option<&'a [u8]> {
        self.string(dwarf, supplement, self.name?)
    }

    /// The compiler, with its flags where it records them.
    pub(super) fn producer(
        &self,
        dwarf: &Dwarf<'a>,
        supplement: Option<&Dwarf<'a>>,
    ) -> Option<&'a [u8]> {
        self.string(dwarf, supplement, self.producer?)
    }

    /// An address attribute, looked up in `.debug_addr` where it is an index.
    pub(super) fn address(&self, dwarf: &Dwarf<'a>, value: Value<'a>) -> Option<u64> {
        match value {
            Value::Address(address) => Some(address),
            Value::AddressIndex(index) => {
                let base = DebugAddrBase(usize::try_from(self.addr_base).ok()?);
                let index = gimli::DebugAddrIndex(usize::try_from(index).ok()?);
                dwarf.debug_addr.get_address(self.encoding.address_size, base, index).ok()
            }
            _ => None,
        }
    }

    /// The directory of the compilation.
    pub(super) fn directory(&self, dwarf: &Dwarf<'a>) -> Option<&'a [u8]> {
        self.comp_dir.and_then(|value| self.string(dwarf, None, value))
    }

    /// A string attribute.
    pub(super) fn string(
        &self,
        dwarf: &Dwarf<'a>,
        supplement: Option<&Dwarf<'a>>,
        value: Value<'a>,
    ) -> Option<&'a [u8]> {
        let at = |offset: u64| usize::try_from(offset).ok().map(gimli::DebugStrOffset);
        let found = match value {
            Value::Inline(bytes) => return Some(bytes),
            Value::Str(offset) => dwarf.debug_str.get_str(at(offset)?),
            Value::SupplementStr(offset) => supplement?.debug_str.get_str(at(offset)?),
            Value::LineStr(offset) => dwarf
                .debug_line_str
                .get_str(gimli::DebugLineStrOffset(usize::try_from(offset).ok()?)),
            Value::StrIndex(index) => {
                let base = DebugStrOffsetsBase(usize::try_from(self.str_offsets_base).ok()?);
                let index = gimli::DebugStrOffsetsIndex(usize::try_from(index).ok()?);
                let offset = dwarf
                    .debug_str_offsets
                    .get_str_offset(self.encoding.format, base, index)
                    .ok()?;
                dwarf.debug_str.get_str(offset)
            }
            _ => return None,
        };
        found.ok().map(|text| text.slice())
    }

    /// The address ranges of the unit's root entry.
    pub(super) fn own_spans(&self, dwarf: &Dwarf<'a>, into: &mut Vec<Span>) {
        self.spans(dwarf, Some(Value::Address(self.low_pc)), self.high_pc, self.ranges, into);
    }

    /// Appends the non-empty address ranges that an entry's attributes state.
    ///
    /// Unreadable range lists give what was readable before the damage; a range that runs backwards
    /// gives nothing.
    pub(super) fn spans(
        &self,
        dwarf: &Dwarf<'a>,
        low_pc: Option<Value<'a>>,
        high_pc: Option<Value<'a>>,
        ranges: Option<Value<'a>>,
        into: &mut Vec<Span>,
    ) {
        if let (Some(low), Some(high)) =
            (low_pc.and_then(|value| self.address(dwarf, value)), high_pc)
        {
            let end = match high {
                Value::Number(bytes) | Value::Offset(bytes) => low.checked_add(bytes),
                high => self.address(dwarf, high),
            };
            if let Some(end) = end.filter(|end| *end > low) {
                into.push((low, end));
            }
            return;
        }
        if let Some(offset) = ranges.and_then(|value| self.range_list(dwarf, value)) {
            self.list_spans(dwarf, offset, into);
        }
    }

    fn list_spans(&self, dwarf: &Dwarf<'a>, offset: usize, into: &mut Vec<Span>) {
        let offset = gimli::RangeListsOffset(offset);
        let Some(addr_base) = usize::try_from(self.addr_base).ok().map(DebugAddrBase) else {
            return;
        };
        let Ok(mut list) =
            dwarf.ranges.ranges(offset, self.encoding, self.low_pc, &dwarf.debug_addr, addr_base)
        else {
            return;
        };
        for _ in 0..MAX_LIST {
            let Ok(Some(range)) = list.next() else { return };
            if range.begin < range.end {
                into.push((range.begin, range.end));
            }
        }
    }

    /// Where in `.debug_ranges` or `.debug_rnglists` a list starts.
    fn range_list(&self, dwarf: &Dwarf<'a>, value: Value<'a>) -> Option<usize> {
        let offset = match value {
            Value::RangeIndex(index) => {
                let word = u64::from(self.encoding.format.word_size());
                let entry = index.checked_mul(word)?.checked_add(self.rnglists_base)?;
                let mut input = *dwarf.ranges.debug_rnglists().reader();
                input.skip(usize::try_from(entry).ok()?).ok()?;
                let distance = input.read_offset(self.encoding.format).ok()? as u64;
                distance.checked_add(self.rnglists_base)?
            }
            value if dwarf.file_type == DwarfFileType::Dwo && self.encoding.version < 5 => {
                value.offset()?.checked_add(self.gnu_ranges_base)?
            }
            value => value.offset()?,
        };
        usize::try_from(offset).ok()
    }
}

/// A unit with its abbreviations, ready for a walk over its entries.
pub(super) struct Unit<'a> {
    pub(super) root: Root<'a>,
    pub(super) abbreviations: Abbreviations,
}

impl<'a> Unit<'a> {
    /// Opens the unit at `offset` of `.debug_info`.
    pub(super) fn open(
        dwarf: &Dwarf<'a>,
        offset: usize,
        skeleton: Option<Inherited>,
    ) -> Reading<Unit<'a>> {
        let root = Root::read(dwarf, offset, skeleton, |at, encoding, code| {
            Abbreviations::parse_one(table(dwarf, at)?, encoding, code, &mut 0)
                .map(std::rc::Rc::new)
                .map_err(Damage::from)
        })?;
        let abbreviations =
            Abbreviations::parse(table(dwarf, root.abbreviations_at)?, root.encoding)?;
        Ok(Unit { root, abbreviations })
    }

    /// The entries from `at` bytes after the unit's start to the unit's end.
    pub(super) fn entries(&self, at: usize) -> Reading<Slice<'a>> {
        let mut input = self.root.bytes;
        input.skip(at)?;
        Ok(input)
    }
}

/// The abbreviation table at an offset.
pub(super) fn table<'a>(dwarf: &Dwarf<'a>, at: usize) -> Reading<Slice<'a>> {
    let mut input = *dwarf.debug_abbrev.reader();
    input.skip(at)?;
    Ok(input)
}

/// Offsets of all units of `.debug_info`, and the error that ended the list early.
pub(super) fn unit_offsets(dwarf: &Dwarf<'_>) -> (Vec<usize>, Option<Damage>) {
    let mut offsets = Vec::new();
    let mut headers = dwarf.debug_info.units();
    loop {
        match headers.next() {
            Ok(Some(header)) => offsets.extend(header.debug_info_offset().map(|offset| offset.0)),
            Ok(None) => return (offsets, None),
            Err(error) => return (offsets, Some(error.into())),
        }
    }
}

/// Offset of the compilation unit with this identifier in a `.dwo` file or a package's part.
///
/// DWARF 4 has the identifier in the root entry, where only an opened unit shows it.
pub(super) fn unit_of(dwarf: &Dwarf<'_>, id: u64) -> Option<usize> {
    let (offsets, _) = unit_offsets(dwarf);
    let none = Inherited { low_pc: 0, addr_base: 0, gnu_ranges_base: 0 };
    offsets.into_iter().find(|&offset| {
        let root = Root::read(dwarf, offset, Some(none), |at, encoding, code| {
            Abbreviations::parse_one(table(dwarf, at)?, encoding, code, &mut 0)
                .map(std::rc::Rc::new)
                .map_err(Damage::from)
        });
        root.is_ok_and(|root| root.dwo_id == Some(id))
    })
}
