//! Which random numbers does a seed give? The same ones on every machine and in every release.

use ::random::Random;

/// The stream of a seed for one purpose; purposes get streams that have nothing in common.
pub(crate) fn stream(seed: u64, purpose: &str) -> Random {
    let start = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut random = Random::new(start ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    random.next_bits();
    random
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_every_item_and_follows_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            stream(seed, "test").shuffle(&mut items);
            items
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        let mut sorted = shuffled(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn each_place_is_equally_likely() {
        let mut seen = [[0_u32; 4]; 4];
        for seed in 0..4000 {
            let mut items = [0_usize, 1, 2, 3];
            stream(seed, "test").shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                seen[item][place] += 1;
            }
        }
        assert!(seen.iter().flatten().all(|&count| (850..1150).contains(&count)), "{seen:?}");
    }
}
