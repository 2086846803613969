//! One simulated core: what happens in it before every translation block.

use crate::block::{Block, NO_BLOCK, NOWHERE, Transfer};
use crate::geometry::Geometry;
use crate::kernel;
use crate::lru::{Hint, Lru};
use crate::metrics::data::{DataCounters, DataSide};
use std::collections::BTreeSet;

/// What a core counted.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    pub instructions: u64,
    pub branches: u64,
    pub taken: u64,
    pub conditionals: u64,
    pub conditionals_taken: u64,
    pub l1i_misses: u64,
    pub l2_misses: u64,
    pub itlb_4k_misses: u64,
    pub itlb_2m_misses: u64,
    pub interruptions: u64,
    pub data: DataCounters,
}

const ZERO: Counters = Counters {
    instructions: 0,
    branches: 0,
    taken: 0,
    conditionals: 0,
    conditionals_taken: 0,
    l1i_misses: 0,
    l2_misses: 0,
    itlb_4k_misses: 0,
    itlb_2m_misses: 0,
    interruptions: 0,
    data: DataCounters::ZERO,
};

impl Counters {
    /// Adds another core's, or an earlier stretch's.
    pub fn add(&mut self, other: &Counters) {
        let parts = [
            (&mut self.instructions, other.instructions),
            (&mut self.branches, other.branches),
            (&mut self.taken, other.taken),
            (&mut self.conditionals, other.conditionals),
            (&mut self.conditionals_taken, other.conditionals_taken),
            (&mut self.l1i_misses, other.l1i_misses),
            (&mut self.l2_misses, other.l2_misses),
            (&mut self.itlb_4k_misses, other.itlb_4k_misses),
            (&mut self.itlb_2m_misses, other.itlb_2m_misses),
            (&mut self.interruptions, other.interruptions),
            (&mut self.data.accesses, other.data.accesses),
            (&mut self.data.l1d_misses, other.data.l1d_misses),
            (&mut self.data.dtlb_4k_misses, other.data.dtlb_4k_misses),
        ];
        for (sum, part) in parts {
            *sum = sum.wrapping_add(part);
        }
    }
}

/// A core with its caches.
#[repr(C, align(128))]
pub struct Core {
    /// Where the block after the running one begins if no branch is taken.
    next: u64,
    /// The running block.
    block: *const Block,
    /// The line fetched last. It is the most recently used one of its set, so fetching it again
    /// changes nothing.
    line: u64,
    /// The pages translated last, of 4 KiB and 2 MiB; the same holds for them.
    page: u64,
    large_page: u64,
    /// Bits of an address within its line.
    line_bits: u32,
    l1i: Lru,
    pub counters: Counters,
    itlb_4k: Lru,
    l2: Lru,
    itlb_2m: Lru,
    /// Every line that was ever fetched.
    pub lines: BTreeSet<u64>,
    /// Loads and stores, where they are simulated.
    pub data: DataSide,
}

const PAGE_BITS: u32 = 12;
const LARGE_PAGE_BITS: u32 = 21;

impl Core {
    /// Before any thread ran on it.
    pub const UNUSED: Core = Core {
        next: NOWHERE,
        block: &raw const NO_BLOCK,
        line: NOWHERE,
        page: NOWHERE,
        large_page: NOWHERE,
        line_bits: 6,
        l1i: Lru::absent(),
        counters: ZERO,
        itlb_4k: Lru::absent(),
        l2: Lru::absent(),
        itlb_2m: Lru::absent(),
        lines: BTreeSet::new(),
        data: DataSide::UNUSED,
    };

    /// A (new) thread begins to run here. Its caches are as the thread before left them.
    pub fn begin_thread(&mut self, geometry: &Geometry) -> Result<(), String> {
        (self.next, self.block) = (NOWHERE, &raw const NO_BLOCK);
        if self.l1i.is_absent() {
            self.line_bits = geometry.l1i.line.trailing_zeros();
            self.l1i = Lru::new(geometry.l1i.sets()?, geometry.l1i.ways);
            self.l2 = Lru::new(geometry.l2.sets()?, geometry.l2.ways);
            self.itlb_4k = Lru::new(geometry.itlb_4k.sets()?, geometry.itlb_4k.ways);
            self.itlb_2m = Lru::new(geometry.itlb_2m.sets()?, geometry.itlb_2m.ways);
        }
        Ok(())
    }

    /// The process is a forked child now: what its parent counted is not its own. Caches stay warm,
    /// and so do the lines known: the parent tells of them too.
    pub fn begin_child(&mut self) {
        self.counters = ZERO;
    }

    /// What comes next has no connexion with the block before: no branch led there.
    #[inline(always)]
    pub fn break_off(&mut self) {
        (self.next, self.block) = (NOWHERE, &raw const NO_BLOCK);
    }

    /// Empties all caches, and gives away what was counted and which lines were fetched. The flow
    /// goes on: whatever runs next on this core comes from the block before.
    pub fn take(&mut self) -> (Counters, BTreeSet<u64>) {
        (self.line, self.page, self.large_page) = (NOWHERE, NOWHERE, NOWHERE);
        for cache in [&mut self.l1i, &mut self.l2, &mut self.itlb_4k, &mut self.itlb_2m] {
            cache.empty();
        }
        self.counters.data = self.data.take();
        (std::mem::take(&mut self.counters), std::mem::take(&mut self.lines))
    }

    /// A block is about to run, of a program or of a machine's kernel.
    #[inline(always)]
    pub fn enter<const KERNEL: bool>(&mut self, block: &'static Block) {
        let expected = std::mem::replace(&mut self.next, block.next);
        let before = std::mem::replace(&mut self.block, block);
        self.counters.instructions += u64::from(block.instructions);
        self.counters.branches += u64::from(block.branches);
        self.counters.conditionals += u64::from(block.conditionals);
        if expected != block.start {
            // SAFETY: `block` is only ever set to descriptions that live as long as the process.
            self.leave::<KERNEL>(unsafe { &*before }, block);
        }
        let (first, last) = (block.start >> self.line_bits, block.last_byte >> self.line_bits);
        let [first_hint, next_hint] = &block.line_hints;
        if first != self.line {
            self.fetch(first, first_hint, &block.page_hint);
        }
        if last != first {
            self.fetch_rest(first, last, next_hint);
        }
    }

    /// The block does not follow the one before.
    #[inline(always)]
    fn leave<const KERNEL: bool>(&mut self, before: &Block, block: &Block) {
        let counters = &mut self.counters;
        let transfer =
            if KERNEL { kernel::transfer(before, block) } else { before.transfer_to(block) };
        match transfer {
            Transfer::Taken => {
                counters.taken += 1;
                counters.conditionals_taken += u64::from(before.conditionals);
            }
            // The block before counted the instruction with which this one begins; what it fetches
            // is known as well.
            Transfer::Straight => {
                counters.instructions = counters.instructions.wrapping_sub(1);
                counters.branches = counters.branches.wrapping_sub(u64::from(before.branches));
                counters.conditionals =
                    counters.conditionals.wrapping_sub(u64::from(before.conditionals));
            }
            // A block that was broken off by its own access to a device goes on: it was counted to
            // its end.
            Transfer::Interrupted
                if KERNEL && kernel::in_the_middle(before, block) && before.last == block.last =>
            {
                let instructions = u64::from(block.instructions);
                counters.instructions = counters.instructions.wrapping_sub(instructions);
                counters.branches = counters.branches.wrapping_sub(u64::from(block.branches));
                counters.conditionals =
                    counters.conditionals.wrapping_sub(u64::from(block.conditionals));
            }
            Transfer::Interrupted => counters.interruptions += u64::from(before.start != NOWHERE),
        }
    }

    #[inline(always)]
    fn fetch(&mut self, line: u64, line_hint: &Hint, page_hint: &Hint) {
        self.line = line;
        if !self.l1i.access(line, line_hint) {
            self.miss(line);
        }
        let page = line >> PAGE_BITS.saturating_sub(self.line_bits);
        if page != self.page {
            self.translate(page, page_hint);
        }
    }

    /// The lines of a block after its first.
    #[inline(always)]
    fn fetch_rest(&mut self, first: u64, last: u64, next_hint: &Hint) {
        self.fetch(first + 1, next_hint, &Hint::none());
        for line in first + 2..=last {
            self.fetch(line, &Hint::none(), &Hint::none());
        }
    }

    #[cold]
    #[inline(never)]
    fn miss(&mut self, line: u64) {
        self.counters.l1i_misses += 1;
        if !self.l2.access(line, &Hint::none()) {
            self.counters.l2_misses += 1;
            // A line's first fetch misses everywhere, so this sees every line.
            self.lines.insert(line);
        }
    }

    #[inline(always)]
    fn translate(&mut self, page: u64, hint: &Hint) {
        self.page = page;
        self.counters.itlb_4k_misses += u64::from(!self.itlb_4k.access(page, hint));
        let large_page = page >> (LARGE_PAGE_BITS - PAGE_BITS);
        if large_page != self.large_page {
            self.large_page = large_page;
            self.counters.itlb_2m_misses +=
                u64::from(!self.itlb_2m.access(large_page, &Hint::none()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Guest;

    fn block(start: u64, last: u64, bytes: &[u8], instructions: u32) -> &'static Block {
        Box::leak(Box::new(Block::new(Guest::X86_64, start, last, bytes, instructions)))
    }

    fn core() -> Core {
        let mut core = Core::UNUSED;
        core.begin_thread(&Geometry::default()).unwrap();
        core
    }

    #[test]
    fn a_loop_counts_its_branches_and_misses_once() {
        let mut core = core();
        // Fifteen instructions over two lines, with a jne back; then a return that leaves by an
        // unknown way.
        let (body, end) =
            (block(0x1030, 0x104e, &[0x75, 0xe0], 15), block(0x1050, 0x1050, &[0xc3], 1));
        for _ in 0..10 {
            core.enter::<false>(body);
        }
        core.enter::<false>(end);
        core.enter::<false>(block(0x5000, 0x5000, &[0x90], 1));
        let expected = Counters {
            instructions: 152,
            branches: 11,
            taken: 10,
            conditionals: 10,
            conditionals_taken: 9,
            l1i_misses: 3,
            l2_misses: 3,
            itlb_4k_misses: 2,
            itlb_2m_misses: 1,
            interruptions: 0,
            data: DataCounters::default(),
        };
        assert_eq!(core.counters, expected);
        assert_eq!(core.lines.iter().copied().collect::<Vec<_>>(), [0x40, 0x41, 0x140]);
    }

    #[test]
    fn nine_lines_of_one_set_miss_in_the_first_level_and_hit_in_the_second() {
        let mut core = core();
        // 4 KiB apart: one set of the 64; nine lines do not fit in its eight ways. The second level
        // has 1024 sets, so they fall in nine of them. Nine pages fit in the translation
        // buffer.
        let cycle: Vec<_> =
            (0..9u64).map(|at| block(at << 12, at << 12, &[0xff, 0xe0], 1)).collect();
        for at in 0..90 {
            core.enter::<false>(cycle[at % 9]);
        }
        let counters = core.counters;
        assert_eq!((counters.l1i_misses, counters.l2_misses), (90, 9));
        assert_eq!((counters.itlb_4k_misses, counters.itlb_2m_misses), (9, 1));
        assert_eq!((counters.branches, counters.taken), (90, 89));
    }

    #[test]
    fn an_instruction_shown_twice_counts_once() {
        let mut core = core();
        // A jne across a page's end: qemu shows it as the last of one block and runs it as the
        // first of the next.
        core.enter::<false>(block(0x1ff0, 0x1fff, &[0x75, 0x10], 4));
        core.enter::<false>(block(0x1fff, 0x1fff, &[0x75, 0x10], 1));
        core.enter::<false>(block(0x2011, 0x2011, &[0x90], 1));
        let counters = core.counters;
        assert_eq!((counters.instructions, counters.branches, counters.taken), (5, 1, 1));
        assert_eq!((counters.conditionals, counters.conditionals_taken), (1, 1));
        assert_eq!((counters.l1i_misses, counters.itlb_4k_misses), (2, 2));
    }

    #[test]
    fn what_was_taken_is_gone_and_the_caches_are_empty() {
        let mut core = core();
        let (body, end) =
            (block(0x7000, 0x7010, &[0x75, 0xee], 4), block(0x7012, 0x7012, &[0xc3], 1));
        let round = |core: &mut Core| {
            [body, body, end].into_iter().for_each(|block| core.enter::<false>(block))
        };
        round(&mut core);
        let first = core.take();
        core.break_off();
        assert_eq!((first.0.instructions, first.0.taken, first.0.l1i_misses), (9, 1, 1));
        assert_eq!(first.1.len(), 1);
        round(&mut core);
        assert_eq!(core.take(), first, "as cold as the first time");
        assert_eq!(core.take(), (Counters::default(), BTreeSet::new()));
    }

    #[test]
    fn a_kernel_block_that_goes_on_after_it_was_broken_off_counts_once() {
        let mut core = core();
        let at = |start, instructions| {
            crate::kernel::testing::block(start, 0x9010, &[0x75, 0x0e], instructions)
        };
        core.enter::<true>(at(0x9000, 5));
        core.enter::<true>(at(0x9008, 3));
        core.enter::<true>(crate::kernel::testing::block(0x9020, 0x9020, &[0xc3], 1));
        let counters = core.counters;
        assert_eq!((counters.instructions, counters.branches, counters.taken), (6, 2, 1));
        assert_eq!(
            (counters.conditionals, counters.conditionals_taken, counters.interruptions),
            (1, 1, 0)
        );
    }
}
