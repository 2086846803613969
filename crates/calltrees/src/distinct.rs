//! The distinct call chains of a recording with what they weigh, before any address has a name.
//!
//! Naming is what takes time; it happens once for each distinct chain and not for each sample.

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::{Hash as _, Hasher as _};

/// Words of distinct chains that one table holds (256 MiB). Beyond, new chains are cut to their
/// innermost address, lest a recording of distinct chains take the machine's memory.
const MOST_WORDS: usize = 1 << 25;
/// Distinct chains that one table holds (about 1 GiB): no program has as many places.
const MOST_CHAINS: usize = 1 << 24;

/// Whose a chain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Who {
    /// Index of the event.
    pub event: u32,
    pub pid: i32,
    pub tid: i32,
    /// Number of the thread's name.
    pub name: u32,
    /// Version of the process's address space.
    pub version: u32,
    /// In which part of the time.
    pub block: u32,
    /// Number of the control group; 0: none is known.
    pub cgroup: u64,
}

/// What samples weigh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// How many samples.
    pub samples: u64,
    /// The sum of their periods: nanoseconds of clocks, else events.
    pub period: u64,
    /// The largest period of one of them.
    pub heaviest: u64,
}

impl Weight {
    /// Of one sample.
    pub fn one(period: u64) -> Weight {
        Weight { samples: 1, period, heaviest: period }
    }

    /// Adds another.
    pub fn add(&mut self, other: Weight) {
        self.samples = self.samples.saturating_add(other.samples);
        self.period = self.period.saturating_add(other.period);
        self.heaviest = self.heaviest.max(other.heaviest);
    }
}

struct Entry {
    who: Who,
    hash: u64,
    begin: usize,
    end: usize,
    weight: Weight,
}

/// The table.
#[derive(Default)]
pub(crate) struct Distinct {
    numbers: HashTable<u32>,
    entries: Vec<Entry>,
    words: Vec<u64>,
    /// Samples whose chain was cut for want of room.
    pub cut: u64,
    /// Samples that found no room at all.
    pub refused: u64,
}

impl Distinct {
    /// Counts a chain.
    #[inline]
    pub(crate) fn add(&mut self, who: Who, chain: &[u64], weight: Weight) {
        let hash = hash_of(who, chain);
        let (entries, words) = (&self.entries, &self.words);
        let same = |&number: &u32| {
            entries.get(number as usize).is_some_and(|entry| {
                entry.hash == hash
                    && entry.who == who
                    && words
                        .get(entry.begin..entry.end)
                        .is_some_and(|known| same_words(known, chain))
            })
        };
        let found = self.numbers.find(hash, same).copied();
        match found.and_then(|number| self.entries.get_mut(number as usize)) {
            Some(entry) => entry.weight.add(weight),
            None => self.insert(who, chain, weight, hash),
        }
    }

    #[cold]
    fn insert(&mut self, who: Who, chain: &[u64], weight: Weight, hash: u64) {
        // A mark and the innermost address.
        const SHORTEST: usize = 2;
        let full = self.words.len().saturating_add(chain.len()) > MOST_WORDS;
        if full && chain.len() > SHORTEST {
            self.cut = self.cut.saturating_add(weight.samples);
            return self.add(who, chain.get(..SHORTEST).unwrap_or_default(), weight);
        }
        if self.entries.len() >= MOST_CHAINS {
            self.refused = self.refused.saturating_add(weight.samples);
            return;
        }
        let number = self.entries.len() as u32;
        let begin = self.words.len();
        self.words.extend_from_slice(chain);
        self.entries.push(Entry { who, hash, begin, end: self.words.len(), weight });
        let entries = &self.entries;
        let hash_at = |&number: &u32| entries.get(number as usize).map_or(0, |entry| entry.hash);
        self.numbers.insert_unique(hash, number, hash_at);
    }

    /// Adds what another table counted.
    pub(crate) fn merge(&mut self, other: &Distinct) {
        other.iter().for_each(|(who, chain, weight)| self.add(who, chain, weight));
        self.cut = self.cut.saturating_add(other.cut);
        self.refused = self.refused.saturating_add(other.refused);
    }

    /// All chains, in an order that does not depend on who met them when.
    pub(crate) fn sorted(&self) -> Vec<(Who, &[u64], Weight)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_unstable_by(|(who, chain, _), (other, others, _)| {
            who.cmp(other).then_with(|| chain.cmp(others))
        });
        all
    }

    /// All chains, in the order in which they were first met.
    fn iter(&self) -> impl Iterator<Item = (Who, &[u64], Weight)> {
        self.entries.iter().map(|entry| {
            let chain = self.words.get(entry.begin..entry.end).unwrap_or_default();
            (entry.who, chain, entry.weight)
        })
    }
}

fn hash_of(who: Who, chain: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    who.hash(&mut hasher);
    chain.iter().for_each(|&word| hasher.write_u64(word));
    hasher.finish()
}

/// Whether two chains are one; most have a mark and an address, for which a call costs more than the
/// comparison.
#[inline]
fn same_words(one: &[u64], other: &[u64]) -> bool {
    match (one, other) {
        ([a, b], [c, d]) => a == c && b == d,
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn who(pid: i32) -> Who {
        Who { event: 0, pid, tid: pid, name: 0, version: 1, block: 0, cgroup: 0 }
    }

    proptest::proptest! {
        #[test]
        fn a_table_sums_as_a_map_does_and_merging_is_commutative(
            samples in proptest::collection::vec((0i32..3, proptest::collection::vec(0u64..4, 0..4), 1u64..9), 0..60),
            cut in 0usize..60,
        ) {
            let table = |part: &[(i32, Vec<u64>, u64)]| {
                let mut table = Distinct::default();
                part.iter().for_each(|(pid, chain, p)| table.add(who(*pid), chain, Weight::one(*p)));
                table
            };
            let sums = |table: &Distinct| -> BTreeMap<(i32, Vec<u64>), (u64, u64)> {
                table.iter().map(|(w, c, x)| ((w.pid, c.to_vec()), (x.samples, x.period))).collect()
            };
            let mut expected: BTreeMap<(i32, Vec<u64>), (u64, u64)> = BTreeMap::new();
            for (pid, chain, period) in &samples {
                let sum = expected.entry((*pid, chain.clone())).or_default();
                *sum = (sum.0 + 1, sum.1 + period);
            }
            let (one, other) = samples.split_at(cut.min(samples.len()));
            let (mut forth, mut back) = (table(one), table(other));
            forth.merge(&table(other));
            back.merge(&table(one));
            proptest::prop_assert_eq!(&sums(&table(&samples)), &expected);
            proptest::prop_assert_eq!(&sums(&forth), &expected);
            proptest::prop_assert_eq!(&sums(&back), &expected);
        }
    }
}
