//! Does a gauge take noise away, and nothing else?

use super::*;
use crate::{AnswerOptions, compare};
use random::Random;

/// Rounds of two programs on a CPU whose neighbour comes and goes, which slows both programs and
/// what the gauge times.
fn measured(rounds: u32, effect: f64, seed: u64) -> (Vec<Observation>, Vec<f64>) {
    beside(rounds, effect, seed, |busy, unit| if busy { 0.4 + 0.6 * unit } else { 0.2 * unit })
}

/// The same with a neighbour that is wholly there, or not.
fn in_two_groups(rounds: u32, seed: u64) -> (Vec<Observation>, Vec<f64>) {
    beside(rounds, 0.0, seed, |busy, unit| if busy { 0.95 + 0.05 * unit } else { 0.05 * unit })
}

fn beside(
    rounds: u32,
    effect: f64,
    seed: u64,
    share: fn(bool, f64) -> f64,
) -> (Vec<Observation>, Vec<f64>) {
    let mut random = Random::new(seed);
    let mut busy = false;
    let (mut observations, mut gauge) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let first = usize::from(random.unit() < 0.5);
        for variant in [first, 1 - first] {
            busy ^= random.unit() < 0.5;
            let share = share(busy, random.unit());
            let noise = |random: &mut Random, by: f64| by * (random.unit() + random.unit() - 1.0);
            let log = effect * variant as f64 + (0.6 * share).ln_1p() + noise(&mut random, 0.02);
            observations.push(Observation { round, variant, layout: 0, copy: 0, log });
            gauge.push((0.9 * share).ln_1p() + noise(&mut random, 0.02));
        }
    }
    (observations, gauge)
}

/// Effect, width of its interval, p-value.
fn judged(observations: &[Observation]) -> (f64, f64, f64) {
    let settings = AnswerOptions { draws: 499, ..AnswerOptions::default() };
    let pair = compare(observations, 0, 1, settings).unwrap().as_built;
    (pair.estimate, pair.high.unwrap() - pair.low.unwrap(), pair.p_value)
}

#[test]
fn what_slowed_the_gauge_too_is_taken_out_and_the_effect_stays() {
    let (mut observations, gauge) = measured(60, 0.03, 5);
    let (_, wide, _) = judged(&observations);
    let found = take_out(&mut observations, &gauge).unwrap();
    let (effect, narrow, p) = judged(&observations);
    assert!(found.explained > 0.8, "{found:?}");
    assert!(narrow < 0.4 * wide, "{narrow} {wide}");
    assert!((effect - 0.03).abs() < 0.006 && p < 0.01, "{effect} {p}");
}

#[test]
fn programs_of_which_one_takes_twice_as_long_are_adjusted_as_well() {
    let (mut observations, gauge) = measured(60, 0.7, 5);
    let found = take_out(&mut observations, &gauge).unwrap();
    let (effect, width, _) = judged(&observations);
    assert!(found.explained > 0.8, "{found:?}");
    assert!((effect - 0.7).abs() < 0.006 && width < 0.02, "{effect} {width}");
}

#[test]
fn a_difference_between_equal_programs_is_claimed_in_a_twentieth_of_comparisons() {
    for (name, measured) in [
        ("wide", (|rounds, seed| measured(rounds, 0.0, seed)) as fn(u32, u64) -> _),
        ("two groups", in_two_groups),
    ] {
        for rounds in [12, 20] {
            let claimed = (0..400).filter(|seed| {
                let (mut observations, gauge) = measured(rounds, 1000 + seed);
                let _ = take_out(&mut observations, &gauge);
                judged(&observations).2 < 0.05
            });
            // 5 % of 400, and three standard deviations more or less.
            let claimed = claimed.count();
            assert!((7..=33).contains(&claimed), "{name}, {rounds} rounds: {claimed} of 400");
        }
    }
}

#[test]
fn a_gauge_that_says_nothing_changes_nothing() {
    let (observations, mut gauge) = measured(40, 0.02, 9);
    let refused = |gauge: &[f64], why: Unused| {
        let mut after = observations.clone();
        assert_eq!(take_out(&mut after, gauge), Err(why));
        assert_eq!(after, observations);
    };
    refused(&vec![0.5; gauge.len()], Unused::Nothing);
    gauge.pop();
    refused(&gauge, Unused::Unread);
    let few = &mut observations[..20].to_vec();
    assert_eq!(take_out(few, &gauge[..20]), Err(Unused::Few));
}

#[test]
fn a_gauge_that_has_nothing_to_do_with_the_runs_is_hardly_ever_used() {
    for rounds in [12, 30] {
        let used = (0..300).filter(|seed| {
            let (mut observations, _) = measured(rounds, 0.0, 1000 + seed);
            let (_, foreign) = measured(rounds, 0.0, 9000 + seed);
            take_out(&mut observations, &foreign).is_ok()
        });
        let used = used.count();
        // 1 % of 300, and three standard deviations more.
        assert!(used <= 8, "{rounds} rounds: {used} of 300");
    }
}
