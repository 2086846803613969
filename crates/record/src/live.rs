//! Recording through perf_event_open: a command, processes, threads, CPUs, or the whole system.

use crate::child::Workload;
use crate::control::Commands;
use crate::event::Machine;
use crate::events::{self, Choice};
use crate::features::{self, BuildId, features};
use crate::file::{Output, Reserved};
use crate::follow::Session;
use crate::hotplug::CpuWatch;
use crate::merge::Merged;
use crate::open::{self, Opened, Place};
use crate::plan::{self, Planned, Scope};
use crate::readers::{self, Signals};
use crate::rotate::{Describe, Rotation};
use crate::session;
use crate::streaming::Streaming;
use crate::synthesize::{self, Synthesizer};
use crate::sys::files::FileLimit;
use crate::sys::readers::NowSignal;
use crate::sys::{ForwardSignals, launch};
use crate::{Error, Summary, aux};
use perfdata::{EventAttr, attr_flag};
use std::ffi::OsString;
use std::path::Path;
use std::process::Child;
use std::time::Instant;

pub use crate::events::{Branches, Rate};
pub use crate::plan::Sampling;

/// What to record.
#[derive(Clone, Debug)]
pub enum Target {
    /// The command, its threads and its children.
    Command,
    /// Running processes, all their threads, and what they start; while the command runs, if there
    /// is one.
    Processes(Vec<i32>),
    /// Running threads, and not what they start; while the command runs, if there is one.
    Threads(Vec<i32>),
    /// The running processes of a user, by number, and what they start; while the command runs, if
    /// there is one.
    User(u32),
    /// Everything, on the CPUs of the options; while the command runs, if there is one.
    System,
}

impl Target {
    pub(crate) fn scope(&self) -> Scope {
        match self {
            Target::Command => Scope::Command,
            Target::Processes(_) | Target::Threads(_) | Target::User(_) => Scope::Attached,
            Target::System => Scope::Cpus,
        }
    }

    /// The running threads that it names; none where it names none.
    pub(crate) fn tids(&self) -> Vec<i32> {
        match self {
            Target::Processes(pids) => {
                pids.iter().flat_map(|pid| synthesize::threads(*pid)).collect()
            }
            Target::Threads(tids) => {
                tids.iter().copied().filter(|tid| synthesize::process_of(*tid).is_some()).collect()
            }
            Target::User(user) => {
                synthesize::processes_of(*user).into_iter().flat_map(synthesize::threads).collect()
            }
            Target::Command | Target::System => Vec::new(),
        }
    }

    pub(crate) fn named(&self) -> &[i32] {
        match self {
            Target::Processes(ids) | Target::Threads(ids) => ids,
            Target::Command | Target::User(_) | Target::System => &[],
        }
    }
}

/// How to record.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Branch stacks.
    pub branches: Branches,
    /// How often; 4000 times a second when none. More often than the kernel allows becomes what it
    /// allows.
    pub rate: Option<Rate>,
    /// Texts of events by perf's syntax; the clock or what has branch stacks when there are none.
    pub events: Vec<String>,
    /// What the samples carry.
    pub sampling: Sampling,
    /// CPUs to record on; all when there are none.
    pub cpus: Vec<i32>,
    /// Control groups: one for all events, or one for each; an empty one is the whole system
    /// (`-G`).
    pub cgroups: Vec<String>,
    /// How records get from the rings into files.
    pub streaming: Streaming,
}

/// Whether the kernel gives this user branch stacks of the CPU for own programs.
pub fn has_hardware_branches() -> bool {
    let options = Options { branches: Branches::Hardware, ..Options::default() };
    events::choose(&options, Scope::Command, &Machine::here()).is_ok()
}

/// Opens an event for the calling thread and closes it again.
///
/// # Errors
/// What the kernel says against it.
pub fn try_event(attr: &perfdata::EventAttr) -> std::io::Result<()> {
    crate::sys::perf::Event::open(attr, 0, -1, None).map(drop)
}

/// Reads a list of CPUs: `0-3,8`.
pub fn cpu_list(text: &str) -> Result<Vec<i32>, crate::settings::Wrong> {
    open::cpu_list(text)
}

/// Records into `output`, or standard output where that is `-`, until the command ends, the
/// processes end, or a signal asks to stop.
pub fn record(
    target: &Target,
    command: Option<&Workload>,
    output: &Path,
    options: &Options,
) -> Result<Summary, Error> {
    let start = Instant::now();
    let mut options = options.clone();
    // As perf: a thread is recorded alone.
    options.sampling.no_inherit |= matches!(target, Target::Threads(_));
    options.sampling.overwrite = options.streaming.overwrite;
    options.sampling.cgroups = !options.cgroups.is_empty();
    let options = &options;
    let how = &options.streaming;
    session::check(how, output)?;
    readers::check_priority(how)?;
    let machine = Machine::here();
    let mut choice = events::choose(options, target.scope(), &machine)?;
    let forward = ForwardSignals::to(0);
    let now = (how.overwrite || how.switch.is_some()).then(NowSignal::install).flatten();
    let commands = how.control.as_ref().map(Commands::open).transpose()?;
    // Before the program, which must not start when its recording has no place.
    let piped = output.as_os_str() == "-";
    let reserve = || Reserved::with(output, how.threads.is_some(), how.force);
    let reserved =
        (!piped).then(reserve).transpose()?.map(|place| place.with_backlog(how.backlog()));
    let paused = command.map(pause).transpose()?;
    let _limit = FileLimit::raise();
    crate::sys::readers::survive_file_limit();
    let child = paused.as_ref().map(|paused| paused.pid);
    let mut opened = open(target, &mut choice.events, options, child, 0).map_err(|error| {
        foreign(target).filter(|_| matches!(error, Error::Refused { .. })).unwrap_or(error)
    })?;
    choice.notes.extend(open::smaller(&opened, how));
    // The kernel starts the events of a program that begins.
    opened.will_run(paused.is_some() && options.sampling.delay.is_none() && !options.sampling.wait);
    let attrs = open::described(&choice.events, &opened);
    let own_clock = aux::clock(&choice.events, options.sampling.clock);
    let describe = |seen: &Merged, kernel: &[BuildId], compressed: Option<(u64, u64)>| {
        let mut features = features(None, None, seen, kernel.iter().cloned());
        features::describe_events(&mut features, &choice.events, &machine, options.sampling.clock);
        features::describe_streams(&mut features, how, compressed);
        // Times by the kernel's own clock are nobody else's.
        features.clockid = features.clockid.filter(|_| own_clock.is_some());
        features
    };
    let mut file = match reserved {
        Some(reserved) => reserved.begin(&attrs)?,
        None => {
            let mut features = describe(&Merged::default(), &[], None);
            features.sample_time = None;
            Output::pipe(crate::sys::readers::standard_output()?, &attrs, &features, how.backlog())?
        }
    };
    let preamble = aux::preamble(&choice.events, &opened.rings)?;
    file.records(&preamble)?;
    let kernel = synthesize(target, &attrs, &mut file)?;
    if let Some(paused) = &paused {
        forward.child(paused.pid as u32);
    }
    let begin = options.sampling.delay;
    if target.scope() != Scope::Command && begin.is_none() && !options.sampling.wait {
        enable(&opened, &choice, target)?;
    }
    let (streams, whole) = session::streams(&mut opened, &attrs, file, how)?;
    let mut child = paused.map(|paused| go(paused, command)).transpose()?;
    let began = Instant::now();
    let describe: &Describe<'_> = &|seen, compressed| describe(seen, &kernel, compressed);
    let signals = Signals::new()?;
    let mut session = Session {
        target,
        how,
        opened: &opened,
        streams: &streams,
        signals: &signals,
        begin: begin.map(|delay| Instant::now() + delay),
        commands,
        now,
        rotation: Rotation {
            attrs: &attrs,
            preamble: &preamble,
            output: output.to_owned(),
            how,
            describe,
            files: Vec::new(),
            since: Instant::now(),
            bytes_before: 0,
        },
        cpus: matches!(target, Target::System)
            .then(|| CpuWatch::of(&opened.cpus, options.cpus.is_empty())),
        notes: Vec::new(),
    };
    let ended = session.follow(child.as_mut(), &forward);
    forward.ended();
    let (rotation, notes) = (session.rotation, session.notes);
    choice.notes.extend(notes);
    let end =
        session::End { opened: &opened, attrs: &attrs, began, clock: own_clock, rotation, whole };
    let finished = end.finish(streams, ended)?;
    if finished.seen.is_empty() {
        let lost = finished.streamed.losses.records;
        let reason = if lost > 0 {
            format!(
                "all samples were lost, {lost} of them: the rings are too small for them; give \
                 more with -m, or sample less (-F, -c, a smaller --call-graph dwarf,SIZE)"
            )
        } else {
            nothing(&choice, options, start) + &finished.ending.told()
        };
        return Err(Error::Empty { reason });
    }
    let seen = &finished.seen;
    Ok(Summary {
        output: finished.output,
        bytes: finished.bytes,
        branches: choice.branches,
        event: choice.names(),
        samples: seen.samples,
        branch_entries: seen.branch_entries,
        lost_samples: finished.streamed.losses.records,
        taken_branches: None,
        processes: 0,
        native_programs: 0,
        elapsed: start.elapsed(),
        ending: finished.ending,
        notes: choice.notes,
        look_ahead: None,
        aux: aux::traced(&choice.events).then_some(seen.aux),
        streamed: Some(finished.streamed),
    })
}

/// Why there is not one sample.
fn nothing(choice: &Choice, options: &Options, start: Instant) -> String {
    let took = start.elapsed().as_secs_f64();
    if let Some(delay) = options.sampling.delay.filter(|delay| delay.as_secs_f64() >= took) {
        return format!(
            "sampling was to begin after {} ms (-D), and all was over in {took:.1} s",
            delay.as_millis()
        );
    }
    format!(
        "not one {} sample came in {took:.1} s; the program was asleep or too short for the rate \
         (-F, -c), or does not do what the event counts",
        choice.names()
    )
}

pub(crate) fn pause(workload: &Workload) -> Result<launch::Paused, Error> {
    let name = workload.argv.first().ok_or(Error::NoCommand)?;
    let program = crate::elf::find(name, workload.dir.as_deref())?;
    crate::elf::check_runs_here(&program)?;
    let mut command = workload.command(&program);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(workload.argv.iter().skip(1));
    crate::sys::prepare(&mut command, false);
    launch::pause(command).map_err(start_failed(name))
}

pub(crate) fn go(paused: launch::Paused, command: Option<&Workload>) -> Result<Child, Error> {
    let name = command.and_then(|workload| workload.argv.first().cloned()).unwrap_or_default();
    paused.go().map_err(start_failed(&name))
}

fn start_failed(name: &OsString) -> impl FnOnce(std::io::Error) -> Error + use<> {
    let program = name.to_string_lossy().into_owned();
    move |source| Error::Start { program, source }
}

/// Opens the events of the target. Threads that appear while a process is opened are found by
/// looking again; those that appear later are inherited. `wished` is how many descriptors the
/// caller would like to have for each thread.
pub(crate) fn open(
    target: &Target,
    events: &mut [Planned],
    options: &Options,
    child: Option<i32>,
    wished: usize,
) -> Result<Opened, Error> {
    let scope = target.scope();
    let mut at = |tids: &[i32]| {
        open::open(
            events,
            &Place { scope, tids, cpus: &options.cpus, how: &options.streaming, wished },
        )
    };
    match target {
        Target::System => at(&[]),
        Target::Command => at(&[child.ok_or(Error::NoCommand)?]),
        Target::Processes(_) | Target::Threads(_) | Target::User(_) => {
            if let Some(gone) =
                target.named().iter().find(|id| synthesize::process_of(**id).is_none())
            {
                let gone = *gone;
                let thread = matches!(target, Target::Threads(_));
                return Err(if thread {
                    Error::NoThread { tid: gone }
                } else {
                    Error::NoProcess { pid: gone }
                });
            }
            let mut tids = target.tids();
            if let (true, Target::User(user)) = (tids.is_empty(), target) {
                let reason = "it has no running process".to_owned();
                return Err(Error::Refused { event: format!("user {user}"), reason });
            }
            for _ in 0..10 {
                let opened = at(&tids)?;
                let now = target.tids();
                if now.iter().all(|tid| tids.contains(tid)) && !opened.leaders.is_empty() {
                    return Ok(opened);
                }
                tids = now;
            }
            at(&tids)
        }
    }
}

/// Starts what was opened in a stopped state. Members of a group follow their leader.
fn enable(opened: &Opened, choice: &Choice, target: &Target) -> Result<(), Error> {
    let asked =
        |error: std::io::Error| events::refused(&choice.names(), false, &error, target.scope());
    opened.set_running(true).map_err(asked)
}

/// A process of another user, which no setting of perf's makes recordable.
pub(crate) fn foreign(target: &Target) -> Option<Error> {
    use std::os::unix::fs::MetadataExt;
    let own = crate::sys::effective_user();
    let refused = |event: String, owner: u32| Error::Refused {
        event,
        reason: format!(
            "it belongs to user {owner}, and you are user {own}; run as that user, as root, or \
             with CAP_PERFMON and CAP_SYS_PTRACE"
        ),
    };
    let foreign = |owner: u32| own != 0 && owner != own;
    if let Target::User(user) = target {
        let first = synthesize::processes_of(*user).into_iter().find(|_| foreign(*user))?;
        return Some(refused(format!("process {first}"), *user));
    }
    let kind = if matches!(target, Target::Threads(_)) { "thread" } else { "process" };
    target.named().iter().find_map(|id| {
        let owner = std::fs::metadata(format!("/proc/{id}")).ok()?.uid();
        foreign(owner).then(|| refused(format!("{kind} {id}"), owner))
    })
}

/// Whether samples may lie in the kernel.
pub(crate) fn sees_kernel(attrs: &[EventAttr]) -> bool {
    let sees = |attr: &EventAttr| attr.flags & attr_flag::EXCLUDE_KERNEL == 0;
    attrs.iter().any(|attr| sees(attr) && !plan::is_tracker(attr))
}

/// Describes what exists already. The result is the kernel's files by build ID.
pub(crate) fn synthesize(
    target: &Target,
    attrs: &[EventAttr],
    file: &mut Output,
) -> Result<Vec<BuildId>, Error> {
    let tracks = |attr: &&EventAttr| attr.flags & attr_flag::MMAP2 != 0;
    let Some(tracker) = attrs.iter().find(tracks).or(attrs.first()) else { return Ok(Vec::new()) };
    let mut synthesizer = Synthesizer::new(file, tracker);
    synthesizer.system(sees_kernel(attrs), tracker)?;
    match target {
        Target::Command => {}
        Target::Processes(pids) => pids.iter().try_for_each(|pid| synthesizer.process(*pid))?,
        Target::Threads(tids) => {
            let pids: std::collections::BTreeSet<i32> =
                tids.iter().filter_map(|tid| synthesize::process_of(*tid)).collect();
            pids.into_iter().try_for_each(|pid| synthesizer.process(pid))?;
        }
        Target::User(user) => {
            synthesize::processes_of(*user)
                .into_iter()
                .try_for_each(|pid| synthesizer.process(pid))?;
        }
        Target::System => {
            synthesize::processes().into_iter().try_for_each(|pid| synthesizer.process(pid))?
        }
    }
    let kernel = std::mem::take(&mut synthesizer.kernel_files);
    file.finish_round()?;
    Ok(kernel)
}
