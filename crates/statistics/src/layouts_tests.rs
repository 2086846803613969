//! Do layout averages agree with scipy, with counting by hand, and with what must not matter?

use super::*;
use proptest::prelude::*;
use random::Random;

const A: [f64; 5] = [0.010, -0.004, 0.003, 0.012, -0.008];
const B: [f64; 5] = [0.021, 0.013, 0.006, 0.028, 0.002];

fn close(x: f64, y: f64) -> bool {
    (x - y).abs() < 1e-9 * (1.0 + y.abs())
}

#[test]
fn independent_layouts_give_what_scipy_gives() {
    // scipy.stats.ttest_ind(B, A, equal_var=False), permutation_test with all 252 assignments.
    let effect = independent_effect(&A, &B, 99, 1);
    assert!(close(effect.estimate, 0.0114) && close(effect.df, 7.675777129654836), "{effect:?}");
    // Welch's intervals are -0.00286 to 0.02566 and -0.00007 to 0.02287.
    assert!(
        (effect.low + 0.0029).abs() < 0.002 && (effect.high - 0.0257).abs() < 0.002,
        "{effect:?}"
    );
    assert!(
        (effect.low90 + 0.0001).abs() < 0.002 && (effect.high90 - 0.0229).abs() < 0.002,
        "{effect:?}"
    );
    assert!(close(effect.p_value, 28.0 / 252.0), "{effect:?}");
}

#[test]
fn matched_layouts_give_what_scipy_gives() {
    // scipy.stats.ttest_rel(B, A).confidence_interval; 2 of 32 sign patterns reach the sum.
    let effect = matched_effect(&A, &B, 99, 1);
    assert!(
        close(effect.low, 0.004453336566176056) && close(effect.high, 0.018346663433823945),
        "{effect:?}"
    );
    assert_eq!(effect.p_value, 2.0 / 32.0);
    assert!(effect.matched && effect.df == 4.0);
}

#[test]
fn an_effect_beyond_every_relabelling_is_judged_by_t() {
    // Eight layouts, a quarter slower: every relabelling is nearer to nothing, and 2/2^8 is as
    // small as they get.
    let a: Vec<f64> = (0..8).map(|l| 0.01 * f64::from(l * 5 % 8)).collect();
    let b: Vec<f64> =
        a.iter().enumerate().map(|(l, x)| x + 0.2263 + 0.002 * (l % 3) as f64).collect();
    let effect = matched_effect(&a, &b, 99, 1);
    assert_eq!(effect.least_p_value, 2.0 / 256.0);
    assert!(effect.p_value < 1e-9, "{effect:?}");
    let effect = independent_effect(&a, &b, 99, 1);
    assert_eq!(effect.least_p_value, 2.0 / 12870.0);
    assert!(effect.p_value < 1e-7 && effect.p_value > 1e-12, "{effect:?}");
    // Not at the floor: the exact test alone, as with five layouts, which can show nothing.
    let near: Vec<f64> =
        a.iter().enumerate().map(|(l, x)| x + if l == 3 { -0.01 } else { 0.02 }).collect();
    assert_eq!(matched_effect(&a, &near, 99, 1).p_value, 4.0 / 256.0);
    assert_eq!(matched_effect(&a[..5], &b[..5], 99, 1).p_value, 2.0 / 32.0);
}

#[test]
fn levels_without_any_spread_are_no_difference() {
    let effect = independent_effect(&[0.5; 4], &[0.5; 4], 9, 1);
    assert_eq!((effect.p_value, effect.estimate, effect.standard_error), (1.0, 0.0, 0.0));
    assert_eq!(matched_effect(&[0.5; 4], &[0.5; 4], 9, 1).p_value, 1.0);
}

#[test]
fn one_layout_is_not_enough() {
    let one = |variant, layout| Observation { round: 0, variant, layout, copy: 0, log: 0.0 };
    let means = LayoutMeans::new(&[one(0, 1), one(1, 1), one(1, 2)]);
    assert!(
        means.compare(0, 1, false, 9, 1).is_none() && means.compare(0, 1, true, 9, 1).is_none()
    );
    assert!(LayoutMeans::new(&[]).compare(0, 1, false, 9, 1).is_none());
}

/// Rounds of two variants with four layouts each, in shuffled order, on a level that wanders.
fn recorded(seed: u64) -> Vec<Observation> {
    let mut random = Random::new(seed);
    let mut order: Vec<(usize, u32)> = (0..2).flat_map(|v| (1..5).map(move |l| (v, l))).collect();
    let mut all = Vec::new();
    let mut machine = 0.0;
    for round in 0..12 {
        random.shuffle(&mut order);
        for &(variant, layout) in &order {
            machine = 0.8 * machine + 0.02 * (random.unit() - 0.5);
            let own = f64::from(layout * layout % 7) * 0.004 + variant as f64 * 0.01;
            let log = own + machine + 0.01 * random.unit();
            all.push(Observation { round, variant, layout, copy: 0, log });
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn swapping_the_variants_mirrors_the_result(seed in any::<u64>(), matched in any::<bool>()) {
        let one = recorded(seed);
        let mut other = one.clone();
        other.iter_mut().for_each(|o| o.variant = 1 - o.variant);
        let (x, y) = (LayoutMeans::new(&one), LayoutMeans::new(&other));
        let (x, y) = (x.compare(0, 1, matched, 99, 1).unwrap(), y.compare(0, 1, matched, 99, 1).unwrap());
        prop_assert!(close(x.estimate, -y.estimate) && close(x.low, -y.high) && x.p_value == y.p_value);
    }

    #[test]
    fn a_slower_variant_is_slower_by_as_much(seed in any::<u64>(), shift in -0.5f64..0.5) {
        let one = recorded(seed);
        let mut other = one.clone();
        other.iter_mut().filter(|o| o.variant == 1).for_each(|o| o.log += shift);
        let (x, y) = (LayoutMeans::new(&one), LayoutMeans::new(&other));
        let (x, y) = (x.compare(0, 1, false, 99, 1).unwrap(), y.compare(0, 1, false, 99, 1).unwrap());
        prop_assert!(close(x.estimate + shift, y.estimate) && close(x.standard_error, y.standard_error));
    }

    #[test]
    fn renumbering_the_layouts_changes_nothing(seed in any::<u64>(), matched in any::<bool>()) {
        let one = recorded(seed);
        let mut other = one.clone();
        other.iter_mut().for_each(|o| o.layout = 1 + o.layout % 4);
        let (x, y) = (LayoutMeans::new(&one), LayoutMeans::new(&other));
        let (x, y) = (x.compare(0, 1, matched, 99, 1).unwrap(), y.compare(0, 1, matched, 99, 1).unwrap());
        prop_assert!(close(x.estimate, y.estimate) && close(x.low, y.low) && x.p_value == y.p_value);
    }
}
