//! Which words does a comparison get when the truth is plain? Hand-made effects through the public
//! functions.

use random::Random;
use statistics::{
    AnswerOptions, AsBuilt, Averaged, Judgement, Observation, Rule, Verdict, judge, least_layouts,
};

fn pair(estimate: f64, error: f64) -> AsBuilt {
    let end = |k: f64| Some(estimate + k * error);
    AsBuilt {
        estimate,
        low: end(-2.0),
        high: end(2.0),
        low90: end(-1.66),
        high90: end(1.66),
        p_value: if (estimate / error).abs() > 2.0 { 0.001 } else { 0.5 },
        rounds: 30,
        blocks: 60,
        standard_error: Some(error),
    }
}

fn averaged(estimate: f64, error: f64) -> Averaged {
    Averaged {
        estimate,
        low: estimate - 2.13 * error,
        high: estimate + 2.13 * error,
        low90: estimate - 1.75 * error,
        high90: estimate + 1.75 * error,
        p_value: if (estimate / error).abs() > 2.13 { 0.02 } else { 0.5 },
        least_p_value: 2.0 / 65536.0,
        layouts: 16,
        matched: true,
        standard_error: error,
        df: 15.0,
        relink_band: 0.045,
    }
}

fn word(pair_effect: f64, average: f64, error: f64) -> Judgement {
    judge(&pair(pair_effect, 0.001), Some(&averaged(average, error)), Rule::default())
}

#[test]
fn each_of_the_five_words_has_its_case() {
    assert_eq!(word(0.03, 0.03, 0.004).verdict, Verdict::Slower);
    assert_eq!(word(-0.03, -0.03, 0.004).verdict, Verdict::Faster);
    assert_eq!(word(0.001, 0.0, 0.002).verdict, Verdict::Same);
    assert_eq!(word(0.04, 0.0, 0.002).verdict, Verdict::LayoutLuck);
    assert_eq!(word(0.04, 0.001, 0.008).verdict, Verdict::LayoutLuck);
    assert_eq!(word(0.005, 0.004, 0.02).verdict, Verdict::Undecided);
}

#[test]
fn a_real_effect_is_quoted_beside_what_the_build_added() {
    let judgement = word(0.06, 0.03, 0.004);
    assert_eq!(judgement.verdict, Verdict::Slower);
    assert!((judgement.as_built_off.unwrap() - 0.03).abs() < 1e-12 && !judgement.negligible);
    let small = word(0.003, 0.003, 0.0008);
    assert!(small.verdict == Verdict::Slower && small.negligible && small.as_built_off.is_none());
}

#[test]
fn a_pair_far_on_the_other_side_asks_for_more_than_five_in_a_hundred() {
    assert_eq!(word(-0.05, 0.01, 0.004).verdict, Verdict::LayoutLuck);
    let mut sure = averaged(0.01, 0.002);
    sure.p_value = 0.001;
    assert_eq!(judge(&pair(-0.05, 0.001), Some(&sure), Rule::default()).verdict, Verdict::Slower);
}

#[test]
fn layouts_too_few_to_reject_anything_decide_nothing() {
    for (average, built) in [(0.03, 0.03), (0.0, 0.001), (0.0, 0.04)] {
        for matched in [true, false] {
            let mut few = averaged(average, 0.002);
            (few.matched, few.layouts) = (matched, least_layouts(matched));
            let told = |few: &Averaged| judge(&pair(built, 0.001), Some(few), Rule::default());
            assert_ne!(told(&few).verdict, Verdict::Undecided);
            few.layouts -= 1;
            assert_eq!(told(&few).verdict, Verdict::Undecided);
            assert!(told(&few).needed.unwrap().layouts.unwrap() as usize >= least_layouts(matched));
        }
    }
}

#[test]
fn undecided_says_how_many_more() {
    let needed = word(0.005, 0.004, 0.02).needed.unwrap();
    assert!(needed.layouts.unwrap() > 500, "{needed:?}");
    let alone = judge(&pair(0.005, 0.006), None, Rule::default());
    assert_eq!(alone.verdict, Verdict::Undecided);
    assert!(alone.needed.unwrap().rounds.unwrap() > 30);
}

/// Two variants, as-built twice and `layouts` relinks with luck of 1.5 %, 20 rounds.
fn recorded(layouts: u32, effect: f64, luck: f64, seed: u64) -> Vec<Observation> {
    let mut random = Random::new(seed);
    let mut binaries = Vec::new();
    for variant in 0..2usize {
        let own = effect * variant as f64;
        for copy in 0..2 {
            binaries.push((variant, 0, copy, own + luck * variant as f64));
        }
        for layout in 1..=layouts {
            binaries.push((variant, layout, 0, own + 0.05 * (random.unit() - 0.5)));
        }
    }
    let mut all = Vec::new();
    for round in 0..20 {
        random.shuffle(&mut binaries);
        for &(variant, layout, copy, level) in &binaries {
            all.push(Observation {
                round,
                variant,
                layout,
                copy,
                log: level + 0.01 * random.unit(),
            });
        }
    }
    all
}

#[test]
fn a_whole_comparison_sees_through_an_unlucky_build() {
    let options = AnswerOptions { draws: 1999, ..AnswerOptions::default() };
    let lucky = statistics::compare(&recorded(16, 0.0, 0.08, 2), 0, 1, options).unwrap();
    assert_eq!(lucky.judgement.verdict, Verdict::LayoutLuck, "{lucky:?}");
    let real = statistics::compare(&recorded(16, 0.05, 0.0, 2), 0, 1, options).unwrap();
    assert_eq!(real.judgement.verdict, Verdict::Slower, "{real:?}");
    let split = real.components.unwrap();
    assert!((split.run_share + split.layout_share + split.drift_share - 1.0).abs() < 1e-9);
    let (low, high) = split.layout_interval.unwrap();
    // A uniform law over 5 % has the standard deviation 0.05 / √12.
    assert!(low < 0.0144 && 0.0144 < high, "{split:?}");
    assert!((split.run_variance.sqrt() - 0.003).abs() < 0.001, "{split:?}");
}

#[test]
fn without_layouts_the_pair_decides_and_nothing_is_called_luck() {
    let answer =
        statistics::compare(&recorded(0, 0.0, 0.05, 3), 0, 1, AnswerOptions::default()).unwrap();
    assert_eq!(answer.judgement.verdict, Verdict::Slower);
    assert!(
        answer.averaged.is_none() && answer.luck.is_none() && answer.detectable.unwrap() < 0.01
    );
    assert!(statistics::compare(&[], 0, 1, AnswerOptions::default()).is_none());
}

#[test]
fn several_variants_are_corrected_together() {
    let mut three = recorded(0, 0.0, 0.0, 4);
    let third: Vec<Observation> =
        recorded(0, 0.02, 0.0, 5).into_iter().filter(|o| o.variant == 1).collect();
    three.extend(third.iter().map(|o| Observation { variant: 2, ..*o }));
    three.sort_by_key(|o| o.round);
    let answers = statistics::compare_all(
        &three,
        3,
        AnswerOptions { draws: 999, ..AnswerOptions::default() },
    );
    let verdicts: Vec<Verdict> = answers.iter().flatten().map(|a| a.judgement.verdict).collect();
    assert_eq!(verdicts, [Verdict::Same, Verdict::Slower]);
    assert!(answers[1].as_ref().unwrap().p_value() >= 0.002);
}

#[test]
fn calibration_counts_what_is_called_different() {
    let mut random = Random::new(12);
    let stream: Vec<f64> = (0..4000).map(|_| random.unit() * 0.02).collect();
    let same = statistics::calibration::same_binary(&stream, None, 10, 200, 499, 1).unwrap();
    assert!(same.comparisons == 200 && same.different <= 22 && same.holds(), "{same:?}");
    assert!(
        same.ks_p_value > 0.001 && same.autocorrelation.abs() < 0.1 && same.p_values.len() == 200
    );
    assert!(statistics::calibration::same_binary(&stream[..10], None, 10, 200, 499, 1).is_none());
    // Half of the runs are slower, and the gauge beside them says so.
    let gauge: Vec<f64> = (0..4000).map(|_| f64::from(random.unit() < 0.5)).collect();
    let slowed: Vec<f64> = stream.iter().zip(&gauge).map(|(log, busy)| log + 0.5 * busy).collect();
    let plain = statistics::calibration::same_binary(&slowed, None, 20, 200, 499, 1).unwrap();
    let gauged =
        statistics::calibration::same_binary(&slowed, Some(&gauge), 20, 200, 499, 1).unwrap();
    assert!(gauged.holds() && gauged.detectable < 0.2 * plain.detectable, "{gauged:?} {plain:?}");
    let relinked =
        statistics::calibration::relinked(&recorded(24, 0.0, 0.0, 7), 8, 100, 499, 1).unwrap();
    assert!(
        relinked.relinked_pairs_different.unwrap() > 0.4 && relinked.rate() < 0.2,
        "{relinked:?}"
    );
    assert!((relinked.layout_deviation.unwrap() - 0.0144).abs() < 0.005);
}
