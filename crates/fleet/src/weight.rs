//! How much does a count weigh? A fixed-point number with 32 bits before and 16 behind the point, so
//! that every engine gets the same sums.
//!
//! A weighted count is `(count × weight + 32768) >> 16` in 128 bits, for each row of each shard.

use std::num::NonZeroU64;
use std::str::FromStr;

/// The number of bits behind the point.
const BITS: u32 = 16;
/// Digits behind the point that are read.
const MOST_DIGITS: usize = 18;
/// Binary digits of the part of a half-life that are looked at.
const DIGITS: usize = 32;
/// Bits behind the point while a decay is computed.
const FINE: u32 = 62;

/// The largest weight: below 2^32.
const MOST: u64 = (1 << 48) - 1;

/// A weight from 0 to 4294967295.99998, in 1/65536.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u64);

impl Weight {
    /// What changes nothing.
    pub const ONE: Weight = Weight(1 << BITS);

    /// So many 1/65536; none where they are 2^48 or more.
    pub fn from_bits(bits: u64) -> Option<Weight> {
        (bits <= MOST).then_some(Weight(bits))
    }

    /// How many 1/65536.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A count with this weight; `None` where 128 bits do not suffice.
    pub fn of(self, count: u128) -> Option<u128> {
        let half = 1 << (BITS - 1);
        Some(count.checked_mul(u128::from(self.0))?.checked_add(half)? >> BITS)
    }

    /// Both weights together, rounded as a count is; `None` where they exceed the largest weight.
    pub fn times(self, other: Weight) -> Option<Weight> {
        other.of(u128::from(self.0)).and_then(|bits| Weight::from_bits(u64::try_from(bits).ok()?))
    }

    /// What is left at an age in seconds, where half is left after each half-life: 2^(−age ÷
    /// half-life), in integers alone.
    ///
    /// The whole half-lives shift; of what is left over, each of the first 32 binary digits that is
    /// 1 multiplies by 2^(−1/2), 2^(−1/4) and so on, which are square roots of each other, rounded
    /// down to 62 bits. The result is rounded to the nearest 1/65536.
    pub fn decayed(age: u64, half_life: NonZeroU64) -> Weight {
        let half_life = u128::from(half_life.get());
        let (whole, mut left) = (u128::from(age) / half_life, u128::from(age) % half_life);
        if whole > u128::from(BITS) + 1 {
            return Weight(0);
        }
        let mut weight = 1u128 << FINE;
        // 2^(−1/2) in 62 bits is the root of 2^123.
        let mut root = (1u128 << (2 * FINE - 1)).isqrt();
        for _ in 0..DIGITS {
            left *= 2;
            if left >= half_life {
                left -= half_life;
                weight = (weight * root) >> FINE;
            }
            root = (root << FINE).isqrt();
        }
        let shift = u128::from(FINE - BITS) + whole;
        Weight(u64::try_from((weight + (1 << (shift - 1))) >> shift).unwrap_or(MOST))
    }
}

/// Why a text is no weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a number from 0 to 65535, with at most 18 digits behind the point")]
pub struct NoWeight;

impl FromStr for Weight {
    type Err = NoWeight;

    /// Reads a decimal number, rounded to the nearest 1/65536.
    fn from_str(text: &str) -> Result<Weight, NoWeight> {
        let (whole, behind) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(behind) || behind.len() > MOST_DIGITS {
            return Err(NoWeight);
        }
        let whole: u16 = whole.parse().map_err(|_| NoWeight)?;
        let part: u128 = behind.parse().map_err(|_| NoWeight)?;
        let scale = behind.bytes().fold(1u128, |scale, _| scale * 10);
        let bits = ((part << (BITS + 1)) + scale) / (2 * scale);
        let bits = (u128::from(whole) << BITS) + bits;
        let bits = u32::try_from(bits).map_err(|_| NoWeight)?;
        Ok(Weight(u64::from(bits)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn decimal_numbers_become_the_nearest_weights() {
        let bits = |text: &str| text.parse::<Weight>().map(Weight::bits);
        assert_eq!(bits("1"), Ok(65536));
        assert_eq!(bits("0.5"), Ok(32768));
        assert_eq!(bits("0.1"), Ok(6554));
        assert_eq!(bits("0.000007"), Ok(0));
        assert_eq!(bits("0.000008"), Ok(1));
        assert_eq!(bits("65535.99998"), Ok(u64::from(u32::MAX)));
        for bad in ["", "-1", "1e3", ".5", "1.", "65536", "65535.9999999", "1.0000000000000000000"]
        {
            assert_eq!(bits(bad), Err(NoWeight), "{bad}");
        }
    }

    #[test]
    fn half_is_left_after_each_half_life() {
        let day = NonZeroU64::new(86400).unwrap();
        let at = |age: u64| Weight::decayed(age, day).bits();
        assert_eq!([at(0), at(86400), at(2 * 86400), at(16 * 86400)], [65536, 32768, 16384, 1]);
        assert_eq!([at(17 * 86400), at(18 * 86400), at(u64::MAX)], [1, 0, 0]);
        for age in (0..20 * 86400).step_by(997) {
            let exact = 65536.0 * (-(age as f64) / 86400.0).exp2();
            assert!((at(age) as f64 - exact).abs() < 0.501, "{age}: {} {exact}", at(age));
            assert!(at(age) >= at(age + 997), "{age}");
        }
    }

    #[test]
    fn a_weighted_count_is_rounded_and_never_wraps() {
        let half = Weight::from_bits(32768).unwrap();
        assert_eq!(
            [half.of(0), half.of(1), half.of(2), half.of(3)].map(Option::unwrap),
            [0, 1, 1, 2]
        );
        assert_eq!(Weight::ONE.of(u128::MAX), None);
        assert_eq!(Weight::ONE.of(7), Some(7));
        assert_eq!(half.times(half), Weight::from_bits(16384));
        let most = Weight::from_bits((1 << 48) - 1).unwrap();
        assert_eq!(most.times(most), None);
        assert_eq!(Weight::from_bits(1 << 48), None);
    }
}
