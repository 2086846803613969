//! `planish train record`: records all training commands in rounds, until what was counted is stable.

use crate::cli::{FINE, Format, Global, LACKING};
use crate::command::inputs::{self, Selection};
use crate::command::{INTERRUPTED, aggregate, copies, weigh};
use crate::output;
use anyhow::{Context, bail};
use build::kept_rounds::{self, KeptRounds};
use build::recording::StopBy;
use build::request::Pace;
use build::rounds::{Found, Round};
use build::training::{Settings, Training};
use build::{Request, split_words};
use counts::ImageCounts;
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::Image;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// What `planish train time` printed
    #[arg(long, value_name = "FILE")]
    by: PathBuf,
    /// The program that is recorded; repeat it for the libraries that run with it
    #[arg(long, required = true, value_name = "FILE")]
    binary: Vec<PathBuf>,
    /// Refuse recordings in which other copies of these files ran
    #[arg(long)]
    no_copies: bool,
    /// Where to write the counts
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// The start of the names of the recordings
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

mod files;
mod told;

/// What is recorded, and how.
struct Recorder<'a> {
    args: &'a Args,
    training: &'a Training,
    settings: Settings,
    /// Every command in words.
    commands: Vec<Vec<String>>,
    planish: PathBuf,
    images: Vec<Arc<Image>>,
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
    let images = inputs::open_images(&args.binary)?;
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
    let commands = args
        .command
        .iter()
        .map(|line| split_words(line).map_err(|problem| anyhow::anyhow!("--command: {problem}")));
    let recorder = Recorder {
        args,
        training: &training,
        settings,
        commands: commands.collect::<anyhow::Result<_>>()?,
        planish: std::env::current_exe().context("cannot find this executable")?,
        images,
        stop: crate::command::compare::stop_flag()?,
        global,
    };
    match recorder.run()? {
        Some((kept, sum)) => recorder.finish(&kept, sum),
        None => Ok(INTERRUPTED),
    }
}

impl Recorder<'_> {
    /// Round after round; `None` where somebody ends it.
    fn run(&self) -> anyhow::Result<Option<(KeptRounds, Sum)>> {
        let period = self.settings.period();
        let mut kept = self.kept()?;
        let mut parts = Vec::new();
        for &round in kept_rounds::counting(kept.rounds()) {
            self.count_round(round, &mut parts)?;
        }
        let mut next = Some(self.training.first_round(period)).filter(|_| parts.is_empty());
        loop {
            if let Some(round) = next {
                for (n, command) in self.commands.iter().enumerate() {
                    if !self.record(round, n, command)? {
                        return Ok(None);
                    }
                }
                if round.replaces {
                    parts.clear();
                    self.remove(kept.rounds());
                }
                kept.add(round).context("cannot note the round that was recorded")?;
                self.count_round(round, &mut parts)?;
            }
            let sum = self.sum(parts, kept.rounds())?;
            next = self.training.next_round(kept.rounds(), sum.found, period);
            if next.is_none() {
                return Ok(Some((kept, sum)));
            }
            if !self.global.quiet {
                eprintln!("{:>20}: {}; going on", "so far", sum.found.words());
            }
            parts = sum.parts;
        }
    }

    /// Adds what the recordings of a round hold to what each command gave.
    fn count_round(&self, round: Round, parts: &mut Vec<Aggregated>) -> anyhow::Result<()> {
        for n in 0..self.commands.len() {
            let one = self.count(&self.name(&self.args.data, round, n, "data"))?;
            match parts.get_mut(n) {
                Some(sum) => *sum = Aggregated::sum([std::mem::replace(sum, empty()), one])?,
                None => parts.push(one),
            }
        }
        Ok(())
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
        let words = Request::Record(request).call().arguments();
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
            let command = self.args.command.get(n).map_or("", String::as_str);
            if status.code() == Some(i32::from(LACKING)) {
                return Err(build::Error::CannotRecord(format!(
                    "{command}: this machine lacks what the recording needs, as said above{last}"
                ))
                .into());
            }
            bail!(
                "{command}: planish record ended with {status}; a training command must succeed{last}"
            );
        }
        Ok(true)
    }

    fn count(&self, recording: &Path) -> anyhow::Result<Aggregated> {
        let selection =
            Selection { dedup: None, pid: None, allow_few: true, paths: self.args.paths };
        let found = inputs::read(recording, &self.images, selection, self.global)?;
        if self.args.no_copies {
            copies::refuse(&found, &self.images)?;
        }
        Ok(found)
    }

    /// Adds up what each command gave, with its weight.
    fn sum(&self, parts: Vec<Aggregated>, done: &[Round]) -> anyhow::Result<Sum> {
        let wanted = self.training.commands.iter().map(|timed| timed.wanted());
        let (weighted, factors) = weigh::weighted(parts.clone(), wanted)?;
        let all = Aggregated::sum(weighted)?;
        let first = kept_rounds::counting(done).first();
        let named = first.map(|&round| self.name(&self.args.data, round, 0, "data"));
        let named = named.unwrap_or_else(|| self.args.data.clone());
        counts::refuse_too_few(&all, std::slice::from_ref(&named))?;
        let of = |image: &Arc<Image>| Some(Evidence::of(counted(&all, image)?, image));
        let evidence: Vec<Evidence> = self.images.iter().filter_map(of).collect();
        if let (true, Some(image)) = (evidence.is_empty(), self.images.first()) {
            all.of(image, &named)?;
        }
        let found = Found::of_images(&evidence);
        Ok(Sum { all, parts, factors, found })
    }

    /// Writes the counts and tells what they rest on.
    fn finish(&self, kept: &KeptRounds, sum: Sum) -> anyhow::Result<u8> {
        let args = self.args;
        output::write_file(&args.output, |out| {
            Ok(counts::artefact::write(&args.output, &sum.all.counts, out)?)
        })?;
        kept.forget();
        let trained = self.told(kept.rounds(), &sum);
        if !self.global.quiet {
            aggregate::print_ledger(&sum.all, self.global);
            report::training::lines(&trained).iter().for_each(|line| eprintln!("{line}"));
        }
        if args.format == Format::Json {
            output::print_json(&report::training::json(&sum.all, &trained))?;
        }
        Ok(FINE)
    }
}

/// Lines shown of what a program that failed printed.
const LAST_LINES: usize = 15;

/// The counts of an image, where any of it ran.
fn counted<'c>(all: &'c Aggregated, image: &Image) -> Option<&'c ImageCounts> {
    all.counts.find(image.build_id(), &image.path().to_string_lossy())
}

fn empty() -> Aggregated {
    counts::Counts::default().into()
}
