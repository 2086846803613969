//! What would the difference of trimmed means be, had the schedule swapped the two programs in some
//! rounds?
//!
//! All patterns of swaps over few rounds, else patterns drawn once and used for every shift. The
//! residuals are sorted once; a swap changes labels only, so each pattern is a walk along the
//! sorted values that keeps, per side, those whose rank is not cut off. Values are rounded to whole
//! numbers (a hundred-thousandth of the largest or finer), so that equal values are equal in
//! whatever order they are added, and several patterns fit into one register.

use random::Random;

/// Up to this many rounds every pattern of swaps is tried.
pub const EXACT_ROUNDS: usize = 14;
/// Patterns walked side by side.
const LANES: usize = 128;
/// Steps (patterns × runs) that one test may take; fewer patterns are drawn beyond.
const STEPS: usize = 20_000_000;
/// Patterns that are drawn at least: p = 0.05 is then known to ± 0.01 (95 %).
const FEWEST: usize = 1999;

/// Patterns of swaps of a number of rounds.
pub(crate) struct Swaps {
    rounds: usize,
    drawn: usize,
    exact: bool,
    /// For each block of `LANES` patterns and each round, `LANES` bytes: 1 where the round is
    /// swapped.
    masks: Vec<u8>,
}

/// One residual in sorted order.
struct Step {
    value: i32,
    round: usize,
    side: i32,
}

impl Swaps {
    pub(crate) fn new(rounds: usize, draws: usize, seed: u64) -> Self {
        let exact = rounds <= EXACT_ROUNDS;
        let affordable = (STEPS / (2 * rounds.max(1))).max(FEWEST);
        let drawn = if exact { 1 << rounds } else { draws.min(affordable) };
        let mut masks = vec![0u8; drawn.div_ceil(LANES) * rounds * LANES];
        let mut random = Random::new(seed);
        for (block, lanes) in masks.chunks_exact_mut((rounds * LANES).max(1)).enumerate() {
            for (round, bytes) in lanes.chunks_exact_mut(LANES).enumerate() {
                for (at, chunk) in bytes.chunks_exact_mut(64).enumerate() {
                    let bits = if exact { 0 } else { random.next_bits() };
                    for (lane, byte) in chunk.iter_mut().enumerate() {
                        let pattern = (block * LANES + at * 64 + lane) as u64;
                        *byte = if exact { pattern >> round & 1 } else { bits >> lane & 1 } as u8;
                    }
                }
            }
        }
        Swaps { rounds, drawn, exact, masks }
    }

    /// Share of patterns whose statistic is at least as far from 0 as without swaps. `residuals`
    /// per round of A and B; `cut` values go at each end of each side.
    pub(crate) fn p_value(&self, residuals: &[[f64; 2]], cut: usize) -> f64 {
        let steps = steps(residuals);
        let (low, high) = (cut as i32, (self.rounds - cut) as i32);
        let observed = observed(&steps, low, high);
        let mut extreme = 0usize;
        for (block, masks) in self.masks.chunks_exact((self.rounds * LANES).max(1)).enumerate() {
            let sums = walk(&steps, masks, low, high);
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

fn steps(residuals: &[[f64; 2]]) -> Vec<Step> {
    let largest = residuals.iter().flatten().fold(0.0f64, |m, r| m.max(r.abs()));
    // Both sides' sums together stay below 2^31.
    let room = f64::from(i32::MAX) / (2 * residuals.len().max(1)) as f64 - 1.0;
    let scale = if largest > 0.0 { room / largest } else { 0.0 };
    let step = |(round, pair): (usize, &[f64; 2])| {
        [0, 1].map(|side| Step {
            value: (pair[side] * scale).round() as i32,
            round,
            side: side as i32,
        })
    };
    let mut steps: Vec<Step> = residuals.iter().enumerate().flat_map(step).collect();
    steps.sort_unstable_by_key(|s| (s.value, s.round, s.side));
    steps
}

fn observed(steps: &[Step], low: i32, high: i32) -> u32 {
    let (mut seen, mut sum) = ([0i32; 2], [0i32; 2]);
    for step in steps {
        let side = step.side as usize;
        if (low..high).contains(&seen[side]) {
            sum[side] += step.value;
        }
        seen[side] += 1;
    }
    (sum[1] - sum[0]).unsigned_abs()
}

/// Difference of the kept sums under each of `LANES` patterns. Without branches, so that the
/// compiler can use vectors.
fn walk(steps: &[Step], masks: &[u8], low: i32, high: i32) -> [i32; LANES] {
    let mut seen = [0i32; LANES];
    let mut sums = [0i32; LANES];
    for (position, step) in steps.iter().enumerate() {
        let position = position as i32;
        let Some(swapped) = masks.get(step.round * LANES..(step.round + 1) * LANES) else {
            continue;
        };
        for ((mask, seen), sum) in swapped.iter().zip(&mut seen).zip(&mut sums) {
            // All ones on side B, zero on side A.
            let b = -(i32::from(*mask) ^ step.side);
            let rank = (*seen & b) | ((position - *seen) & !b);
            let kept = -i32::from((rank >= low) & (rank < high));
            // On side A the value counts negatively: two's complement of it.
            let signed = (step.value ^ !b) - !b;
            *sum += signed & kept;
            *seen -= b;
        }
    }
    sums
}
