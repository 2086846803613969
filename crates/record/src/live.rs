//! Recording through perf_event_open: a command, processes, or the whole system.

use crate::child::Workload;
use crate::events::{self, Choice, Opened};
use crate::features::features;
use crate::file::Output;
use crate::merge::Merged;
use crate::synthesize::{self, Synthesizer};
use crate::sys::perf::{Event, wait};
use crate::sys::{ForwardSignals, launch};
use crate::{Ending, Error, Summary};
use perfdata::{EventAttr, sample_type};
use std::ffi::OsString;
use std::path::Path;
use std::process::Child;
use std::time::Instant;

pub use crate::events::{Branches, Rate};

/// What to record.
#[derive(Clone, Debug)]
pub enum Target {
    /// The command, its threads and its children.
    Command,
    /// Running processes, all their threads, and what they start; while the command runs, if there is one.
    Processes(Vec<i32>),
    /// Everything; while the command runs, if there is one.
    System,
}

/// How to record.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Branch stacks.
    pub branches: Branches,
    /// How often; 4000 times a second when none.
    pub rate: Option<Rate>,
}

/// How long the reader sleeps at most, so that the end of the command is noticed soon.
const TICK_MS: i32 = 100;

/// Records into `output` until the command ends, the processes end, or a signal asks to stop.
pub fn record(
    target: &Target,
    command: Option<&Workload>,
    output: &Path,
    options: &Options,
) -> Result<Summary, Error> {
    let start = Instant::now();
    let is_command = matches!(target, Target::Command);
    let system = matches!(target, Target::System);
    let choice = events::choose(options.branches, options.rate, system, is_command)?;
    let forward = ForwardSignals::to(0);
    let paused = command.map(pause).transpose()?;
    crate::sys::perf::allow_many_files();
    let pids: Vec<i32> = match target {
        Target::Processes(pids) => pids.clone(),
        _ => Vec::new(),
    };
    let mut opened =
        open(target, &choice, &pids, paused.as_ref().map(|paused| paused.pid)).map_err(|error| {
            foreign(&pids).filter(|_| matches!(error, Error::Refused { .. })).unwrap_or(error)
        })?;
    let attr = EventAttr { ids: opened.ids.clone(), name: Some(choice.name.clone()), ..choice.attr.clone() };
    let mut file = Output::create(output, &attr)?;
    synthesize(target, &pids, &opened, &mut file)?;
    if let Some(paused) = &paused {
        forward.child(paused.pid as u32);
    }
    if !is_command {
        for event in opened.leaders.iter().chain(&opened.followers) {
            event.enable().map_err(|error| events::refused(&choice.name, &error))?;
        }
    }
    let mut child = paused.map(|paused| go(paused, command)).transpose()?;
    let mut recording = Recording { choice: &choice, seen: Merged::default(), lost: 0 };
    let ending = recording.follow(&mut opened, &mut file, child.as_mut(), &pids, &forward)?;
    forward.ended();
    if recording.seen.samples == 0 {
        let reason = format!(
            "not one {} sample came in {:.1} s; the program was asleep or too short for the rate (-F, -c)",
            choice.name,
            start.elapsed().as_secs_f64()
        );
        return Err(Error::Empty { reason });
    }
    let argv = command.map(|workload| workload.argv.clone()).unwrap_or_default();
    let bytes = file.finish(&features(None, &argv, &recording.seen, None))?;
    let seen = recording.seen;
    Ok(Summary {
        output: output.to_owned(),
        bytes,
        branches: choice.branches,
        event: choice.name.clone(),
        samples: seen.samples,
        branch_entries: seen.branch_entries,
        lost_samples: recording.lost,
        taken_branches: None,
        processes: 0,
        native_programs: 0,
        elapsed: start.elapsed(),
        ending,
    })
}

fn pause(workload: &Workload) -> Result<launch::Paused, Error> {
    let name = workload.argv.first().ok_or(Error::NoCommand)?;
    let program = crate::elf::find(name, workload.dir.as_deref())?;
    crate::elf::check_runs_here(&program)?;
    let mut command = workload.command(&program);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(workload.argv.iter().skip(1));
    crate::sys::prepare(&mut command, false);
    launch::pause(command).map_err(start_failed(name))
}

fn go(paused: launch::Paused, command: Option<&Workload>) -> Result<Child, Error> {
    let name = command.and_then(|workload| workload.argv.first().cloned()).unwrap_or_default();
    paused.go().map_err(start_failed(&name))
}

fn start_failed(name: &OsString) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let program = name.to_string_lossy().into_owned();
    move |source| Error::Start { program, source }
}

/// Opens the events of the target. Threads that appear while a process is opened are found by looking again; those
/// that appear later are inherited.
fn open(target: &Target, choice: &Choice, pids: &[i32], child: Option<i32>) -> Result<Opened, Error> {
    match target {
        Target::System => events::open(choice, &[]),
        Target::Command => events::open(choice, &[child.ok_or(Error::NoCommand)?]),
        Target::Processes(_) => {
            let all = || -> Vec<i32> { pids.iter().flat_map(|pid| synthesize::threads(*pid)).collect() };
            if let Some(gone) = pids.iter().find(|pid| synthesize::threads(**pid).is_empty()) {
                return Err(Error::NoProcess { pid: *gone });
            }
            let mut tids = all();
            for _ in 0..10 {
                let opened = events::open(choice, &tids)?;
                let now = all();
                if now.iter().all(|tid| tids.contains(tid)) && !opened.leaders.is_empty() {
                    return Ok(opened);
                }
                tids = now;
            }
            events::open(choice, &tids)
        }
    }
}

/// A process of another user, which no setting of perf's makes recordable.
fn foreign(pids: &[i32]) -> Option<Error> {
    use std::os::unix::fs::MetadataExt;
    let own = crate::sys::effective_user();
    pids.iter().find_map(|pid| {
        let owner = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        (own != 0 && owner != own).then(|| Error::Refused {
            event: format!("process {pid}"),
            reason: format!(
                "it belongs to user {owner}, and you are user {own}; run as that user, as root, or with CAP_PERFMON \
                 and CAP_SYS_PTRACE"
            ),
        })
    })
}

fn synthesize(target: &Target, pids: &[i32], opened: &Opened, file: &mut Output) -> Result<(), Error> {
    let id = opened.ids.first().copied().unwrap_or(0);
    let mut synthesizer = Synthesizer::new(file, id);
    match target {
        Target::Command => {}
        Target::Processes(_) => pids.iter().try_for_each(|pid| synthesizer.process(*pid))?,
        Target::System => {
            synthesizer.kernel()?;
            synthesize::processes().into_iter().try_for_each(|pid| synthesizer.process(pid))?;
        }
    }
    file.finish_round()
}

struct Recording<'c> {
    choice: &'c Choice,
    seen: Merged,
    lost: u64,
}

impl Recording<'_> {
    /// Reads the rings until the end.
    fn follow(
        &mut self,
        opened: &mut Opened,
        file: &mut Output,
        mut child: Option<&mut Child>,
        pids: &[i32],
        forward: &ForwardSignals,
    ) -> Result<Ending, Error> {
        loop {
            let leaders: Vec<&Event> = opened.leaders.iter().collect();
            wait(&leaders, TICK_MS);
            let ended = match &mut child {
                Some(child) => child.try_wait().ok().flatten().map(Ending::from),
                None if forward.stopped() => Some(Ending::Unknown),
                None if !pids.is_empty() && pids.iter().all(|pid| synthesize::threads(*pid).is_empty()) => {
                    Some(Ending::Unknown)
                }
                None => None,
            };
            if ended.is_some() {
                for event in opened.leaders.iter().chain(&opened.followers) {
                    // A failure means that the event's task is gone, and it counts no more.
                    let _ = event.disable();
                }
            }
            self.round(opened, file)?;
            if let Some(ending) = ended {
                return Ok(ending);
            }
        }
    }

    /// Empties all rings once, which makes a finished round.
    fn round(&mut self, opened: &mut Opened, file: &mut Output) -> Result<(), Error> {
        let before = file.data_bytes();
        for ring in &mut opened.rings {
            ring.drain(|records| {
                self.note(records);
                file.records(records)
            })?;
        }
        if file.data_bytes() == before {
            return Ok(());
        }
        file.finish_round()?;
        file.flush()
    }

    /// Counts what the kernel wrote.
    fn note(&mut self, mut records: &[u8]) {
        const LOST: u32 = 2;
        const LOST_SAMPLES: u32 = 13;
        const MIN_BYTES: usize = 8;
        let word = |bytes: &[u8], at: usize| -> u64 {
            bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
        };
        while let Some(record) = whole_record(records).filter(|record| record.len() >= MIN_BYTES) {
            match word(record, 0) as u32 {
                crate::merge::SAMPLE => {
                    let time = word(record, 32);
                    let seen = &mut self.seen;
                    seen.samples += 1;
                    // Rings of several CPUs interleave.
                    seen.first_time = if seen.samples == 1 { time } else { seen.first_time.min(time) };
                    seen.last_time = seen.last_time.max(time);
                    if self.choice.attr.sample_type & sample_type::BRANCH_STACK != 0 {
                        seen.branch_entries += word(record, 48);
                    }
                }
                LOST => self.lost += word(record, 16),
                LOST_SAMPLES => self.lost += word(record, 8),
                _ => self.seen.build_ids.extend(crate::merge::mmap_build_id(record)),
            }
            records = &records[record.len()..];
        }
    }
}

/// The first record, as its header states its size.
fn whole_record(bytes: &[u8]) -> Option<&[u8]> {
    let size = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?);
    bytes.get(..usize::from(size))
}
