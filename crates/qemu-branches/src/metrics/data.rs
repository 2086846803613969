//! The data side of a simulated core: what every load and store looks for in a cache and a translation
//! buffer.

use crate::geometry::DataGeometry;
use crate::lru::{Hint, Lru};

const PAGE_BITS: u32 = 12;
/// No line and no page: addresses are shifted right.
const NOWHERE: u64 = u64::MAX;

/// What it counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DataCounters {
    pub accesses: u64,
    pub l1d_misses: u64,
    pub dtlb_4k_misses: u64,
}

impl DataCounters {
    pub const ZERO: DataCounters = DataCounters { accesses: 0, l1d_misses: 0, dtlb_4k_misses: 0 };
}

/// A first-level data cache and a translation buffer; neither misses until it is made.
pub struct DataSide {
    line_bits: u32,
    /// Line and page of the last access: the most recently used ones of their sets.
    line: u64,
    page: u64,
    l1d: Lru,
    dtlb_4k: Lru,
    counters: DataCounters,
}

impl DataSide {
    /// Before anything is simulated.
    pub const UNUSED: DataSide = DataSide {
        line_bits: 6,
        line: NOWHERE,
        page: NOWHERE,
        l1d: Lru::absent(),
        dtlb_4k: Lru::absent(),
        counters: DataCounters::ZERO,
    };

    /// Begins to simulate; what is there stays.
    pub fn begin(&mut self, geometry: &DataGeometry) -> Result<(), String> {
        if self.l1d.is_absent() {
            self.line_bits = geometry.l1d.line.trailing_zeros();
            self.l1d = Lru::new(geometry.l1d.sets()?, geometry.l1d.ways);
            self.dtlb_4k = Lru::new(geometry.dtlb_4k.sets()?, geometry.dtlb_4k.ways);
        }
        Ok(())
    }

    /// A load or store of so many bytes; one across lines or pages needs all of them.
    #[inline(always)]
    pub(super) fn access(&mut self, address: u64, bytes: u64) {
        self.counters.accesses += 1;
        let end = address.saturating_add(bytes.saturating_sub(1));
        let (first, last) = (address >> self.line_bits, end >> self.line_bits);
        for line in first..=last {
            if line != self.line {
                self.look_up(line);
            }
        }
    }

    #[inline(never)]
    fn look_up(&mut self, line: u64) {
        self.line = line;
        self.counters.l1d_misses += u64::from(!self.l1d.access(line, &Hint::none()));
        let page = line >> PAGE_BITS.saturating_sub(self.line_bits);
        if page != self.page {
            self.page = page;
            self.counters.dtlb_4k_misses += u64::from(!self.dtlb_4k.access(page, &Hint::none()));
        }
    }

    /// Empties both, and gives away what was counted.
    pub fn take(&mut self) -> DataCounters {
        (self.line, self.page) = (NOWHERE, NOWHERE);
        self.l1d.empty();
        self.dtlb_4k.empty();
        std::mem::take(&mut self.counters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side() -> DataSide {
        let mut side = DataSide::UNUSED;
        side.begin(&DataGeometry::default()).unwrap();
        side
    }

    #[test]
    fn a_line_and_a_page_are_fetched_once() {
        let mut side = side();
        for address in [0x1000, 0x1008, 0x1038, 0x1fc0, 0x1000] {
            side.access(address, 8);
        }
        // The third reaches into no other line; one over a page's end needs two lines and two pages.
        side.access(0x2ffc, 8);
        let expected = DataCounters { accesses: 6, l1d_misses: 4, dtlb_4k_misses: 3 };
        assert_eq!(side.take(), expected);
        assert_eq!(side.take(), DataCounters::default());
        side.access(0x1000, 1);
        assert_eq!(side.take().l1d_misses, 1, "as cold as the first time");
    }

    #[test]
    fn nine_lines_of_one_set_displace_each_other_and_five_pages_of_one_do() {
        let mut data = side();
        for _ in 0..10 {
            (0..9u64).for_each(|at| data.access(at << 12, 1));
        }
        // Nine pages fall in nine of sixteen sets.
        let expected = DataCounters { accesses: 90, l1d_misses: 90, dtlb_4k_misses: 9 };
        assert_eq!(data.take(), expected);
        for _ in 0..10 {
            (0..5u64).for_each(|at| data.access((at << 16) + (at << 6), 1));
        }
        let expected = DataCounters { accesses: 50, l1d_misses: 5, dtlb_4k_misses: 50 };
        assert_eq!(data.take(), expected);
    }

    #[test]
    fn what_is_not_simulated_misses_nothing_and_the_last_address_is_no_end() {
        let mut none = DataSide::UNUSED;
        none.access(0x1000, 8);
        assert_eq!(none.take().l1d_misses, 0);
        let mut side = side();
        side.access(u64::MAX - 3, 8);
        assert_eq!(side.take().l1d_misses, 1);
    }
}
