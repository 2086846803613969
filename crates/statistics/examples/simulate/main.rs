//! Do the tests, intervals and stopping rules keep their promises on machines whose truth is known?
//!
//! `cargo run --release -p statistics --example simulate [-- --quick] [--comparisons N] [--seed N]
//! [--only TEXT]` prints a Markdown table; the exit code is 1 when a target is missed. N (4,000)
//! comparisons for error rates, a quarter of it for power and stopping, which are far from their
//! targets. `--rows` simulates many rows together in their place, `--laws` the shapes that the
//! levels of layouts may have.

mod cases;
mod laws;
mod noise;
mod rows;
mod session;

use cases::{Case, Outcome};
use std::sync::atomic::{AtomicUsize, Ordering};

struct Arguments {
    comparisons: usize,
    seed: u64,
    only: String,
    rows: bool,
    laws: bool,
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments =
        Arguments { comparisons: 4000, seed: 1, only: String::new(), rows: false, laws: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            words.next().and_then(|w| w.parse::<u64>().ok()).ok_or(format!("{word} needs a number"))
        };
        match word.as_str() {
            "--quick" => arguments.comparisons = 60,
            "--comparisons" => arguments.comparisons = number()? as usize,
            "--seed" => arguments.seed = number()?,
            "--laws" => arguments.laws = true,
            "--rows" => arguments.rows = true,
            "--only" => arguments.only = words.next().ok_or("--only needs a text")?,
            _ => return Err(format!("unknown argument {word}")),
        }
    }
    Ok(arguments)
}

fn main() -> Result<(), String> {
    let arguments = arguments()?;
    let cases: Vec<Case> =
        cases::all().into_iter().filter(|c| c.name().contains(&arguments.only)).collect();
    let families: Vec<rows::Family> =
        rows::all().into_iter().filter(|f| f.name().contains(&arguments.only)).collect();
    let started = std::time::Instant::now();
    println!("{} comparisons per error rate, seed {}\n", arguments.comparisons, arguments.seed);
    println!("| simulation | measured | 95 % interval | target | |\n|---|---|---|---|---|");
    let mut missed = 0;
    let mut tell = |row: &cases::Row| {
        missed += usize::from(row.misses());
        println!("{row}");
    };
    for case in
        laws::all().iter().filter(|case| arguments.laws && case.name().contains(&arguments.only))
    {
        let sum = laws::Outcome::add;
        let outcome = simulate(arguments.comparisons, &sum, &|at| case.run(arguments.seed, at));
        case.told(&outcome).iter().for_each(&mut tell);
    }
    for case in cases.iter().filter(|_| !arguments.rows && !arguments.laws) {
        let sum = Outcome::add;
        let outcome = simulate(case.comparisons(arguments.comparisons), &sum, &|at| {
            case.run(arguments.seed, at)
        });
        case.rows(&outcome).iter().for_each(&mut tell);
    }
    for family in families.iter().filter(|_| arguments.rows) {
        let sum = rows::Outcome::add;
        let outcome = simulate(arguments.comparisons, &sum, &|at| family.run(arguments.seed, at));
        family.told(&outcome).iter().for_each(&mut tell);
    }
    println!("\n{missed} targets missed; {:.0} s", started.elapsed().as_secs_f64());
    if missed > 0 { Err(format!("{missed} targets missed")) } else { Ok(()) }
}

/// So many comparisons on two threads. Every comparison has its own seed, so the threads change
/// nothing.
fn simulate<T: Default + Send>(
    comparisons: usize,
    add: &(dyn Fn(&mut T, &T) + Sync),
    run: &(dyn Fn(u64) -> T + Sync),
) -> T {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut sum = T::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= comparisons {
                return sum;
            }
            add(&mut sum, &run(index as u64));
        }
    };
    let (other, mut sum) = jobs::beside([()], |()| work(), work);
    other.iter().for_each(|part| add(&mut sum, part));
    sum
}
