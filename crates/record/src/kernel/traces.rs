//! Every branch of an emulated machine's kernel, counted by the plugin while the machine runs.
//!
//! What the plugin counts are traces: a taken branch with the source of the branch taken after it,
//! which is the branch and the straight line behind it. Nothing is sampled, so on a deterministic
//! machine the counts are those of the run, and their sum is the number of taken branches.

use super::{KernelOptions, Module, Watcher, directory, no_branch, run};
use crate::emulate::Spool;
use crate::machine::Transcript;
use crate::sys::{ForwardSignals, Map};
use crate::{Error, merge};
use perfdata::RuntimeAddr;
use qemu_branches::traces;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often a branch was taken with the same branch behind it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TraceCount {
    /// The branch.
    pub from: RuntimeAddr,
    /// Where it led.
    pub to: RuntimeAddr,
    /// The branch taken next; `None` where an interrupt, a fault, a program or a marker came
    /// first.
    pub next_from: Option<RuntimeAddr>,
    /// Times.
    pub count: u64,
}

/// A machine whose kernel's branches were counted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Distinct traces, sorted.
    pub traces: Vec<TraceCount>,
    /// Taken branches, the sum of all counts.
    pub taken_branches: u64,
    /// Run-time addresses of the kernel's text: first, and one past the last.
    pub text: (RuntimeAddr, RuntimeAddr),
    /// The name of its mapping, as recordings have it, which ends in the symbol at its start.
    pub map_name: &'static str,
    /// The kernel's build ID, where its notes hold one.
    pub build_id: Option<Vec<u8>>,
    /// Where its modules lie, as far as the guest says.
    pub modules: Vec<Module>,
    /// What the guest said.
    pub transcript: Transcript,
    /// How long all took.
    pub elapsed: Duration,
}

/// Runs a machine as [`super::record`] does, and counts the taken branches of its kernel, all of
/// them. [`KernelOptions::period`] and [`KernelOptions::stated`] have no meaning here. A file for the plugin's
/// counts, some megabytes, lies beside `output`, which is not written, until this returns.
///
/// # Errors
/// As of [`super::record`]; besides, when the counts found no room, or do not add up to the
/// branches taken.
pub fn count(
    argv: &[OsString],
    output: &Path,
    options: &KernelOptions,
    watch: &mut Watcher<'_>,
) -> Result<Counted, Error> {
    let start = Instant::now();
    let forward = ForwardSignals::to(0);
    let spool = Spool::create(directory(output))?;
    let settings = vec![("traces", "on".into())];
    let (said, transcript) = run(argv, options, settings, &spool, &forward, watch)?;
    let text = said.text()?;
    let taken = spool.header.taken_branches.load(Ordering::Acquire);
    if spool.header.lost_samples.load(Ordering::Acquire) > 0 {
        let reason = format!(
            "the counts of {taken} branches found no room beside {}; is the disk full?",
            output.display()
        );
        return Err(Error::Empty { reason });
    }
    if taken == 0 {
        let reason = options.sections.as_ref().map_or_else(
            || "the kernel took no branch; does `-kernel` name a kernel that boots?".to_owned(),
            no_branch,
        );
        return Err(Error::Empty { reason });
    }
    let map = File::open(&spool.path)
        .and_then(|file| Map::of(&file))
        .map_err(Error::io(&spool.path, "read"))?;
    let traces = read(&spool.path, &map)?;
    let sum = traces.iter().fold(0u64, |sum, trace| sum.saturating_add(trace.count));
    if sum != taken {
        return Err(Error::Spool {
            path: spool.path.clone(),
            offset: 0,
            found: format!(
                "the counts of its {} traces make {sum}, and {taken} branches were taken",
                traces.len()
            ),
        });
    }
    Ok(Counted {
        traces,
        taken_branches: taken,
        text: (RuntimeAddr(text.start), RuntimeAddr(text.end)),
        map_name: text.map_name,
        modules: said.modules(&options.modules),
        build_id: said.build_id,
        transcript,
        elapsed: start.elapsed(),
    })
}

/// The counts in a spool.
fn read(path: &Path, spool: &[u8]) -> Result<Vec<TraceCount>, Error> {
    let streams = merge::streams(path, spool)?;
    let chunks = streams.values().flat_map(|stream| &stream.chunks);
    let entry = |[from, to, next_from, count]: traces::Entry| TraceCount {
        from: RuntimeAddr(from),
        to: RuntimeAddr(to),
        next_from: (next_from != traces::NONE).then_some(RuntimeAddr(next_from)),
        count,
    };
    Ok(chunks.flat_map(|chunk| traces::read(chunk)).map(entry).collect())
}
