//! How often do planish, benchstat's rule and hyperfine's rule call a program different from
//! itself?
//!
//! ```text
//! planish compare app app --rounds 4000 --raw aa.jsonl -- {bin} input
//! cargo run --release -p compare --example aa -- aa.jsonl 10
//! ```
//!
//! The runs of one file under two names are cut into comparisons of so many rounds each. planish
//! judges them as they were measured, in random order. The others judge the same runs twice: in
//! that order, and as they would have measured them, the first half of a stretch of time being A
//! and the second half B.
#![allow(clippy::unwrap_used, reason = "an example ends with a message where its input is wrong")]

use compare::runs;
use statistics::distribution::{clopper_pearson, normal_tail};
use statistics::{AnswerOptions, Observation, mean, sample_variance};
use std::io::BufReader;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: aa RUNS.jsonl ROUNDS");
    let rounds: u32 =
        arguments.next().and_then(|n| n.parse().ok()).expect("usage: aa RUNS.jsonl ROUNDS");
    let file = BufReader::new(std::fs::File::open(&path).unwrap());
    let found = runs::read(path.as_ref(), file).unwrap();
    let metric = &found.design.benchmarks[0].metrics[0];
    let observations: Vec<Observation> = found
        .runs
        .iter()
        .filter(|run| run.round > 0 && run.layout == 0)
        .map(|run| Observation {
            round: run.round,
            variant: run.variant,
            layout: 0,
            copy: run.copy,
            log: metric.value(run).unwrap().ln(),
        })
        .collect();
    let mut counts = [0u64; 5];
    let mut comparisons = 0u64;
    for window in observations.chunk_by(|a, b| (a.round - 1) / rounds == (b.round - 1) / rounds) {
        if window.len() != 2 * rounds as usize {
            continue;
        }
        comparisons += 1;
        let options = AnswerOptions { seed: comparisons, ..AnswerOptions::default() };
        let answer = statistics::compare(window, 0, 1, options).unwrap();
        counts[0] += u64::from(answer.as_built.p_value < 0.05);
        let values = |of: &dyn Fn(usize, &Observation) -> bool| -> Vec<f64> {
            window
                .iter()
                .enumerate()
                .filter(|(at, o)| of(*at, o))
                .map(|(_, o)| o.log.exp())
                .collect()
        };
        let half = window.len() / 2;
        let mixed = (values(&|_, o| o.variant == 0), values(&|_, o| o.variant == 1));
        let blocks = (values(&|at, _| at < half), values(&|at, _| at >= half));
        counts[1] += u64::from(rank_sum(&blocks.0, &blocks.1) < 0.05);
        counts[2] += u64::from(rank_sum(&mixed.0, &mixed.1) < 0.05);
        counts[3] += u64::from(outside(&blocks.0, &blocks.1));
        counts[4] += u64::from(outside(&mixed.0, &mixed.1));
    }
    let rows = [
        "planish compare",
        "benchstat's rule (rank sum test, p < 5 %), runs in blocks as it is used",
        "benchstat's rule on runs in random order",
        "hyperfine's words (1 outside ratio ± its deviation), runs in blocks as it measures",
        "hyperfine's words on runs in random order",
    ];
    println!(
        "{comparisons} comparisons of {rounds} rounds\n\n| rule | called different | share | 95 % interval |\n|---|---:|---:|---|"
    );
    for (row, count) in rows.into_iter().zip(counts) {
        let (low, high) = clopper_pearson(count, comparisons, 0.95);
        let share = 100.0 * count as f64 / comparisons as f64;
        println!("| {row} | {count} | {share:.1} % | {:.1} to {:.1} |", 100.0 * low, 100.0 * high);
    }
}

/// Two-sided p-value of the rank sum test (Mann and Whitney), by its normal approximation with the
/// correction for continuity; for ten values on each side it is within 0.002 of the exact one near
/// 5 %.
fn rank_sum(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len() as f64, b.len() as f64);
    let score = |x: f64, y: f64| {
        if x < y {
            1.0
        } else if x > y {
            0.0
        } else {
            0.5
        }
    };
    let u: f64 = a.iter().map(|&x| b.iter().map(|&y| score(x, y)).sum::<f64>()).sum();
    let away = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    2.0 * normal_tail(away / (n * m * (n + m + 1.0) / 12.0).sqrt())
}

/// hyperfine prints "ran 1.02 ± 0.01 times faster" with the standard deviation of the ratio by
/// propagation.
fn outside(a: &[f64], b: &[f64]) -> bool {
    let ratio = mean(b) / mean(a);
    let relative = |values: &[f64]| sample_variance(values) / mean(values).powi(2);
    (ratio - 1.0).abs() > ratio * (relative(a) + relative(b)).sqrt()
}
