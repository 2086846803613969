//! What the analysis makes of simulated machines with known truth.

use super::*;
use crate::design::{Benchmark, Layouts, Stopping};
use crate::result::Verdict;
use crate::{Design, Run, Variant};
use random::Random;

pub(super) fn design(rounds: u32, seed: u64, names: &[&str], layouts: u32) -> Design {
    let binaries = |name: &str| (0..=layouts).map(|l| format!("/{name}.{l}").into()).collect();
    let variant = |name: &&str| Variant {
        name: name.to_string(),
        binaries: binaries(name),
        ..Variant::default()
    };
    Design {
        variants: names.iter().map(variant).collect(),
        benchmarks: vec![Benchmark {
            name: "x".into(),
            command: vec!["{bin}".into()],
            metrics: vec![Metric::default()],
            ..Benchmark::default()
        }],
        rounds,
        seed,
        margin: 0.01,
        layouts: if layouts > 0 { Layouts::Matched } else { Layouts::None },
        ..Design::default()
    }
}

/// A noisy machine: autocorrelated level, drift, and a tail of slow runs. `effects` on the log
/// scale per variant, `luck` per variant and layout.
pub(super) fn simulate(
    design: Design,
    effects: &[f64],
    noise: f64,
    luck: &dyn Fn(usize, u32) -> f64,
) -> Recorded {
    let mut random = Random::new(design.seed.wrapping_mul(77).wrapping_add(5));
    let mut level = 0.0;
    let mut runs = Vec::new();
    for benchmark in 0..design.benchmarks.len() {
        for round in 0..=design.rounds {
            for slot in design.order(benchmark, round) {
                let mut normal = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
                level = 0.6 * level + noise * normal();
                let own = noise * 0.5 * normal();
                let tail = if random.below(12) == 0 { 0.3 * random.unit() } else { 0.0 };
                let drift = 0.001 * f64::from(round);
                let shift = effects[slot.variant] + luck(slot.variant, slot.layout);
                let seconds = (level + own + drift + tail + shift).exp();
                runs.push(Run {
                    sequence: runs.len() as u64,
                    benchmark,
                    round,
                    variant: slot.variant,
                    layout: slot.layout,
                    copy: slot.copy,
                    user_ns: (seconds * 1e9) as u64,
                    wall_ns: (seconds * 1.01e9) as u64,
                    ..Run::default()
                });
            }
        }
    }
    Recorded { design, runs, ..Recorded::default() }
}

pub(super) const NONE: &dyn Fn(usize, u32) -> f64 = &|_, _| 0.0;

pub(super) fn told(recorded: Recorded) -> Measurement {
    let options = AnalysisOptions { draws: 999, ..AnalysisOptions::default() };
    analyse(&[recorded], &options).unwrap().measurement
}

pub(super) fn only(recorded: Recorded) -> Compared {
    told(recorded).comparisons.remove(0)
}

#[test]
fn quiet_equal_programs_are_called_the_same() {
    let c = only(simulate(design(30, 4, &["a", "b"], 0), &[0.0, 0.0], 0.002, NONE));
    assert_eq!(c.verdict, Verdict::Same, "{c:?}");
}

#[test]
fn the_same_by_the_narrower_interval_is_said_where_the_one_shown_leaves_the_margin() {
    let (mut wide, mut narrow) = (0, 0);
    for seed in 0..200 {
        let c = only(simulate(design(30, seed, &["a", "b"], 0), &[0.0, 0.004], 0.007, NONE));
        if c.verdict == Verdict::Same {
            let [low, high] = c.interval.unwrap();
            let beyond = low < 1.0 / 1.01 || high > 1.01;
            assert_eq!(c.sentence.contains("by the 90 % interval"), beyond, "{c:?}");
            *(if beyond { &mut wide } else { &mut narrow }) += 1;
        }
    }
    assert!(wide > 0 && narrow > 0, "{wide} {narrow}");
}

#[test]
fn a_real_gain_without_layouts_is_said_of_the_binary_only() {
    let c = only(simulate(design(30, 4, &["a", "b"], 0), &[0.0, -0.05], 0.004, NONE));
    assert_eq!(c.verdict, Verdict::Faster);
    assert!(c.sentence.starts_with("this binary is faster (4."), "{}", c.sentence);
    assert!(c.warnings.iter().any(|w| w.contains("--layouts")), "{:?}", c.warnings);
    let [low, high] = c.interval.unwrap();
    assert!(low < c.effect && c.effect < high && high < 1.0);
}

#[test]
fn a_tiny_but_certain_difference_is_called_negligible() {
    let c = only(simulate(design(30, 4, &["a", "b"], 0), &[0.0, 0.002], 0.001, NONE));
    assert!(c.verdict == Verdict::Slower && c.negligible, "{c:?}");
}

#[test]
fn noise_without_enough_rounds_is_undecided_and_says_how_many_are_needed() {
    let c = only(simulate(design(8, 4, &["a", "b"], 0), &[0.0, 0.0], 0.05, NONE));
    assert_eq!(c.verdict, Verdict::Undecided);
    assert!(c.sentence.ends_with("rounds in all would decide"), "{}", c.sentence);
}

#[test]
fn five_rounds_show_nothing_and_say_so() {
    let c = only(simulate(design(5, 4, &["a", "b"], 0), &[0.0, 1.0], 0.001, NONE));
    assert_eq!((c.verdict, c.interval), (Verdict::Undecided, None));
    assert!(c.warnings[0].contains("six are the least"));
}

/// Luck that both variants share in every layout, and a base that was unlucky as built.
fn shared_luck(variant: usize, layout: u32) -> f64 {
    match (variant, layout) {
        (0, 0) => 0.04,
        (_, 0) => 0.0,
        (_, layout) => 0.015 * f64::from((layout * 7) % 5) - 0.03,
    }
}

#[test]
fn an_unlucky_link_of_the_base_is_layout_luck_and_not_a_faster_change() {
    let c = only(simulate(design(20, 3, &["a", "b"], 8), &[0.0, 0.0], 0.002, &shared_luck));
    assert_eq!(c.verdict, Verdict::LayoutLuck, "{c:?}");
    assert!(c.sentence.contains("as built differ by 3."), "{}", c.sentence);
    assert!(c.as_built.ratio < 0.97 && (c.effect - 1.0).abs() < 0.005, "{c:?}");
    let layouts = c.layouts.unwrap();
    assert!(
        layouts.count == 8 && layouts.matched && layouts.correlation.unwrap() > 0.9,
        "{layouts:?}"
    );
}

#[test]
fn a_real_change_under_layout_luck_is_quoted_by_its_average() {
    let c = only(simulate(design(20, 3, &["a", "b"], 8), &[0.0, -0.02], 0.002, &shared_luck));
    assert_eq!(c.verdict, Verdict::Faster);
    assert!((c.effect - 0.98).abs() < 0.004 && c.as_built.ratio < 0.95, "{c:?}");
    assert!(c.sentence.contains("overstates"), "{}", c.sentence);
}

#[test]
fn three_programs_are_each_compared_with_the_first() {
    let told = told(simulate(design(16, 4, &["a", "b", "c"], 0), &[0.0, -0.2, 0.2], 0.005, NONE));
    let verdicts: Vec<Verdict> = told.comparisons.iter().map(|c| c.verdict).collect();
    assert_eq!(verdicts, [Verdict::Faster, Verdict::Slower]);
    assert!((told.comparisons[0].effect - (-0.2f64).exp()).abs() < 0.02);
    assert!(told.comparisons[0].p_corrected > told.comparisons[0].p_value);
}

#[test]
fn a_higher_throughput_is_faster_and_its_ratio_is_above_one() {
    let mut recorded = simulate(design(10, 4, &["a", "b"], 0), &[0.0, 0.1], 0.005, NONE);
    recorded.design.benchmarks[0].metrics =
        vec![Metric::parse("ops=throughput:([0-9.]+)").unwrap()];
    for run in &mut recorded.runs {
        run.printed.insert("ops".into(), run.user_ns as f64 / 1e6);
    }
    let c = only(recorded);
    assert_eq!(c.verdict, Verdict::Faster);
    let [low, high] = c.interval.unwrap();
    assert!(c.effect > 1.05 && low < c.effect && c.effect < high, "{c:?}");
    assert!(c.sentence.contains("higher"), "{}", c.sentence);
}

#[test]
fn an_interrupted_round_is_left_out_and_the_warm_up_never_counts() {
    let mut recorded = simulate(design(10, 4, &["a", "b"], 0), &[0.0, 0.0], 0.01, NONE);
    recorded.runs.pop();
    let analysis = told(recorded.clone());
    assert_eq!(analysis.comparisons[0].n, 9);
    assert!(analysis.warnings.iter().any(|w| w.contains("unfinished")), "{:?}", analysis.warnings);
    recorded.runs.truncate(2);
    let error = analyse(&[recorded], &AnalysisOptions::default()).unwrap_err().to_string();
    assert!(error.contains("nothing to compare"), "{error}");
}

#[test]
fn benchmarks_and_machines_become_rows_with_means_over_them() {
    let of = |machine: &str, seed: u64| {
        let mut design = design(12, seed, &["a", "b"], 0);
        design.machine.name = machine.into();
        let mut second = design.benchmarks[0].clone();
        second.name = "y".into();
        design.benchmarks.push(second);
        simulate(design, &[0.0, -0.1], 0.004, NONE)
    };
    let files = [of("one", 1), of("two", 2)];
    let options = AnalysisOptions { draws: 999, ..AnalysisOptions::default() };
    let told = analyse(&files, &options).unwrap();
    assert_eq!((told.measurement.comparisons.len(), told.evidence.len()), (4, 4));
    assert_eq!(told.measurement.indices.len(), 3);
    let all = &told.measurement.indices[2];
    assert!(all.machine.is_none() && all.rows == 4 && (all.mean - 0.905).abs() < 0.01, "{all:?}");
    // One seed and one file give the same result in every byte.
    let json = |m: &Measurement| serde_json::to_string(m).unwrap();
    assert_eq!(json(&told.measurement), json(&analyse(&files, &options).unwrap().measurement));
    let twice = [of("one", 1), of("one", 2)];
    assert!(analyse(&twice, &options).unwrap_err().to_string().contains("--machine"));
}

#[test]
fn a_benchmark_is_told_over_its_parameters_with_its_lowest_and_highest_row() {
    let mut design = design(12, 3, &["a", "b"], 0);
    for n in [1, 20] {
        let mut cell = design.benchmarks[0].clone();
        cell.name = format!("sort n={n} order=up");
        cell.parameters = [("n".into(), n.to_string()), ("order".into(), "up".into())].into();
        design.benchmarks.push(cell);
    }
    let first = design.benchmarks[0].name.clone();
    let one = simulate(design, &[0.0, -0.1], 0.004, NONE);
    let found = told(one.clone()).accumulated;
    let names: Vec<_> = found.iter().map(|own| (own.benchmark.as_str(), own.rows)).collect();
    assert_eq!(names, [(first.as_str(), 1), ("sort", 2)]);
    let sort = &found[1];
    assert!(sort.lowest.ratio < sort.mean && sort.mean < sort.highest.ratio, "{sort:?}");
    assert!((sort.mean - 0.905).abs() < 0.01 && sort.interval.unwrap()[0] < sort.mean, "{sort:?}");
    assert_ne!(sort.lowest.benchmark, sort.highest.benchmark);
    // Machines are rows, too.
    let mut other = one.clone();
    other.design.machine.name = "other".into();
    let options = AnalysisOptions { draws: 999, ..AnalysisOptions::default() };
    let both = analyse(&[one, other], &options).unwrap().measurement.accumulated;
    assert_eq!(both.iter().map(|own| own.rows).collect::<Vec<_>>(), [2, 4]);
}

#[test]
fn a_measurement_that_may_stop_early_claims_no_more_than_its_monitor() {
    let mut claims = 0;
    for seed in 0..60 {
        let mut design = design(40, seed, &["a", "b"], 0);
        design.stopping = Stopping::UntilDecided;
        let c = only(simulate(design, &[0.0, 0.0], 0.01, NONE));
        claims += usize::from(matches!(c.verdict, Verdict::Faster | Verdict::Slower));
    }
    // At 5 %, 60 comparisons give more than 8 claims once in two hundred tries.
    assert!(claims <= 8, "{claims} of 60");
    let mut design = design(40, 1, &["a", "b"], 0);
    design.stopping = Stopping::UntilDecided;
    assert_eq!(only(simulate(design, &[0.0, 0.1], 0.01, NONE)).verdict, Verdict::Slower);
}

#[test]
fn the_monitor_judges_by_the_metric_that_the_analysis_judges_by() {
    let mut design = design(40, 1, &["a", "b"], 0);
    design.stopping = Stopping::UntilDecided;
    let mut recorded = simulate(design, &[0.0, 0.1], 0.01, NONE);
    let wall = Metric::parse("wall").unwrap();
    recorded.design.benchmarks[0].metrics = vec![wall, Metric::default()];
    for run in &mut recorded.runs {
        run.wall_ns = 1_000_000_000 + u64::from(run.round);
    }
    let by = |metric: &str| {
        let metric = Some(Metric::parse(metric).unwrap());
        let options = AnalysisOptions { draws: 999, metric, ..AnalysisOptions::default() };
        analyse(&[recorded.clone()], &options).unwrap().measurement.comparisons.remove(0)
    };
    assert_eq!(by("wall").verdict, Verdict::Same);
    // The first metric's monitor sees no difference; it has no say about this one.
    assert_eq!(by("cpu").verdict, Verdict::Slower);
}

#[test]
fn too_few_layouts_are_undecided_and_say_how_many_are_needed() {
    let c = only(simulate(design(20, 3, &["a", "b"], 5), &[0.0, 0.1], 0.002, NONE));
    assert_eq!(c.verdict, Verdict::Undecided);
    assert!(c.sentence.contains("about 6 layouts in all would decide"), "{}", c.sentence);
    assert!(c.warnings.iter().any(|w| w.contains("6 are the least")), "{:?}", c.warnings);
}

#[test]
fn a_stopped_variant_is_left_out_and_the_rest_is_compared() {
    let mut recorded = simulate(design(12, 4, &["a", "b", "c"], 0), &[0.0, 0.0, -0.1], 0.004, NONE);
    recorded.runs.retain(|run| run.variant != 1 || run.round < 3);
    recorded.stopped.push(crate::result::Stopped {
        variant: "b".into(),
        benchmark: "x".into(),
        machine: String::new(),
        reason: "b ended with signal 11".into(),
    });
    let told = told(recorded);
    assert_eq!(told.comparisons.len(), 1);
    assert_eq!((told.comparisons[0].variant.as_str(), told.comparisons[0].n), ("c", 12));
}
