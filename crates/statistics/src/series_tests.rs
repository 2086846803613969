//! Are courses, modes and carry-over seen where they are, and not where they are not?

use super::*;
use random::Random;

/// 60 rounds of noise around a level that `level` gives.
fn rounds(seed: u64, level: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..60)
        .map(|r| level(r) + 0.004 * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0))
        .collect()
}

#[test]
fn autocorrelation_is_what_the_formula_gives() {
    assert!(
        (autocorrelation(&[1.0, 2.0, 4.0, 3.0, 5.0, 4.0, 6.0]) - 0.22350230414746544).abs() < 1e-12
    );
    assert_eq!(autocorrelation(&[1.0; 9]), 0.0);
    assert_eq!(autocorrelation(&[]), 0.0);
}

#[test]
fn a_warm_up_is_cut_where_it_ends() {
    let warming = rounds(1, |r| if r < 8 { 0.2 } else { 0.0 });
    assert_eq!(warm_up(&warming), 8);
    assert!(warm_up(&rounds(2, |_| 0.0)) < 30);
    assert_eq!(warm_up(&[]), 0);
}

#[test]
fn courses_are_told_apart() {
    for seed in 0..20 {
        assert_eq!(course(&rounds(seed, |_| 0.0)), Course::Flat);
    }
    let warming = course(&rounds(1, |r| if r < 8 { 0.2 } else { 0.0 }));
    assert!(
        matches!(warming, Course::WarmUp { rounds: 8, excess } if (excess - 0.2).abs() < 0.02),
        "{warming:?}"
    );
    let step = course(&rounds(1, |r| if r < 40 { 0.0 } else { 0.05 }));
    assert!(
        matches!(step, Course::Step { round: 39..=41, change } if (change - 0.05).abs() < 0.01),
        "{step:?}"
    );
    let drift = course(&rounds(1, |r| 0.005 * r as f64));
    assert!(matches!(drift, Course::Drift { change } if change > 0.1), "{drift:?}");
    let unsteady = course(&rounds(1, |r| if (r / 15) % 2 == 0 { 0.0 } else { 0.1 }));
    assert!(matches!(unsteady, Course::Unsteady { changes: 3 }), "{unsteady:?}");
    assert_eq!(course(&[]), Course::Flat);
    assert_eq!(course(&[0.5; 40]), Course::Flat);
}

#[test]
fn two_groups_are_seen_and_one_group_is_not_cut() {
    let mut random = Random::new(6);
    let one: Vec<f64> = (0..200).map(|_| (0..12).map(|_| random.unit()).sum::<f64>()).collect();
    assert_eq!(two_modes(&one), None);
    let uniform: Vec<f64> = (0..200).map(|_| random.unit()).collect();
    assert_eq!(two_modes(&uniform), None);
    let two: Vec<f64> =
        one.iter().enumerate().map(|(i, x)| if i % 3 == 0 { x + 9.0 } else { *x }).collect();
    let modes = two_modes(&two).unwrap();
    assert!(
        (modes.high - modes.low - 9.0).abs() < 0.5 && (modes.upper_share - 0.33).abs() < 0.05,
        "{modes:?}"
    );
    assert_eq!(two_modes(&[1.0; 50]), None);
    assert_eq!(two_modes(&[]), None);
}

#[test]
fn trimmed_means_are_compared_as_scipy_does() {
    let x = [1.1, 2.3, 0.7, 5.9, 3.1, 2.2, 1.9, 2.8, 40.0, 2.0];
    let y = [3.2, 4.1, 2.9, 6.3, 5.5, 3.9, 4.4, 9.1];
    let (difference, p) = yuen(&x, &y).unwrap();
    assert!(
        (difference + 2.183333333333334).abs() < 1e-12 && (p - 0.014354213118052897).abs() < 1e-9,
        "{p}"
    );
    assert!(yuen(&x[..5], &y).is_none() && yuen(&[1.0; 9], &[1.0; 9]).is_none());
}

#[test]
fn a_program_that_slows_its_successor_is_noticed() {
    let recorded = |harm: f64, seed: u64| {
        let mut random = Random::new(seed);
        let (mut all, mut before) = (Vec::new(), 0);
        for round in 0..60 {
            let first = random.below(2);
            for variant in [first, 1 - first] {
                let log = 0.01 * random.unit() + if before != variant { harm } else { 0.0 };
                all.push(Observation { round, variant, layout: 0, copy: 0, log });
                before = variant;
            }
        }
        all
    };
    assert!((0..50).filter(|&seed| carry_over(&recorded(0.0, seed)).is_some()).count() <= 3);
    let found = carry_over(&recorded(0.02, 1)).unwrap();
    assert!(found.change < -0.01 && found.p_value < 0.001, "{found:?}");
    assert_eq!(carry_over(&[]), None);
}
