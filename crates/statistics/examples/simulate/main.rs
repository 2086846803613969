//! Do the tests, intervals and stopping rules keep their promises on machines whose truth is known?
//!
//! `cargo run --release -p statistics --example simulate [-- --quick] [--comparisons N] [--seed N] [--only TEXT]`
//! prints a Markdown table; the exit code is 1 when a target is missed. N (4,000) comparisons for error rates, a quarter of
//! it for power and stopping, which are far from their targets.

mod cases;
mod noise;
mod session;

use cases::{Case, Outcome};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Arguments {
    comparisons: usize,
    seed: u64,
    only: String,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments = Arguments { comparisons: 4000, seed: 1, only: String::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number =
            || words.next().and_then(|w| w.parse::<u64>().ok()).ok_or(format!("{word} needs a number"));
        match word.as_str() {
            "--quick" => arguments.comparisons = 60,
            "--comparisons" => arguments.comparisons = number()? as usize,
            "--seed" => arguments.seed = number()?,
            "--only" => arguments.only = words.next().ok_or("--only needs a text")?,
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

fn main() -> Result<(), String> {
    let arguments = arguments()?;
    let cases: Vec<Case> = cases::all().into_iter().filter(|c| c.name().contains(&arguments.only)).collect();
    let started = std::time::Instant::now();
    println!("{} comparisons per error rate, seed {}\n", arguments.comparisons, arguments.seed);
    println!("| simulation | measured | 95 % interval | target | |\n|---|---|---|---|---|");
    let mut missed = 0;
    for case in &cases {
        let outcome = simulate(case, &arguments);
        for row in case.rows(&outcome) {
            missed += usize::from(row.misses());
            println!("{row}");
        }
    }
    println!("\n{missed} targets missed; {:.0} s", started.elapsed().as_secs_f64());
    if missed > 0 { Err(format!("{missed} targets missed")) } else { Ok(()) }
}

/// All comparisons of a case on two threads. Every comparison has its own seed, so the threads change nothing.
fn simulate(case: &Case, arguments: &Arguments) -> Outcome {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut sum = Outcome::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= case.comparisons(arguments.comparisons) {
                return sum;
            }
            sum.add(&case.run(arguments.seed, index as u64));
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        let mut sum = Outcome::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => sum.add(&part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sum
    })
}
