//! `planish train record`: records all training commands in rounds, until what was counted is stable.

use crate::cli::{FINE, Format, Global};
use crate::command::inputs::{self, Selection};
use crate::command::{INTERRUPTED, aggregate, weigh};
use crate::output;
use anyhow::{Context, bail};
use build::recording::StopBy;
use build::request::Pace;
use build::rounds::{Found, Round};
use build::training::{Settings, Training};
use build::{Request, split_words};
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::Image;
use report::training::{Command as Told, Trained};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// What `planish train time` printed
    #[arg(long, value_name = "FILE")]
    by: PathBuf,
    /// The program that is recorded
    #[arg(long, value_name = "FILE")]
    binary: PathBuf,
    /// Where to write the counts
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The begin of the names of the recordings
    #[arg(long, value_name = "PREFIX")]
    data: PathBuf,
    /// Count paths too, for a layout with cloned blocks
    #[arg(long)]
    paths: bool,
    /// Software branch stacks: per cent of the program's CPU time that may go into stops
    #[arg(long, value_name = "PERCENT", conflicts_with = "period")]
    budget: Option<f64>,
    /// From one stop, or emulated sample, to the next
    #[arg(long, value_name = "N")]
    period: Option<u64>,
    /// Software branch stacks: what is counted between two stops
    #[arg(long, value_name = "WHAT", value_parser = stop_by)]
    stop_by: Option<StopBy>,
    /// Put what the commands print into files whose names begin so
    #[arg(long, value_name = "PREFIX")]
    program_output: Option<PathBuf>,
    /// How to print what each command gave; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// A training command, as `planish train time` had it; repeat it for more
    #[arg(long, required = true, value_name = "LINE")]
    command: Vec<String>,
}

fn stop_by(text: &str) -> Result<StopBy, String> {
    StopBy::parse(text).ok_or_else(|| "it is neither clock nor branches".to_owned())
}

/// What is recorded, and how.
struct Recorder<'a> {
    args: &'a Args,
    training: &'a Training,
    settings: Settings,
    /// Every command in words.
    commands: Vec<Vec<String>>,
    planish: PathBuf,
    image: Arc<Image>,
    stop: Arc<AtomicBool>,
    global: &'a Global,
}

/// What the rounds so far gave.
struct Sum {
    all: Aggregated,
    /// What each command gave, as it was recorded.
    parts: Vec<Aggregated>,
    /// What each was multiplied by.
    factors: Vec<u64>,
    found: Found,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let training = Training::read(&args.by)?;
    let timed: Vec<&str> = training.commands.iter().map(|one| one.command.as_str()).collect();
    if timed != args.command {
        bail!(
            "{}: it was made for other commands than those of --command; run planish train time \
             with these",
            args.by.display()
        );
    }
    let budget = args.budget.map(Pace::Budget);
    let settings =
        Settings { pace: args.period.map(Pace::Period).or(budget), stop_by: args.stop_by };
    let commands = args.command.iter().map(|line| {
        split_words(line).map_err(|problem| anyhow::anyhow!("--command: {problem}"))
    });
    let recorder = Recorder {
        args,
        training: &training,
        settings,
        commands: commands.collect::<anyhow::Result<_>>()?,
        planish: std::env::current_exe().context("cannot find this executable")?,
        image: Arc::new(Image::open(&args.binary)?),
        stop: crate::command::compare::stop_flag()?,
        global,
    };
    match recorder.run()? {
        Some((done, sum)) => recorder.finish(&done, sum),
        None => Ok(INTERRUPTED),
    }
}

impl Recorder<'_> {
    /// Round after round; `None` where somebody ends it.
    fn run(&self) -> anyhow::Result<Option<(Vec<Round>, Sum)>> {
        let period = self.settings.period();
        let (mut done, mut parts) = (Vec::new(), Vec::new());
        let mut next = Some(self.training.first_round(period));
        loop {
            let Some(round) = next else { bail!("no round of recording was planned") };
            if round.replaces {
                parts.clear();
            }
            for (n, command) in self.commands.iter().enumerate() {
                if !self.record(round, n, command)? {
                    return Ok(None);
                }
                let one = self.count(&self.name(&self.args.data, round, n, "data"))?;
                match parts.get_mut(n) {
                    Some(sum) => *sum = Aggregated::sum([std::mem::replace(sum, empty()), one])?,
                    None => parts.push(one),
                }
            }
            done.push(round);
            let sum = self.sum(parts)?;
            next = self.training.next_round(&done, sum.found, period);
            if next.is_none() {
                return Ok(Some((done, sum)));
            }
            if !self.global.quiet {
                let verdict = self.training.verdict(&done, sum.found, period);
                let so_far = verdict.split("): ").next().unwrap_or_default();
                eprintln!("round {}: {so_far}); recording goes on", round.number);
            }
            parts = sum.parts;
        }
    }

    /// The name of a command's file of a round: later ones tell theirs.
    fn name(&self, prefix: &Path, round: Round, n: usize, suffix: &str) -> PathBuf {
        let mut name = prefix.as_os_str().to_owned();
        name.push(format!("-{}", n + 1));
        if round.number > 1 && !round.replaces {
            name.push(format!("-{}", round.number));
        }
        name.push(format!(".{suffix}"));
        name.into()
    }

    /// Records a command; false where somebody ends it.
    fn record(&self, round: Round, n: usize, command: &[String]) -> anyhow::Result<bool> {
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let output = self.name(&self.args.data, round, n, "data");
        let prefix = self.args.program_output.as_deref();
        let log = prefix.map(|prefix| self.name(prefix, round, n, "output"));
        let files = (command, output.as_path(), log.clone());
        let request = self.training.recording(round, &self.settings, &self.planish, files);
        let words = Request::Record(request).call().arguments(|_| true);
        let quiet = self.global.quiet.then_some("--quiet");
        let mut child = Command::new(&self.planish)
            .args(quiet)
            .args(words)
            // Standard output is for the result.
            .stdout(std::io::stderr())
            .spawn()
            .context("cannot start planish record")?;
        let status = build::wait(&mut child, &self.stop)?;
        if self.stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        if !status.success() {
            let last = log.map(|log| build::bounded_log::last_lines(&log, 0, LAST_LINES));
            let last = last.filter(|last| !last.is_empty()).map_or_else(String::new, |last| {
                format!("; the program printed last:\n  | {}", last.join("\n  | "))
            });
            bail!(
                "{}: planish record ended with {status}; training must end well{last}",
                self.args.command.get(n).map_or("", String::as_str)
            );
        }
        Ok(true)
    }

    fn count(&self, recording: &Path) -> anyhow::Result<Aggregated> {
        let selection = Selection { dedup: None, pid: None, allow_few: true, paths: self.args.paths };
        inputs::read(recording, &[Arc::clone(&self.image)], selection, self.global)
    }

    /// Adds up what each command gave, with its weight.
    fn sum(&self, parts: Vec<Aggregated>) -> anyhow::Result<Sum> {
        let wanted = self.training.commands.iter().map(|timed| timed.wanted());
        let (weighted, factors) = weigh::weighted(parts.clone(), wanted)?;
        let all = Aggregated::sum(weighted)?;
        let named = self.name(&self.args.data, self.training.first_round(None), 0, "data");
        counts::refuse_too_few(&all, &[named.clone()])?;
        let evidence = Evidence::of(all.of(&self.image, &named)?, &self.image);
        Ok(Sum { all, parts, factors, found: Found::from(&evidence) })
    }

    /// Writes the counts and tells what they rest on.
    fn finish(&self, done: &[Round], sum: Sum) -> anyhow::Result<u8> {
        let args = self.args;
        output::write_file(&args.output, |out| {
            Ok(counts::artefact::write(&args.output, &sum.all.counts, out)?)
        })?;
        let line = self.training.verdict(done, sum.found, self.settings.period());
        if !self.global.quiet {
            aggregate::print_ledger(&sum.all, self.global);
            eprintln!("{line}");
        }
        if args.format == Format::Json {
            let trained = self.told(done, &sum, line);
            output::print_json(&report::training::json(&sum.all, &trained))?;
        }
        Ok(FINE)
    }

    /// What the report says of it.
    fn told(&self, done: &[Round], sum: &Sum, line: String) -> Trained {
        let weight = |part: &Aggregated| {
            let counts = part.counts.find(self.image.build_id(), &self.args.binary.to_string_lossy());
            counts.map_or(0, |counts| counts.branch_total())
        };
        let weights: Vec<u128> = sum
            .parts
            .iter()
            .zip(&sum.factors)
            .map(|(part, &factor)| weight(part).saturating_mul(u128::from(factor)))
            .collect();
        let all = weights.iter().sum::<u128>().max(1);
        let parts = sum.parts.iter().zip(&weights).zip(&sum.factors);
        let commands = parts.zip(&self.training.commands).enumerate();
        let kept = done.iter().filter(|round| !done.iter().any(|later| later.replaces && later.number > round.number));
        let kept: Vec<&Round> = kept.collect();
        let told = commands.map(|(n, (((part, &weight), &factor), timed))| {
            let size = |round: &&Round| {
                let path = self.name(&self.args.data, **round, n, "data");
                std::fs::metadata(path).map_or(0, |metadata| metadata.len())
            };
            Told {
                command: timed.command.clone(),
                cpu_seconds: timed.cpu_seconds,
                weight: timed.weight,
                samples: part.parts.iter().map(|part| part.used).sum(),
                factor,
                share: weight as f64 / all as f64,
                file_bytes: kept.iter().map(size).sum(),
            }
        });
        Trained {
            rounds: done.len() as u64,
            runs: kept.iter().map(|round| round.runs).sum(),
            period: done.last().and_then(|round| round.period),
            stable: sum.found.is_stable(),
            line,
            commands: told.collect(),
        }
    }
}

/// Lines shown of what a program that failed printed.
const LAST_LINES: usize = 15;

fn empty() -> Aggregated {
    counts::Counts::default().into()
}
