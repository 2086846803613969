//! How often each path (two branches taken one after the other) was seen, at the speed of memory.
//!
//! As [`crate::traces`], with the target of the next branch as a fourth part of the key. A table
//! costs nothing before its first entry, so that aggregation without paths does not pay for it.

use perfdata::RuntimeAddr;

/// Two branches with the straight line between them, as runtime addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimePath {
    /// Source of the older branch.
    pub from: RuntimeAddr,
    /// Its target.
    pub first: RuntimeAddr,
    /// Source of the newer branch.
    pub last: RuntimeAddr,
    /// Its target.
    pub to: RuntimeAddr,
}

/// `from`, `first`, `last`, `to`.
type Key = [u64; 4];

/// A key and how often it was seen; zero marks a free slot.
type Slot = (Key, u64);

const FREE: Slot = ([0; 4], 0);
/// Slots of a table that holds something, at least; a power of two as all its sizes.
const FEWEST_SLOTS: usize = 1 << 5;

/// The table of paths of one address space version.
#[derive(Default)]
pub struct PathTable {
    slots: Vec<Slot>,
    len: usize,
}

impl PathTable {
    /// Distinct paths.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Slots taken from memory, 40 bytes each.
    #[inline(always)]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Counts one pair of neighbouring entries.
    #[inline(always)]
    pub fn add(&mut self, from: u64, first: u64, last: u64, to: u64) {
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let key = [from, first, last, to];
        let at = free_or_equal(&self.slots, &key);
        if let Some(slot) = self.slots.get_mut(at) {
            self.len += usize::from(slot.1 == 0);
            *slot = (key, slot.1 + 1);
        }
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(FEWEST_SLOTS);
        let old = std::mem::replace(&mut self.slots, vec![FREE; size]);
        for slot in old.into_iter().filter(|s| s.1 != 0) {
            let at = free_or_equal(&self.slots, &slot.0);
            if let Some(free) = self.slots.get_mut(at) {
                *free = slot;
            }
        }
    }

    /// All counts, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (RuntimePath, u64)> + '_ {
        self.slots.iter().filter(|s| s.1 != 0).map(|&([from, first, last, to], count)| {
            let [from, first, last, to] = [from, first, last, to].map(RuntimeAddr);
            (RuntimePath { from, first, last, to }, count)
        })
    }
}

/// Where `key` stands, or the free slot where it belongs. At most half of the slots are taken, so
/// the search ends.
#[inline(always)]
fn free_or_equal(slots: &[Slot], key: &Key) -> usize {
    let mask = slots.len().wrapping_sub(1);
    let mut at = hash(key) & mask;
    while slots.get(at).is_some_and(|s| s.1 != 0 && s.0 != *key) {
        at = (at + 1) & mask;
    }
    at
}

/// Fibonacci hashing; bits from the middle up are well mixed and are moved down, whatever the size
/// of the table.
#[inline(always)]
fn hash(key: &Key) -> usize {
    const ODD: [u64; 4] = [
        0x9E37_79B9_7F4A_7C15,
        0xC2B2_AE3D_27D4_EB4F,
        0x1656_67B1_9E37_79F9,
        0xD6E8_FEB8_6659_FD93,
    ];
    let mixed =
        key.iter().zip(ODD).fold(0u64, |sum, (&k, odd)| sum.wrapping_add(k.wrapping_mul(odd)));
    ((mixed ^ (mixed >> 32)).wrapping_mul(ODD[0]) >> 24) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    proptest::proptest! {
        #[test]
        fn the_table_counts_like_a_map(
            keys in proptest::collection::vec((0u64..9, 0u64..9, 0u64..4, 0u64..4), 0..3000),
        ) {
            let mut table = PathTable::default();
            let mut map: BTreeMap<RuntimePath, u64> = BTreeMap::new();
            for (a, b, c, d) in keys {
                table.add(a, b, c, d);
                let [from, first, last, to] = [a, b, c, d].map(RuntimeAddr);
                *map.entry(RuntimePath { from, first, last, to }).or_default() += 1;
            }
            let got: BTreeMap<RuntimePath, u64> = table.iter().collect();
            proptest::prop_assert_eq!(table.len(), got.len());
            proptest::prop_assert_eq!(table.is_empty(), got.is_empty());
            proptest::prop_assert_eq!(got, map);
        }
    }
}
