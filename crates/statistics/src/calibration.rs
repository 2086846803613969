//! Does the test keep its promise on this machine? The same program compared with itself, many
//! times over.
//!
//! One recorded stream of runs of one binary is cut into comparisons, each gets random labels as
//! the schedule would have given them, and the share of "different" is counted. Where the stream is
//! shorter than all comparisons need, windows overlap and get new labels.

use crate::distribution::{clopper_pearson, kolmogorov_tail};
use crate::gauge::take_out;
use crate::pair::{Label, PairTest, Point};
use crate::{LayoutMeans, Observation, power, series, variance};
use random::Random;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What comparing a program with itself gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Comparisons made.
    pub comparisons: usize,
    /// Of these, called different (p < 5 %).
    pub different: usize,
    /// 95 % interval of the false positive rate (Clopper and Pearson).
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Largest distance between the p-values' distribution and the uniform one.
    pub ks_distance: f64,
    /// p-value of that distance.
    pub ks_p_value: f64,
    /// The p-values in ascending order, for the picture.
    pub p_values: Vec<f64>,
    /// Lag-1 autocorrelation of the stream: 0 where runs do not resemble their neighbours.
    pub autocorrelation: f64,
    /// σ_w: standard deviation of one run on the log scale, as far as it counts.
    pub run_deviation: f64,
    /// σ_L, where relinked binaries were run.
    pub layout_deviation: Option<f64>,
    /// Smallest difference (ln scale) noticed with 80 % probability.
    pub detectable: f64,
    /// Share of pairs of relinked binaries that the test of one pair calls different although the
    /// code is the same.
    pub relinked_pairs_different: Option<f64>,
}

impl Calibration {
    /// The false positive rate.
    pub fn rate(&self) -> f64 {
        self.different as f64 / self.comparisons.max(1) as f64
    }

    /// Is the nominal 5 % inside the interval?
    pub fn holds(&self) -> bool {
        self.low <= 0.05 && 0.05 <= self.high
    }

    fn from(mut p_values: Vec<f64>) -> Calibration {
        p_values.sort_unstable_by(f64::total_cmp);
        let n = p_values.len();
        let different = p_values.iter().filter(|&&p| p < 0.05).count();
        let (low, high) = clopper_pearson(different as u64, n as u64, 0.95);
        let away =
            |(i, p): (usize, &f64)| (p - i as f64 / n as f64).max((i + 1) as f64 / n as f64 - p);
        let ks_distance = p_values.iter().enumerate().map(away).fold(0.0, f64::max);
        Calibration {
            comparisons: n,
            different,
            low,
            high,
            ks_distance,
            ks_p_value: kolmogorov_tail(ks_distance, n),
            p_values,
            autocorrelation: 0.0,
            run_deviation: 0.0,
            layout_deviation: None,
            detectable: 0.0,
            relinked_pairs_different: None,
        }
    }
}

/// Runs `comparisons` A/A comparisons of `rounds` rounds each on `stream` (ln values of one binary
/// in time order). `gauge`: ln of what a gauge showed beside each, which every comparison takes out
/// by itself. `None` when the stream has fewer than two runs per round.
pub fn same_binary(
    stream: &[f64],
    gauge: Option<&[f64]>,
    rounds: usize,
    comparisons: usize,
    draws: usize,
    seed: u64,
) -> Option<Calibration> {
    let need = 2 * rounds;
    if need == 0 || stream.len() < need {
        return None;
    }
    let mut random = Random::new(seed);
    let places = stream.len() - need;
    let apart = stream.len() / need;
    let mut p_values = Vec::with_capacity(comparisons);
    let mut errors = Vec::new();
    for comparison in 0..comparisons {
        // As long as they last windows lie side by side; then they start anywhere.
        let start = if comparison < apart { comparison * need } else { random.below(places + 1) };
        let window = stream.get(start..start + need)?;
        let mut points = labelled(window, &mut random);
        if let Some(gauge) = gauge.and_then(|gauge| gauge.get(start..start + need)) {
            adjust(&mut points, gauge);
        }
        let test = PairTest::new(points, draws, random.next_bits());
        p_values.push(test.p_value(0.0));
        if errors.len() < 9 {
            errors.extend(test.interval(0.95).standard_error(0.95, need as f64 - 2.0));
        }
    }
    let mut calibration = Calibration::from(p_values);
    calibration.autocorrelation = series::autocorrelation(stream);
    let error = crate::robust::median(&mut errors);
    calibration.run_deviation = error * (rounds as f64 / 2.0).sqrt();
    calibration.detectable = power::detectable(error, need as f64 - 2.0, 0.05, power::POWER);
    Some(calibration)
}

/// Consecutive runs as rounds of A and B in random order.
fn labelled(window: &[f64], random: &mut Random) -> Vec<Point> {
    let mut points = Vec::with_capacity(window.len());
    for (round, pair) in window.chunks_exact(2).enumerate() {
        let first = random.next_bits() & 1 == 0;
        let labels = if first { [Label::A, Label::B] } else { [Label::B, Label::A] };
        points.extend(labels.iter().zip(pair).map(|(&label, &log)| Point { label, round, log }));
    }
    points
}

/// Takes out what the gauge explains, as a comparison does.
fn adjust(points: &mut [Point], gauge: &[f64]) {
    let observation = |point: &Point| Observation {
        round: point.round as u32,
        variant: usize::from(point.label == Label::B),
        layout: 0,
        copy: 0,
        log: point.log,
    };
    let mut observations: Vec<Observation> = points.iter().map(observation).collect();
    if take_out(&mut observations, gauge).is_ok() {
        for (point, observation) in points.iter_mut().zip(observations) {
            point.log = observation.log;
        }
    }
}

/// Runs `comparisons` comparisons among relinks of one program: each takes 2 × `layouts` of the
/// recorded binaries at random as "A" and "B" and asks for the layout-averaged effect; and takes
/// two at random and asks the test of one pair, which is expected to fail. All binaries count,
/// whatever their variant. `None` with fewer than 2 × `layouts`.
///
/// With few binaries the comparisons resemble each other, so the interval of the rate is too short:
/// record three times as many as one comparison needs.
pub fn relinked(
    observations: &[Observation],
    layouts: usize,
    comparisons: usize,
    draws: usize,
    seed: u64,
) -> Option<Calibration> {
    let binaries: BTreeSet<(usize, u32)> =
        observations.iter().map(|o| (o.variant, o.layout)).collect();
    if layouts < 2 || binaries.len() < 2 * layouts {
        return None;
    }
    let means = LayoutMeans::new(observations);
    let levels: BTreeMap<(usize, u32), f64> = means.levels();
    let mut random = Random::new(seed);
    let mut chosen: Vec<(usize, u32)> = binaries.into_iter().collect();
    let (mut p_values, mut errors, mut pairs) = (Vec::new(), Vec::new(), 0);
    for _ in 0..comparisons {
        random.shuffle(&mut chosen);
        let level: Vec<f64> =
            chosen.iter().take(2 * layouts).filter_map(|key| levels.get(key).copied()).collect();
        let (a, b) = level.split_at(layouts);
        let effect = crate::independent_effect(a, b, draws, random.next_bits());
        p_values.push(effect.p_value);
        errors.push(effect.standard_error);
        let pair = one_pair(observations, chosen[0], chosen[1]);
        pairs += usize::from(
            PairTest::new(pair, draws.min(1999), random.next_bits()).p_value(0.0) < 0.05,
        );
    }
    let components = variance::components(observations, &means, None)?;
    let mut calibration = Calibration::from(p_values);
    let logs: Vec<f64> = means.in_time(observations);
    calibration.autocorrelation = series::autocorrelation(&logs);
    calibration.run_deviation = components.run_variance.sqrt();
    calibration.layout_deviation = Some(components.layout_variance.sqrt());
    let error = crate::robust::median(&mut errors);
    calibration.detectable =
        power::detectable(error, 2.0 * layouts as f64 - 2.0, 0.05, power::POWER);
    calibration.relinked_pairs_different = Some(pairs as f64 / comparisons.max(1) as f64);
    Some(calibration)
}

/// The first run per round of two binaries, in time order, all others dropped.
fn one_pair(observations: &[Observation], a: (usize, u32), b: (usize, u32)) -> Vec<Point> {
    let mut rounds = BTreeMap::<u32, [bool; 2]>::new();
    let side = |o: &Observation| match (o.variant, o.layout) {
        key if key == a => Some(0usize),
        key if key == b => Some(1),
        _ => None,
    };
    let wanted = |o: &&Observation| o.copy == 0;
    for o in observations.iter().filter(wanted) {
        if let Some(side) = side(o) {
            rounds.entry(o.round).or_default()[side] = true;
        }
    }
    let complete: BTreeMap<u32, usize> = rounds
        .into_iter()
        .filter(|(_, both)| both[0] && both[1])
        .map(|(round, _)| round)
        .zip(0..)
        .collect();
    let point = |o: &Observation| {
        let (side, &round) = (side(o)?, complete.get(&o.round)?);
        Some(Point { label: if side == 0 { Label::A } else { Label::B }, round, log: o.log })
    };
    observations.iter().filter(wanted).filter_map(point).collect()
}
