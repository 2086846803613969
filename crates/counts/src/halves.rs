//! Which half of the samples is a sample of?
//!
//! Every sample belongs to one of two halves, told by its place in the recording: the same bytes
//! fall apart in the same way, whatever the number of threads, and a recording repeated sample by
//! sample does too, although its times differ. The place is mixed first, since samples of one size
//! would else fall apart by a pattern that a loop could share. What the two halves agree about is
//! what [`crate::evidence`] measures.

/// 1 for a sample of the first half, 0 for one of the second.
#[inline(always)]
pub(crate) fn of(position: u64) -> u64 {
    // The finaliser of splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
    let mixed = (position ^ (position >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed >> 63
}

#[cfg(test)]
mod tests {
    #[test]
    fn samples_of_any_size_fall_into_halves() {
        for bytes in [1u64, 40, 64, 96, 1 << 12, 24_640, 24_648] {
            let first: u64 = (0..10_000).map(|n| super::of(n * bytes)).sum();
            assert!((4_800..5_200).contains(&first), "{first} of 10,000 samples of {bytes} bytes");
        }
    }
}
