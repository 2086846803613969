//! How do two binaries differ as they were built? Test and interval on pairs of runs (`pair`).

use crate::Observation;
use crate::pair::{Label, PairTest, Point};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The effect between the two binaries as they were built, ln(B) − ln(A).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AsBuilt {
    /// The shift at which nothing differs any more.
    pub estimate: f64,
    /// Lower end of the 95 % interval; absent under six pairs of runs.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// Lower end of the 90 % interval.
    pub low90: Option<f64>,
    /// Upper end of the 90 % interval.
    pub high90: Option<f64>,
    /// Randomisation p-value, two-sided.
    pub p_value: f64,
    /// Rounds used.
    pub rounds: usize,
    /// Pairs of runs used: rounds × copies.
    pub blocks: usize,
    /// What the 95 % interval means as a standard error.
    pub standard_error: Option<f64>,
}

impl AsBuilt {
    /// Variant `b` against `a`, from all observations in time order; those of other binaries show
    /// how the machine was doing. Copy c of A and copy c of B form a pair in each round:
    /// swapping a pair is one of the orders that the schedule could as well have drawn. `None`
    /// without any such pair.
    pub fn of(
        observations: &[Observation],
        a: usize,
        b: usize,
        draws: usize,
        seed: u64,
    ) -> Option<AsBuilt> {
        let (test, rounds, blocks) = AsBuilt::prepared(observations, a, b, draws, seed)?;
        Some(AsBuilt::from_test(&test, rounds, blocks))
    }

    /// The test alone, for those who need no interval.
    pub fn test(
        observations: &[Observation],
        a: usize,
        b: usize,
        draws: usize,
        seed: u64,
    ) -> Option<PairTest> {
        AsBuilt::prepared(observations, a, b, draws, seed).map(|(test, _, _)| test)
    }

    fn prepared(
        observations: &[Observation],
        a: usize,
        b: usize,
        draws: usize,
        seed: u64,
    ) -> Option<(PairTest, usize, usize)> {
        let keys = |v: usize| -> BTreeSet<(u32, u8)> {
            observations
                .iter()
                .filter(|o| o.layout == 0 && o.variant == v)
                .map(|o| (o.round, o.copy))
                .collect()
        };
        let blocks: BTreeMap<(u32, u8), usize> =
            keys(a).intersection(&keys(b)).enumerate().map(|(index, &key)| (key, index)).collect();
        if blocks.is_empty() {
            return None;
        }
        let binaries: BTreeSet<(usize, u32)> =
            observations.iter().map(|o| (o.variant, o.layout)).collect();
        let other: BTreeMap<(usize, u32), usize> = binaries.into_iter().zip(0..).collect();
        let mut used = BTreeSet::new();
        let mut points = Vec::with_capacity(observations.len());
        for o in observations {
            let block = blocks.get(&(o.round, o.copy)).copied();
            let label = match (o.layout, block) {
                (0, Some(index)) if o.variant == a && used.insert((index, 0)) => Label::A,
                (0, Some(index)) if o.variant == b && used.insert((index, 1)) => Label::B,
                _ => Label::Other(other.get(&(o.variant, o.layout)).copied().unwrap_or(0)),
            };
            points.push(Point { label, round: block.unwrap_or(0), log: o.log });
        }
        let rounds = blocks.keys().map(|key| key.0).collect::<BTreeSet<u32>>().len();
        Some((PairTest::new(points, draws, seed), rounds, blocks.len()))
    }

    fn from_test(test: &PairTest, rounds: usize, blocks: usize) -> AsBuilt {
        let [wide, narrow] = test.intervals([0.95, 0.90]);
        let finite = |x: f64| Some(x).filter(|x| x.is_finite());
        AsBuilt {
            estimate: wide.estimate,
            low: finite(wide.low),
            high: finite(wide.high),
            low90: finite(narrow.low),
            high90: finite(narrow.high),
            p_value: test.p_value(0.0),
            rounds,
            blocks,
            standard_error: wide.standard_error(0.95, 2.0 * blocks as f64 - 2.0),
        }
    }
}
