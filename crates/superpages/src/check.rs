//! Which bytes of a file's text can lie on superpages, and which cannot, and why?
//!
//! Input: the header tables and, for filler, the bytes behind an executable segment. Output: for
//! each executable segment and each size of superpage the eligible bytes and the losses by reason;
//! both together are the segment.
//!
//! A superpage of the page cache is mapped as one when the file offset and the address of its start
//! are both multiples of its size and the mapping, which has whole base pages, covers all of it. So
//! the bytes in front of the first multiple and behind the last are lost, all are where offset and
//! address differ modulo the size, and all are where the base of the program is only aligned to a
//! base page.

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::elf::{Arch, Headers, Kind, Program};
use crate::{Error, align};

/// Bytes of a superpage on x86-64, and on AArch64 with base pages of 4 KiB.
pub const SUPERPAGE: u64 = 2 << 20;
/// Bytes of the base page where nothing else is said.
pub(crate) const BASE_PAGE: u64 = 4096;

/// Why bytes of text cannot lie on a superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The whole segment is smaller than a superpage.
    SmallSegment,
    /// File offset and address differ modulo the superpage.
    OffsetSkew,
    /// A position-independent program whose segments ask for less alignment than a superpage.
    PieBase,
    /// In front of the first superpage; nothing else stands there.
    Head,
    /// Behind the last superpage; the file has the linker's filler there.
    TailFiller,
    /// Behind the last superpage; the file has no filler there.
    Tail,
    /// A superpage would also cover a segment with another protection.
    MixedProtection,
}

impl Reason {
    /// The reason in words.
    pub fn words(self) -> &'static str {
        match self {
            Reason::SmallSegment => "segment smaller than a superpage",
            Reason::OffsetSkew => "file offset and address differ modulo the superpage",
            Reason::PieBase => "PIE whose base is aligned to a page only",
            Reason::Head => "head in front of the first superpage",
            Reason::TailFiller => "tail with the linker's filler behind it",
            Reason::Tail => "tail behind the last superpage",
            Reason::MixedProtection => "superpage shared with a segment of another protection",
        }
    }

    /// What cures it for pages of this size, where something does. Files are rewritten for superpages
    /// of 2 MiB alone.
    pub fn cure(self, size: Size) -> Option<String> {
        if size.contiguous || size.bytes != SUPERPAGE {
            let linked = matches!(self, Reason::OffsetSkew | Reason::PieBase);
            return linked.then(|| format!("link with -Wl,-z,max-page-size={:#x}", size.bytes));
        }
        let cure: Option<&str> = match self {
            Reason::OffsetSkew | Reason::PieBase => Some("planish pages align"),
            Reason::TailFiller => Some("planish pages align --fill"),
            Reason::Head | Reason::MixedProtection | Reason::Tail | Reason::SmallSegment => Some(
                "link with segments of their own superpages (below), then planish pages align --fill",
            ),
        };
        cure.map(str::to_owned)
    }
}

/// A size of superpage on a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Bytes of the base page of the system.
    pub base_page: u64,
    /// Bytes of the superpage.
    pub bytes: u64,
    /// Whether it is a run of neighbouring entries (contiguous bit) instead of one entry a level
    /// higher.
    pub contiguous: bool,
}

impl Size {
    /// The sizes that an instruction set knows; the first is the one that totals count.
    pub fn of(arch: Arch) -> &'static [Size] {
        const fn size(base_page: u64, bytes: u64, contiguous: bool) -> Size {
            Size { base_page, bytes, contiguous }
        }
        const KIB: u64 = 1 << 10;
        // AMD's Ryzen joins eight aligned neighbours of 4 KiB to one translation where their frames
        // are aligned neighbours, too.
        const X86: [Size; 2] = [size(4 * KIB, SUPERPAGE, false), size(4 * KIB, 32 * KIB, true)];
        const ARM: [Size; 5] = [
            size(4 * KIB, SUPERPAGE, false),
            size(4 * KIB, 64 * KIB, true),
            size(16 * KIB, 2 << 20, true),
            size(16 * KIB, 32 << 20, false),
            size(64 * KIB, 2 << 20, true),
        ];
        match arch {
            Arch::X86_64 | Arch::X86 => &X86,
            Arch::Aarch64 | Arch::Arm => &ARM,
        }
    }
}

/// Eligible bytes and losses of some text; together they are all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Bytes that can lie on superpages.
    pub eligible_bytes: u64,
    /// Bytes that cannot, by reason.
    pub losses: BTreeMap<Reason, u64>,
}

impl Share {
    fn lose(&mut self, reason: Reason, bytes: u64) {
        if bytes > 0 {
            *self.losses.entry(reason).or_default() += bytes;
        }
    }

    fn add(&mut self, other: &Share) {
        self.eligible_bytes += other.eligible_bytes;
        other.losses.iter().for_each(|(&reason, &bytes)| self.lose(reason, bytes));
    }
}

/// One size of superpage for one segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeShare {
    /// The size.
    #[serde(flatten)]
    pub size: Size,
    /// What of the segment can lie on it.
    #[serde(flatten)]
    pub share: Share,
}

/// One executable segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Segment {
    /// Image address of its first byte.
    pub address: u64,
    /// Offset of its first byte in the file.
    pub offset: u64,
    /// Bytes in the file.
    pub bytes: u64,
    /// The alignment it asks for.
    pub align: u64,
    /// For each size of superpage.
    pub sizes: Vec<SizeShare>,
}

/// What a file's text can have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Assessment {
    /// The file.
    pub path: PathBuf,
    /// Its instruction set.
    pub arch: Arch,
    /// How its base address is chosen.
    pub kind: Kind,
    /// Bytes of all executable segments.
    pub text_bytes: u64,
    /// Bytes of them that can lie on superpages of the first size.
    pub eligible_bytes: u64,
    /// The same in per cent of the text; 0 where there is none.
    pub eligible_pct: f64,
    /// The rest by reason.
    pub losses: BTreeMap<Reason, u64>,
    /// Eligible per cent after rewriting, and after rewriting with the filler; absent where that
    /// is refused.
    pub aligned_pct: Option<f64>,
    /// As `aligned_pct`, with the linker's filler.
    pub filled_pct: Option<f64>,
    /// Why rewriting is refused, when it is.
    pub refused: Option<String>,
    /// Each executable segment.
    pub segments: Vec<Segment>,
}

/// Says what of the text of a file can lie on superpages.
///
/// # Errors
/// When the file cannot be read, is no program or library with the least significant byte first, or
/// its tables or segments do not fit into the file or into each other.
pub fn check(path: &Path) -> Result<Assessment, Error> {
    let file = crate::read_elf::open(path)?;
    let headers = Headers::read(path, &file)?;
    let segments: Vec<Segment> =
        headers.texts().map(|text| segment(&headers, &file, text)).collect();
    let total = total(&headers, &file);
    let text_bytes = headers.text_bytes();
    let planned = |fill| {
        align::plan(path, &file, &headers, fill)
            .map(|plan| percent(plan.eligible_bytes, text_bytes))
    };
    let (aligned_pct, refused) = match planned(false) {
        Ok(pct) => (Some(pct), None),
        Err(Error::Refused { reason, .. }) => (None, Some(reason)),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(Assessment {
        path: path.to_owned(),
        arch: headers.arch,
        kind: headers.kind,
        text_bytes,
        eligible_bytes: total.eligible_bytes,
        eligible_pct: percent(total.eligible_bytes, text_bytes),
        losses: total.losses,
        aligned_pct,
        filled_pct: planned(true).ok(),
        refused,
        segments,
    })
}

/// Bytes of all executable segments of a file: what [`check()`] states, without its planning of
/// rewrites.
///
/// # Errors
/// As [`check()`].
pub fn text_bytes(path: &Path) -> Result<u64, Error> {
    let file = crate::read_elf::open(path)?;
    Ok(Headers::read(path, &file)?.text_bytes())
}

/// A share of a whole in per cent; 0 of nothing.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 * 100.0 }
}

/// All text of a file, for the first size of its instruction set.
pub(crate) fn total(headers: &Headers, file: &File) -> Share {
    let mut total = Share::default();
    if let Some(&size) = Size::of(headers.arch).first() {
        headers.texts().for_each(|text| total.add(&share(headers, file, text, size)));
    }
    total
}

fn segment(headers: &Headers, file: &File, text: &Program) -> Segment {
    let of = |&size: &Size| SizeShare { size, share: share(headers, file, text, size) };
    Segment {
        address: text.address,
        offset: text.offset,
        bytes: text.file_bytes,
        align: text.align,
        sizes: Size::of(headers.arch).iter().map(of).collect(),
    }
}

/// The superpages of a segment as addresses `first..last`, both multiples of the size; empty when
/// `first >= last`.
pub(crate) fn whole_superpages(headers: &Headers, text: &Program, size: Size) -> Range<u64> {
    let start = down(text.address, size.base_page);
    let mapped_end = up(text.address.saturating_add(text.file_bytes), size.base_page);
    // The page cache has no superpage that reaches behind the end of the file.
    let file_end = up(
        text.address.saturating_add(headers.file_bytes.saturating_sub(text.offset)),
        size.base_page,
    );
    up(start, size.bytes)..down(mapped_end.min(file_end), size.bytes)
}

/// Why no superpage of a segment can be mapped as one, when that is so for all of them alike.
fn hindrance(headers: &Headers, text: &Program, size: Size) -> Option<Reason> {
    if !text.address.wrapping_sub(text.offset).is_multiple_of(size.bytes) {
        Some(Reason::OffsetSkew)
    } else if headers.kind == Kind::Pie && !headers.base_align().is_multiple_of(size.bytes) {
        Some(Reason::PieBase)
    } else {
        None
    }
}

/// The addresses of a segment's text that can lie on superpages; `None` where there are none.
pub(crate) fn eligible(headers: &Headers, text: &Program, size: Size) -> Option<Range<u64>> {
    let inside = inside(headers, text, size);
    (!inside.is_empty() && hindrance(headers, text, size).is_none()).then_some(inside)
}

/// The addresses of a segment's text within its whole superpages; empty, behind the head, where it
/// has none.
fn inside(headers: &Headers, text: &Program, size: Size) -> Range<u64> {
    let (start, end) = (text.address, text.address.saturating_add(text.file_bytes));
    let whole = whole_superpages(headers, text, size);
    let head_end = whole.start.clamp(start, end);
    head_end..if whole.is_empty() { head_end } else { whole.end.clamp(head_end, end) }
}

fn share(headers: &Headers, file: &File, text: &Program, size: Size) -> Share {
    let mut share = Share::default();
    let (start, end) = (text.address, text.address.saturating_add(text.file_bytes));
    let mapped = down(start, size.base_page)..up(end, size.base_page);
    if mapped.end.saturating_sub(mapped.start) < size.bytes {
        share.lose(Reason::SmallSegment, text.file_bytes);
        return share;
    }
    let inside = inside(headers, text, size);
    match hindrance(headers, text, size) {
        Some(reason) => share.lose(reason, inside.end - inside.start),
        None => share.eligible_bytes = inside.end - inside.start,
    }
    let mixed = |range: Range<u64>| {
        let other = |load: &&Program| load.flags != text.flags && load.memory_bytes > 0;
        headers.loads().filter(other).any(|load| {
            down(load.address, size.base_page) < range.end
                && range.start < up(load.memory_end(), size.base_page)
        })
    };
    let head = if mixed(down(mapped.start, size.bytes)..mapped.start) {
        Reason::MixedProtection
    } else {
        Reason::Head
    };
    share.lose(head, inside.start - start);
    if inside.end == end {
        return share;
    }
    let boundary = up(mapped.end, size.bytes);
    let tail = if mixed(mapped.end..boundary) {
        Reason::MixedProtection
    } else if filler_behind(headers, file, text) >= boundary.saturating_sub(end) {
        Reason::TailFiller
    } else {
        Reason::Tail
    };
    share.lose(tail, end - inside.end);
    share
}

/// How many bytes of filler (0xCC or 0) that no header names stand in the file behind a segment, up
/// to the size of a superpage.
pub(crate) fn filler_behind(headers: &Headers, file: &File, text: &Program) -> u64 {
    let end = text.file_end();
    let limit = end.saturating_add(SUPERPAGE).min(headers.file_bytes);
    let named = align::named_extents(headers).filter(|named| named.end > end);
    let next = named.map(|named| named.start.max(end)).min().unwrap_or(limit).min(limit);
    let mut counted = 0;
    let mut buffer = vec![0; 1 << 16];
    let mut kind = None;
    while end + counted < next {
        let size = (next - end - counted).min(buffer.len() as u64) as usize;
        let Some(part) = buffer.get_mut(..size) else { break };
        if file.read_exact_at(part, end + counted).is_err() {
            break;
        }
        let filler = *kind.get_or_insert(part.first().copied().unwrap_or(0));
        if !matches!(filler, 0 | 0xcc) {
            break;
        }
        let same = leading(part, filler);
        counted += same as u64;
        if same < part.len() {
            break;
        }
    }
    counted
}

/// How many bytes at the start are this one. Compares whole blocks: there may be a superpage of
/// them.
pub(crate) fn leading(bytes: &[u8], byte: u8) -> usize {
    const BLOCK: usize = 512;
    let model = [byte; BLOCK];
    let whole = bytes.chunks_exact(BLOCK).take_while(|block| **block == model).count() * BLOCK;
    let rest = bytes.get(whole..).unwrap_or_default();
    whole + rest.iter().take_while(|&&other| other == byte).count()
}

pub(crate) fn down(value: u64, size: u64) -> u64 {
    value - value % size
}

/// The next multiple; `u64::MAX` rounded down where there is none.
pub(crate) fn up(value: u64, size: u64) -> u64 {
    match value % size {
        0 => value,
        rest => value.checked_add(size - rest).unwrap_or(down(u64::MAX, size)),
    }
}

#[cfg(test)]
mod tests {
    use super::leading;

    #[test]
    fn filler_is_counted_to_the_byte_around_whole_blocks() {
        for count in [0, 1, 511, 512, 513, 1024, 1500] {
            let mut bytes = vec![0xcc; count];
            assert_eq!(leading(&bytes, 0xcc), count);
            bytes.extend([0, 0xcc, 0xcc]);
            assert_eq!(leading(&bytes, 0xcc), count);
        }
    }
}
