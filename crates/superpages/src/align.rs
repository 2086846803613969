//! Where must the parts of a file lie so that offset and address of its text agree modulo a
//! superpage?
//!
//! Input: the header tables, and the bytes that no header names. Output: a [`Plan`], the new tables
//! and the moves of file bytes; addresses do not change. Invariant: parts keep their order and do
//! not overlap, every loaded segment keeps its offset equal to its address modulo its alignment,
//! nothing that a header names is lost.
//!
//! The file is a row of parts: runs of bytes that headers name, joined where they overlap. Each
//! part goes to the first place behind the one before it that satisfies what it needs. Bytes that
//! no header names are filler where they are all one byte, and may shrink or grow; other such bytes
//! are kept, and where they would move the rewrite is refused, since whoever reads them knows only
//! their offset (an archive behind a self-extracting program).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Error;
use crate::check::{self, BASE_PAGE, SUPERPAGE, Size, down, up};
use crate::elf::{Class, HEADER_BYTES, Headers, PROGRAM_BYTES, Program, SECTION_BYTES};

/// The superpage that files are rewritten for.
const SIZE: Size = Size { base_page: BASE_PAGE, bytes: SUPERPAGE, contiguous: false };

/// Bytes that go from one place to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub(crate) from: Range<u64>,
    pub(crate) to: u64,
}

impl Move {
    fn to_end(&self) -> u64 {
        self.to + (self.from.end - self.from.start)
    }
}

/// How a file will be rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// The tables as they will be.
    pub(crate) headers: Headers,
    /// The parts in order.
    pub(crate) moves: Vec<Move>,
    /// Bytes of text (as it was, without filler) on superpages afterwards.
    pub(crate) eligible_bytes: u64,
    /// Bytes of filler that a segment covers afterwards.
    pub(crate) filled_bytes: u64,
}

/// Where the tables themselves stand.
fn tables(headers: &Headers) -> [Range<u64>; 3] {
    let table =
        |start: u64, count: usize, entry: u64| start..start.saturating_add(count as u64 * entry);
    [
        0..HEADER_BYTES,
        table(headers.program_table, headers.programs.len(), PROGRAM_BYTES),
        table(headers.section_table, headers.sections.len(), SECTION_BYTES),
    ]
}

/// The runs of bytes that the tables name, in no order and not joined; empty ones left out.
pub(crate) fn named_extents(headers: &Headers) -> impl Iterator<Item = Range<u64>> {
    let tables = tables(headers);
    let programs = headers.programs.iter().map(|program| program.offset..program.file_end());
    let sections = headers.sections.iter().map(|s| s.offset..s.offset.saturating_add(s.file_bytes));
    // What reaches behind the end of the file is cut; the reader has refused segments that do.
    let file_bytes = headers.file_bytes;
    let all = tables.into_iter().chain(programs).chain(sections);
    all.map(move |extent| extent.start..extent.end.min(file_bytes))
        .filter(|extent| extent.start < extent.end)
}

/// Files with more sections are not rewritten: each is looked at for each part, and linked programs
/// have some forty.
const MOST_SECTIONS: usize = 16_384;

/// Plans the rewrite.
pub(crate) fn plan(path: &Path, file: &File, headers: &Headers, fill: bool) -> Result<Plan, Error> {
    let mut fillable = vec![fill; headers.programs.len()];
    loop {
        let plan = plan_filling(path, file, headers, &fillable)?;
        // Text that cannot move may stay off superpages whatever is filled, and then its filler is
        // no gain.
        let mut lost = false;
        for ((new, old), fillable) in
            plan.headers.programs.iter().zip(&headers.programs).zip(&mut fillable)
        {
            if new.file_bytes > old.file_bytes
                && check::eligible(&plan.headers, new, SIZE).is_none()
            {
                (*fillable, lost) = (false, true);
            }
        }
        if !lost {
            return Ok(plan);
        }
    }
}

/// Plans the rewrite, with filler behind those segments that are said to be fillable.
fn plan_filling(
    path: &Path,
    file: &File,
    headers: &Headers,
    fillable: &[bool],
) -> Result<Plan, Error> {
    let planner = Planner { path, file };
    planner.check(headers)?;
    let mut wanted = headers.clone();
    let filled_bytes = planner.fill(&mut wanted, fillable);
    if !wanted.texts().any(|text| has_superpage(&wanted, text)) {
        return Err(planner.refuse(format!(
            "no executable segment spans a whole superpage of 2 MiB (its text has {} bytes)",
            headers.text_bytes()
        )));
    }
    let moves = planner.moves(&wanted)?;
    planner.follow(&mut wanted, &moves)?;
    let before = wanted.clone();
    for text in wanted.programs.iter_mut().filter(|program| program.is_text()) {
        // The first part of a file cannot move, so its text may have kept its skew.
        if has_superpage(&before, text) && text.address.wrapping_sub(text.offset) % SUPERPAGE == 0 {
            text.align = text.align.max(SUPERPAGE);
        }
    }
    let eligible = check::total(&wanted, file).eligible_bytes;
    let plan = Plan {
        headers: wanted,
        moves,
        eligible_bytes: eligible.saturating_sub(filled_bytes),
        filled_bytes,
    };
    planner.verify(headers, &plan)?;
    if plan.eligible_bytes == 0 && plan.filled_bytes == 0 {
        return Err(planner.refuse(
            "its text lies in one piece with the start of the file, which cannot move; link it \
             again with -Wl,-z,separate-code or the flags of `planish pages check`"
                .to_owned(),
        ));
    }
    Ok(plan)
}

/// Whether a superpage fits into a segment once its offset agrees with its address.
fn has_superpage(headers: &Headers, text: &Program) -> bool {
    !check::whole_superpages(headers, text, SIZE).is_empty()
}

/// Where a byte range lies after the moves. An empty range between two parts goes with the one in
/// front of which it stands, else with the one behind which it stands.
fn moved(moves: &[Move], offset: u64, bytes: u64) -> u64 {
    let inside = moves.iter().find(|m| m.from.contains(&offset));
    let touching = || moves.iter().rev().find(|m| bytes == 0 && m.from.end <= offset);
    let shift = |m: &Move| m.to.wrapping_sub(m.from.start);
    inside.or_else(touching).map_or(offset, |m| offset.wrapping_add(shift(m)))
}

/// A run of bytes that stays together.
struct Part {
    range: Range<u64>,
    /// Whether headers name it.
    named: bool,
}

struct Planner<'a> {
    path: &'a Path,
    file: &'a File,
}

impl Planner<'_> {
    /// Refuses what is not rewritten at all.
    fn check(&self, headers: &Headers) -> Result<(), Error> {
        if headers.class == Class::Narrow {
            return Err(self.refuse(
                "only files of 64 bits are rewritten; link it with -z max-page-size=0x200000",
            ));
        }
        if headers.sections.len() > MOST_SECTIONS {
            let count = headers.sections.len();
            return Err(self.refuse(format!(
                "it has {count} sections, more than {MOST_SECTIONS}; strip it first"
            )));
        }
        let [file_header, programs, sections] = tables(headers);
        for (one, other) in
            [(&file_header, &programs), (&file_header, &sections), (&programs, &sections)]
        {
            // What is written into one would change the other.
            if one.start.max(other.start) < one.end.min(other.end) {
                return Err(self.refuse("its tables of headers lie over each other"));
            }
        }
        Ok(())
    }

    /// Gives each part its place, in order.
    fn moves(&self, wanted: &Headers) -> Result<Vec<Move>, Error> {
        let mut moves: Vec<Move> = Vec::new();
        for part in self.parts(wanted)? {
            let to = self.place(wanted, &part, moves.last().map_or(0, Move::to_end))?;
            if !part.named && to != part.range.start {
                return Err(self.refuse(format!(
                    "the {} bytes at offset {:#x} belong to no segment and no section and would \
                     move; who reads them knows only their offset (an archive at the end of a \
                     program, for example)",
                    part.range.end - part.range.start,
                    part.range.start
                )));
            }
            moves.push(Move { from: part.range, to });
        }
        Ok(moves)
    }

    /// Lets the tables say where their parts are after the moves.
    fn follow(&self, wanted: &mut Headers, moves: &[Move]) -> Result<(), Error> {
        let end = moves.last().map_or(0, Move::to_end);
        for program in &mut wanted.programs {
            program.offset = moved(moves, program.offset, program.file_bytes);
        }
        for section in &mut wanted.sections {
            section.offset = moved(moves, section.offset, section.file_bytes);
        }
        wanted.program_table = moved(moves, wanted.program_table, PROGRAM_BYTES);
        // A table without an entry may have stood in filler that is gone.
        wanted.section_table = match wanted.sections.is_empty() {
            true => 0,
            false => moved(moves, wanted.section_table, SECTION_BYTES),
        };
        wanted.file_bytes = end;
        let gone = |p: &&mut Program| p.is_load() && p.file_bytes == 0 && p.offset > end;
        for empty in wanted.programs.iter_mut().filter(gone) {
            // It stood in filler that is gone. Loaders still want its offset to agree with its
            // address.
            let step = empty.align.max(BASE_PAGE);
            let back = (empty.offset - end).div_ceil(step).checked_mul(step);
            empty.offset =
                back.and_then(|back| empty.offset.checked_sub(back)).ok_or_else(|| {
                    self.refuse(format!(
                        "the empty segment at address {:#x} has no place",
                        empty.address
                    ))
                })?;
        }
        Ok(())
    }

    fn refuse(&self, reason: impl Into<String>) -> Error {
        Error::Refused { path: self.path.to_owned(), reason: reason.into() }
    }

    /// Extends text that is fillable over the filler behind it where that completes a superpage.
    /// Returns the bytes of filler.
    fn fill(&self, headers: &mut Headers, fillable: &[bool]) -> u64 {
        let before = headers.clone();
        let mut filled = 0;
        let texts = headers
            .programs
            .iter_mut()
            .zip(fillable)
            .filter(|(text, fill)| **fill && text.is_text());
        for (text, _) in texts {
            let end = text.address.saturating_add(text.file_bytes);
            let boundary = up(end, SUPERPAGE);
            let free = before.loads().all(|load| {
                load.address == text.address
                    || load.memory_end() <= text.address
                    || down(load.address, BASE_PAGE) >= boundary
            });
            let missing = boundary - end;
            let has_text = boundary - SUPERPAGE >= down(text.address, BASE_PAGE) && missing > 0;
            if free
                && has_text
                && text.memory_bytes == text.file_bytes
                && check::filler_behind(&before, self.file, text) >= missing
            {
                text.file_bytes += missing;
                text.memory_bytes += missing;
                filled += missing;
            }
        }
        filled
    }

    /// The parts of the file in order; filler is left out.
    fn parts(&self, headers: &Headers) -> Result<Vec<Part>, Error> {
        let mut named: Vec<Range<u64>> = Vec::new();
        let mut extents: Vec<Range<u64>> = named_extents(headers).collect();
        extents.sort_by_key(|extent| (extent.start, extent.end));
        for extent in extents {
            match named.last_mut() {
                Some(last) if extent.start < last.end => last.end = last.end.max(extent.end),
                _ => named.push(extent),
            }
        }
        let mut parts = Vec::new();
        let mut at = 0;
        for range in named {
            self.unnamed(at..range.start, &mut parts)?;
            at = range.end;
            parts.push(Part { range, named: true });
        }
        self.unnamed(at..headers.file_bytes, &mut parts)?;
        Ok(parts)
    }

    fn unnamed(&self, range: Range<u64>, parts: &mut Vec<Part>) -> Result<(), Error> {
        if !range.is_empty() && !self.is_filler(&range)? {
            parts.push(Part { range, named: false });
        }
        Ok(())
    }

    fn is_filler(&self, range: &Range<u64>) -> Result<bool, Error> {
        let mut buffer = vec![0; 1 << 16];
        let mut at = range.start;
        let mut filler = None;
        while at < range.end {
            let size = (range.end - at).min(buffer.len() as u64) as usize;
            let Some(part) = buffer.get_mut(..size) else { break };
            self.file
                .read_exact_at(part, at)
                .map_err(|source| Error::Read { path: self.path.to_owned(), source })?;
            let wanted = *filler.get_or_insert(part.first().copied().unwrap_or(0));
            if check::leading(part, wanted) < part.len() {
                return Ok(false);
            }
            at += size as u64;
        }
        Ok(true)
    }

    /// The first offset not below `end` that satisfies every segment of a part.
    fn place(&self, headers: &Headers, part: &Part, end: u64) -> Result<u64, Error> {
        let (start, mut modulus, mut rest) = (part.range.start, 1, 0);
        if start == 0 {
            return Ok(0);
        }
        let mut need = |wanted: u64, offset: u64, size: u64| {
            // Everything is a power of two, so the larger one holds for both when they agree modulo
            // the smaller.
            let at_start = wanted.wrapping_sub(offset - start) % size;
            let agree = at_start % modulus.min(size) == rest % modulus.min(size);
            if size > modulus {
                (modulus, rest) = (size, at_start);
            }
            agree
        };
        let mut agree = true;
        for load in
            headers.loads().filter(|load| load.file_bytes > 0 && part.range.contains(&load.offset))
        {
            let keeps = load.align.is_power_of_two()
                && load.address.wrapping_sub(load.offset) % load.align == 0;
            let size = if load.is_text() && has_superpage(headers, load) {
                SUPERPAGE.max(if keeps { load.align } else { 1 })
            } else if keeps {
                load.align.max(BASE_PAGE)
            } else {
                BASE_PAGE
            };
            if load.address.wrapping_sub(load.offset) % BASE_PAGE != 0 {
                return Err(self.refuse(format!(
                    "offset {:#x} and address {:#x} of a segment differ modulo a page, so no \
                     loader takes it",
                    load.offset, load.address
                )));
            }
            agree &= need(load.address, load.offset, size);
        }
        let own = |s: &&crate::elf::Section| s.file_bytes > 0 && part.range.contains(&s.offset);
        let most = headers
            .sections
            .iter()
            .filter(own)
            .map(|s| s.align)
            .filter(|a| a.is_power_of_two())
            .max();
        agree &= need(start, start, most.unwrap_or(1).clamp(8, BASE_PAGE));
        if !agree {
            return Err(self.refuse(format!(
                "the bytes at offset {start:#x} belong to several segments whose addresses need \
                 different offsets"
            )));
        }
        if !part.named {
            return Ok(start.max(end));
        }
        Ok(end + (rest.wrapping_sub(end) % modulus))
    }

    /// The promises of the plan, looked at once more.
    fn verify(&self, old: &Headers, plan: &Plan) -> Result<(), Error> {
        let apart = plan.moves.windows(2).all(|pair| matches!(pair, [a, b] if a.to_end() <= b.to));
        let congruent = plan
            .headers
            .loads()
            .filter(|load| load.file_bytes > 0)
            .zip(old.loads().filter(|l| l.file_bytes > 0))
            .all(|(new, old)| {
                let skew = |load: &Program, size: u64| {
                    load.address.wrapping_sub(load.offset) % size.max(1)
                };
                new.address == old.address
                    && skew(new, BASE_PAGE) == 0
                    && (skew(new, new.align) == 0 || skew(old, old.align) != 0)
            });
        if apart && congruent {
            return Ok(());
        }
        Err(self.refuse("the planned offsets contradict each other; please report this file"))
    }
}
