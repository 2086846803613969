//! Which random numbers are drawn? Splitmix64: one seed repeats a whole schedule on every machine.
//!
//! Source: Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators" (OOPSLA 2014,
//! doi:10.1145/2660193.2660195).

/// A small deterministic generator (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014).
///
/// It decides run orders and label swaps, nothing secret.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 uniformly random bits.
    pub fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform number in `0..limit` (0 when the limit is 0).
    pub fn below(&mut self, limit: usize) -> usize {
        // Lemire's multiply-shift; its bias is below limit/2^64, which no schedule can notice.
        ((u128::from(self.next_bits()) * limit as u128) >> 64) as usize
    }

    /// A uniform number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.next_bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Puts the items into uniformly random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_splitmix64() {
        // Reference values of the published algorithm for seed 0.
        let mut random = Random::new(0);
        assert_eq!(random.next_bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.next_bits(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn every_order_of_three_is_equally_frequent() {
        let mut random = Random::new(7);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
