//! What does a boot of a kernel say about time?
//!
//! A boot gives one observation of every section. The sections are those that the first boot
//! states; each later one must state the same, with as many operations.

use super::clock;
use super::sums::{self, HELD, KIND, TRAIN};
use crate::Error;
use crate::machine::is_interrupted;
use compare::{
    Benchmark, Design, Keep, Metric, Observer, Place, Ran, Recorded, Run, Runner, Slot, kept,
};
use record::machine::{Execution, Failure, Guest, Limits, Section, Statement, Timing, Transcript};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Parameters of a benchmark that is a section, beside [`KIND`].
pub(super) const SECTION: &str = "section";
pub(super) const OPERATIONS: &str = "operations";
const INITRD: &str = "initrd";

/// Whose clock tells the times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// A guest's, on the CPU by KVM.
    Guest,
    /// A guest's in an emulator.
    Emulated,
    /// The host's: the CPU time of a kernel that is a process.
    Process,
}

impl Clock {
    /// The name of the metric.
    fn name(self) -> &'static str {
        match self {
            Clock::Guest => "guest-time",
            Clock::Emulated => "emulated-time",
            Clock::Process => "cpu-time",
        }
    }
}

/// What is booted.
#[derive(Debug)]
pub struct Boots<'a> {
    /// What boots each kernel, in the order of the design's variants: as it was built, then in each order.
    pub kernels: Vec<Vec<Vec<OsString>>>,
    /// What one boot runs, with `{bin}` for the kernel.
    pub command: Vec<String>,
    /// SHA-256 of the initrd; nothing where the workload is part of the kernels.
    pub initrd: String,
    /// Whose clock tells the times.
    pub clock: Clock,
    /// What may be the matter where a machine fails.
    pub hint: Option<String>,
    /// A boot that takes longer is ended, and the measurement with it.
    pub timeout: Duration,
    /// Where the runs are kept.
    pub keep: Keep<'a>,
}

impl<'a> Boots<'a> {
    /// Guests of qemu, one for each variant of the design, that are kernels as they were built. `initrd` is the SHA-256
    /// of the initrd: planish's own is another file each time.
    pub fn guests(
        guests: &[Guest],
        initrd: String,
        timeout: Duration,
        keep: Keep<'a>,
    ) -> Boots<'a> {
        let words = |words: Vec<OsString>| {
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
        };
        let command = guests.first().map(|guest| {
            let guest = Guest { kernel: "{bin}".into(), ..guest.clone() };
            words(guest.argv_with_initrd("INITRD"))
        });
        let execution = guests.first().map(|guest| &guest.execution);
        let (clock, hint) = match execution {
            Some(Execution::Kvm { cpu }) => {
                let hint = format!(
                    "by KVM as CPU `{cpu}`; if KVM does not work here, try another --cpu-model, or --emulated"
                );
                (Clock::Guest, Some(hint))
            }
            _ => (Clock::Emulated, None),
        };
        Boots {
            kernels: guests.iter().map(|guest| vec![guest.argv()]).collect(),
            command: command.unwrap_or_default(),
            initrd,
            clock,
            hint,
            timeout,
            keep,
        }
    }

    /// What boots one kernel.
    fn argv(&self, slot: Slot) -> Option<&[OsString]> {
        let own = self.kernels.get(slot.variant)?;
        own.get(usize::try_from(slot.layout).ok()?).map(Vec::as_slice)
    }

    /// What boots a kernel, out of a fresh copy of it where it is a process: the pages of memory that a file happens to
    /// lie in make it up to 3 % faster or slower, and should not do so each time.
    fn copied(
        &self,
        argv: &[OsString],
    ) -> Result<(Vec<OsString>, Option<tempfile::TempPath>), Error> {
        let (Clock::Process, Some((kernel, words))) = (self.clock, argv.split_first()) else {
            return Ok((argv.to_vec(), None));
        };
        let kernel = Path::new(kernel);
        let beside = kernel.parent().unwrap_or(Path::new("."));
        let copy = tempfile::Builder::new().prefix(".run-").tempfile_in(beside);
        let copy = copy.map_err(Error::io(beside))?.into_temp_path();
        std::fs::copy(kernel, &copy).map_err(Error::io(kernel))?;
        let first = copy.as_os_str().to_owned();
        Ok((std::iter::once(first).chain(words.iter().cloned()).collect(), Some(copy)))
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
        let of_ours = |benchmark: &Benchmark| {
            benchmark.command == self.command
                && benchmark.parameters.get(INITRD) == Some(&self.initrd)
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
        before.runs.retain(|run| whole.contains(&(run.round, run.slot())));
        Ok(Recorded { design, ..before })
    }

    /// The sections of the first boot as benchmarks.
    fn benchmarks(&self, said: &Transcript) -> Result<Vec<Benchmark>, Error> {
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
                command: self.command.clone(),
                parameters: parameters.map(|(name, value)| (name.to_owned(), value)).into(),
                metrics: vec![metric(section.number, self.clock)?],
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
        // With orders it is they that count, and the analysis knows.
        if let Some(least) = too_few(rows, rounds).filter(|_| design.layout_count() == 0) {
            observer.warn(&format!(
                "{rounds} rounds cannot show a difference in any of {rows} rows; {least} are the \
                 least"
            ));
        }
        Ok(())
    }

    /// An error of a machine with what may be the matter.
    fn hinted(&self, error: record::Error) -> Error {
        let of_machine = matches!(
            error,
            record::Error::Machine {
                failure: Failure::Killed(_) | Failure::Returned(_) | Failure::TimedOut(_),
                ..
            }
        );
        match &self.hint {
            Some(hint) if of_machine => Error::doing(hint.clone())(error),
            _ => error.into(),
        }
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
        let Some(argv) = self.argv(place.slot) else { return Ok(Ran::Interrupted) };
        let name = found.design.variants.get(variant).map_or_else(String::new, |v| v.name.clone());
        let limits = Limits { timeout: Some(self.timeout), to_the_end: true };
        let (argv, copy) = self.copied(argv)?;
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
        drop(copy);
        let (layout, twin) = (place.slot.layout, place.slot.copy);
        let place = format!("{name}, round {round}{}", self.kept(found));
        let said = match said {
            Ok(said) => said,
            Err(error) if is_interrupted(&error) => return Ok(Ran::Interrupted),
            Err(error) => return Err(Error::doing(place)(self.hinted(error))),
        };
        if found.design.benchmarks.is_empty() {
            self.begin(&mut found.design, &said, observer).map_err(Error::doing(name))?;
        }
        let boot =
            Run { round, variant, layout, copy: twin, start_unix_ns, wall_ns, ..Run::default() };
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
fn metric(section: u8, clock: Clock) -> Result<Metric, Error> {
    let name = clock.name();
    Ok(Metric::parse(&format!("{name}[ns]=output:planish: result {section} [0-9]+ ([0-9]+)"))?)
}

/// Round and place of each boot of which all sections are there.
fn boots_done(found: &Recorded) -> BTreeSet<(u32, Slot)> {
    let mut sections = BTreeMap::<(u32, Slot), usize>::new();
    for run in &found.runs {
        *sections.entry((run.round, run.slot())).or_default() += 1;
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn a_metric_says_whose_time_it_is_and_survives_being_kept() {
        for (clock, name) in [
            (Clock::Emulated, "emulated-time"),
            (Clock::Guest, "guest-time"),
            (Clock::Process, "cpu-time"),
        ] {
            let metric = metric(22, clock).unwrap();
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
