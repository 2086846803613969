//! What is done after a boot: measure the kernel that runs, where it is the one that was due, and say
//! which is next.

use super::{Booted, Plan, STATE, runs};
use crate::Error;
use compare::{
    Keep, Observer, Place, Ran, Recorded, Resume, Run, Runner, Teller, Work, kept, once,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// So many boots in a row that bring up another kernel than was asked for, and the kernel is left out.
const MOST_MISSES: u32 = 2;
/// How often somebody who wants to end a wait is heard.
const TICK: Duration = Duration::from_millis(100);

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// The next boot is set: this kernel.
    Next {
        /// Its name.
        kernel: String,
        /// Whether this boot was measured.
        measured: bool,
        /// Boots that are left, with the next.
        left: u64,
    },
    /// Everything is measured.
    Done {
        /// Whether this boot was measured; the machine then runs one of the kernels.
        measured: bool,
    },
    /// The user ended it.
    Interrupted,
}

/// Where it stands, between two boots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct State {
    /// The boot in which the last step was done.
    boot_id: String,
    /// The image that the next boot was set to.
    wanted: Option<PathBuf>,
    /// Boots in a row that brought up another one.
    misses: u32,
}

/// Measures the kernel that has booted, where it is due, and sets the next boot. Nothing is measured
/// twice in one boot.
///
/// # Errors
/// Where an image was replaced since the measurement began, the next boot cannot be set, or the base
/// fails. What was measured is kept.
pub fn step(
    directory: &Path,
    plan: &Plan,
    booted: &Booted,
    stop: &AtomicBool,
    teller: &mut dyn Teller,
) -> Result<Stepped, Error> {
    let raw = runs(directory);
    let before = kept::read(&raw)?;
    unchanged(&before)?;
    let state = State::read(directory)?;
    let mut machine = Machine {
        fresh: state.boot_id != booted.boot_id && state.wanted.is_some(),
        misses: state.misses_after(plan, booted),
        plan,
        booted,
        stop,
        wanted: None,
        measured: false,
    };
    let keep = Keep { raw: Some(&raw), resume: Resume::Yes };
    let (found, ended) =
        compare::measure_by(&mut machine, before, Work::Boots, keep, stop, teller)?;
    let Machine { wanted, misses, measured, .. } = machine;
    let image = wanted.as_ref().map(|(_, image)| image.clone());
    let state = State { boot_id: booted.boot_id.clone(), wanted: image, misses };
    match wanted {
        Some((kernel, image)) => {
            let identity = identity(plan, &image)?;
            state.write(directory)?;
            plan.boot_once.set(&image, identity)?;
            Ok(Stepped::Next { kernel, measured, left: left(&found) })
        }
        None => {
            if measured || !ended {
                state.write(directory)?;
            }
            Ok(if ended { Stepped::Interrupted } else { Stepped::Done { measured } })
        }
    }
}

/// Boots that are left, without those of kernels that are left out.
fn left(found: &Recorded) -> u64 {
    let design = &found.design;
    let out = |name: &str| found.stopped.iter().any(|stopped| stopped.variant == name);
    let kernels = design.variants.iter().enumerate().filter(|(_, variant)| !out(&variant.name));
    let rounds = u64::from(design.rounds);
    let of = |(variant, _): (usize, _)| {
        let done = found.runs.iter().filter(|run| run.variant == variant && run.benchmark == 0);
        rounds.saturating_sub(done.count() as u64)
    };
    kernels.map(of).sum()
}

/// Images are those that the measurement began with.
fn unchanged(before: &Recorded) -> Result<(), Error> {
    for variant in &before.design.variants {
        for (image, digest) in variant.binaries.iter().zip(&variant.digests) {
            if kept::digest(image)? != *digest {
                return Err(Error::of_file(
                    image,
                    "is another kernel than when the measurement began; put the old one back, or \
                     begin anew in another directory",
                ));
            }
        }
    }
    Ok(())
}

fn identity<'a>(plan: &'a Plan, image: &Path) -> Result<&'a super::Identity, Error> {
    let missing = || Error::of_file(image, "is not in the plan; begin anew in another directory");
    plan.identities.get(image).ok_or_else(missing)
}

impl State {
    fn read(directory: &Path) -> Result<State, Error> {
        let path = directory.join(STATE);
        if !path.exists() {
            return Ok(State::default());
        }
        let text =
            beside::given::read_text(&path, beside::given::TEXT).map_err(Error::io(&path))?;
        let problem = format!(
            "{}: expected where the measurement stands; remove the file, and the next step sets \
             the next boot anew",
            path.display()
        );
        serde_json::from_str(&text).map_err(Error::doing(problem))
    }

    fn write(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(STATE);
        let text = serde_json::to_string(self).map_err(Error::doing("the state"))? + "\n";
        beside::write(&path, text).map_err(Error::io(path))
    }

    /// Boots in a row that have brought up another kernel than was set, this one with them.
    fn misses_after(&self, plan: &Plan, booted: &Booted) -> u32 {
        let wanted = self.wanted.as_ref().and_then(|image| plan.identities.get(image));
        match wanted {
            _ if self.boot_id == booted.boot_id => self.misses,
            Some(wanted) if *wanted != booted.identity => self.misses.saturating_add(1),
            _ => 0,
        }
    }
}

/// Runs at most one place of the design, the one of this boot.
struct Machine<'a> {
    plan: &'a Plan,
    booted: &'a Booted,
    stop: &'a AtomicBool,
    /// Nothing was measured in this boot yet.
    fresh: bool,
    misses: u32,
    /// The kernel that is to boot next: its name and image.
    wanted: Option<(String, PathBuf)>,
    measured: bool,
}

impl Machine<'_> {
    /// Waits until the machine has run as long as was asked for; false where the user ended it.
    fn settled(&self, observer: &mut dyn Observer) -> bool {
        let wanted = Duration::try_from_secs_f64(self.plan.settle_s).unwrap_or_default();
        let mut left = wanted.saturating_sub(self.booted.uptime);
        if !left.is_zero() {
            observer.doing(&format!("waits {:.0} s", left.as_secs_f64()));
        }
        while !left.is_zero() && !self.stop.load(Ordering::Relaxed) {
            let nap = left.min(TICK);
            std::thread::sleep(nap);
            left -= nap;
        }
        !self.stop.load(Ordering::Relaxed)
    }

    /// Runs each command once, after runs that do not count.
    fn runs(&self, found: &Recorded, place: Place) -> Result<Ran, Error> {
        let mut runs: Vec<Run> = Vec::new();
        for benchmark in 0..found.design.benchmarks.len() {
            let place = Place { benchmark, ..place };
            for _ in 0..self.plan.warm_ups {
                match once(&found.design, place, self.stop)? {
                    Ran::Runs(_) => {}
                    other => return Ok(other),
                }
            }
            match once(&found.design, place, self.stop)? {
                Ran::Runs(own) => runs.extend(own),
                other => return Ok(other),
            }
        }
        Ok(Ran::Runs(runs))
    }
}

impl Runner for Machine<'_> {
    type Error = Error;

    fn runs_all(&self) -> bool {
        true
    }

    fn has_warm_up(&self) -> bool {
        false
    }

    fn execute(
        &mut self,
        found: &mut Recorded,
        place: Place,
        observer: &mut dyn Observer,
    ) -> Result<Ran, Error> {
        let Some(variant) = found.design.variants.get(place.slot.variant) else {
            return Ok(Ran::Interrupted);
        };
        let image = variant.binaries.first().cloned().unwrap_or_default();
        let identity = identity(self.plan, &image)?;
        if self.fresh && *identity == self.booted.identity {
            (self.fresh, self.misses) = (false, 0);
            observer.doing(&variant.name);
            if !self.settled(observer) {
                return Ok(Ran::Interrupted);
            }
            let ran = self.runs(found, place)?;
            self.measured |= matches!(ran, Ran::Runs(_));
            return Ok(ran);
        }
        if self.misses >= MOST_MISSES {
            self.misses = 0;
            return Ok(Ran::Failed(compare::Error::Design(format!(
                "{} was to boot {MOST_MISSES} times and did not: {} came up. Does {identity} boot \
                 on this machine, and is it what the boot loader was told?",
                variant.name, self.booted.identity
            ))));
        }
        self.wanted = Some((variant.name.clone(), image));
        Ok(Ran::Interrupted)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::super::identity::image;
    use super::super::{Begin, BootOnce, Identity, begin};
    use super::*;
    use compare::{AnalysisOptions, Metric, Settings, Verdict, analyse};

    struct Silent;

    impl Teller for Silent {
        fn begin(&mut self, _: Work, _: u64, _: u64) {}
        fn at(&mut self, _: u64) {}
        fn doing(&mut self, _: &str) {}
        fn end(&mut self) {}
        fn note(&mut self, _: &str) {}
        fn warn(&mut self, _: &str) {}
    }

    /// A machine that boots what its boot loader was told, unless it cannot.
    struct Booting {
        dir: tempfile::TempDir,
        boots: u32,
        running: Identity,
    }

    impl Booting {
        /// One with these kernels and a default one, which runs; each is as fast as its name says.
        fn of(names: &[&str], rounds: u32) -> Booting {
            let dir = tempfile::tempdir().unwrap();
            let kernel = |name: &&str| {
                let path = dir.path().join(format!("vmlinuz-{name}"));
                std::fs::write(&path, image(&format!("6.12.1-{name} (a@b) #1 SMP"))).unwrap();
                ((*name).to_owned(), path)
            };
            let kernels: Vec<_> = names.iter().map(kernel).collect();
            // Prints the number at the end of the kernel's name.
            let script = "echo time ${KERNEL##*-}".to_owned();
            let command = vec!["sh".to_owned(), "-c".to_owned(), script];
            let next = format!("echo {{release}} > {}/next", dir.path().display());
            let wanted = Begin {
                kernels: &kernels,
                commands: &[("load".to_owned(), command)],
                metrics: vec![Metric::parse("t=output:time ([0-9]+)").unwrap()],
                settings: Settings { rounds: Some(rounds), ..Settings::default() },
                boot_once: BootOnce::Command(vec!["sh".into(), "-c".into(), next]),
                reboot: Vec::new(),
                warm_ups: 1,
                settle_s: 0.0,
            };
            begin(&dir.path().join("m"), Path::new("planish"), wanted).unwrap();
            Booting { dir, boots: 0, running: named("default") }
        }

        fn step(&self) -> Result<Stepped, Error> {
            let booted = Booted {
                identity: self.running.clone(),
                boot_id: format!("boot {}", self.boots),
                uptime: Duration::ZERO,
            };
            let directory = self.dir.path().join("m");
            let plan = Plan::read(&directory)?;
            step(&directory, &plan, &booted, &AtomicBool::new(false), &mut Silent)
        }

        /// Boots what was set, or the default kernel where `boots` says that this does not.
        fn boot(&mut self, boots: impl Fn(u32, &str) -> bool) {
            self.boots += 1;
            let next = std::fs::read_to_string(self.dir.path().join("next")).unwrap();
            let release = next.trim();
            let works = boots(self.boots, release);
            self.running = Identity {
                release: if works { release } else { "default" }.into(),
                ..self.running.clone()
            };
        }

        /// Steps and boots until all is measured.
        fn all(&mut self, boots: impl Fn(u32, &str) -> bool) -> Recorded {
            loop {
                match self.step().unwrap() {
                    Stepped::Next { .. } => self.boot(&boots),
                    other => {
                        assert_eq!(other, Stepped::Done { measured: true });
                        return kept::read(&runs(&self.dir.path().join("m"))).unwrap();
                    }
                }
                assert!(self.boots < 100, "it would boot for ever");
            }
        }
    }

    fn named(release: &str) -> Identity {
        Identity { release: release.into(), version: "#1 SMP".into() }
    }

    #[test]
    fn boots_are_measured_in_the_order_of_the_design_one_each() {
        let mut machine = Booting::of(&["base-100", "new-50"], 8);
        // One boot goes astray and is repeated.
        let found = machine.all(|boot, _| boot != 5);
        assert_eq!((found.runs.len(), machine.boots), (16, 17));
        let order = |round| found.design.order(0, round).into_iter().map(|slot| slot.variant);
        let due: Vec<usize> = (1..=8).flat_map(order).collect();
        assert_eq!(found.runs.iter().map(|run| run.variant).collect::<Vec<_>>(), due);
        let told = analyse(&[found], &AnalysisOptions::default()).unwrap().measurement;
        let row = &told.comparisons[0];
        assert_eq!((row.benchmark.as_str(), row.verdict), ("load", Verdict::Faster), "{row:?}");
        assert!((row.as_built.ratio - 0.5).abs() < 1e-9, "{row:?}");
        assert_eq!(machine.step().unwrap(), Stepped::Done { measured: false });
    }

    #[test]
    fn nothing_is_measured_twice_in_a_boot_or_before_the_first() {
        let mut machine = Booting::of(&["base-1", "new-2"], 4);
        machine.running = named("6.12.1-base-1");
        let first = machine.step().unwrap();
        assert!(matches!(first, Stepped::Next { measured: false, left: 8, .. }), "{first:?}");
        assert_eq!(machine.step().unwrap(), first, "the same boot");
        machine.boot(|_, _| true);
        let second = machine.step().unwrap();
        assert!(matches!(second, Stepped::Next { measured: true, left: 7, .. }), "{second:?}");
        let third = machine.step().unwrap();
        assert!(matches!(third, Stepped::Next { measured: false, left: 7, .. }), "{third:?}");
    }

    #[test]
    fn a_kernel_that_does_not_boot_is_left_out_and_the_others_go_on() {
        let mut machine = Booting::of(&["base-1", "broken-2", "new-3"], 5);
        let found = machine.all(|_, release| !release.contains("broken"));
        assert_eq!((found.runs.len(), machine.boots), (10, 12), "two boots in vain");
        let [stopped] = &found.stopped[..] else { panic!("{:?}", found.stopped) };
        assert_eq!(stopped.variant, "broken-2");
        assert!(stopped.reason.contains("was to boot 2 times and did not: default"), "{stopped:?}");
    }

    #[test]
    fn where_the_base_does_not_boot_it_ends() {
        let mut machine = Booting::of(&["base-1", "new-2"], 5);
        let error = loop {
            match machine.step() {
                Ok(Stepped::Next { .. }) => machine.boot(|_, release| !release.contains("base")),
                other => break other.unwrap_err().to_string(),
            }
        };
        assert!(error.contains("base-1 was to boot 2 times"), "{error}");
    }

    #[test]
    fn what_was_replaced_or_cannot_be_told_apart_is_refused() {
        let machine = Booting::of(&["base-1", "new-2"], 5);
        let other = machine.dir.path().join("vmlinuz-new-2");
        std::fs::write(&other, image("6.12.1-new-2 (a@b) #2 SMP")).unwrap();
        let said = machine.step().unwrap_err().to_string();
        assert!(said.contains("vmlinuz-new-2: is another kernel than when"), "{said}");

        let plan = |directory: &str, names: [&str; 2]| {
            let kernel = |name: &str| (name.to_owned(), machine.dir.path().join("vmlinuz-base-1"));
            let wanted = Begin {
                kernels: &names.map(kernel),
                commands: &[("load".to_owned(), vec!["true".to_owned()])],
                metrics: vec![Metric::default()],
                settings: Settings::default(),
                boot_once: BootOnce::Command(vec!["true".into()]),
                reboot: Vec::new(),
                warm_ups: 0,
                settle_s: 0.0,
            };
            let directory = machine.dir.path().join(directory);
            begin(&directory, Path::new("planish"), wanted).unwrap_err().to_string()
        };
        let said = plan("other", ["a", "b"]);
        assert!(said.contains("are both 6.12.1-base-1 (#1 SMP)"), "{said}");
        assert!(!machine.dir.path().join("other").exists());
        assert!(plan("m", ["a", "b"]).contains("a measurement was begun here"));
    }
}
