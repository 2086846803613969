//! What do few layouts claim where nothing differs, by the shape of what layouts do to a program?

use crate::cases::Row;
use crate::noise::normal;
use random::Random;
use statistics::{independent_effect, matched_effect};

/// How layouts move a program, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Law {
    Normal,
    /// Lognormal, σ 0.6: a few layouts are much slower.
    Skewed,
    /// A share of the layouts is slower by ten standard deviations.
    TwoSpeeds(f64),
    /// The base hardly moves, the variant by [`Law::Skewed`], at an equal mean.
    OneSkewed,
    /// The base by [`Law::Normal`], the variant by two speeds, at an equal mean.
    OneOfTwoSpeeds,
}

/// A law with a number of layouts.
pub struct Case {
    law: Law,
    layouts: usize,
    matched: bool,
}

/// Shares of the nominal levels at which is looked: one row, and the hardest of 8 and of 40.
const ROWS: [f64; 3] = [1.0, 8.0, 40.0];

/// Claims at each level.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    comparisons: u64,
    claims: [u64; 3],
}

impl Outcome {
    pub fn add(&mut self, other: &Outcome) {
        self.comparisons += other.comparisons;
        self.claims.iter_mut().zip(other.claims).for_each(|(sum, more)| *sum += more);
    }
}

pub fn all() -> Vec<Case> {
    let laws = [
        Law::Normal,
        Law::Skewed,
        Law::TwoSpeeds(0.25),
        Law::TwoSpeeds(0.05),
        Law::OneSkewed,
        Law::OneOfTwoSpeeds,
    ];
    let designs = [(6, true), (8, true), (12, true), (4, false), (8, false)];
    let case = |law| designs.map(|(layouts, matched)| Case { law, layouts, matched });
    laws.into_iter().flat_map(case).collect()
}

impl Law {
    fn level(self, variant: usize, random: &mut Random) -> f64 {
        let two = |random: &mut Random, share: f64| {
            normal(random) + if random.unit() < share { 10.0 } else { 0.0 }
        };
        match (self, variant) {
            (Law::Normal, _) | (Law::OneOfTwoSpeeds, 0) => normal(random),
            (Law::Skewed, _) => (0.6 * normal(random)).exp(),
            (Law::TwoSpeeds(share), _) => two(random, share),
            (Law::OneSkewed, 0) => 0.05 * normal(random),
            (Law::OneSkewed, _) => (0.6 * normal(random)).exp() - 0.18f64.exp(),
            (Law::OneOfTwoSpeeds, _) => two(random, 0.25) - 2.5,
        }
    }
}

impl Case {
    pub fn name(&self) -> String {
        let kind = if self.matched { "matched" } else { "independent" };
        format!("{:?}, {} {kind} layouts", self.law, self.layouts)
    }

    pub fn run(&self, seed: u64, index: u64) -> Outcome {
        let mut random = Random::new(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ index.wrapping_mul(0x1000_0000_01b3),
        );
        let mut levels = |variant| -> Vec<f64> {
            (0..self.layouts).map(|_| self.law.level(variant, &mut random)).collect()
        };
        let (a, b) = (levels(0), levels(1));
        let effect = if self.matched {
            matched_effect(&a, &b, 999, 1)
        } else {
            independent_effect(&a, &b, 999, 1)
        };
        let claims = ROWS.map(|rows| u64::from(effect.p_value < 0.05 / rows));
        Outcome { comparisons: 1, claims }
    }

    /// What to print. Two variants of one law may not claim more than is allowed; of different laws
    /// it is only seen.
    pub fn told(&self, o: &Outcome) -> Vec<Row> {
        let one_law = !matches!(self.law, Law::OneSkewed | Law::OneOfTwoSpeeds);
        let row = |(rows, hits): (f64, u64)| Row {
            name: format!("{}: claims at 5 % / {rows}", self.name()),
            hits,
            trials: o.comparisons,
            // With the noise of the simulation.
            target: one_law.then_some((0.0, 0.05 / rows * 1.4)),
        };
        ROWS.into_iter().zip(o.claims).map(row).collect()
    }
}
