//! Stops a command, or running processes, at a period, does nothing at each stop, and prints what
//! was done.
//!
//! `stop [--period NS] [--follow] [--seconds S] [--stops N] [--step N] (-p PID… | -- COMMAND…)`

mod sys;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use stops::{Ending, Next, Step, StopOptions, Stopped, Tracer, Trigger, Visitor};

/// What the command line asks for.
struct Arguments {
    options: StopOptions,
    seconds: f64,
    step: u32,
    pids: Vec<i32>,
    command: Vec<String>,
}

fn arguments() -> Option<Arguments> {
    let options = StopOptions {
        trigger: Trigger::CpuClock,
        spread_first: false,
        period: 1_000_000,
        follow: false,
        max_stops: None,
        new_threads: None,
    };
    let mut all = Arguments {
        options,
        seconds: f64::INFINITY,
        step: 0,
        pids: Vec::new(),
        command: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--period" => all.options.period = words.next()?.parse().ok()?,
            "--follow" => all.options.follow = true,
            "--seconds" => all.seconds = words.next()?.parse().ok()?,
            "--stops" => all.options.max_stops = Some(words.next()?.parse().ok()?),
            "--step" => all.step = words.next()?.parse().ok()?,
            "-p" => all.pids.push(words.next()?.parse().ok()?),
            "--" => all.command = words.by_ref().collect(),
            _ => return None,
        }
    }
    (all.pids.is_empty() != all.command.is_empty()).then_some(all)
}

/// Prints what happens to processes; steps if asked.
struct Print {
    step: u32,
}

impl Visitor for Print {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        for _ in 0..self.step {
            if !matches!(thread.step(), Ok(Step::Done)) {
                break;
            }
        }
        Next::default()
    }
    fn forked(&mut self, parent: i32, child: i32) {
        eprintln!("forked {parent} {child}");
    }
    fn executed(&mut self, pid: i32) {
        eprintln!("executed {pid}");
    }
    fn ended(&mut self, pid: i32, ending: Ending) {
        eprintln!("ended {pid} {ending:?}");
    }
}

fn run(all: &Arguments) -> Result<u8, Box<dyn std::error::Error>> {
    let begun = Instant::now();
    let mut child = None;
    let mut tracer = if let Some((program, words)) = all.command.split_first() {
        let mut command = Command::new(program);
        command.args(words);
        let waiting = sys::start(command)?;
        let tracer = Tracer::seize_child(waiting.pid, &all.options)?;
        child = Some(waiting.go()?);
        tracer
    } else {
        Tracer::attach(&all.pids, &all.options)?
    };
    eprintln!("ready");
    let limit = Duration::try_from_secs_f64(all.seconds).unwrap_or(Duration::MAX);
    let ended = tracer.run(&mut Print { step: all.step }, &|| begun.elapsed() >= limit)?;
    eprintln!("{:?} {:?}\n{:#?}", ended.why, ended.child, ended.counts);
    let counts = &ended.counts;
    let stops = counts.stops.max(1) as f64;
    eprintln!(
        "a stop: {:.1} us stopped, {:.1} us of the tracer's CPU",
        counts.stopped_ns as f64 / stops / 1e3,
        counts.tracer_cpu_ns as f64 / stops / 1e3
    );
    // The child's own status is still there for whoever waits for it.
    let status = child.map(|mut child| child.wait()).transpose()?;
    Ok(status
        .map_or(0, |status| status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255)))
}

fn main() -> ExitCode {
    let Some(all) = arguments() else {
        eprintln!(
            "usage: stop [--period NS] [--follow] [--seconds S] [--stops N] [--step N] (-p PID | -- COMMAND)"
        );
        return ExitCode::from(2);
    };
    run(&all).map_or_else(
        |error| {
            eprintln!("stop: {error}");
            ExitCode::from(2)
        },
        ExitCode::from,
    )
}
