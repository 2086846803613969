//! What would the mean of differences be, had the schedule swapped the two programs in some rounds?
//!
//! All patterns of swaps over few rounds, else patterns drawn once and used for every shift. A swap
//! turns the sign of its round's difference. Values are rounded to whole numbers (a
//! hundred-thousandth of the largest or finer), so that equal sums are equal in whatever order they
//! are added, and several patterns fit into one register.

use random::Random;

/// Up to this many rounds every pattern of swaps is tried.
pub const EXACT_ROUNDS: usize = 14;
/// Patterns walked side by side.
const LANES: usize = 128;
/// Steps (patterns × rounds) that one test may take; fewer patterns are drawn beyond.
const STEPS: usize = 40_000_000;
/// Patterns that are drawn at least: p = 0.05 is then known to ± 0.01 (95 %).
const FEWEST: usize = 1999;

/// Patterns of swaps of a number of rounds.
pub(crate) struct Swaps {
    rounds: usize,
    drawn: usize,
    exact: bool,
    /// For each block of `LANES` patterns and each round, `LANES` bytes: −1 where the round is
    /// swapped, else 0.
    masks: Vec<i8>,
}

impl Swaps {
    pub(crate) fn new(rounds: usize, draws: usize, seed: u64) -> Self {
        let exact = rounds <= EXACT_ROUNDS;
        let affordable = (STEPS / rounds.max(1)).max(FEWEST);
        let drawn = if exact { 1 << rounds } else { draws.min(affordable) };
        let mut masks = vec![0i8; drawn.div_ceil(LANES) * rounds * LANES];
        let mut random = Random::new(seed);
        for (block, lanes) in masks.chunks_exact_mut((rounds * LANES).max(1)).enumerate() {
            for (round, bytes) in lanes.chunks_exact_mut(LANES).enumerate() {
                for (at, chunk) in bytes.chunks_exact_mut(64).enumerate() {
                    let bits = if exact { 0 } else { random.next_bits() };
                    for (lane, byte) in chunk.iter_mut().enumerate() {
                        let pattern = (block * LANES + at * 64 + lane) as u64;
                        *byte =
                            -((if exact { pattern >> round & 1 } else { bits >> lane & 1 }) as i8);
                    }
                }
            }
        }
        Swaps { rounds, drawn, exact, masks }
    }

    /// Share of patterns whose sum is at least as far from 0 as without swaps. `differences` per
    /// round.
    pub(crate) fn p_value(&self, differences: &[f64]) -> f64 {
        let values = whole(differences);
        let observed = values.iter().sum::<i32>().unsigned_abs();
        let mut extreme = 0usize;
        for (block, masks) in self.masks.chunks_exact((self.rounds * LANES).max(1)).enumerate() {
            let sums = sums(&values, masks);
            let used = (self.drawn - block * LANES).min(LANES);
            extreme += sums.iter().take(used).filter(|sum| sum.unsigned_abs() >= observed).count();
        }
        if self.rounds == 0 {
            1.0
        } else if self.exact {
            extreme as f64 / self.drawn as f64
        } else {
            (extreme + 1) as f64 / (self.drawn + 1) as f64
        }
    }
}

/// The differences as whole numbers, of which no sum leaves the register.
fn whole(differences: &[f64]) -> Vec<i32> {
    let largest = differences.iter().fold(0.0f64, |m, d| m.max(d.abs()));
    let room = f64::from(i32::MAX) / differences.len().max(1) as f64 - 1.0;
    let scale = if largest > 0.0 { room / largest } else { 0.0 };
    differences.iter().map(|d| (d * scale).round() as i32).collect()
}

/// The sum under each of `LANES` patterns. Without branches, so that the compiler can use vectors.
fn sums(values: &[i32], masks: &[i8]) -> [i32; LANES] {
    let mut sums = [0i32; LANES];
    for (value, swapped) in values.iter().zip(masks.chunks_exact(LANES)) {
        for (mask, sum) in swapped.iter().zip(&mut sums) {
            // Two's complement: all ones turn the sign.
            let mask = i32::from(*mask);
            *sum += (value ^ mask) - mask;
        }
    }
    sums
}
