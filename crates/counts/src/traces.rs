//! Counting at the speed of memory: how often each trace (branch, and the branch that came next)
//! was seen.
//!
//! One branch stack entry is one look-up. Its key is (from, to, source of the next newer entry):
//! the first two are the branch, the last two the fall-through range, so that two counts cost one
//! probe. Keys are runtime addresses; nothing is translated here. The table is open addressing with
//! linear probing and a multiplicative hash over a power of two of slots; programs have thousands
//! of distinct traces, so it stays within a core's own cache.

use perfdata::RuntimeAddr;

/// A branch and the source of the branch taken next; `next_from` is [`Trace::NONE`] for the newest
/// entry of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Trace {
    /// Source of the branch.
    pub from: RuntimeAddr,
    /// Its target.
    pub to: RuntimeAddr,
    /// Where the next taken branch left; [`Trace::NONE`] where the stack ends.
    pub next_from: RuntimeAddr,
}

impl Trace {
    /// Stands in `next_from` where no newer entry follows. No branch instruction lies at the last
    /// address.
    pub const NONE: RuntimeAddr = RuntimeAddr(u64::MAX);
}

/// Sums of one trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceCount {
    /// What was counted.
    pub trace: Trace,
    /// Times seen.
    pub count: u64,
    /// Of which mispredicted.
    pub mispredicted: u64,
}

#[derive(Clone, Copy)]
struct Slot {
    from: u64,
    to: u64,
    next_from: u64,
    /// Zero marks a free slot.
    count: u64,
    mispredicted: u64,
    /// Of which in the first half of the samples ([`crate::halves`]).
    first_half: u64,
}

const FREE: Slot = Slot { from: 0, to: 0, next_from: 0, count: 0, mispredicted: 0, first_half: 0 };

/// The table of traces of one address space version.
pub struct TraceTable {
    slots: Vec<Slot>,
    shift: u32,
    len: usize,
}

impl Default for TraceTable {
    fn default() -> Self {
        TraceTable { slots: vec![FREE; 1 << 5], shift: 64 - 5, len: 0 }
    }
}

impl TraceTable {
    /// Distinct traces.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots taken from memory, 48 bytes each.
    #[inline(always)]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Counts one entry.
    #[inline(always)]
    pub fn add(&mut self, from: u64, to: u64, next_from: u64, mispredicted: u64) {
        self.add_in(from, to, next_from, mispredicted, 0);
    }

    /// Counts one entry of a sample; `first_half` is 1 in the first half of the samples, else 0.
    #[inline(always)]
    pub fn add_in(
        &mut self,
        from: u64,
        to: u64,
        next_from: u64,
        mispredicted: u64,
        first_half: u64,
    ) {
        let mask = self.slots.len() - 1;
        let mut at = hash(from, to, next_from, self.shift) & mask;
        loop {
            // The mask keeps `at` below the length, which is a power of two.
            let Some(slot) = self.slots.get_mut(at) else { return };
            if slot.from == from && slot.to == to && slot.next_from == next_from && slot.count != 0
            {
                slot.count += 1;
                slot.mispredicted += mispredicted;
                slot.first_half += first_half;
                return;
            }
            if slot.count == 0 {
                *slot = Slot { from, to, next_from, count: 1, mispredicted, first_half };
                self.len += 1;
                if self.len * 2 > self.slots.len() {
                    self.grow();
                }
                return;
            }
            at = (at + 1) & mask;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.shift -= 1;
        self.slots = vec![FREE; old.len() * 2];
        let mask = self.slots.len() - 1;
        for slot in old.into_iter().filter(|s| s.count != 0) {
            let mut at = hash(slot.from, slot.to, slot.next_from, self.shift) & mask;
            while self.slots.get(at).is_some_and(|s| s.count != 0) {
                at = (at + 1) & mask;
            }
            if let Some(free) = self.slots.get_mut(at) {
                *free = slot;
            }
        }
    }

    /// All counts, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = TraceCount> + '_ {
        self.iter_halves().map(|(counted, _)| counted)
    }

    /// All counts, each with how many of it are of the first half of the samples.
    pub fn iter_halves(&self) -> impl Iterator<Item = (TraceCount, u64)> + '_ {
        self.slots.iter().filter(|s| s.count != 0).map(|s| {
            let (from, to, next_from) =
                (RuntimeAddr(s.from), RuntimeAddr(s.to), RuntimeAddr(s.next_from));
            let trace = Trace { from, to, next_from };
            (TraceCount { trace, count: s.count, mispredicted: s.mispredicted }, s.first_half)
        })
    }
}

/// Fibonacci hashing of the three addresses; the upper bits are the best mixed, so they choose the
/// slot.
#[inline(always)]
fn hash(from: u64, to: u64, next_from: u64, shift: u32) -> usize {
    let mixed = from
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .wrapping_add(to.wrapping_mul(0xC2B2_AE3D_27D4_EB4F))
        .wrapping_add(next_from.wrapping_mul(0x1656_67B1_9E37_79F9));
    ((mixed ^ (mixed >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    proptest::proptest! {
        #[test]
        fn the_table_counts_like_a_map(
            keys in proptest::collection::vec((0u64..40, 0u64..9, 0u64..4, 0u64..2), 0..3000),
        ) {
            let mut table = TraceTable::default();
            let mut map: BTreeMap<Trace, (u64, u64)> = BTreeMap::new();
            for (f, t, n, m) in keys {
                table.add(f, t, n, m);
                let sum = map.entry(Trace { from: RuntimeAddr(f), to: RuntimeAddr(t), next_from: RuntimeAddr(n) })
                    .or_default();
                sum.0 += 1;
                sum.1 += m;
            }
            let got: BTreeMap<Trace, (u64, u64)> =
                table.iter().map(|c| (c.trace, (c.count, c.mispredicted))).collect();
            proptest::prop_assert_eq!(table.len(), got.len());
            proptest::prop_assert_eq!(got, map);
        }
    }
}
