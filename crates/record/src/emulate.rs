//! Recording a program under qemu-user, whose plugin gives the emulated CPU a branch stack.

use crate::child::{self, Workload};
use crate::features::features;
use crate::file::Output;
use crate::streaming::Compression;
use crate::sys::{self, ForwardSignals, Map};
use crate::{Counted, Ending, Error, Summary, attr, elf, leftovers, merge, plugin};
use perfdata::Features;
use qemu_branches::spool;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Name of the event in perf.data.
pub const EVENT: &str = "taken-branches:u";

/// How to emulate.
#[derive(Clone, Debug)]
pub struct EmulationOptions {
    /// Taken branches between two samples. The real intervals vary by a quarter around it, in a
    /// fixed sequence, lest they fall into step with a loop; each sample states its own.
    pub period: u64,
    /// Whether each sample carries its call chain, followed call by call.
    pub call_chains: bool,
    /// The plugin, when it is not where it is looked for.
    pub plugin: Option<PathBuf>,
    /// Whether and how deep the recording is compressed.
    pub compression: Compression,
}

impl Default for EmulationOptions {
    fn default() -> EmulationOptions {
        EmulationOptions {
            period: 1000,
            call_chains: false,
            plugin: None,
            compression: Compression::default(),
        }
    }
}

/// The spool file, removed when the recording ends however it ends.
pub(crate) struct Spool {
    pub path: PathBuf,
    pub header: &'static spool::Header,
    /// Locked while the recording lives, which tells the spools of killed recorders from those in
    /// use.
    _lock: File,
}

impl Spool {
    pub fn create(dir: &Path) -> Result<Spool, Error> {
        let dir = std::path::absolute(dir).map_err(Error::io(dir, "find the absolute path"))?;
        leftovers::remove(&dir);
        let prefix = format!(".planish-{}-", std::process::id());
        let made = beside::file_named(&dir, &prefix, ".spool");
        let (path, file) = made.map_err(Error::io(&dir, "create the spool in"))?;
        sys::lock(&file);
        let header = spool::begin(&file).and_then(|()| spool::open(&path));
        let header = header.map_err(|error| {
            let _ = std::fs::remove_file(&path);
            Error::io(&path, "map the spool")(error)
        })?;
        Ok(Spool { path, header, _lock: file })
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A program that ran to its end.
struct Ran {
    machine: elf::Architecture,
    ending: Ending,
}

/// Runs the workload with the plugin.
fn run(
    workload: &Workload,
    options: &EmulationOptions,
    spool: &Spool,
    forward: &ForwardSignals,
    count: bool,
) -> Result<Ran, Error> {
    let program = elf::program(&workload.argv, workload.dir.as_deref())?;
    let emulator = plugin::emulator(program.machine)?;
    let plugin = plugin::plugin(options.plugin.as_deref())?;
    let name = program.path.file_name().unwrap_or_default();
    let mut setting = escaped(plugin.as_os_str().as_bytes());
    setting.extend_from_slice(b",spool=");
    setting.extend(escaped(spool.path.as_os_str().as_bytes()));
    setting.extend_from_slice(b",comm=");
    setting.extend(escaped(name.as_bytes()));
    let count = if count { ",count=on" } else { "" };
    let chains = if options.call_chains { ",chains=on" } else { "" };
    setting.extend_from_slice(format!(",period={}{count}{chains}", options.period).as_bytes());
    let mut command = workload.command(&emulator);
    lead_to_libraries(&mut command, workload);
    command.arg("-0").arg(program.argv.first().ok_or(Error::NoCommand)?);
    command.arg("-plugin").arg(OsString::from_vec(setting));
    command.arg(&program.path).args(program.argv.iter().skip(1));
    let shown = emulator.display().to_string();
    sys::prepare(&mut command, true);
    let mut child =
        command.spawn().map_err(|source| Error::Start { program: shown.clone(), source })?;
    let ending = child::wait(&mut child, &shown, forward)?;
    // A user who ends it that early is told that nothing was recorded.
    let stopped = matches!(ending, Ending::Signal(libc::SIGINT | libc::SIGTERM | libc::SIGHUP));
    if spool.header.installed.load(Ordering::Acquire) == 0 && !stopped {
        return Err(Error::PluginNotLoaded { emulator, plugin, status: format!("{ending:?}") });
    }
    Ok(Ran { machine: program.machine, ending })
}

/// Hands the directories of shared libraries to the program alone: an emulator that took a library
/// of the project's for its own would be another emulator, or none.
fn lead_to_libraries(command: &mut Command, workload: &Workload) {
    const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
    let own = workload.env.iter().rfind(|(name, _)| name.as_os_str() == LIBRARY_PATH);
    let path = own.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(LIBRARY_PATH));
    // qemu ends a variable at a comma and knows no other way to write one.
    let Some(path) = path.filter(|path| !path.as_bytes().contains(&b',')) else { return };
    let mut setting = OsString::from(format!("{LIBRARY_PATH}="));
    setting.push(path);
    command.env_remove(LIBRARY_PATH).arg("-E").arg(setting);
}

/// qemu separates options by commas, and reads two of them as one.
pub fn escaped(text: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(text.len());
    for byte in text {
        escaped.push(*byte);
        if *byte == b',' {
            escaped.push(b',');
        }
    }
    escaped
}

/// Records a workload into `output`, with branch stacks, at 5 to 25 times its own run time.
pub fn record(
    workload: &Workload,
    output: &Path,
    options: &EmulationOptions,
) -> Result<Summary, Error> {
    let start = Instant::now();
    let attr = attr::emulated(options.period, EVENT, options.call_chains);
    // To the very end: a second Ctrl-C must not lose the file.
    let forward = ForwardSignals::to(0);
    let mut file = Output::create(output, std::slice::from_ref(&attr))?;
    let dir = output.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let spool = Spool::create(dir)?;
    let ran = run(workload, options, &spool, &forward, false)?;
    let read = Error::io(&spool.path, "read");
    let map = File::open(&spool.path).and_then(|file| Map::of(&file)).map_err(read)?;
    let mut rounds = merge::Rounds::into(&mut file, options.compression)?;
    let merged = merge::merge(&spool.path, &map, &mut rounds, options.call_chains)?;
    let compressed = rounds.compressed();
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Acquire);
    let (taken, lost) = (count(&spool.header.taken_branches), count(&spool.header.lost_samples));
    if merged.samples == 0 {
        let reason = if lost > 0 {
            format!("{lost} samples found no room beside {}; is the disk full?", output.display())
        } else if let Ending::Signal(signal) = ran.ending {
            format!("signal {signal} ended the program before it took {} branches", options.period)
        } else {
            format!(
                "the program took {taken} branches, and a sample is taken every {} of them; lower \
                 the period (-c)",
                options.period
            )
        };
        return Err(Error::Empty { reason });
    }
    let features =
        Features { compressed, ..features(Some(ran.machine.name()), None, &merged, None) };
    let bytes = file.finish(&features)?;
    Ok(Summary {
        output: output.to_owned(),
        bytes,
        branches: "emulated",
        event: EVENT.to_owned(),
        samples: merged.samples,
        branch_entries: merged.branch_entries,
        lost_samples: lost,
        taken_branches: Some(taken),
        processes: count(&spool.header.processes),
        native_programs: count(&spool.header.native_programs),
        elapsed: start.elapsed(),
        ending: ran.ending,
        notes: Vec::new(),
        look_ahead: None,
        aux: None,
        streamed: None,
    })
}

/// Counts a workload's taken branches and instructions, and records nothing. Of a process that a
/// signal kills, the last few thousand branches are missing.
pub fn count(workload: &Workload, options: &EmulationOptions) -> Result<Counted, Error> {
    let start = Instant::now();
    let spool = Spool::create(&std::env::temp_dir())?;
    let ran = run(workload, options, &spool, &ForwardSignals::to(0), true)?;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Acquire);
    Ok(Counted {
        taken_branches: count(&spool.header.taken_branches),
        instructions: count(&spool.header.instructions),
        processes: count(&spool.header.processes),
        native_programs: count(&spool.header.native_programs),
        elapsed: start.elapsed(),
        ending: ran.ending,
    })
}
