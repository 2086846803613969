//! How well do two programs match, given the archives of their links? Prints shares, sizes and
//! times.
//!
//! `cargo run --release -p relink --example matched -- A.tar B.tar DIRECTORY [LAYOUTS]`

use std::path::Path;
use std::time::Instant;

use relink::{Error, Inputs, Layout, MatchPlan, relink_in, share_at_equal_address, sizes};

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, directory, rest @ ..] = arguments.as_slice() else {
        eprintln!("usage: matched A.tar B.tar DIRECTORY [LAYOUTS]");
        std::process::exit(2);
    };
    let directory = Path::new(directory);
    let layouts = rest.first().and_then(|count| count.parse().ok()).unwrap_or(4);
    let started = Instant::now();
    let a = Inputs::open(Path::new(a), directory)?;
    let b = Inputs::open(Path::new(b), directory)?;
    println!("opened in {:.2?}: {:?}", started.elapsed(), a.survey());
    let started = Instant::now();
    let plan = MatchPlan::new(&[&a, &b])?;
    println!("planned in {:.2?}: {} differ", started.elapsed(), plan.changed().len());
    println!(
        "  {} of {} bytes are common, {} sections unnamed",
        plan.common_bytes(),
        plan.text_bytes(),
        plan.unnamed()
    );
    plan.changed().iter().take(20).for_each(|name| println!("  {name}"));
    let links = directory.join("links");
    for seed in 1..=layouts {
        let started = Instant::now();
        let of_a = relink_in(&a, &Layout::Matched { seed, plan: &plan, variant: 0 }, &links)?.path;
        let of_b = relink_in(&b, &Layout::Matched { seed, plan: &plan, variant: 1 }, &links)?.path;
        let took = started.elapsed() / 2;
        let matched = share_at_equal_address(&of_a, &of_b)?;
        println!("matched {seed}: {:.2} % {matched:?}, {took:.2?} a link", 100.0 * matched.share());
        let started = Instant::now();
        let of_a = relink_in(&a, &Layout::Independent { seed }, &links)?.path;
        let of_b = relink_in(&b, &Layout::Independent { seed: seed + 1000 }, &links)?.path;
        let took = started.elapsed() / 2;
        let matched = share_at_equal_address(&of_a, &of_b)?;
        println!(
            "independent {seed}: {:.2} %, {took:.2?} a link, {:?}",
            100.0 * matched.share(),
            sizes(&of_a)?
        );
    }
    Ok(())
}
