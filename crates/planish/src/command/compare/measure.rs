//! Runs a design: progress, the file of runs, Ctrl-C, resuming.

use crate::cli::Global;
use anyhow::{Context, bail};
use compare::result::{Measurement, Stopped};
use compare::{Design, Error, Observer, Progress, Recorded, Run, runs};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that Ctrl-C and a request to end set, instead of ending the process.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    super::super::handle_interrupts();
    Ok(stop)
}

/// Measures; the second result says whether the user ended it early. What was measured is in `raw`
/// in any case.
pub fn measure(
    mut design: Design,
    raw: Option<&Path>,
    resume: bool,
    global: &Global,
) -> anyhow::Result<(Recorded, bool)> {
    design.check()?;
    for variant in &mut design.variants {
        variant.digests =
            variant.binaries.iter().map(|path| digest(path)).collect::<anyhow::Result<_>>()?;
    }
    if let Some(path) = raw {
        replaceable(path, &design)?;
    }
    let before = match raw.filter(|path| resume && path.exists()) {
        Some(path) => resumed(path, &design)?,
        None => Recorded::default(),
    };
    design.looked = before.looks();
    looked_before(&design, global);
    // Kept over an interruption, the design is the one that began, with as many rounds as are asked
    // for now.
    let stop = stop_flag()?;
    let file = raw.map(|path| open(path, &design, &before)).transpose()?;
    let bar = progress_bar(&design, before.runs.len() as u64, global);
    let mut observer = Keeper { file, bar, quiet: global.quiet };
    let found = compare::run(&design, &stop, before, &mut observer);
    observer.bar.finish_and_clear();
    let (found, interrupted) = (found?, stop.load(Ordering::Relaxed));
    if interrupted && found.rounds() > 0 {
        // What is told now has been seen when the measurement goes on.
        observer.write(|file| runs::write_looked(file, found.rounds()))?;
    }
    Ok((found, interrupted))
}

/// Says what going on after a look costs.
fn looked_before(design: &Design, global: &Global) {
    let looked: Vec<String> =
        design.looked.iter().filter(|&&look| look < design.rounds).map(u32::to_string).collect();
    if !looked.is_empty() && !global.quiet {
        eprintln!(
            "planish: the result was told after {} rounds already; going on after a look has a \
             price, which p-values pay",
            looked.join(" and ")
        );
    }
}

/// Benchmarks with a variant that is slower by the first block of rounds and awaits the second.
pub fn to_confirm(recorded: &Recorded, told: &Measurement) -> BTreeSet<usize> {
    let design = &recorded.design;
    let open = |name: &str| {
        let mut rows = told.comparisons.iter().filter(|c| c.benchmark == name);
        rows.any(|c| c.awaits_confirmation(design.rounds))
    };
    (0..design.benchmarks.len()).filter(|&at| open(&design.benchmarks[at].name)).collect()
}

/// Measures the second block of rounds of these benchmarks; the second result says whether the user
/// ended it early.
pub fn confirm(
    before: Recorded,
    raw: Option<&Path>,
    benchmarks: &BTreeSet<usize>,
    global: &Global,
) -> anyhow::Result<(Recorded, bool)> {
    let design = before.design.clone();
    if !global.quiet {
        eprintln!("planish: a variant is slower; {} rounds more shall confirm it", design.rounds);
    }
    let stop = stop_flag()?;
    let append = |path: &Path| {
        let file = beside::append(path).with_context(|| path.display().to_string())?;
        anyhow::Ok((path.to_owned(), file))
    };
    let file = raw.map(append).transpose()?;
    let bar = ProgressBar::hidden();
    let mut observer = Keeper { file, bar, quiet: global.quiet };
    let found = compare::confirm(&design, &stop, before, &mut observer, benchmarks)?;
    Ok((found, stop.load(Ordering::Relaxed)))
}

/// The SHA-256 of a file. Folders, which stand for the libraries in them, have none.
pub fn digest(path: &Path) -> anyhow::Result<String> {
    use sha2::{Digest, Sha256};
    if path.is_dir() {
        return Ok(String::new());
    }
    let shown = || path.display().to_string();
    let mut file = BufReader::with_capacity(1 << 18, crate::input::regular(path)?);
    let mut hash = Sha256::new();
    loop {
        let read = match file.fill_buf().with_context(shown)? {
            [] => break,
            bytes => {
                hash.update(bytes);
                bytes.len()
            }
        };
        file.consume(read);
    }
    Ok(hash.finalize().iter().map(|b| format!("{b:02x}")).collect())
}

/// Runs are written over nothing but runs, and those are kept once more under another name.
pub fn replaceable(path: &Path, design: &Design) -> anyhow::Result<()> {
    // Before it is opened: a pipe's other end is not waited for.
    beside::replaceable(path).with_context(|| path.display().to_string())?;
    if path.exists() && !path.is_file() {
        bail!("{}: is no regular file, and runs need one", path.display());
    }
    let own = design.variants.iter().flat_map(|v| &v.binaries).any(|b| same_file(b, path));
    let Ok(mut file) = beside::given::open(path) else { return Ok(()) };
    let mut start = [0; 24];
    let got = std::io::Read::read(&mut file, &mut start).unwrap_or(0);
    let runs = start.starts_with(b"{\"format\":\"planish-runs\"") || got == 0;
    if own || !runs {
        bail!(
            "{}: is there and holds no runs of planish compare; --raw would destroy it",
            path.display()
        );
    }
    Ok(())
}

/// Do two names lead to one file?
pub fn same_file(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// What an earlier call measured. It must have been the same measurement but for the number of
/// rounds.
pub fn resumed(path: &Path, design: &Design) -> anyhow::Result<Recorded> {
    let before = runs::read(path, BufReader::new(crate::input::regular(path)?))?;
    let mut there = before.design.clone();
    there.rounds = design.rounds;
    there.machine = design.machine.clone();
    there.looked.clone_from(&design.looked);
    if there != *design {
        bail!(
            "{}: holds another measurement (other programs, commands, metrics, layouts or seed), \
             so it cannot be gone on with; give the arguments of then, or another file without \
             --resume",
            path.display()
        );
    }
    if before.design.machine.name != design.machine.name {
        bail!(
            "{}: was measured on {:?}, this is {:?}; measure into another file and merge with \
             --from",
            path.display(),
            before.design.machine.name,
            design.machine.name
        );
    }
    Ok(before)
}

/// Begins the file of runs, or writes it anew with those that it has.
pub fn open(path: &Path, design: &Design, before: &Recorded) -> anyhow::Result<(PathBuf, File)> {
    let shown = || path.display().to_string();
    // Written anew also when going on: a torn last line and another number of rounds are then right
    // by construction.
    let mut file = beside::Unfinished::at(path).with_context(shown)?;
    let write = |file: &mut beside::Unfinished| -> std::io::Result<()> {
        runs::write_head(file, design)?;
        for run in &before.runs {
            runs::write_run(file, run)?;
        }
        before.stopped.iter().try_for_each(|stopped| runs::write_stopped(file, stopped))
    };
    write(&mut file).with_context(shown)?;
    if before.runs.is_empty() && path.is_file() {
        // As perf keeps perf.data.old.
        let mut old = path.as_os_str().to_owned();
        old.push(".old");
        std::fs::rename(path, old).with_context(shown)?;
    }
    Ok((path.to_owned(), file.finish().with_context(shown)?))
}

struct Keeper {
    file: Option<(PathBuf, File)>,
    bar: ProgressBar,
    quiet: bool,
}

impl Keeper {
    fn write(&mut self, what: impl FnOnce(&mut File) -> std::io::Result<()>) -> Result<(), Error> {
        let Some((path, file)) = &mut self.file else { return Ok(()) };
        what(file).map_err(|e| Error::File {
            path: path.clone(),
            line: None,
            problem: e.to_string(),
        })
    }
}

impl Observer for Keeper {
    fn run(&mut self, run: &Run, progress: Progress) -> Result<(), Error> {
        self.bar.set_position(progress.done);
        self.write(|file| runs::write_run(file, run))
    }

    fn stopped(&mut self, stopped: &Stopped) -> Result<(), Error> {
        if !self.quiet {
            self.bar.suspend(|| {
                eprintln!(
                    "planish: {} is stopped in {}: {}",
                    stopped.variant, stopped.benchmark, stopped.reason
                );
            });
        }
        self.write(|file| runs::write_stopped(file, stopped))
    }
}

fn progress_bar(design: &Design, done: u64, global: &Global) -> ProgressBar {
    if global.quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let runs = (u64::from(design.rounds) + 1)
        * design.slots().len() as u64
        * design.benchmarks.len() as u64;
    let style = ProgressStyle::with_template("compare {wide_bar} {pos}/{len} runs, {eta} left");
    let bar =
        ProgressBar::new(runs).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_position(done);
    bar.reset_eta();
    bar
}
