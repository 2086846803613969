//! How does the log run time of consecutive runs wander? Four machines, from textbook to a shared
//! one that drifts.
//!
//! Normal numbers by Box and Muller, exponential ones by inversion; all effects multiply, so they
//! add on the log scale.

use random::Random;

/// A kind of machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// Independent lognormal runs, 0.8 %.
    Independent,
    /// Bare metal: 0.4 % jitter, rare slow runs, two page-placement modes.
    Quiet,
    /// A shared virtual machine: 0.8 % jitter, more and slower outliers, a level with memory,
    /// bursts of steal.
    Shared,
    /// The same with a ramp and, in three of ten sessions, a lasting step.
    Drifting,
}

impl Machine {
    pub const ALL: [Machine; 4] =
        [Machine::Independent, Machine::Quiet, Machine::Shared, Machine::Drifting];

    pub fn name(self) -> &'static str {
        match self {
            Machine::Independent => "iid",
            Machine::Quiet => "quiet",
            Machine::Shared => "vm",
            Machine::Drifting => "drift",
        }
    }

    /// Log noise of `runs` consecutive runs.
    pub fn noise(self, random: &mut Random, runs: usize) -> Vec<f64> {
        let shared = matches!(self, Machine::Shared | Machine::Drifting);
        if self == Machine::Independent {
            return (0..runs).map(|_| 0.008 * normal(random)).collect();
        }
        let (jitter, slow, slowness, mode) =
            if shared { (0.008, 0.08, 0.06, 0.01) } else { (0.004, 0.03, 0.02, 0.004) };
        let mut noise: Vec<f64> = (0..runs)
            .map(|_| {
                let mut x = jitter * normal(random);
                if random.unit() < slow {
                    x += slowness * exponential(random);
                }
                if random.unit() < 0.3 { x + mode } else { x }
            })
            .collect();
        if shared {
            neighbours(random, &mut noise);
        }
        if self == Machine::Drifting {
            ramp_and_step(random, &mut noise);
        }
        noise
    }
}

/// Noisy neighbours: a first-order autoregressive level (0.9, 1 %), and bursts that come after 80
/// runs on average, stay for 8 and cost 5 %.
fn neighbours(random: &mut Random, noise: &mut [f64]) {
    let step = 0.010 * (1.0f64 - 0.9 * 0.9).sqrt();
    let mut level = 0.010 * normal(random);
    for x in noise.iter_mut() {
        *x += level;
        level = 0.9 * level + step * normal(random);
    }
    let mut at = 0;
    loop {
        at += (80.0 * exponential(random)) as usize + 1;
        let length = (8.0 * exponential(random)) as usize + 1;
        let cost = 0.05 * exponential(random);
        if at >= noise.len() {
            return;
        }
        noise.iter_mut().skip(at).take(length).for_each(|x| *x += cost);
        at += length;
    }
}

/// A frequency ramp over the whole session (1.5 %), and sometimes a lasting step (2 %).
fn ramp_and_step(random: &mut Random, noise: &mut [f64]) {
    let slope = 0.015 * normal(random);
    let last = noise.len().saturating_sub(1).max(1) as f64;
    for (at, x) in noise.iter_mut().enumerate() {
        *x += slope * at as f64 / last;
    }
    if random.unit() < 0.3 {
        let from = 1 + random.below(noise.len().saturating_sub(1));
        let height = 0.02 * normal(random);
        noise.iter_mut().skip(from).for_each(|x| *x += height);
    }
}

/// A standard normal number.
pub fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.unit()).cos()
}

/// An exponential number with mean 1.
pub fn exponential(random: &mut Random) -> f64 {
    -(1.0 - random.unit()).ln()
}
