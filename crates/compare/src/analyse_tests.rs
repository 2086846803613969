//! Is the analysis calibrated? Simulated machines with known truth.

use super::*;
use crate::{Metric, Random, Variant};

fn design(rounds: u32, seed: u64, names: &[&str]) -> Design {
    let variant = |name: &&str| Variant { name: name.to_string(), path: name.into() };
    Design {
        variants: names.iter().map(variant).collect(),
        command: vec!["{bin}".into()],
        rounds,
        seed,
        metric: Metric::Cpu,
        ignore_output: false,
    }
}

/// A noisy machine: autocorrelated level, drift, and a tail of slow runs; `effects` on the log scale per variant.
fn simulate(design: &Design, effects: &[f64], noise: f64) -> Vec<Run> {
    let mut random = Random::new(design.seed.wrapping_mul(77).wrapping_add(5));
    let mut level = 0.0;
    let mut runs = Vec::new();
    for round in 0..=design.rounds {
        for variant in design.order(round) {
            let normal = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            level = 0.6 * level + noise * normal;
            let tail = if random.below(12) == 0 { 0.3 * random.unit() } else { 0.0 };
            let drift = 0.001 * f64::from(round);
            let own = noise * 0.5 * ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0);
            let seconds = (level + own + drift + tail + effects[variant]).exp();
            let (user_ns, wall_ns) = ((seconds * 1e9) as u64, (seconds * 1.01e9) as u64);
            let sequence = runs.len() as u64;
            runs.push(Run { sequence, round, variant, user_ns, wall_ns, ..Run::default() });
        }
    }
    runs
}

const QUICK: Options = Options { margin: 0.01, draws: 399 };

#[test]
fn the_same_program_under_two_names_is_called_different_in_five_of_a_hundred_cases() {
    let mut claims = 0;
    for seed in 0..300 {
        let design = design(12, seed, &["a", "b"]);
        let runs = simulate(&design, &[0.0, 0.0], 0.02);
        let points = complete_rounds(&design, &runs);
        let used: Vec<&Run> = runs.iter().filter(|run| run.round > 0).collect();
        let logs = logs(&design, &used).unwrap();
        let label = |run: &Run| if run.variant == 0 { Label::A } else { Label::B };
        let point =
            |(run, &log): (&&Run, &f64)| Point { label: label(run), round: run.round as usize - 1, log };
        assert_eq!(points.len(), 12);
        let test = PairTest::new(used.iter().zip(&logs).map(point).collect(), 399, seed);
        claims += usize::from(test.p_value(0.0) < 0.05);
    }
    // 300 draws at 5 %: 15 expected, 99 % of the time between 6 and 26.
    assert!((6..=26).contains(&claims), "{claims} of 300");
}

#[test]
fn the_interval_holds_the_truth_in_about_nineteen_of_twenty_cases_and_finds_a_real_gain() {
    let (mut covered, mut found) = (0, 0);
    for seed in 0..120 {
        let design = design(20, seed, &["a", "b"]);
        let truth = -0.05;
        let analysis = analyse(&design, &simulate(&design, &[0.0, truth], 0.02), QUICK).unwrap();
        let c = &analysis.comparisons[0];
        covered += usize::from(c.low.unwrap() <= truth.exp() && truth.exp() <= c.high.unwrap());
        found += usize::from(c.verdict == Verdict::Faster);
        assert_ne!(c.verdict, Verdict::Slower, "seed {seed}");
    }
    assert!((107..=120).contains(&covered), "{covered} of 120");
    assert!(found >= 100, "{found} of 120");
}

#[test]
fn quiet_equal_programs_are_called_the_same() {
    let design = design(30, 4, &["a", "b"]);
    let analysis = analyse(&design, &simulate(&design, &[0.0, 0.0], 0.002), Options::default()).unwrap();
    assert_eq!(analysis.comparisons[0].verdict, Verdict::Same, "{analysis:?}");
}

#[test]
fn a_tiny_but_certain_difference_is_called_negligible() {
    let design = design(30, 4, &["a", "b"]);
    let analysis = analyse(&design, &simulate(&design, &[0.0, 0.002], 0.001), Options::default()).unwrap();
    let c = &analysis.comparisons[0];
    assert!(c.verdict == Verdict::Slower && c.negligible, "{c:?}");
}

#[test]
fn noise_without_enough_rounds_is_undecided_and_says_how_many_are_needed() {
    let design = design(8, 4, &["a", "b"]);
    let analysis = analyse(&design, &simulate(&design, &[0.0, 0.0], 0.05), QUICK).unwrap();
    let c = &analysis.comparisons[0];
    assert_eq!(c.verdict, Verdict::Undecided);
    assert!(c.warnings.iter().any(|w| w.contains("rounds would settle")), "{:?}", c.warnings);
}

#[test]
fn five_rounds_show_nothing_and_say_so() {
    let design = design(5, 4, &["a", "b"]);
    let analysis = analyse(&design, &simulate(&design, &[0.0, 1.0], 0.001), QUICK).unwrap();
    let c = &analysis.comparisons[0];
    assert_eq!((c.verdict, c.low), (Verdict::Undecided, None));
    assert!(c.warnings[0].contains("six are the least"));
}

#[test]
fn three_programs_are_each_compared_with_the_first() {
    let design = design(16, 4, &["a", "b", "c"]);
    let analysis = analyse(&design, &simulate(&design, &[0.0, -0.2, 0.2], 0.005), QUICK).unwrap();
    let verdicts: Vec<Verdict> = analysis.comparisons.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [Verdict::Faster, Verdict::Slower]);
    assert!((analysis.comparisons[0].ratio - (-0.2f64).exp()).abs() < 0.02);
}

#[test]
fn a_higher_throughput_is_faster_and_its_ratio_is_above_one() {
    let mut design = design(10, 4, &["a", "b"]);
    let mut runs = simulate(&design, &[0.0, 0.1], 0.005);
    design.metric = Metric::parse("throughput:([0-9.]+)").unwrap();
    runs.iter_mut().for_each(|run| run.printed = Some(run.user_ns as f64 / 1e6));
    let analysis = analyse(&design, &runs, QUICK).unwrap();
    let c = &analysis.comparisons[0];
    assert_eq!(c.verdict, Verdict::Faster);
    assert!(c.ratio > 1.05 && c.low.unwrap() < c.ratio && c.ratio < c.high.unwrap(), "{c:?}");
}

#[test]
fn an_interrupted_round_is_left_out_and_the_warm_up_never_counts() {
    let design = design(10, 4, &["a", "b"]);
    let mut runs = simulate(&design, &[0.0, 0.0], 0.01);
    runs.pop();
    let analysis = analyse(&design, &runs, QUICK).unwrap();
    assert_eq!(analysis.comparisons[0].rounds, 9);
    assert!(analysis.warnings.iter().any(|w| w.contains("unfinished")), "{:?}", analysis.warnings);
    runs.truncate(2);
    assert!(analyse(&design, &runs, QUICK).unwrap_err().to_string().contains("nothing to compare"));
}
