//! What does the harness cost per run?   cargo run --release -p compare --example overhead
//!
//! Runs `sleep 0.1` in turns and tells the time between the runs, and the CPU time of the harness
//! itself, per run.
#![allow(clippy::unwrap_used, reason = "an example ends with a message where something fails")]

use compare::result::Stopped;
use compare::{Benchmark, Design, Error, Metric, Observer, Progress, Recorded, Run, Variant};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

struct Quiet;

impl Observer for Quiet {
    fn run(&mut self, _: &Run, _: Progress) -> Result<(), Error> {
        Ok(())
    }
    fn stopped(&mut self, _: &Stopped) -> Result<(), Error> {
        Ok(())
    }
}

fn own_cpu_seconds() -> f64 {
    // Fields 14 and 15 of /proc/self/stat: user and system time in ticks of 10 ms, this process
    // only.
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn main() {
    let variant = |name: &str| Variant {
        name: name.into(),
        binaries: vec!["/bin/sleep".into()],
        ..Variant::default()
    };
    let benchmark = Benchmark {
        name: "sleep".into(),
        command: vec!["{bin}".into(), "0.1".into()],
        metrics: vec![Metric::default(), Metric::parse("wall").unwrap()],
        ..Benchmark::default()
    };
    let design = Design {
        variants: vec![variant("a"), variant("b")],
        benchmarks: vec![benchmark],
        rounds: 100,
        seed: 1,
        margin: 0.01,
        ..Design::default()
    };
    let (cpu, start) = (own_cpu_seconds(), Instant::now());
    let found =
        compare::run(&design, &AtomicBool::new(false), Recorded::default(), &mut Quiet).unwrap();
    let elapsed = start.elapsed().as_secs_f64();
    let runs = found.runs.len() as f64;
    let wall: f64 = found.runs.iter().map(|run| run.wall_ns as f64 / 1e9).sum();
    let between = (elapsed - wall) / runs * 1e3;
    let cpu = (own_cpu_seconds() - cpu) / runs * 1e3;
    println!(
        "{runs} runs of sleep 0.1: {between:.3} ms between runs ({:.2} % of a run), {cpu:.3} ms of CPU time per run",
        100.0 * (elapsed - wall) / wall
    );
}
