//! Boots kernels in the order of a design, and keeps what their consoles say about time.
//!
//! A boot gives one observation of every section. The sections are those that the first boot
//! states; each later one must state the same, with as many operations.

use super::super::machine::is_interrupted;
use crate::cli::Global;
use crate::command::compare::measure;
use anyhow::{Context, bail};
use compare::{Benchmark, Design, Metric, Recorded, Run, runs};
use indicatif::{ProgressBar, ProgressStyle};
use record::Error;
use record::machine::{Execution, Failure, Guest, Limits, Section, Statement, Timing, Transcript};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufReader, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Parameters of a benchmark that is a section.
pub const SECTION: &str = "section";
pub const KIND: &str = "kind";
pub const OPERATIONS: &str = "operations";
const INITRD: &str = "initrd";
/// Values of [`KIND`].
pub const TRAIN: &str = "train";
pub const HELD: &str = "held";

/// What is booted.
pub struct Boots {
    /// The machine of each kernel, in the order of the design's variants.
    pub guests: Vec<Guest>,
    /// What a boot runs, with `{bin}` for the kernel.
    pub command: Vec<String>,
    /// SHA-256 of the initrd.
    pub initrd: String,
    /// The times are an emulator's.
    pub emulated: bool,
    /// A boot that takes longer is ended, and the measurement with it.
    pub timeout: Duration,
    /// Where the runs are kept.
    pub raw: Option<PathBuf>,
    /// Go on with those that are there.
    pub resume: bool,
}

/// A measurement under way.
struct Session<'a> {
    boots: &'a Boots,
    found: Recorded,
    file: Option<File>,
    bar: ProgressBar,
    quiet: bool,
}

impl Boots {
    /// Boots every kernel once a round, in the design's order; the sections become the design's
    /// benchmarks. The second result says whether the user ended it early.
    ///
    /// # Errors
    /// When a machine fails or hangs, or kernels run different sections. What was measured before
    /// is kept in the file.
    pub fn run(
        &self,
        design: Design,
        stop: &AtomicBool,
        global: &Global,
    ) -> anyhow::Result<(Recorded, bool)> {
        if let Some(path) = &self.raw {
            measure::replaceable(path, &design)?;
        }
        let found = match self.raw.as_ref().filter(|path| self.resume && path.exists()) {
            Some(path) => self.resumed(path, design)?,
            None => Recorded { design, ..Recorded::default() },
        };
        let (rounds, done) = (found.design.rounds, boots_done(&found));
        let bar = progress_bar(&found.design, done.len() as u64, global);
        let mut session = Session { boots: self, found, file: None, bar, quiet: global.quiet };
        if !session.found.design.benchmarks.is_empty() {
            session.begin_file()?;
        }
        let interrupted = session.rounds(rounds, &done, stop);
        session.bar.finish_and_clear();
        let interrupted = interrupted?;
        Ok((session.found, interrupted))
    }

    /// What an earlier call measured, without a boot that was not kept whole.
    fn resumed(&self, path: &std::path::Path, mut design: Design) -> anyhow::Result<Recorded> {
        let there = runs::read(path, BufReader::new(crate::input::regular(path)?))?.design;
        let of_ours = |benchmark: &Benchmark| {
            benchmark.command == self.command
                && benchmark.parameters.get(INITRD) == Some(&self.initrd)
        };
        if !there.benchmarks.iter().all(of_ours) {
            bail!(
                "{}: holds the times of other machines, or of another initrd; give the arguments \
                 of then, or another file without --resume",
                path.display()
            );
        }
        design.benchmarks = there.benchmarks;
        let mut before = measure::resumed(path, &design)?;
        let whole = boots_done(&before);
        before.runs.retain(|run| whole.contains(&(run.round, run.variant)));
        Ok(Recorded { design, ..before })
    }

    /// The sections of the first boot as benchmarks.
    fn benchmarks(&self, said: &Transcript) -> anyhow::Result<Vec<Benchmark>> {
        let mut names = BTreeMap::<&str, usize>::new();
        for section in &said.sections {
            *names.entry(&section.name).or_default() += 1;
        }
        let benchmark = |(section, timing): (&Section, &Timing)| {
            // Names of the workload are distinct; those of another one may not be.
            let alone = names.get(section.name.as_str()) == Some(&1);
            let name = match alone && !super::sums::NAMES.contains(&section.name.as_str()) {
                true => section.name.clone(),
                false => format!("{} {}", section.name, section.number),
            };
            let kind = if section.held_out { HELD } else { TRAIN };
            let parameters = [
                (SECTION, section.number.to_string()),
                (KIND, kind.to_owned()),
                (OPERATIONS, timing.operations.to_string()),
                (INITRD, self.initrd.clone()),
            ];
            Ok(Benchmark {
                name,
                command: self.command.clone(),
                parameters: parameters.map(|(name, value)| (name.to_owned(), value)).into(),
                metrics: vec![metric(section.number, self.emulated)?],
            })
        };
        timed(said)?.into_iter().map(benchmark).collect()
    }
}

/// Sections with what they did. A section that says nothing of its time is left to
/// [`Session::begin`] to tell of.
fn timed(said: &Transcript) -> anyhow::Result<Vec<(&Section, &Timing)>> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for section in &said.sections {
        let mut own = said.results.iter().filter(|timing| timing.number == section.number);
        let first = own.next();
        if own.next().is_some() || !seen.insert(section.number) {
            bail!(
                "section {} ({}) ran more than once; times need one run of each",
                section.number,
                section.name
            );
        }
        found.extend(first.map(|timing| (section, timing)));
    }
    if found.is_empty() {
        bail!("the workload states no time (`planish: result SECTION OPERATIONS NANOSECONDS`)");
    }
    Ok(found)
}

/// The time of a section as the console tells it. The name says in every report whose clock that
/// is.
fn metric(section: u8, emulated: bool) -> anyhow::Result<Metric> {
    let name = if emulated { "emulated-time" } else { "guest-time" };
    Ok(Metric::parse(&format!("{name}[ns]=output:planish: result {section} [0-9]+ ([0-9]+)"))?)
}

/// Round and variant of each boot of which all sections are there.
fn boots_done(found: &Recorded) -> BTreeSet<(u32, usize)> {
    let mut sections = BTreeMap::<(u32, usize), usize>::new();
    for run in &found.runs {
        *sections.entry((run.round, run.variant)).or_default() += 1;
    }
    let whole = |&(_, count): &(_, usize)| count == found.design.benchmarks.len();
    sections.into_iter().filter(whole).map(|(boot, _)| boot).collect()
}

impl Session<'_> {
    /// All boots that are not done; true when the user interrupted them.
    fn rounds(
        &mut self,
        rounds: u32,
        done: &BTreeSet<(u32, usize)>,
        stop: &AtomicBool,
    ) -> anyhow::Result<bool> {
        for round in 0..=rounds {
            for slot in self.found.design.order(0, round) {
                if done.contains(&(round, slot.variant)) {
                    continue;
                }
                if stop.load(Ordering::Relaxed) || !self.boot(round, slot.variant)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// One boot; false when the user interrupted it.
    fn boot(&mut self, round: u32, variant: usize) -> anyhow::Result<bool> {
        let Some(guest) = self.boots.guests.get(variant) else { return Ok(true) };
        let name =
            self.found.design.variants.get(variant).map_or_else(String::new, |v| v.name.clone());
        let limits = Limits { timeout: Some(self.boots.timeout), to_the_end: true };
        let argv = guest.argv();
        let machine = record::machine::Run { argv: &argv, plugin: None, limits };
        let start_unix_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let began = Instant::now();
        let bar = self.bar.clone();
        bar.set_message(name.clone());
        let said = machine.run(&|| true, &mut |_, statement| {
            if let Some(Statement::Section(section)) = statement {
                bar.set_message(format!("{name}: {}", section.name));
            }
        });
        if is_interrupted(said.as_ref().err()) {
            return Ok(false);
        }
        let place = || format!("{name}, round {round}{}", self.kept());
        let said = said.map_err(|error| hinted(error, &guest.execution)).with_context(place)?;
        let boot = Run {
            round,
            variant,
            start_unix_ns,
            wall_ns: began.elapsed().as_nanos() as u64,
            ..Run::default()
        };
        if self.found.design.benchmarks.is_empty() {
            self.begin(&said).with_context(|| name.clone())?;
        }
        let runs = self
            .observed(&said, &boot)
            .with_context(|| format!("{name}, round {round}{}", self.kept()))?;
        for run in &runs {
            if let Some(file) = &mut self.file {
                runs::write_run(file, run).context("the file of --raw")?;
            }
        }
        self.found.runs.extend(runs);
        self.bar.inc(1);
        Ok(true)
    }

    /// For errors: that nothing is lost.
    fn kept(&self) -> String {
        match (&self.boots.raw, self.found.runs.is_empty()) {
            (Some(path), false) => {
                format!(" (the boots before are kept in {}, --resume goes on)", path.display())
            }
            _ => String::new(),
        }
    }

    /// What the first boot says decides what is compared.
    fn begin(&mut self, said: &Transcript) -> anyhow::Result<()> {
        self.found.design.benchmarks = self.boots.benchmarks(said)?;
        for section in &said.sections {
            if !said.results.iter().any(|timing| timing.number == section.number) && !self.quiet {
                let (number, name) = (section.number, &section.name);
                self.bar.suspend(|| {
                    eprintln!("warning: section {number} ({name}) states no time and is left out")
                });
            }
        }
        let rows = self.rows();
        if let Some(least) = too_few(rows, self.found.design.rounds).filter(|_| !self.quiet) {
            let rounds = self.found.design.rounds;
            self.bar.suspend(|| {
                eprintln!(
                    "warning: {rounds} rounds cannot show a difference in any of {rows} rows; \
                     {least} are the least"
                );
            });
        }
        self.begin_file()
    }

    /// Rows that will be judged: sections and sums of each kernel but the base.
    fn rows(&self) -> usize {
        let design = &self.found.design;
        let kinds: BTreeSet<_> = design.benchmarks.iter().map(|b| b.parameters.get(KIND)).collect();
        (design.benchmarks.len() + kinds.len()) * design.variants.len().saturating_sub(1)
    }

    fn begin_file(&mut self) -> anyhow::Result<()> {
        if let Some(path) = &self.boots.raw {
            self.file = Some(measure::open(path, &self.found.design, &self.found)?.1);
        }
        Ok(())
    }

    /// The runs of one boot, one for each section.
    fn observed(&self, said: &Transcript, boot: &Run) -> anyhow::Result<Vec<Run>> {
        let benchmarks = &self.found.design.benchmarks;
        let timed = timed(said)?;
        super::clock::check(&timed)?;
        if timed.len() != benchmarks.len() {
            bail!(
                "it ran {} sections, and the first boot {}: not the same work",
                timed.len(),
                benchmarks.len()
            );
        }
        let first = self.found.runs.last().map_or(0, |run| run.sequence + 1);
        let run = |(index, (benchmark, (section, timing))): (
            usize,
            (&Benchmark, (&Section, &Timing)),
        )| {
            let is = |name: &str, value: String| benchmark.parameters.get(name) == Some(&value);
            if !is(SECTION, section.number.to_string())
                || !is(OPERATIONS, timing.operations.to_string())
            {
                bail!(
                    "section {} ({}) did {} operations, and {} of the first boot {}: not the same \
                     work",
                    section.number,
                    section.name,
                    timing.operations,
                    benchmark.name,
                    benchmark.parameters.get(OPERATIONS).map_or("", String::as_str)
                );
            }
            let label = benchmark.metrics.first().map(Metric::label).unwrap_or_default();
            Ok(Run {
                sequence: first + index as u64,
                benchmark: index,
                printed: BTreeMap::from([(label, timing.nanoseconds as f64)]),
                ..boot.clone()
            })
        };
        benchmarks.iter().zip(timed).enumerate().map(run).collect()
    }
}

/// Rounds that are needed where so few cannot show anything: the smallest p-value of n rounds is 2
/// in 2^n, and Holm's first step takes it times the rows.
fn too_few(rows: usize, rounds: u32) -> Option<u32> {
    let shows = |n: &u32| 2f64.powi(1 - (*n).min(1000) as i32) * (rows as f64) < 0.05;
    (!shows(&rounds)).then(|| (rounds..1000).find(shows).unwrap_or(1000))
}

/// An error of a machine on the CPU with what may be the matter.
fn hinted(error: Error, execution: &Execution) -> anyhow::Error {
    let of_qemu = matches!(
        error,
        Error::Machine {
            failure: Failure::Killed(_) | Failure::Returned(_) | Failure::TimedOut(_),
            ..
        }
    );
    let error = anyhow::Error::from(error);
    match execution {
        Execution::Kvm { cpu } if of_qemu => error.context(format!(
            "by KVM as CPU `{cpu}`; if KVM does not work here, try another --cpu-model, or \
             --emulated-time"
        )),
        _ => error,
    }
}

fn progress_bar(design: &Design, done: u64, global: &Global) -> ProgressBar {
    if global.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let boots = (u64::from(design.rounds) + 1) * design.variants.len() as u64;
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} boots, {eta} left  {msg}");
    let bar =
        ProgressBar::new(boots).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(done);
    bar.reset_eta();
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_says_whose_time_it_is_and_survives_being_kept() {
        for (emulated, name) in [(true, "emulated-time"), (false, "guest-time")] {
            let metric = metric(22, emulated).unwrap();
            assert_eq!((metric.label().as_str(), metric.unit()), (name, "ns"));
            assert_eq!(Metric::parse(&String::from(metric.clone())).unwrap(), metric);
        }
    }

    #[test]
    fn rounds_that_are_too_few_for_so_many_rows_are_known_before() {
        // The smallest p-value of six rounds is 2/64.
        assert_eq!((too_few(1, 5), too_few(1, 6)), (Some(6), None));
        assert_eq!((too_few(51, 10), too_few(51, 11)), (Some(11), None));
    }

    #[test]
    fn a_section_that_ran_twice_has_no_one_time() {
        let section = |number| Section { number, held_out: false, name: "x".to_owned() };
        let timing = |number| Timing { number, operations: 1, nanoseconds: 2 };
        let mut said = Transcript {
            sections: vec![section(1), section(2)],
            results: vec![timing(1)],
            ended: true,
            tail: Vec::new(),
            ending: record::Ending::Code(0),
        };
        assert_eq!(timed(&said).unwrap().len(), 1);
        said.results.push(timing(1));
        assert!(timed(&said).unwrap_err().to_string().contains("section 1 (x) ran more than once"));
        said.results.clear();
        assert!(timed(&said).unwrap_err().to_string().contains("states no time"));
    }
}
