//! Does the test of a pair give the numbers that can be counted by hand?

use super::*;
use random::Random;

fn points(rounds: &[(f64, f64)]) -> Vec<Point> {
    let pair = |(round, &(a, b)): (usize, &(f64, f64))| {
        [Point { label: Label::A, round, log: a }, Point { label: Label::B, round, log: b }]
    };
    rounds.iter().enumerate().flat_map(pair).collect()
}

#[test]
fn six_rounds_all_one_way_have_exactly_the_smallest_p_value() {
    // All B above all A by far: only the identity and its mirror image reach the statistic.
    let data = [(0.0, 1.0), (0.01, 1.01), (-0.01, 1.0), (0.0, 1.02), (0.02, 1.0), (0.0, 0.99)];
    let test = PairTest::new(points(&data), 9999, 1);
    assert_eq!(test.p_value(0.0), 2.0 / 64.0);
    let interval = test.interval(0.95);
    assert!((interval.estimate - 1.0).abs() < 0.02, "{interval:?}");
    assert!(interval.low > 0.9 && interval.high < 1.1, "{interval:?}");
}

#[test]
fn programs_that_differ_by_much_more_than_the_noise_have_the_smallest_p_value() {
    for (rounds, seed) in [(6, 0u64), (8, 1000), (12, 2000)]
        .into_iter()
        .flat_map(|(rounds, from)| (from..from + 200).map(move |seed| (rounds, seed)))
    {
        let mut random = Random::new(seed);
        // Noise that grows with time, and sometimes a run that is disturbed as much as they differ.
        let mut noise = |round: usize| {
            let slow = if random.unit() < 0.05 { 0.3 * random.unit() } else { 0.0 };
            0.01 * random.unit() * (1.0 + round as f64) + slow
        };
        let data: Vec<(f64, f64)> =
            (0..rounds).map(|round| (noise(round), 0.7 + noise(round))).collect();
        let test = PairTest::new(points(&data), 9999, 1);
        assert_eq!(test.p_value(0.0), 2.0 / 2f64.powi(rounds as i32), "{seed}: {data:?}");
    }
}

#[test]
fn equal_values_have_p_one_and_five_rounds_have_no_interval() {
    let test = PairTest::new(points(&[(0.5, 0.5); 5]), 9999, 1);
    assert_eq!(test.p_value(0.0), 1.0);
    let interval = test.interval(0.95);
    assert_eq!((interval.low, interval.high), (f64::NEG_INFINITY, f64::INFINITY));
    assert_eq!(interval.estimate, 0.0);
}

#[test]
fn a_large_effect_is_estimated_without_bias() {
    let mut random = Random::new(3);
    let data: Vec<(f64, f64)> =
        (0..30).map(|_| (0.01 * random.unit(), 0.7 + 0.01 * random.unit())).collect();
    let interval = PairTest::new(points(&data), 999, 1).interval(0.95);
    assert!((interval.estimate - 0.7).abs() < 0.003, "{interval:?}");
    assert!(interval.high - interval.low < 0.02, "{interval:?}");
}

#[test]
fn a_third_binary_of_another_speed_changes_nothing() {
    let mut random = Random::new(9);
    let mut with_other = Vec::new();
    for round in 0..20 {
        for (label, level) in [(Label::Other(2), 5.0), (Label::A, 0.0), (Label::B, 0.1)] {
            with_other.push(Point { label, round, log: level + 0.01 * random.unit() });
        }
    }
    let interval = PairTest::new(with_other, 999, 1).interval(0.95);
    assert!((interval.estimate - 0.1).abs() < 0.01, "{interval:?}");
    assert!(interval.low > 0.08 && interval.high < 0.12, "{interval:?}");
}

#[test]
fn every_shift_inside_the_interval_is_accepted_and_every_one_outside_rejected() {
    let mut random = Random::new(4);
    let data: Vec<(f64, f64)> =
        (0..25).map(|_| (0.02 * random.unit(), 0.01 + 0.02 * random.unit())).collect();
    let test = PairTest::new(points(&data), 1999, 1);
    let [wide, narrow] = test.intervals([0.95, 0.90]);
    assert!(wide.low < narrow.low && narrow.high < wide.high);
    let width = wide.high - wide.low;
    for (inside, outside) in
        [(wide.low + 0.02 * width, wide.low), (wide.high - 0.02 * width, wide.high)]
    {
        assert!(test.p_value(inside) > 0.05 && test.p_value(outside) <= 0.05);
    }
    assert!(test.excludes(0.1, 0.1) && !test.excludes(narrow.high - 0.01 * width, 0.1));
}

#[test]
fn ten_thousand_runs_are_tested_quickly() {
    let mut random = Random::new(8);
    let data: Vec<(f64, f64)> = (0..5000).map(|_| (random.unit(), random.unit())).collect();
    let started = std::time::Instant::now();
    let interval = PairTest::new(points(&data), 9999, 1).interval(0.95);
    assert!(
        interval.low < 0.0 && interval.high > 0.0 && interval.high - interval.low < 0.1,
        "{interval:?}"
    );
    // Optimised it takes about a second; tests are built without, on busy machines.
    assert!(started.elapsed().as_secs() < 60);
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]

    #[test]
    fn swapping_the_names_mirrors_the_result(seed in proptest::num::u64::ANY, rounds in 6usize..40) {
        let mut random = Random::new(seed);
        let data: Vec<(f64, f64)> = (0..rounds).map(|_| (random.unit(), random.unit())).collect();
        let one = points(&data);
        let mut other = one.clone();
        other.iter_mut().for_each(|p| p.label = if p.label == Label::A { Label::B } else { Label::A });
        let (x, y) = (PairTest::new(one, 499, 1), PairTest::new(other, 499, 1));
        proptest::prop_assert_eq!(x.p_value(0.0), y.p_value(0.0));
        proptest::prop_assert!((x.estimate() + y.estimate()).abs() < 1e-6);
    }

    #[test]
    fn a_shift_of_one_program_shifts_the_estimate(seed in proptest::num::u64::ANY, shift in -1.0f64..1.0) {
        let mut random = Random::new(seed);
        let data: Vec<(f64, f64)> = (0..20).map(|_| (random.unit(), random.unit())).collect();
        let moved: Vec<(f64, f64)> = data.iter().map(|(a, b)| (*a, b + shift)).collect();
        let (x, y) = (PairTest::new(points(&data), 499, 1), PairTest::new(points(&moved), 499, 1));
        proptest::prop_assert!((x.estimate() + shift - y.estimate()).abs() < 1e-6);
        proptest::prop_assert!((x.p_value(0.01) - y.p_value(0.01 + shift)).abs() < 0.01);
    }
}
