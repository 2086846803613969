//! Does the text of a process lie on superpages, two mebibytes after two mebibytes?
//!
//! Two sources are put side by side: `smaps` sums superpages per mapping, PAGEMAP_SCAN says it for
//! each page. Kernels before 6.7 have no PAGEMAP_SCAN; then there is no map, and that is said.

use std::fs::File;
use std::path::PathBuf;

use serde::Serialize;

use crate::check::{BASE_PAGE, SUPERPAGE, down, percent, up};
use crate::process::{Mapping, text_mappings};
use crate::{Error, sys};

/// What two mebibytes of addresses are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    /// A superpage.
    Superpage,
    /// Small pages, at least one.
    Small,
    /// No page is there: nothing of it was run.
    Untouched,
    /// The mapping covers a part only, so it cannot be a superpage; pages are there.
    Partial,
}

impl Cell {
    /// The sign in a map.
    pub fn sign(self) -> char {
        match self {
            Cell::Superpage => '#',
            Cell::Small => '.',
            Cell::Untouched => '_',
            Cell::Partial => '-',
        }
    }
}

/// One mapping of text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Text {
    /// The file, or what the kernel calls it; empty for anonymous memory.
    pub name: String,
    /// Runtime address of the first byte.
    pub start: u64,
    /// Bytes of addresses.
    pub text_bytes: u64,
    /// Bytes that are mapped in.
    pub resident_bytes: u64,
    /// Bytes on superpages, by smaps.
    pub superpage_bytes: u64,
    /// Of them, superpages of the page cache.
    pub file_superpage_bytes: u64,
    /// Bytes on superpages, by PAGEMAP_SCAN; absent where the kernel has none.
    pub scanned_superpage_bytes: Option<u64>,
    /// Every two mebibytes in order; empty without PAGEMAP_SCAN.
    pub map: Vec<Cell>,
}

/// The text of a process.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verification {
    /// The process.
    pub pid: u32,
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of text that are mapped in.
    pub resident_bytes: u64,
    /// Bytes of text on superpages, by smaps.
    pub superpage_bytes: u64,
    /// Superpages in per cent of what is mapped in.
    pub of_resident_pct: f64,
    /// Superpages in per cent of the text.
    pub of_text_pct: f64,
    /// Why there is no map, when there is none.
    pub no_map: Option<String>,
    /// Each mapping.
    pub mappings: Vec<Text>,
}

/// Looks at the text of a process; with `file`, only at mappings whose name contains it.
///
/// # Errors
/// When there is no such process, it may not be looked at, or it has no such text.
pub fn verify(pid: u32, file: Option<&str>) -> Result<Verification, Error> {
    let mut mappings = text_mappings(pid)?;
    if let Some(wanted) = file {
        mappings.retain(|mapping| mapping.name.contains(wanted));
        if mappings.is_empty() {
            return Err(Error::Process {
                pid,
                what: format!("it has no text of a file named {wanted}"),
            });
        }
    }
    let pagemap = PathBuf::from(format!("/proc/{pid}/pagemap"));
    let (pagemap, mut no_map) = match File::open(&pagemap) {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(format!("/proc/{pid}/pagemap cannot be opened: {error}"))),
    };
    let mut texts = Vec::new();
    for mapping in &mappings {
        let scanned = match pagemap.as_ref().map(|file| sys::scan(file, mapping.start, mapping.end))
        {
            Some(Ok(regions)) => Some(regions),
            Some(Err(error)) => {
                no_map = Some(match error.raw_os_error() {
                    Some(libc::ENOTTY) => {
                        "the kernel has no PAGEMAP_SCAN (it came with Linux 6.7)".to_owned()
                    }
                    _ => format!("PAGEMAP_SCAN failed: {error}"),
                });
                None
            }
            None => None,
        };
        texts.push(text(mapping, scanned.as_deref()));
    }
    let sum = |of: fn(&Text) -> u64| texts.iter().map(of).sum::<u64>();
    let (text_bytes, resident_bytes) = (sum(|t| t.text_bytes), sum(|t| t.resident_bytes));
    let superpage_bytes = sum(|t| t.superpage_bytes);
    Ok(Verification {
        pid,
        text_bytes,
        resident_bytes,
        superpage_bytes,
        of_resident_pct: percent(superpage_bytes, resident_bytes),
        of_text_pct: percent(superpage_bytes, text_bytes),
        no_map,
        mappings: texts,
    })
}

fn text(mapping: &Mapping, scanned: Option<&[sys::Region]>) -> Text {
    let huge = |regions: &[sys::Region]| {
        regions.iter().filter(|r| is_huge(r)).map(|r| r.end - r.start).sum()
    };
    let hugetlb_is_not_resident = mapping.resident.max(mapping.other_huge);
    Text {
        name: mapping.name.clone(),
        start: mapping.start,
        text_bytes: mapping.end - mapping.start,
        resident_bytes: hugetlb_is_not_resident,
        superpage_bytes: mapping.file_pmd + mapping.other_huge,
        file_superpage_bytes: mapping.file_pmd,
        scanned_superpage_bytes: scanned.map(huge),
        map: scanned.map_or_else(Vec::new, |regions| cells(mapping.start, mapping.end, regions)),
    }
}

fn is_huge(region: &sys::Region) -> bool {
    region.categories & sys::PAGE_IS_HUGE != 0
}

fn cells(start: u64, end: u64, regions: &[sys::Region]) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut at = down(start, SUPERPAGE);
    let last = up(end, SUPERPAGE);
    while at < last {
        let next = at.saturating_add(SUPERPAGE);
        let mut inside = regions.iter().filter(|r| r.start < next && at < r.end);
        let touched = inside.clone().next().is_some();
        cells.push(match touched {
            false => Cell::Untouched,
            true if at < start || end < next => Cell::Partial,
            true if inside.all(is_huge) => Cell::Superpage,
            true => Cell::Small,
        });
        at = next;
    }
    cells
}

/// Bytes on superpages in a range of this process, by PAGEMAP_SCAN, else by smaps (then of the
/// mapping that begins there).
///
/// # Errors
/// When this process's page map cannot be read.
pub fn own_superpage_bytes(start: u64, bytes: u64) -> Result<u64, Error> {
    let failed = |source| Error::System {
        action: "this process's own page map cannot be read".into(),
        source,
    };
    let pagemap = File::open("/proc/self/pagemap").map_err(failed)?;
    match sys::scan(&pagemap, start, start + up(bytes, BASE_PAGE)) {
        Ok(regions) => Ok(regions.iter().filter(|r| is_huge(r)).map(|r| r.end - r.start).sum()),
        Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => {
            own_by_smaps(start).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// For kernels without PAGEMAP_SCAN.
fn own_by_smaps(start: u64) -> std::io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps")?;
    let head = format!("{start:x}-");
    let lines = text.lines().skip_while(|line| !line.starts_with(&head)).skip(1);
    let own =
        lines.take_while(|line| line.split(' ').next().is_some_and(|word| word.ends_with(':')));
    let huge = |line: &&str| {
        ["FilePmdMapped:", "AnonHugePages:", "ShmemPmdMapped:", "Private_Hugetlb:"]
            .iter()
            .any(|key| line.starts_with(key))
    };
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    Ok(own.filter(huge).filter_map(kib).sum::<u64>().saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_two_mebibytes_get_their_sign() {
        let region = |start: u64, end: u64, huge: bool| sys::Region {
            start,
            end,
            categories: sys::PAGE_IS_PRESENT | if huge { sys::PAGE_IS_HUGE } else { 0 },
        };
        const M: u64 = SUPERPAGE;
        let regions = [
            region(M + M / 2, M + M / 2 + 4096, false),
            region(2 * M, 4 * M, true),
            region(5 * M, 5 * M + 4096, false),
        ];
        let cells = cells(M + M / 2, 6 * M + 8192, &regions);
        let signs: String = cells.iter().map(|cell| cell.sign()).collect();
        assert_eq!(signs, "-##_._");
    }

    #[test]
    fn smaps_and_the_scan_agree_about_anonymous_superpages() {
        let map = sys::Map::new(sys::From::Anonymous, 8 << 20, 2 << 20, true).unwrap();
        if map.advise(sys::Advice::Huge).is_err() {
            return eprintln!("skipped: the kernel has no transparent superpages");
        }
        map.touch_to_write(4096);
        let scanned = own_superpage_bytes(map.address(), 8 << 20).unwrap();
        assert_eq!(scanned, own_by_smaps(map.address()).unwrap());
    }
}
