//! `.pseudo_probe`: the probes of every function with those of what was inlined into it.
//!
//! A section is a list of functions. A function, and likewise an inlined copy, is:
//! * the hash of its name (8 bytes), the number of its probes and the number of copies inlined into
//!   it (both ULEB128);
//! * its probes: number (ULEB128); a byte with the kind in bits 0 to 3, attributes in bits 4 to 6
//!   and bit 7 set where a distance (SLEB128) from the probe before it follows, an address (8
//!   bytes) otherwise; and a discriminator (ULEB128) if the attributes say so;
//! * per inlined copy: the number of the call probe (ULEB128), then the copy in the same form.
//!
//! "The probe before" is the one that was read last, whichever copy it belongs to. The first of a
//! function is relative to the function's symbol, unless it is a *sentinel*: that has the hash of
//! another symbol (`foo.cold`, `foo.llvm.123`) in place of the address. Compilers before 2023 wrote
//! the address of the first probe. Source: LLVM's description of the format, and the bytes that
//! clang 22 writes, held against what llvm-profgen 22 prints of them.
//!
//! Invariant: memory is a small multiple of the section's size, and nothing recurses.

use rustc_hash::{FxHashMap, FxHashSet};

use super::bytes::Reader;
use super::place::Places;
use super::{Attributes, CopyId, Guid, InlinedCopy, Probe, ProbeKind, ProbedCode, Probes};
use crate::{Error, Image, ImageAddr, Section};

/// Calls may be inlined into each other this deep; no compiler comes near it.
pub const MAX_DEPTH: usize = 256;

/// Probes of a function are numbered with 16 bits; LLVM leaves out what is beyond, and profiles
/// have no place for it.
const MAX_INDEX: u32 = 0xffff;

const PROBES: &str = ".pseudo_probe";
const DESCRIPTORS: &str = ".pseudo_probe_desc";

/// A function of the section, its addresses still relative.
struct Record {
    guid: Guid,
    /// The symbol that its addresses are relative to; `None` where the section states addresses.
    symbol: Option<Guid>,
    /// Its probes and copies among those of all records.
    first_probe: usize,
    first_copy: usize,
}

/// Everything read so far.
#[derive(Default)]
struct Records {
    records: Vec<Record>,
    /// Addresses are relative to the symbol of the record.
    probes: Vec<Probe>,
    copies: Vec<InlinedCopy>,
}

/// An inlined copy, or the function itself, some of whose copies are still to be read.
struct Open {
    copy: CopyId,
    copies_left: u64,
}

impl Probes {
    /// Whether the image has probes. Looks at section names only.
    pub fn exist_in(image: &Image) -> bool {
        sections(image, PROBES).next().is_some()
    }

    /// Reads the probes of an image. Empty when it was built without them.
    ///
    /// # Errors
    /// When a section is cut off, or holds something that is no probe; with section and offset.
    pub fn read(image: &Image) -> Result<Probes, Error> {
        let mut probes = Probes::default();
        refuse_overlap(image)?;
        for section in sections(image, DESCRIPTORS) {
            if let Some(bytes) = image.section_bytes(section)? {
                probes.add_descriptors(image, section, &bytes)?;
            }
        }
        probes.sort_descriptors();
        let mut records = Records::default();
        for section in sections(image, PROBES) {
            if let Some(bytes) = image.section_bytes(section)? {
                let mut reader = Reader::new(image, section, &bytes);
                while !reader.is_at_end() {
                    records.read_function(&mut reader)?;
                }
            }
        }
        if !records.records.is_empty() {
            probes.place(image, records);
        }
        Ok(probes)
    }

    /// Gives probes their addresses and sorts them.
    fn place(&mut self, image: &Image, records: Records) {
        let places = Places::of(image);
        let mut occurrences: FxHashMap<Guid, (usize, usize)> = FxHashMap::default();
        for symbol in records.records.iter().filter_map(|record| record.symbol) {
            occurrences.entry(symbol).or_default().1 += 1;
        }
        let own_symbol =
            |record: &Record| (record.symbol == Some(record.guid)).then_some(record.guid);
        let places_itself: FxHashSet<Guid> =
            records.records.iter().filter_map(own_symbol).collect();
        let ends = records.records.iter().skip(1).map(|record| record.first_probe);
        for (record, end) in records.records.iter().zip(ends.chain([records.probes.len()])) {
            let own = records.probes.get(record.first_probe..end).unwrap_or_default();
            let base = match record.symbol {
                None => {
                    let around =
                        own.first().and_then(|probe| image.functions().find(probe.address));
                    self.code.extend(around.map(|function| ProbedCode {
                        guid: record.guid,
                        range: function.address..function.end(),
                        is_entry: own.iter().any(|probe| is_entry(probe, record)),
                    }));
                    Some(ImageAddr(0))
                }
                Some(symbol) => occurrences.get_mut(&symbol).and_then(|(seen, all)| {
                    let place = places.find(symbol, *seen, *all);
                    *seen += 1;
                    let place = place?;
                    // The function of the symbol, and not one that was inlined into it, begins there.
                    let is_entry = symbol == record.guid
                        || !places_itself.contains(&symbol)
                            && own.iter().any(|probe| is_entry(probe, record));
                    self.code.push(ProbedCode {
                        guid: record.guid,
                        range: place.clone(),
                        is_entry,
                    });
                    Some(place.start)
                }),
            };
            let Some(base) = base else {
                self.unplaced_functions += 1;
                self.unplaced_probes += own.len() as u64;
                continue;
            };
            let placed = |probe: &Probe| {
                // Distances may be negative; the sum is one of 64 bits as the linker computed it.
                Probe { address: ImageAddr(base.0.wrapping_add(probe.address.0)), ..*probe }
            };
            self.probes.extend(own.iter().map(placed));
        }
        self.copies = records.copies;
        self.probes.sort_by_key(|probe| probe.address);
        self.code.sort_by_key(|code| (code.range.start, !code.is_entry));
    }
}

/// Whether a probe is the entry block of the function itself, not of something inlined.
fn is_entry(probe: &Probe, record: &Record) -> bool {
    probe.index == 1 && probe.kind == ProbeKind::Block && probe.copy.index() == record.first_copy
}

fn sections<'i>(image: &'i Image, name: &'static str) -> impl Iterator<Item = &'i Section> {
    image.sections().iter().filter(move |section| image.section_name(section) == name)
}

/// Thousands of headers that all state the same bytes would take hours to read.
fn refuse_overlap(image: &Image) -> Result<(), Error> {
    let all = || sections(image, PROBES).chain(sections(image, DESCRIPTORS));
    let claimed = all().fold(0u64, |sum, section| sum.saturating_add(section.size));
    match all().next() {
        Some(first) if claimed > image.bytes().len() as u64 && all().count() > 1 => {
            let reason = format!(
                "the probe sections claim {claimed} bytes of a smaller file; they overlap, it is \
                 corrupt"
            );
            Err(image.section_error(first, reason))
        }
        _ => Ok(()),
    }
}

impl Records {
    fn read_function(&mut self, reader: &mut Reader<'_>) -> Result<(), Error> {
        let (first_probe, first_copy) = (self.probes.len(), self.copies.len());
        let guid = Guid(reader.u64()?);
        self.records.push(Record { guid, symbol: Some(guid), first_probe, first_copy });
        // Relative to the symbol of the record until a place is stated.
        let mut last = ImageAddr(0);
        let mut open = vec![self.read_copy(reader, guid, None, &mut last)?];
        while let Some(around) = open.last_mut() {
            let Some(left) = around.copies_left.checked_sub(1) else {
                open.pop();
                continue;
            };
            around.copies_left = left;
            let caller = around.copy;
            let callsite = reader.uleb_up_to(MAX_INDEX, "call probe")?;
            let guid = Guid(reader.u64()?);
            open.push(self.read_copy(reader, guid, Some((caller, callsite)), &mut last)?);
            if open.len() > MAX_DEPTH {
                return Err(reader.error(format!(
                    "calls are inlined more than {MAX_DEPTH} deep; no compiler does that, the \
                     section is corrupt"
                )));
            }
        }
        Ok(())
    }

    /// Reads a function or copy from behind its hash, without what is inlined into it.
    fn read_copy(
        &mut self,
        reader: &mut Reader<'_>,
        guid: Guid,
        caller: Option<(CopyId, u32)>,
        last: &mut ImageAddr,
    ) -> Result<Open, Error> {
        let number = u32::try_from(self.copies.len())
            .map_err(|_| reader.error("more than 2^32 inlined copies".to_owned()))?;
        let copy = CopyId(number);
        self.copies.push(InlinedCopy { guid, caller });
        let (probes, copies_left) = (reader.uleb()?, reader.uleb()?);
        for _ in 0..probes {
            self.read_probe(reader, copy, last)?;
        }
        Ok(Open { copy, copies_left })
    }

    fn read_probe(
        &mut self,
        reader: &mut Reader<'_>,
        copy: CopyId,
        last: &mut ImageAddr,
    ) -> Result<(), Error> {
        let index = reader.uleb_up_to(MAX_INDEX, "probe number")?;
        let packed = reader.byte()?;
        let attributes = Attributes(packed >> 4 & 7);
        let sentinel = attributes.has(Attributes::SENTINEL);
        let kind = match packed & 15 {
            0 => ProbeKind::Block,
            1 => ProbeKind::IndirectCall,
            2 => ProbeKind::DirectCall,
            other => {
                return Err(reader.error(format!(
                    "expected a probe of kind 0 to 2, found {other}; a newer planish may know it"
                )));
            }
        };
        let is_distance = packed & 0x80 != 0;
        let place = if is_distance { reader.sleb()?.cast_unsigned() } else { reader.u64()? };
        let discriminator = if attributes.has(Attributes::DISCRIMINATOR) {
            reader.uleb_up_to(u32::MAX, "discriminator")?
        } else {
            0
        };
        if sentinel && !is_distance {
            self.relative_to(Some(Guid(place)), reader)?;
            *last = ImageAddr(0);
            return Ok(());
        }
        if !is_distance {
            self.relative_to(None, reader)?;
        }
        let address = ImageAddr(if is_distance { last.0.wrapping_add(place) } else { place });
        *last = address;
        if !sentinel {
            self.probes.push(Probe { address, index, kind, attributes, discriminator, copy });
        }
        Ok(())
    }

    /// Notes what the addresses of the record being read are relative to. Only its first probe may
    /// say that.
    fn relative_to(&mut self, symbol: Option<Guid>, reader: &Reader<'_>) -> Result<(), Error> {
        let probes = self.probes.len();
        match self.records.last_mut() {
            Some(record) if record.first_probe == probes => record.symbol = symbol,
            // The older form: every probe may state its address.
            Some(record) if record.symbol.is_none() && symbol.is_none() => {}
            _ => {
                return Err(reader.error(
                    "expected a distance from the probe before it, found another base in the \
                     middle of a function"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }
}
