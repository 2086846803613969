//! What can this kernel and this file system do with text and superpages? Each mechanism is tried,
//! none is guessed from a version.
//!
//! Whether the machine below a virtual one backs a superpage with a superpage of its own is
//! measured: a chain of pointers through 448 small pages of a superpage needs one TLB entry when
//! the backing is whole, 448 when it is not. It is held against a chain of the same length within
//! few pages, and one through as many small pages.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use crate::check::{BASE_PAGE, SUPERPAGE};
use crate::sys::{self, Advice, From, Map};
use crate::{Error, verify};

/// Two superpages are enough to see.
const TRIAL: usize = 2 * SUPERPAGE as usize;

const LARGE_WRITES: &str = "written in 2 MiB writes";
const PLAIN_AFTERWARDS: &str = "plain mapping after that";

/// One mechanism.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Tried {
    /// Its name in the report.
    pub mechanism: &'static str,
    /// Whether the text lay on superpages.
    pub works: bool,
    /// What was seen.
    pub found: String,
}

/// Everything tried in one folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Probe {
    /// Name of the folder's file system.
    pub file_system: String,
    /// File-backed text, shared by all processes, on superpages: whether `warm` and `align` will
    /// work here.
    pub file_backed: bool,
    /// Each mechanism.
    pub tried: Vec<Tried>,
}

/// Tries every mechanism with a file of 4 MiB in `folder`, which is removed.
///
/// # Errors
/// When the file cannot be made or read.
pub fn probe(folder: &Path) -> Result<Probe, Error> {
    let make = || {
        tempfile::Builder::new().prefix(".planish-probe-").tempfile_in(folder).map_err(|source| {
            Error::Write { path: folder.to_owned(), what: "the probe makes a file there", source }
        })
    };
    let (small, large, dropped) = (make()?, make()?, make()?);
    let failed = |source| Error::Write {
        path: folder.to_owned(),
        what: "the probe writes a file there",
        source,
    };
    fill(small.as_file(), 64 << 10).map_err(failed)?;
    fill(large.as_file(), SUPERPAGE as usize).map_err(failed)?;
    // Apart, since the trials before it may leave superpages that a drop does not take away
    // (tmpfs).
    fill(dropped.as_file(), 64 << 10).map_err(failed)?;
    let dropped = dropped.as_file();
    let (small, large) = (small.as_file(), large.as_file());
    let mut tried = vec![
        tell(LARGE_WRITES, file_backed(large, false)),
        tell("MADV_HUGEPAGE on text cached in small pages", file_backed(small, true)),
        tell("MADV_COLLAPSE of text cached in small pages", collapse(small)),
        tell("dropped and read again through MADV_HUGEPAGE", refault(dropped)),
        tell(PLAIN_AFTERWARDS, file_backed(dropped, false)),
    ];
    let file_backed = tried
        .iter()
        .any(|one| one.works && matches!(one.mechanism, LARGE_WRITES | PLAIN_AFTERWARDS));
    tried.push(tell("copy into anonymous superpages (mremap)", anonymous(small)));
    tried.push(tell("copy into a memory file, MADV_COLLAPSE", memory_file()));
    tried.push(tell("copy into reserved superpages (hugetlb)", hugetlb(small)));
    let file_system = sys::file_system(small).map(file_system_name).map_err(failed)?;
    Ok(Probe { file_system, file_backed, tried })
}

fn fill(file: &File, step: usize) -> io::Result<()> {
    let bytes = vec![0xcc; step];
    for at in (0..TRIAL).step_by(step) {
        file.write_all_at(&bytes, at as u64)?;
    }
    file.sync_all()
}

fn tell(mechanism: &'static str, got: Result<u64, String>) -> Tried {
    match got {
        Ok(bytes) => Tried {
            mechanism,
            works: bytes >= TRIAL as u64,
            found: format!("{} of {} superpages", bytes / SUPERPAGE, TRIAL as u64 / SUPERPAGE),
        },
        Err(found) => Tried { mechanism, works: false, found },
    }
}

fn said(what: &'static str) -> impl Fn(io::Error) -> String {
    move |error| format!("{what}: {error}")
}

fn huge(map: &Map) -> Result<u64, String> {
    verify::own_superpage_bytes(map.address(), map.bytes() as u64)
        .map_err(|error| error.to_string())
}

fn mapped(file: &File) -> Result<Map, String> {
    Map::new(From::File(file, 0), TRIAL, SUPERPAGE as usize, false).map_err(said("mmap"))
}

fn file_backed(file: &File, advised: bool) -> Result<u64, String> {
    let map = mapped(file)?;
    if advised {
        map.advise(Advice::Huge).map_err(said("MADV_HUGEPAGE"))?;
    }
    map.touch(BASE_PAGE as usize, TRIAL);
    huge(&map)
}

fn collapse(file: &File) -> Result<u64, String> {
    let map = mapped(file)?;
    map.touch(BASE_PAGE as usize, TRIAL);
    map.advise(Advice::Collapse).map_err(said("MADV_COLLAPSE"))?;
    map.touch(BASE_PAGE as usize, TRIAL);
    huge(&map)
}

fn refault(file: &File) -> Result<u64, String> {
    sys::drop_cached(file, 0, TRIAL as u64).map_err(said("POSIX_FADV_DONTNEED"))?;
    file_backed(file, true)
}

fn anonymous(file: &File) -> Result<u64, String> {
    let text = mapped(file)?;
    let copy = Map::new(From::Anonymous, TRIAL, SUPERPAGE as usize, true).map_err(said("mmap"))?;
    copy.advise(Advice::Huge).map_err(said("MADV_HUGEPAGE"))?;
    copy.touch_to_write(BASE_PAGE as usize);
    copy.move_over(&text).map_err(said("mremap"))?;
    huge(&text)
}

fn memory_file() -> Result<u64, String> {
    let file = sys::memory_file().map_err(said("memfd_create"))?;
    fill(&file, SUPERPAGE as usize).map_err(said("writing a memory file"))?;
    let map = mapped(&file)?;
    map.touch(BASE_PAGE as usize, TRIAL);
    map.advise(Advice::Collapse).map_err(said("MADV_COLLAPSE"))?;
    map.touch(BASE_PAGE as usize, TRIAL);
    huge(&map)
}

fn hugetlb(file: &File) -> Result<u64, String> {
    let text = mapped(file)?;
    let copy = Map::new(From::Hugetlb, TRIAL, SUPERPAGE as usize, true)
        .map_err(said("no superpages are reserved (vm.nr_hugepages)"))?;
    copy.touch_to_write(SUPERPAGE as usize);
    copy.move_over(&text).map_err(said("mremap"))?;
    huge(&text)
}

/// Names of the usual file systems by their number (statfs(2), include/uapi/linux/magic.h).
fn file_system_name(magic: i64) -> String {
    match magic {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0x794c_7630 => "overlayfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        0x6969 => "nfs".into(),
        0x6573_5546 => "fuse".into(),
        0x7371_7368 => "squashfs".into(),
        0xe0f5_e1e2 => "erofs".into(),
        0xca45_1a4e => "bcachefs".into(),
        0x2fc1_2fc1 => "zfs".into(),
        0x0102_1997 => "9p".into(),
        other => format!("file system {other:#x}"),
    }
}

/// What the chains of pointers took, in nanoseconds a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Backing {
    /// A chain within few pages: what a whole superpage takes.
    pub few_pages_ns: f64,
    /// A chain through 448 small pages: what a splintered superpage takes.
    pub small_pages_ns: f64,
    /// Each superpage tried.
    pub superpages_ns: Vec<f64>,
    /// How the superpages are backed; absent where latency cannot tell, since the two chains above
    /// differ too little or did not take the same before and after.
    pub found: Option<Backed>,
}

/// How many superpages are backed by which pages of the machine below.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backed {
    /// As fast as within few pages: superpages.
    pub whole: usize,
    /// As slow as through small pages: small pages.
    pub splintered: usize,
    /// In the middle third between the two: it cannot be said.
    pub undecided: usize,
}

/// Places in a chain: one cache line in as many of the 512 small pages of a superpage as leave an
/// eighth of a data cache of 32 KiB free. With all 512 the cache is full, and whatever else is
/// touched costs more than what is measured.
const CHAIN: usize = 448;
/// Rounds of one measurement, about 0.1 ms.
const ROUNDS: usize = 64;
/// The fastest of so many measurements counts, so that other programs do not.
const TRIES: usize = 7;
/// The chains that others are held against are measured so often, before and after.
const CONTROLS: usize = 3;

/// Measures whether `count` superpages of anonymous memory are backed by superpages of the machine
/// below.
///
/// # Errors
/// When the kernel gives no superpages.
pub fn host_backing(count: usize) -> Result<Backing, Error> {
    let system = |action: &str| {
        let action = action.to_owned();
        move |source| Error::System { action, source }
    };
    let bytes = SUPERPAGE as usize;
    let map = |advice| {
        let map = Map::new(From::Anonymous, bytes, bytes, true)
            .map_err(system("no memory for the latency chains"))?;
        map.advise(advice)
            .map_err(system("the kernel has no transparent superpages (MADV_HUGEPAGE)"))?;
        map.touch_to_write(BASE_PAGE as usize);
        Ok(map)
    };
    let small = map(Advice::Small)?;
    let mut maps = Vec::new();
    for _ in 0..count {
        let one = map(Advice::Huge)?;
        if verify::own_superpage_bytes(one.address(), SUPERPAGE)? == SUPERPAGE {
            maps.push(one);
        }
    }
    if maps.is_empty() {
        let source = io::Error::from(io::ErrorKind::OutOfMemory);
        return Err(system(
            "the kernel gave no anonymous superpage (transparent_hugepage/enabled is never, or \
             memory is fragmented)",
        )(source));
    }
    let controls = || -> Vec<[f64; 2]> {
        (0..CONTROLS).map(|_| [few_pages(&small), pages_each(&small)]).collect()
    };
    let mut held = controls();
    let superpages_ns: Vec<f64> = maps.iter().map(pages_each).collect();
    held.extend(controls());
    let few: Vec<f64> = held.iter().map(|pair| pair[0]).collect();
    let through: Vec<f64> = held.iter().map(|pair| pair[1]).collect();
    let found = judged(&few, &through, &superpages_ns);
    let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
    Ok(Backing { few_pages_ns: least(&few), small_pages_ns: least(&through), superpages_ns, found })
}

/// Which superpages are as fast as the one kind of control and which as slow as the other. Each
/// control's fastest measurement before and after must agree to a third of what lies between the
/// two kinds.
fn judged(few: &[f64], through: &[f64], superpages: &[f64]) -> Option<Backed> {
    let range = |of: &[f64]| {
        let halves = of.split_at(of.len() / 2);
        let least = |of: &[f64]| of.iter().copied().fold(f64::INFINITY, f64::min);
        let (a, b) = (least(halves.0), least(halves.1));
        (a.min(b), a.max(b))
    };
    let ((low, low_again), (high, high_again)) = (range(few), range(through));
    let third = (high - low) / 3.0;
    // A difference of a quarter is some three cycles; less may come from elsewhere than from the
    // TLB.
    if !(third.is_finite()
        && high > low * 1.25
        && low_again - low < third
        && high_again - high < third)
    {
        return None;
    }
    let mut found = Backed::default();
    for &ns in superpages {
        let class = match ns {
            ns if ns < low + third => &mut found.whole,
            ns if ns > low + 2.0 * third => &mut found.splintered,
            _ => &mut found.undecided,
        };
        *class += 1;
    }
    Some(found)
}

/// Nanoseconds a step with all lines in eight pages.
fn few_pages(map: &Map) -> f64 {
    chain(map, |index| index * 64)
}

/// Nanoseconds a step with a line in every page. Each page uses another line, so that the chain
/// fits the data cache as well as one within few pages.
fn pages_each(map: &Map) -> f64 {
    chain(map, |index| index * BASE_PAGE as usize + index % 64 * 64)
}

fn chain(map: &Map, place: impl Fn(usize) -> usize) -> f64 {
    // An odd multiplier visits every place once, in an order that no prefetcher follows.
    let order = |index: usize| index.wrapping_mul(165).wrapping_add(1) % CHAIN;
    for index in 0..CHAIN {
        map.link(place(order(index)), place(order((index + 1) % CHAIN)));
    }
    let start = place(order(0));
    let mut best = f64::INFINITY;
    for _ in 0..TRIES {
        let begin = Instant::now();
        let end = std::hint::black_box(map.chase(start, CHAIN, ROUNDS));
        let nanoseconds = begin.elapsed().as_nanos() as f64;
        // The walk that looks at the ring first is one more round.
        if end.is_some() {
            best = best.min(nanoseconds / (CHAIN * (ROUNDS + 1)) as f64);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_in_the_middle_is_not_guessed() {
        let found = judged(&[1.2, 1.3], &[3.1, 3.2], &[1.2, 1.5, 2.2, 2.9, 3.2, 9.0]);
        assert_eq!(found, Some(Backed { whole: 2, splintered: 3, undecided: 1 }));
        // Controls that differ too little, or that took something else afterwards, tell nothing.
        assert_eq!(judged(&[2.6, 2.6], &[3.1, 3.1], &[3.1]), None);
        assert_eq!(judged(&[1.2, 2.4], &[3.1, 3.1], &[3.1]), None);
        assert_eq!(judged(&[1.2, 1.2], &[3.1, 4.0], &[3.1]), None);
        assert_eq!(judged(&[1.2, f64::INFINITY], &[3.1, 3.1], &[3.1]), None);
    }

    #[test]
    fn small_pages_are_not_taken_for_superpages() {
        let map = Map::new(From::Anonymous, SUPERPAGE as usize, SUPERPAGE as usize, true).unwrap();
        map.touch_to_write(BASE_PAGE as usize);
        // Whatever the machine, a chain ends in a number, and one that is no ring does not.
        assert!(few_pages(&map).is_finite() && pages_each(&map).is_finite());
        map.link(64, 128);
        map.link(128, 64);
        assert_eq!(map.chase(64, 2, 10).map(|end| end as u64), Some(map.address() + 64));
        assert_eq!(map.chase(64, 3, 10), None);
        assert_eq!(map.chase(SUPERPAGE as usize, 1, 1), None);
    }
}
