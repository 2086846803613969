//! Every taken branch counted in memory: how often each was taken, by where the next one was.
//!
//! A *trace* is a taken branch (from, to) with the source of the branch taken after it: the branch
//! and the straight line that follows it, in one key. Where the branch stack was emptied before
//! another branch came, nothing is known of what followed, and [`NONE`] stands in its place. The
//! sum of all counts is the number of taken branches.
//!
//! The table of a virtual CPU holds distinct traces, some ten thousands for a kernel under a broad
//! load, so its memory does not depend on how long the machine runs. At the end the tables are
//! added up, sorted and written to the spool, into one chunk whose bytes are [`Entry`]s in place of
//! perf records.

use crate::spool::{SpoolFile, Stream};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

/// In place of the next branch's source: none followed. No instruction lies at the last address.
pub const NONE: u64 = u64::MAX;
/// Bytes of an entry in the spool: source, target, the next source and the count, eight bytes each,
/// in the machine's order.
pub const ENTRY_BYTES: usize = 32;

/// Source, target, source of the next branch or [`NONE`]; and how often.
pub type Entry = [u64; 4];

/// How often each trace was seen.
#[derive(Debug)]
pub struct Traces(HashMap<[u64; 3], u64, Mixed>);

impl Traces {
    /// None yet; takes no memory.
    pub const EMPTY: Traces = Traces(HashMap::with_hasher(Mixed));

    /// Counts one.
    #[inline]
    pub fn add(&mut self, branch: [u64; 2], next_from: u64) {
        *self.0.entry([branch[0], branch[1], next_from]).or_insert(0) += 1;
    }

    /// Adds another table's.
    pub fn merge(&mut self, other: Traces) {
        for (trace, count) in other.0 {
            *self.0.entry(trace).or_insert(0) += count;
        }
    }

    /// All of them, sorted.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> =
            self.0.iter().map(|(&[a, b, c], &count)| [a, b, c, count]).collect();
        entries.sort_unstable();
        entries
    }

    /// Writes all of them into a chunk of their own; `None` when the file cannot grow.
    pub fn write(&self, spool: &SpoolFile) -> Option<()> {
        let bytes: Vec<u8> =
            self.entries().into_iter().flatten().flat_map(u64::to_ne_bytes).collect();
        if bytes.is_empty() {
            return Some(());
        }
        Stream::new().append(spool, &bytes)
    }
}

/// Reads what [`Traces::write`] put into a chunk; bytes after the last whole entry are left alone.
pub fn read(chunk: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    let (words, _) = chunk.as_chunks::<8>();
    let (entries, _) = words.as_chunks::<4>();
    entries.iter().map(|entry| entry.map(u64::from_ne_bytes))
}

/// Hashes addresses, which nobody chooses with ill will, by multiplication (Fibonacci hashing).
#[derive(Clone, Copy, Debug)]
struct Mixed;

struct Mixer(u64);

impl BuildHasher for Mixed {
    type Hasher = Mixer;

    #[inline]
    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

impl Hasher for Mixer {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        // Arrays of numbers are hashed as their bytes.
        for word in bytes.as_chunks::<8>().0 {
            self.write_u64(u64::from_ne_bytes(*word));
        }
    }

    #[inline]
    fn write_usize(&mut self, _length: usize) {}

    #[inline]
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // The table takes its place from the low bits, which a product mixes least.
        self.0 ^ (self.0 >> 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_of_several_tables_add_up() {
        let (mut one, mut two) = (Traces::EMPTY, Traces::EMPTY);
        for next in [5, 5, NONE] {
            one.add([1, 2], next);
            two.add([1, 2], next);
        }
        two.add([0, 9], 9);
        one.merge(two);
        assert_eq!(one.entries(), [[0, 9, 9, 1], [1, 2, 5, 4], [1, 2, NONE, 2]]);
        let bytes: Vec<u8> =
            one.entries().into_iter().flatten().flat_map(u64::to_ne_bytes).collect();
        assert_eq!(bytes.len(), 3 * ENTRY_BYTES);
        assert_eq!(read(&bytes).collect::<Vec<_>>(), one.entries());
        assert_eq!(read(&bytes[..ENTRY_BYTES + 31]).count(), 1);
    }

    #[test]
    fn neighbouring_addresses_get_places_of_their_own() {
        // Branches of kernels lie a few bytes apart, mostly at even distances from where they lead.
        let places = |bits: u32| {
            let keys = (0..4096u64)
                .map(|at| [0xffff_ffff_8100_0000 + at * 16, 0xffff_ffff_8100_0400 + at * 16, 7]);
            let hashes = keys.map(|key| Mixed.hash_one(key));
            hashes
                .map(|hash| hash & ((1 << bits) - 1))
                .collect::<std::collections::HashSet<_>>()
                .len()
        };
        // With as many places as keys a random function leaves 37 % of them empty.
        assert!(places(12) > 2300, "{}", places(12));
        assert!(places(16) > 3800, "{}", places(16));
    }
}
