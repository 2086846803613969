//! Does the test of a pair give the numbers that can be counted by hand?

use super::*;
use crate::Random;

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
    let data: Vec<(f64, f64)> = (0..30).map(|_| (0.01 * random.unit(), 0.7 + 0.01 * random.unit())).collect();
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
