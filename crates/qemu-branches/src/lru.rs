//! The model of every simulated cache and translation buffer: sets of keys, least recently used out
//! first.

use std::sync::atomic::{AtomicU32, Ordering};

/// A set-associative memory with true LRU replacement. A key is an address without its offset in
/// the line or page; its low bits choose the set.
pub struct Lru {
    ways: usize,
    mask: u64,
    /// Accesses so far.
    clock: u64,
    places: Vec<Place>,
}

#[derive(Clone, Copy)]
struct Place {
    key: u64,
    /// The clock when it was used last; 0 for an empty place, which is therefore filled first.
    used: u64,
}

/// No key: addresses are shifted right, so none has all bits set.
const NONE: u64 = u64::MAX;

const EMPTY: Place = Place { key: NONE, used: 0 };

/// Where a key stood when it was used last. Whoever uses a key again and again keeps one, and the
/// usual access needs no search then. It may be wrong at any time.
#[derive(Debug)]
pub struct Hint(AtomicU32);

impl Hint {
    /// Of a key that was never used.
    pub const fn none() -> Hint {
        Hint(AtomicU32::new(u32::MAX))
    }
}

impl Lru {
    /// A memory without any place, which holds everything. For statics, until the real one is made.
    pub const fn absent() -> Lru {
        Lru { ways: 0, mask: 0, clock: 0, places: Vec::new() }
    }

    /// An empty memory; `sets` is a power of two.
    pub fn new(sets: u64, ways: u32) -> Lru {
        let (ways, mask) = (ways as usize, sets.saturating_sub(1));
        Lru { ways, mask, clock: 0, places: vec![EMPTY; (mask as usize + 1) * ways] }
    }

    /// True for [`Lru::absent`].
    pub fn is_absent(&self) -> bool {
        self.places.is_empty()
    }

    /// Forgets all keys.
    pub fn empty(&mut self) {
        self.clock = 0;
        self.places.fill(EMPTY);
    }

    /// Uses a key; true when it was there, else it takes the place of the set's least recently used
    /// one.
    #[inline(always)]
    pub fn access(&mut self, key: u64, hint: &Hint) -> bool {
        self.clock += 1;
        match self.places.get_mut(hint.0.load(Ordering::Relaxed) as usize) {
            Some(place) if place.key == key => {
                place.used = self.clock;
                true
            }
            _ => self.search(key, hint),
        }
    }

    #[inline(never)]
    fn search(&mut self, key: u64, hint: &Hint) -> bool {
        let first = (key & self.mask) as usize * self.ways;
        let Some(set) = self.places.get_mut(first..first + self.ways) else { return true };
        let found = set.iter().position(|place| place.key == key);
        let oldest =
            || set.iter().enumerate().min_by_key(|(_, place)| place.used).map(|(way, _)| way);
        let Some(way) = found.or_else(oldest) else { return true };
        if let Some(place) = set.get_mut(way) {
            *place = Place { key, used: self.clock };
        }
        hint.0.store((first + way) as u32, Ordering::Relaxed);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn hits(memory: &mut Lru, keys: &[u64]) -> String {
        let hint = Hint::none();
        keys.iter().map(|key| if memory.access(*key, &hint) { 'h' } else { '.' }).collect()
    }

    #[test]
    fn a_direct_mapped_memory_keeps_the_last_key_of_each_set() {
        assert_eq!(hits(&mut Lru::new(4, 1), &[0, 1, 0, 4, 0, 1, 5, 1]), "..h..h..");
    }

    #[test]
    fn the_key_unused_for_longest_leaves_a_full_set() {
        // Fully associative, three places: 4 displaces 2 since 1 was used again; then 2 displaces
        // 3, and 3 displaces 1.
        assert_eq!(hits(&mut Lru::new(1, 3), &[1, 2, 3, 1, 4, 2, 1, 3, 4]), "...h..h..");
    }

    #[test]
    fn a_cycle_one_longer_than_the_memory_never_hits_and_one_that_fits_always_does() {
        let cycle = |length: u64| (0..length).cycle().take(4 * length as usize).collect::<Vec<_>>();
        let mut full = Lru::new(8, 8);
        assert_eq!(
            cycle(64).iter().filter(|key| full.access(**key, &Hint::none())).count(),
            3 * 64
        );
        let mut one_set = Lru::new(1, 8);
        assert_eq!(cycle(9).iter().filter(|key| one_set.access(**key, &Hint::none())).count(), 0);
        assert!(Lru::absent().access(5, &Hint::none()), "a memory that is not there never misses");
    }

    /// The same by the book: remember when each key was used last, and drop the oldest of a full
    /// set.
    struct Reference {
        sets: u64,
        ways: usize,
        used: HashMap<u64, HashMap<u64, usize>>,
    }

    impl Reference {
        fn access(&mut self, now: usize, key: u64) -> bool {
            let set = self.used.entry(key % self.sets).or_default();
            let hit = set.insert(key, now).is_some();
            if set.len() > self.ways {
                let oldest = *set.iter().min_by_key(|(_, time)| **time).unwrap().0;
                set.remove(&oldest);
            }
            hit
        }
    }

    proptest! {
        #[test]
        fn any_sequence_hits_as_in_the_reference(
            sets in 0u32..4, ways in 1u32..9, keys in proptest::collection::vec(0u64..60, 0..400),
        ) {
            let sets = 1u64 << sets;
            let mut memory = Lru::new(sets, ways);
            // Two keys share a hint, so it is right at times and wrong at others.
            let hints: Vec<Hint> = (0..30).map(|_| Hint::none()).collect();
            let mut reference = Reference { sets, ways: ways as usize, used: HashMap::new() };
            for (now, key) in keys.into_iter().enumerate() {
                prop_assert_eq!(memory.access(key, &hints[key as usize % 30]), reference.access(now, key));
            }
        }
    }
}
