//! How long does the analysis of 10,000 runs take? `cargo run --release -p statistics --example
//! speed`

use random::Random;
use statistics::{AnswerOptions, Observation, compare};
use std::time::Instant;

fn main() {
    for (layouts, rounds) in [(0u32, 2500), (16, 278)] {
        let mut random = Random::new(1);
        let mut order: Vec<(usize, u32, u8)> =
            (0..2).flat_map(|v| [(v, 0, 0), (v, 0, 1)]).collect();
        order.extend((0..2).flat_map(|v| (1..=layouts).map(move |l| (v, l, 0))));
        let mut runs = Vec::new();
        for round in 0..rounds {
            random.shuffle(&mut order);
            for &(variant, layout, copy) in &order {
                let log = 0.02 * random.unit() + f64::from(layout % 5) * 0.003;
                runs.push(Observation { round, variant, layout, copy, log });
            }
        }
        let started = Instant::now();
        let answer = compare(&runs, 0, 1, AnswerOptions::default());
        let verdict = answer.map(|a| a.judgement.verdict);
        println!(
            "{} runs, {layouts} layouts: {:.2} s, {verdict:?}",
            runs.len(),
            started.elapsed().as_secs_f64()
        );
    }
}
