//! How often is a difference claimed between relinks of the same objects?
//!
//! ```text
//! planish compare app app --layouts 24 --layout-mode independent --objects app.tar app.tar --raw r.jsonl -- {bin} input
//! cargo run --release -p compare --example relinked -- r.jsonl 8
//! ```
//!
//! Each of 1,000 comparisons takes twice so many of the recorded binaries at random, as the layouts
//! of "A" and of "B", and a pair of them as the programs as built. With a limited number of
//! recorded binaries the comparisons resemble each other, so the intervals are too short.
#![allow(clippy::unwrap_used, reason = "an example ends with a message where its input is wrong")]

use compare::runs;
use statistics::Observation;
use statistics::calibration::relinked;
use statistics::distribution::clopper_pearson;
use std::io::BufReader;

const COMPARISONS: usize = 1000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: relinked RUNS.jsonl LAYOUTS");
    let layouts =
        arguments.next().and_then(|n| n.parse().ok()).expect("usage: relinked RUNS.jsonl LAYOUTS");
    let found =
        runs::read(path.as_ref(), BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
    let metric = &found.design.benchmarks[0].metrics[0];
    let observations: Vec<Observation> = found
        .runs
        .iter()
        .filter(|run| run.round > 0 && run.layout > 0)
        .map(|run| Observation {
            round: run.round,
            variant: run.variant,
            layout: run.layout,
            copy: run.copy,
            log: metric.value(run).unwrap().ln(),
        })
        .collect();
    let answer = relinked(&observations, layouts, COMPARISONS, 1999, 1)
        .expect("too few layouts were recorded");
    let pairs = answer.relinked_pairs_different.unwrap_or(0.0);
    let (low, high) =
        clopper_pearson((pairs * COMPARISONS as f64).round() as u64, COMPARISONS as u64, 0.95);
    println!("| comparison of unchanged code | called different | 95 % interval |\n|---|---:|---|");
    println!(
        "| averaged over {layouts} independent layouts | {:.1} % | {:.1} to {:.1} |",
        100.0 * answer.rate(),
        100.0 * answer.low,
        100.0 * answer.high
    );
    println!(
        "| one pair of binaries | {:.1} % | {:.1} to {:.1} |",
        100.0 * pairs,
        100.0 * low,
        100.0 * high
    );
    println!(
        "\nSpread between layouts {:.2} %, of single runs {:.2} %.",
        100.0 * answer.layout_deviation.unwrap_or(0.0),
        100.0 * answer.run_deviation
    );
}
