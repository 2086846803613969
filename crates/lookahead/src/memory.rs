//! The memory that a look-ahead sees: pages copied from the thread when they are first touched. What the interpreted
//! code writes goes into the copies, and into nothing else.

use crate::word::Word;
use rustc_hash::FxHashMap;

pub(crate) const PAGE_BYTES: usize = 4096;
const PAGE_MASK: u64 = PAGE_BYTES as u64 - 1;
/// Entries of the table of recently used pages.
const RECENT: usize = 256;
/// Pages that one look-ahead may copy: 8 MiB.
const MOST_PAGES: usize = 2048;
/// No page begins here.
const NO_PAGE: u64 = 1;

/// One page of memory, at an address that is as round as the page's own.
#[derive(Clone)]
#[repr(C, align(4096))]
pub struct Page(pub [u8; PAGE_BYTES]);

impl Page {
    const EMPTY: Page = Page([0; PAGE_BYTES]);
}

impl AsMut<[u8; PAGE_BYTES]> for Page {
    fn as_mut(&mut self) -> &mut [u8; PAGE_BYTES] {
        &mut self.0
    }
}

/// What came of asking for a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fetched {
    /// It was copied.
    Copied,
    /// It was copied, but the kernel changes it all the time (the clock data behind the vdso): it has to be asked for
    /// again at each access.
    Live,
    /// It cannot be read.
    Absent,
}

/// How code at an address may be remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// Until [`crate::Engine::forget`] is called: bytes of a file, mapped executable and not writable.
    Lasting,
    /// For this look-ahead only: code that the program makes.
    Passing,
}

/// The stopped thread's memory.
pub trait Source {
    /// Copies the page that begins at the address.
    fn page(&mut self, address: u64, into: &mut Page) -> Fetched;

    /// How the code at an address may be remembered.
    fn text(&mut self, address: u64) -> Text;

    /// Whether the thread keeps a second stack of return addresses, which some instructions then read.
    fn has_shadow_stack(&mut self) -> bool {
        true
    }

    /// Copies several pages at once, as far as it can, and says how many from the first on.
    fn pages(&mut self, addresses: &[u64], into: &mut [Page]) -> usize {
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

/// The copies of one look-ahead.
pub(crate) struct Pages {
    recent: [(u64, u32); RECENT],
    slots: FxHashMap<u64, u32>,
    pages: Vec<Page>,
    used: usize,
    /// Whether something was read that changes with time or with the CPU.
    pub clock_read: bool,
    /// Holds a live page for the time of an access.
    live: Box<Page>,
    /// Pages that were accessed, some more than once.
    accessed: Vec<u64>,
    /// Pages that the last look-aheads accessed, to be fetched together with the first.
    habit: Habit,
    wanted: Vec<u64>,
}

impl Pages {
    pub(crate) fn new() -> Pages {
        Pages {
            recent: [(NO_PAGE, 0); RECENT],
            slots: FxHashMap::default(),
            pages: Vec::new(),
            used: 0,
            clock_read: false,
            live: Box::new(Page::EMPTY),
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
        self.recent = [(NO_PAGE, 0); RECENT];
        self.slots.clear();
        self.used = 0;
        self.clock_read = false;
        let mut wanted = std::mem::take(&mut self.wanted);
        self.habit.wanted(stack & !PAGE_MASK, &mut wanted);
        while self.pages.len() < wanted.len() {
            self.pages.push(Page::EMPTY);
        }
        let mut at = 0;
        while at < wanted.len() {
            let (Some(addresses), Some(pages)) = (wanted.get(at..), self.pages.get_mut(self.used..)) else {
                return;
            };
            let done = source.pages(addresses, pages).min(addresses.len());
            for address in addresses.iter().take(done) {
                self.slots.insert(*address, self.used as u32);
                self.used += 1;
            }
            // The one that stopped it is left for when it is really asked for.
            at += done + 1;
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
        if self.used == self.pages.len() {
            self.pages.push(Page::EMPTY);
        }
        let Some(place) = self.pages.get_mut(self.used) else { return Err(false) };
        match source.page(page, place) {
            Fetched::Copied => {
                let slot = self.used as u32;
                self.used += 1;
                self.slots.insert(page, slot);
                self.remember(page, slot);
                Ok(slot as usize)
            }
            Fetched::Live => {
                self.clock_read = true;
                std::mem::swap(&mut *self.live, place);
                Err(true)
            }
            Fetched::Absent => Err(false),
        }
    }

    fn remember(&mut self, page: u64, slot: u32) {
        self.accessed.push(page);
        if let Some(entry) = self.recent.get_mut((page >> 12) as usize % RECENT) {
            *entry = (page, slot);
        }
    }

    /// The bytes from an address to the end of its page.
    #[inline(always)]
    pub(crate) fn rest_of_page(&mut self, source: &mut dyn Source, address: u64) -> Option<&mut [u8]> {
        let page = address & !PAGE_MASK;
        let at = (address & PAGE_MASK) as usize;
        let (known, slot) = self.recent[(page >> 12) as usize % RECENT];
        let slot = if known == page { slot as usize } else { return self.fetch(source, page, at) };
        self.pages.get_mut(slot).and_then(|page| page.0.get_mut(at..))
    }

    #[cold]
    fn fetch(&mut self, source: &mut dyn Source, page: u64, at: usize) -> Option<&mut [u8]> {
        match self.slot(source, page) {
            Ok(slot) => self.pages.get_mut(slot).and_then(|page| page.0.get_mut(at..)),
            Err(true) => self.live.0.get_mut(at..),
            Err(false) => None,
        }
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
    pub(crate) fn store<W: Word>(&mut self, source: &mut dyn Source, address: u64, value: W) -> Option<()> {
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
    pub(crate) fn copy_out(&mut self, source: &mut dyn Source, address: u64, into: &mut [u8]) -> Option<()> {
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
    pub(crate) fn copy_in(&mut self, source: &mut dyn Source, address: u64, bytes: &[u8]) -> Option<()> {
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

/// Which pages are worth fetching before they are asked for: those that the last look-aheads often touched. Fetching
/// one among others costs a fifth of fetching it alone.
#[derive(Default)]
struct Habit {
    /// Running mean of how often each page is touched; [`Habit::ALWAYS`] stands for every time.
    weights: FxHashMap<u64, u32>,
}

impl Habit {
    const ALWAYS: u32 = 1 << 16;
    /// The newest look-ahead counts for an eighth.
    const NEWEST: u32 = 8;
    const WANTED: u32 = Self::ALWAYS / 5;
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
    fn wanted(&self, stack: u64, wanted: &mut Vec<u64>) {
        wanted.clear();
        wanted.push(stack);
        let often = self.weights.iter().filter(|(page, weight)| **weight >= Self::WANTED && **page != stack);
        wanted.extend(often.map(|(page, _)| *page).take(Self::MOST));
        wanted.sort_unstable();
    }
}
