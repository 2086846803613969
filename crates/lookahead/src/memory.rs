//! The memory that a look-ahead sees: pages copied from the thread when they are first touched.
//! What the interpreted code writes goes into the copies, and into nothing else.

use crate::word::Word;
use perfdata::RuntimeAddr;
use rustc_hash::FxHashMap;

pub(crate) const PAGE_BYTES: usize = 4096;
const PAGE_MASK: u64 = PAGE_BYTES as u64 - 1;
/// Entries of the table of recently used pages.
const RECENT: usize = 256;
/// Pages that one look-ahead may copy: 8 MiB.
const MOST_PAGES: usize = 2048;
/// No page begins here.
const NO_PAGE: u64 = 1;

/// One page of memory.
pub type Page = [u8; PAGE_BYTES];

/// What came of asking for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// It was copied.
    Copied,
    /// It was copied, but the kernel changes it all the time (the clock data behind the vdso): it
    /// has to be asked for again at each access.
    Live,
    /// It cannot be read.
    Absent,
}

/// How code at an address may be remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// Until [`crate::Engine::forget`] is called: bytes of a file, mapped executable and not
    /// writable.
    Lasting,
    /// For this look-ahead only: code that the program makes.
    Passing,
}

/// The stopped thread's memory.
pub trait Source {
    /// Copies the page that begins at the address.
    fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched;

    /// How the code at an address may be remembered.
    fn text(&mut self, address: RuntimeAddr) -> Text;

    /// Whether the thread keeps a second stack of return addresses, which some instructions then
    /// read.
    fn has_shadow_stack(&mut self) -> bool {
        true
    }

    /// Copies several pages at once, as far as it can, and says how many from the first on.
    fn pages(&mut self, addresses: &[RuntimeAddr], into: &mut [Page]) -> usize {
        let mut done = 0;
        for (address, page) in addresses.iter().zip(into) {
            if self.page(*address, page) != Fetched::Copied {
                break;
            }
            done += 1;
        }
        done
    }
}

/// Room for so many pages is there from the start: more than most look-aheads need.
const FIRST_PAGES: usize = 128;

/// Room for so many pages, and where in it they begin to lie at addresses as round as their own.
fn room(pages: usize) -> (Vec<u8>, usize) {
    let bytes = vec![0; (pages + 1) * PAGE_BYTES];
    let start = bytes.as_ptr().align_offset(PAGE_BYTES).min(PAGE_BYTES);
    (bytes, start)
}

/// A page at an address as round as its own, since instructions that run on the processor may
/// insist on it.
#[repr(C, align(4096))]
struct Live(Page);

/// A page that was used of late.
#[derive(Clone, Copy)]
struct Recent {
    /// Its address.
    page: u64,
    /// From there to its place among the copies.
    distance: u64,
}

impl Recent {
    const NONE: Recent = Recent { page: NO_PAGE, distance: 0 };

    /// Where a byte of it lies.
    #[inline(always)]
    fn place(self, address: u64) -> usize {
        address.wrapping_add(self.distance) as usize
    }
}

/// The copies of one look-ahead.
pub(crate) struct Pages {
    recent: [Recent; RECENT],
    slots: FxHashMap<u64, u32>,
    /// Room for pages.
    bytes: Vec<u8>,
    /// Where the first page is in it, so that pages lie at addresses as round as their own.
    start: usize,
    used: usize,
    /// Whether something was read that changes with time or with the CPU.
    pub clock_read: bool,
    /// Holds a live page for the time of an access.
    live: Box<Live>,
    /// Pages that were accessed, some more than once.
    accessed: Vec<u64>,
    /// Pages that the last look-aheads accessed, to be fetched together with the first.
    habit: Habit,
    wanted: Vec<RuntimeAddr>,
}

impl Pages {
    pub(crate) fn new() -> Pages {
        let (bytes, start) = room(FIRST_PAGES);
        Pages {
            recent: [Recent::NONE; RECENT],
            slots: FxHashMap::default(),
            start,
            bytes,
            used: 0,
            clock_read: false,
            live: Box::new(Live([0; PAGE_BYTES])),
            accessed: Vec::new(),
            habit: Habit::default(),
            wanted: Vec::new(),
        }
    }

    /// Forgets all copies, and fetches at once what will most likely be needed.
    pub(crate) fn begin(&mut self, source: &mut dyn Source, stack: u64) {
        self.accessed.sort_unstable();
        self.accessed.dedup();
        self.habit.note(self.accessed.drain(..));
        self.recent = [Recent::NONE; RECENT];
        self.slots.clear();
        self.used = 0;
        self.clock_read = false;
        let mut wanted = std::mem::take(&mut self.wanted);
        self.habit.wanted(stack & !PAGE_MASK, &mut wanted);
        let mut at = 0;
        while let Some(addresses) = wanted.get(at..).filter(|rest| !rest.is_empty()) {
            // The one that stops it is left for when it is really asked for.
            at += self.copy(source, addresses) + 1;
        }
        self.wanted = wanted;
    }

    /// How many pages were copied.
    pub(crate) fn copied(&self) -> usize {
        self.used
    }

    /// The slot of a page; fetched when it is not there. `Err(true)` stands for a live page.
    fn slot(&mut self, source: &mut dyn Source, page: u64) -> Result<usize, bool> {
        if let Some(slot) = self.slots.get(&page) {
            let slot = *slot;
            self.remember(page, slot);
            return Ok(slot as usize);
        }
        if self.used >= MOST_PAGES {
            return Err(false);
        }
        // The page behind it costs little more, and a third of the times it is wanted soon.
        let both = [page, page.wrapping_add(PAGE_BYTES as u64)].map(RuntimeAddr);
        let wanted = if self.slots.contains_key(&both[1].0) { &both[..1] } else { &both };
        let slot = self.used;
        if self.copy(source, wanted) > 0 {
            self.remember(page, slot as u32);
            return Ok(slot);
        }
        let Some(place) = self.free_pages(1).first_mut() else { return Err(false) };
        match source.page(RuntimeAddr(page), place) {
            Fetched::Copied => {
                self.used += 1;
                self.slots.insert(page, slot as u32);
                self.remember(page, slot as u32);
                Ok(slot)
            }
            Fetched::Live => {
                self.live.0 = *place;
                self.clock_read = true;
                Err(true)
            }
            Fetched::Absent => Err(false),
        }
    }

    /// Copies pages that are not there, as far as it can; how many from the first on.
    fn copy(&mut self, source: &mut dyn Source, addresses: &[RuntimeAddr]) -> usize {
        let pages = self.free_pages(addresses.len());
        let wanted = addresses.get(..pages.len()).unwrap_or(addresses);
        let done = source.pages(wanted, pages).min(wanted.len());
        for address in addresses.iter().take(done) {
            self.slots.insert(address.0, self.used as u32);
            self.used += 1;
        }
        done
    }

    /// Room for so many pages more, or for as many as are allowed.
    fn free_pages(&mut self, count: usize) -> &mut [Page] {
        let end = (self.used + count).min(MOST_PAGES);
        if self.start + end * PAGE_BYTES > self.bytes.len() {
            let (mut bytes, start) = room(end.next_power_of_two());
            let filled = self.used * PAGE_BYTES;
            let from = self.bytes.get(self.start..self.start + filled);
            if let (Some(to), Some(from)) = (bytes.get_mut(start..start + filled), from) {
                to.copy_from_slice(from);
            }
            (self.bytes, self.start) = (bytes, start);
            // What it knows lay elsewhere.
            self.recent = [Recent::NONE; RECENT];
        }
        let bytes = self.bytes.get_mut(self.start..).unwrap_or_default();
        bytes.as_chunks_mut().0.get_mut(self.used..end).unwrap_or_default()
    }

    fn remember(&mut self, page: u64, slot: u32) {
        self.accessed.push(page);
        let start = self.start + slot as usize * PAGE_BYTES;
        if let Some(entry) = self.recent.get_mut((page >> 12) as usize % RECENT) {
            *entry = Recent { page, distance: (start as u64).wrapping_sub(page) };
        }
    }

    /// The bytes from an address to the end of its page.
    #[inline(always)]
    pub(crate) fn rest_of_page(
        &mut self,
        source: &mut dyn Source,
        address: u64,
    ) -> Option<&mut [u8]> {
        let page = address & !PAGE_MASK;
        let at = (address & PAGE_MASK) as usize;
        let recent = self.recent[(page >> 12) as usize % RECENT];
        if recent.page != page {
            return self.fetch(source, page, at);
        }
        self.bytes.get_mut(recent.place(address)..)?.get_mut(..PAGE_BYTES - at)
    }

    #[cold]
    fn fetch(&mut self, source: &mut dyn Source, page: u64, at: usize) -> Option<&mut [u8]> {
        match self.slot(source, page) {
            Ok(slot) => {
                let page = self.start + slot * PAGE_BYTES;
                self.bytes.get_mut(page + at..page + PAGE_BYTES)
            }
            Err(true) => self.live.0.get_mut(at..),
            Err(false) => None,
        }
    }

    /// A word's bytes where they lie on one page, and that was used of late; more may follow them.
    #[inline(always)]
    pub(crate) fn at_hand<W: Word>(&mut self, address: u64) -> Option<&mut [u8]> {
        let recent = self.recent[(address >> 12) as usize % RECENT];
        // Where the word goes on into the next page, its last byte is not on the page that the
        // table has here.
        let last = address.wrapping_add(W::BYTES as u64 - 1);
        if recent.page != last & !PAGE_MASK {
            return None;
        }
        let place = recent.place(address);
        self.bytes.get_mut(place..place + W::BYTES)
    }

    #[inline(always)]
    pub(crate) fn load<W: Word>(&mut self, source: &mut dyn Source, address: u64) -> Option<W> {
        match self.rest_of_page(source, address).map(|bytes| W::read(bytes)) {
            Some(Some(value)) => Some(value),
            Some(None) => {
                let mut bytes = [0; 8];
                self.copy_out(source, address, bytes.get_mut(..W::BYTES)?)?;
                W::read(&bytes)
            }
            None => None,
        }
    }

    #[inline(always)]
    pub(crate) fn store<W: Word>(
        &mut self,
        source: &mut dyn Source,
        address: u64,
        value: W,
    ) -> Option<()> {
        let place = self.rest_of_page(source, address)?;
        if place.len() >= W::BYTES {
            value.write(place);
            return Some(());
        }
        let mut bytes = [0; 8];
        value.write(&mut bytes);
        self.copy_in(source, address, bytes.get(..W::BYTES)?)
    }

    /// Reads bytes that may lie on several pages.
    pub(crate) fn copy_out(
        &mut self,
        source: &mut dyn Source,
        address: u64,
        into: &mut [u8],
    ) -> Option<()> {
        let mut done = 0;
        while done < into.len() {
            let from = self.rest_of_page(source, address.wrapping_add(done as u64))?;
            let count = from.len().min(into.len() - done);
            into.get_mut(done..done + count)?.copy_from_slice(from.get(..count)?);
            done += count;
        }
        Some(())
    }

    /// Writes bytes that may lie on several pages.
    pub(crate) fn copy_in(
        &mut self,
        source: &mut dyn Source,
        address: u64,
        bytes: &[u8],
    ) -> Option<()> {
        let mut done = 0;
        while done < bytes.len() {
            let place = self.rest_of_page(source, address.wrapping_add(done as u64))?;
            let count = place.len().min(bytes.len() - done);
            place.get_mut(..count)?.copy_from_slice(bytes.get(done..done + count)?);
            done += count;
        }
        Some(())
    }
}

/// Which pages are worth fetching before they are asked for: those that the last look-aheads often
/// touched.
#[derive(Default)]
struct Habit {
    /// Running mean of how often each page is touched; [`Habit::ALWAYS`] stands for every time.
    weights: FxHashMap<u64, u32>,
}

impl Habit {
    const ALWAYS: u32 = 1 << 16;
    /// The newest look-ahead counts for an eighth.
    const NEWEST: u32 = 8;
    /// A page among others costs two fifths of one alone.
    const WANTED: u32 = Self::ALWAYS * 2 / 5;
    const FORGOTTEN: u32 = Self::ALWAYS / 64;
    const MOST: usize = 128;

    fn note(&mut self, touched: impl Iterator<Item = u64>) {
        for weight in self.weights.values_mut() {
            *weight -= *weight / Self::NEWEST;
        }
        for page in touched {
            *self.weights.entry(page).or_default() += Self::ALWAYS / Self::NEWEST;
        }
        self.weights.retain(|_, weight| *weight > Self::FORGOTTEN);
    }

    /// The pages, sorted, so that neighbours are fetched as one.
    fn wanted(&self, stack: u64, wanted: &mut Vec<RuntimeAddr>) {
        wanted.clear();
        wanted.push(RuntimeAddr(stack));
        let often = self
            .weights
            .iter()
            .filter(|(page, weight)| **weight >= Self::WANTED && **page != stack);
        wanted.extend(often.map(|(page, _)| RuntimeAddr(*page)).take(Self::MOST));
        wanted.sort_unstable();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Memory in which each page is full of its number.
    struct Numbered;

    impl Source for Numbered {
        fn page(&mut self, address: RuntimeAddr, into: &mut Page) -> Fetched {
            into.fill((address.0 >> 12) as u8);
            if address.0 < (MOST_PAGES as u64 + 9) << 12 {
                Fetched::Copied
            } else {
                Fetched::Absent
            }
        }
        fn text(&mut self, _: RuntimeAddr) -> Text {
            Text::Passing
        }
    }

    #[test]
    fn what_was_written_stays_while_more_pages_come() {
        let mut pages = Pages::new();
        pages.begin(&mut Numbered, 0);
        let at = |page: u64| (page << 12) + 24;
        for page in 0..600 {
            assert_eq!(pages.load::<u8>(&mut Numbered, at(page) - 1), Some(page as u8));
            pages.store(&mut Numbered, at(page), page.wrapping_mul(0x0101_0101_0101)).unwrap();
            // The first is at hand all the time, or found again where the pages have moved.
            assert_eq!(pages.load::<u64>(&mut Numbered, at(0)), Some(0));
        }
        assert!((0..600u64).all(|page| {
            pages.load(&mut Numbered, at(page)) == Some(page.wrapping_mul(0x0101_0101_0101))
        }));
        // A word across two pages.
        assert_eq!(pages.load::<u16>(&mut Numbered, 0x3fff), Some(0x0403));
        assert!(pages.at_hand::<u16>(0x3fff).is_none() && pages.at_hand::<u16>(0x3ffe).is_some());
        // In the next look-ahead it is as it was; and the pages of one are limited.
        pages.begin(&mut Numbered, 0);
        assert_eq!(pages.load::<u8>(&mut Numbered, at(5)), Some(5));
        let reached =
            (0..).take_while(|page| pages.load::<u8>(&mut Numbered, at(*page)).is_some()).count();
        assert_eq!((reached, pages.copied()), (MOST_PAGES, MOST_PAGES));
    }
}
