//! What does a boot of a kernel say about time?
//!
//! A boot gives one observation of every section. The sections are those that the first boot
//! states; each later one must state the same, with as many operations.

use super::clock;
use super::sums::{self, HELD, KIND, TRAIN};
use crate::Error;
use crate::machine::is_interrupted;
use compare::{Benchmark, Design, Keep, Metric, Observer, Place, Ran, Recorded, Run, Runner, kept};
use record::machine::{Execution, Failure, Guest, Limits, Section, Statement, Timing, Transcript};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Parameters of a benchmark that is a section, beside [`KIND`].
pub(super) const SECTION: &str = "section";
pub(super) const OPERATIONS: &str = "operations";
const INITRD: &str = "initrd";

/// What is booted.
#[derive(Debug)]
pub struct Boots<'a> {
    /// The machine of each kernel, in the order of the design's variants.
    pub guests: Vec<Guest>,
    /// SHA-256 of the initrd.
    pub initrd: String,
    /// The times are an emulator's.
    pub emulated: bool,
    /// A boot that takes longer is ended, and the measurement with it.
    pub timeout: Duration,
    /// Where the runs are kept.
    pub keep: Keep<'a>,
}

impl Boots<'_> {
    /// What one boot runs, with `{bin}` for the kernel. Planish's own initrd is another file each
    /// time.
    fn command(&self) -> Vec<String> {
        let Some(guest) = self.guests.first() else { return Vec::new() };
        let guest = Guest { kernel: "{bin}".into(), ..guest.clone() };
        let words = guest.argv_with_initrd("INITRD");
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The design with what an earlier call measured of it, without a boot that was not kept whole.
    pub(super) fn before(&self, design: Design) -> Result<Recorded, Error> {
        if let Some(path) = self.keep.raw {
            kept::replaceable(path, &design)?;
        }
        match self.keep.resumable() {
            Some(path) => self.resumed(path, design),
            None => Ok(Recorded { design, ..Recorded::default() }),
        }
    }

    fn resumed(&self, path: &Path, mut design: Design) -> Result<Recorded, Error> {
        let there = kept::read(path)?.design;
        let command = self.command();
        let of_ours = |benchmark: &Benchmark| {
            benchmark.command == command && benchmark.parameters.get(INITRD) == Some(&self.initrd)
        };
        if !there.benchmarks.iter().all(of_ours) {
            return Err(Error::Wanted(format!(
                "{}: holds the times of other machines, or of another initrd; give the arguments \
                 of then, or another file without --resume",
                path.display()
            )));
        }
        design.benchmarks = there.benchmarks;
        let mut before = kept::resumed(path, &design)?;
        let whole = boots_done(&before);
        before.runs.retain(|run| whole.contains(&(run.round, run.variant)));
        Ok(Recorded { design, ..before })
    }

    /// The sections of the first boot as benchmarks.
    fn benchmarks(&self, said: &Transcript) -> Result<Vec<Benchmark>, Error> {
        let command = self.command();
        let mut names = BTreeMap::<&str, usize>::new();
        for section in &said.sections {
            *names.entry(&section.name).or_default() += 1;
        }
        let benchmark = |(section, timing): (&Section, &Timing)| {
            // Names of the workload are distinct; those of another one may not be.
            let alone = names.get(section.name.as_str()) == Some(&1);
            let name = match alone && !sums::NAMES.contains(&section.name.as_str()) {
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
                command: command.clone(),
                parameters: parameters.map(|(name, value)| (name.to_owned(), value)).into(),
                metrics: vec![metric(section.number, self.emulated)?],
            })
        };
        timed(said)?.into_iter().map(benchmark).collect()
    }

    /// What the first boot says decides what is compared.
    fn begin(
        &self,
        design: &mut Design,
        said: &Transcript,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        design.benchmarks = self.benchmarks(said)?;
        for section in &said.sections {
            if !said.results.iter().any(|timing| timing.number == section.number) {
                observer.warn(&format!(
                    "section {} ({}) states no time and is left out",
                    section.number, section.name
                ));
            }
        }
        // Sections and sums of each kernel but the base.
        let kinds: BTreeSet<_> = design.benchmarks.iter().map(|b| b.parameters.get(KIND)).collect();
        let rows =
            (design.benchmarks.len() + kinds.len()) * design.variants.len().saturating_sub(1);
        let rounds = design.rounds;
        if let Some(least) = too_few(rows, rounds) {
            observer.warn(&format!(
                "{rounds} rounds cannot show a difference in any of {rows} rows; {least} are the \
                 least"
            ));
        }
        Ok(())
    }

    /// For errors: that nothing is lost.
    fn kept(&self, found: &Recorded) -> String {
        match (self.keep.raw, found.runs.is_empty()) {
            (Some(path), false) => {
                format!(" (the boots before are kept in {}, --resume goes on)", path.display())
            }
            _ => String::new(),
        }
    }
}

impl Runner for Boots<'_> {
    type Error = Error;

    fn runs_all(&self) -> bool {
        true
    }

    /// Boots once.
    ///
    /// # Errors
    /// When a machine fails or hangs, or kernels run different sections. What was measured before
    /// is kept.
    fn execute(
        &mut self,
        found: &mut Recorded,
        place: Place,
        observer: &mut dyn Observer,
    ) -> Result<Ran, Error> {
        let (round, variant) = (place.round, place.slot.variant);
        let Some(guest) = self.guests.get(variant) else { return Ok(Ran::Interrupted) };
        let name = found.design.variants.get(variant).map_or_else(String::new, |v| v.name.clone());
        let limits = Limits { timeout: Some(self.timeout), to_the_end: true };
        let argv = guest.argv();
        let machine = record::machine::Run { argv: &argv, plugin: None, limits };
        let start_unix_ns =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        let began = Instant::now();
        observer.doing(&name);
        let said = machine.run(&|| true, &mut |_, statement| {
            if let Some(Statement::Section(section)) = statement {
                observer.doing(&format!("{name}: {}", section.name));
            }
        });
        let wall_ns = began.elapsed().as_nanos() as u64;
        let place = format!("{name}, round {round}{}", self.kept(found));
        let said = match said {
            Ok(said) => said,
            Err(error) if is_interrupted(&error) => return Ok(Ran::Interrupted),
            Err(error) => return Err(Error::doing(place)(hinted(error, &guest.execution))),
        };
        if found.design.benchmarks.is_empty() {
            self.begin(&mut found.design, &said, observer).map_err(Error::doing(name))?;
        }
        let boot = Run { round, variant, start_unix_ns, wall_ns, ..Run::default() };
        let runs = observed(&found.design, &said, &boot).map_err(Error::doing(place))?;
        Ok(Ran::Runs(runs))
    }
}

/// Sections with what they did, without one that says nothing of its time.
fn timed(said: &Transcript) -> Result<Vec<(&Section, &Timing)>, Error> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    for section in &said.sections {
        let mut own = said.results.iter().filter(|timing| timing.number == section.number);
        let first = own.next();
        if own.next().is_some() || !seen.insert(section.number) {
            return Err(Error::Wanted(format!(
                "section {} ({}) ran more than once; times need one run of each",
                section.number, section.name
            )));
        }
        found.extend(first.map(|timing| (section, timing)));
    }
    if found.is_empty() {
        let form = "`planish: result SECTION OPERATIONS NANOSECONDS`";
        return Err(Error::Wanted(format!("the workload states no time ({form})")));
    }
    Ok(found)
}

/// The time of a section as the console tells it. The name says in every report whose clock that
/// is.
fn metric(section: u8, emulated: bool) -> Result<Metric, Error> {
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

/// The runs of one boot, one for each section.
fn observed(design: &Design, said: &Transcript, boot: &Run) -> Result<Vec<Run>, Error> {
    let benchmarks = &design.benchmarks;
    let timed = timed(said)?;
    clock::check(&timed)?;
    if timed.len() != benchmarks.len() {
        return Err(Error::Wanted(format!(
            "it ran {} sections, and the first boot {}: not the same work",
            timed.len(),
            benchmarks.len()
        )));
    }
    let mut runs = Vec::with_capacity(timed.len());
    for (index, (benchmark, (section, timing))) in benchmarks.iter().zip(timed).enumerate() {
        let is = |name: &str, value: String| benchmark.parameters.get(name) == Some(&value);
        if !is(SECTION, section.number.to_string())
            || !is(OPERATIONS, timing.operations.to_string())
        {
            return Err(Error::Wanted(format!(
                "section {} ({}) did {} operations, and {} of the first boot {}: not the same work",
                section.number,
                section.name,
                timing.operations,
                benchmark.name,
                benchmark.parameters.get(OPERATIONS).map_or("", String::as_str)
            )));
        }
        let label = benchmark.metrics.first().map(Metric::label).unwrap_or_default();
        runs.push(Run {
            benchmark: index,
            printed: BTreeMap::from([(label, timing.nanoseconds as f64)]),
            ..boot.clone()
        });
    }
    Ok(runs)
}

/// Rounds that are needed where so few cannot show anything: the smallest p-value of n rounds is 2
/// in 2^n, and Holm's first step takes it times the rows.
fn too_few(rows: usize, rounds: u32) -> Option<u32> {
    let shows = |n: &u32| 2f64.powi(1 - (*n).min(1000) as i32) * (rows as f64) < 0.05;
    (!shows(&rounds)).then(|| (rounds..1000).find(shows).unwrap_or(1000))
}

/// An error of a machine on the CPU with what may be the matter.
fn hinted(error: record::Error, execution: &Execution) -> Error {
    let of_qemu = matches!(
        error,
        record::Error::Machine {
            failure: Failure::Killed(_) | Failure::Returned(_) | Failure::TimedOut(_),
            ..
        }
    );
    match execution {
        Execution::Kvm { cpu } if of_qemu => Error::doing(format!(
            "by KVM as CPU `{cpu}`; if KVM does not work here, try another --cpu-model, or \
             --emulated"
        ))(error),
        _ => error.into(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
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
