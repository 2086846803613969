//! Which event to ask the kernel for, what it lets us have, and what its refusals mean.

use crate::Error;
use crate::attr::{self, SAMPLE_FIELDS};
use crate::sys::perf::{Event, Ring};
use perfdata::{EventAttr, attr_flag as flag, branch_sample, sample_type};
use std::io;

/// What the samples carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Branches {
    /// Hardware branch stacks where the CPU has them, else none.
    #[default]
    Auto,
    /// Hardware branch stacks or an error.
    Hardware,
    /// Only the place that was interrupted.
    None,
}

/// How often to sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Every so many events (nanoseconds, for the clock).
    Period(u64),
    /// So many times a second.
    Frequency(u64),
}

/// An event that can be opened here.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub attr: EventAttr,
    pub name: String,
    pub branches: &'static str,
}

/// perf's own default rate.
const DEFAULT_FREQUENCY: u64 = 4000;
/// AMD's first branch sampling takes no frequency; a prime lest it fall into step with a loop.
const DEFAULT_PERIOD: u64 = 200_003;
const TYPE_RAW: u32 = 4;
/// Retired taken branches, the event that AMD's BRS works with.
const AMD_TAKEN_BRANCHES: u64 = 0xc4;

/// Events with branch stacks, in the order they are tried; and whether they take a frequency.
const WITH_BRANCHES: [(u32, u64, &str, bool); 3] = [
    (attr::TYPE_HARDWARE, attr::CPU_CYCLES, "cycles", true),
    (attr::TYPE_HARDWARE, attr::BRANCH_INSTRUCTIONS, "branches", true),
    (TYPE_RAW, AMD_TAKEN_BRANCHES, "rc4", false),
];

fn base(kernel: bool, on_exec: bool) -> EventAttr {
    let mut flags = flag::DISABLED
        | flag::INHERIT
        | flag::EXCLUDE_HV
        | flag::EXCLUDE_GUEST
        | flag::MMAP
        | flag::MMAP2
        | flag::COMM
        | flag::COMM_EXEC
        | flag::TASK
        | flag::WATERMARK
        | flag::SAMPLE_ID_ALL
        | flag::USE_CLOCKID
        | flag::BUILD_ID;
    if !kernel {
        flags |= flag::EXCLUDE_KERNEL;
    }
    if on_exec {
        flags |= flag::ENABLE_ON_EXEC;
    }
    EventAttr {
        size_bytes: EventAttr::WRITTEN_BYTES,
        sample_type: SAMPLE_FIELDS,
        flags,
        clockid: attr::CLOCK_MONOTONIC,
        ..EventAttr::default()
    }
}

fn with_rate(mut attr: EventAttr, rate: Option<Rate>, takes_frequency: bool) -> EventAttr {
    match rate {
        Some(Rate::Period(period)) => attr.period_or_freq = period,
        Some(Rate::Frequency(frequency)) => {
            attr.period_or_freq = frequency;
            attr.flags |= flag::FREQ;
        }
        None if takes_frequency => {
            attr.period_or_freq = DEFAULT_FREQUENCY;
            attr.flags |= flag::FREQ;
        }
        None => attr.period_or_freq = DEFAULT_PERIOD,
    }
    attr
}

/// Finds an event that the kernel opens for this process's own thread; the events for the target are like it.
pub(crate) fn choose(
    branches: Branches,
    rate: Option<Rate>,
    kernel: bool,
    on_exec: bool,
) -> Result<Choice, Error> {
    let suffix = if kernel { "" } else { ":u" };
    let mut refusal = None;
    if branches != Branches::None {
        for (kind, config, name, takes_frequency) in WITH_BRANCHES {
            let mut attr = with_rate(base(kernel, on_exec), rate, takes_frequency);
            (attr.kind, attr.config) = (kind, config);
            attr.sample_type |= sample_type::BRANCH_STACK;
            attr.branch_sample_type =
                branch_sample::ANY | branch_sample::USER | if kernel { branch_sample::KERNEL } else { 0 };
            match probe(&mut attr) {
                Ok(()) => return Ok(Choice { attr, name: format!("{name}{suffix}"), branches: "hardware" }),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        if branches == Branches::Hardware {
            let error = refusal.unwrap_or_else(|| io::Error::other("no event"));
            return Err(refused("hardware branch stacks", &error));
        }
    }
    let mut attr = with_rate(base(kernel, on_exec), rate, true);
    (attr.kind, attr.config) = (attr::TYPE_SOFTWARE, attr::CPU_CLOCK);
    let name = format!("cpu-clock{suffix}");
    match probe(&mut attr) {
        Ok(()) => Ok(Choice { attr, name, branches: "none" }),
        Err(error) => Err(refused(&name, &error)),
    }
}

/// Tries an attribute, without build IDs where the kernel is older than 5.12.
fn probe(attr: &mut EventAttr) -> io::Result<()> {
    let first = Event::open(attr, 0, -1);
    if first.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
        let mut older = attr.clone();
        older.flags &= !flag::BUILD_ID;
        Event::open(&older, 0, -1)?;
        *attr = older;
        return Ok(());
    }
    first.map(drop)
}

/// Says what a refusal means and what would help.
pub(crate) fn refused(event: &str, error: &io::Error) -> Error {
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let paranoid = paranoid.trim();
    let reason = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not allow it (kernel.perf_event_paranoid is {paranoid}); run as root, with CAP_PERFMON, \
             or after `sysctl kernel.perf_event_paranoid=1` (-1 to record the whole system)"
        ),
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV) => {
            "this CPU or virtual machine does not offer it; `--branches=emulated` gives branch stacks on any machine, \
             `--branches=none` gives clock samples"
                .into()
        }
        Some(libc::ENOSYS) => "this kernel is built without perf events (CONFIG_PERF_EVENTS)".into(),
        Some(libc::EMFILE) => "too many events for the limit of open files; raise it with `ulimit -n`".into(),
        Some(libc::EINVAL) => format!("the kernel refuses the settings ({error}); try another -c or -F"),
        Some(libc::EBUSY) => "another recording holds the counters; end it first".into(),
        _ => error.to_string(),
    };
    Error::Refused { event: event.to_owned(), reason }
}

/// The open events and the rings they write into, one a CPU.
pub(crate) struct Opened {
    pub rings: Vec<Ring>,
    /// The first event of each CPU, which the ring belongs to.
    pub leaders: Vec<Event>,
    pub followers: Vec<Event>,
    pub ids: Vec<u64>,
}

/// Rings are as large as the kernel allows, from 4 MiB a CPU down.
const RING_PAGES: [usize; 9] = [1024, 512, 256, 128, 64, 32, 16, 8, 1];

/// Opens an event on every CPU for each thread (none: everything that runs there).
pub(crate) fn open(choice: &Choice, tids: &[i32]) -> Result<Opened, Error> {
    let fail = |error: io::Error| refused(&choice.name, &error);
    let mut opened =
        Opened { rings: Vec::new(), leaders: Vec::new(), followers: Vec::new(), ids: Vec::new() };
    let everything = [-1];
    let tids = if tids.is_empty() { &everything[..] } else { tids };
    let mut pages = RING_PAGES.into_iter().peekable();
    for cpu in online_cpus() {
        let mut leader: Option<Event> = None;
        for tid in tids {
            let mut attr = choice.attr.clone();
            attr.wakeup = (pages.peek().copied().unwrap_or(1) * 4096 / 4) as u32;
            let event = match Event::open(&attr, *tid, cpu) {
                Ok(event) => event,
                // The thread ended meanwhile, or the CPU went away.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV)) => continue,
                Err(error) => return Err(fail(error)),
            };
            opened.ids.push(event.id().map_err(fail)?);
            match &leader {
                Some(leader) => {
                    event.share_ring_of(leader).map_err(fail)?;
                    opened.followers.push(event);
                }
                None => {
                    let ring = loop {
                        let size = *pages.peek().unwrap_or(&1);
                        match Ring::map(&event, size) {
                            Ok(ring) => break ring,
                            Err(error) if size == 1 => return Err(fail(error)),
                            Err(_) => _ = pages.next(),
                        }
                    };
                    opened.rings.push(ring);
                    leader = Some(event);
                }
            }
        }
        opened.leaders.extend(leader);
    }
    Ok(opened)
}

/// CPUs that can run something, from `/sys/devices/system/cpu/online` (`0-3,8`).
fn online_cpus() -> Vec<i32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_else(|_| "0".into());
    parse_cpus(text.trim())
}

fn parse_cpus(text: &str) -> Vec<i32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<i32>().ok()?..=last.parse::<i32>().ok()?)
    };
    text.split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_cpus("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_cpus("0"), [0]);
        assert_eq!(parse_cpus(""), [0i32; 0]);
    }

    #[test]
    fn a_refusal_names_the_setting_that_would_help() {
        let error = refused("cpu-clock", &io::Error::from_raw_os_error(libc::EACCES)).to_string();
        assert!(error.contains("perf_event_paranoid"), "{error}");
        let error = refused("x", &io::Error::from_raw_os_error(libc::EOPNOTSUPP)).to_string();
        assert!(error.contains("--branches=emulated"), "{error}");
    }
}
