//! From a recording to its named stacks, in two passes over its bytes.

use crate::build_ids::BuildIds;
use crate::dumped::{Dumps, is_monotonic};
use crate::error::Error;
use crate::event::records_switches;
use crate::files::{Files, Opener};
use crate::index::{Index, Part};
use crate::inlining::Asked;
use crate::jit_dump::DumpOpener;
use crate::kernel::KernelSymbols;
use crate::marks;
use crate::names::{FunctionId, Names};
use crate::naming::{PlaceId, Places};
use crate::perf_map::MapOpener;
use crate::session::Session;
use crate::sideband::{self, ThreadNames};
use crate::switching::{self, Reason, Running, Switching, Wakes};
use crate::times::Blocks;
use crate::unwinding::Frames;
use crate::workers::{self, Counted, Shared};
use crate::{Event, Weight};
use address_spaces::{Clock, KERNEL_PID, Timeline};
use image::{DebugSearch, ImageAddr};
use perfdata::{ChainSample, DeferredChains, Input};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::Path;

/// What an analysis needs beside the recording.
pub struct Options<'o> {
    /// Worker threads.
    pub threads: usize,
    /// Opens the files that the recording names.
    pub open: &'o Opener<'o>,
    /// Opens the names of the code that a process made while it ran.
    pub map: &'o MapOpener<'o>,
    /// Opens the dump of the code that a process made while it ran.
    pub dump: &'o DumpOpener<'o>,
    /// Names of kernels' functions: the first that are the recorded kernel's are used.
    pub kernels: &'o [KernelSymbols],
    /// Where debug information is looked for if inlined calls are to be frames of their own.
    pub inlined: Option<&'o DebugSearch>,
    /// Whether functions are told apart by the line of their source too ([`Function::line`](crate::Function::line)),
    /// those that were inlined being frames of their own; needs [`inlined`](Self::inlined).
    pub lines: bool,
    /// Whether stacks are told apart by the address that was sampled ([`Stack::at`]).
    pub addresses: bool,
    /// Whether a sample of time weighs only its share of the run's length: as many threads as ran at
    /// once share it. Needs records of context switches.
    pub latency: bool,
    /// Whether the branch stack of a sample without callers tells them.
    pub branch_callers: bool,
    /// Which samples count.
    pub keep: &'o (dyn Fn(&ChainSample<'_>) -> bool + Sync),
    /// The parts of the time that stacks are told apart by; without, all time is one.
    pub blocks: Option<Blocks>,
    /// What an earlier reading found, so that there is no first pass.
    pub index: Option<&'o Index>,
    /// Times (of the recording's clock, in ns) outside of which `keep` is false: with an index
    /// nothing is read of them.
    pub within: Option<Range<u64>>,
    /// Is told the bytes of the second pass as they are read.
    pub progress: &'o (dyn Fn(u64) + Sync),
}

impl<'o> Options<'o> {
    /// All samples on one worker thread, with no names but those of the files that `open` opens.
    pub fn new(open: &'o Opener<'o>) -> Options<'o> {
        Options {
            threads: 1,
            open,
            map: &|_| None,
            dump: &|_, _| None,
            kernels: &[],
            inlined: None,
            lines: false,
            addresses: false,
            latency: false,
            branch_callers: false,
            keep: &|_| true,
            blocks: None,
            index: None,
            within: None,
            progress: &|_| (),
        }
    }
}

/// A thread under one of its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Thread {
    /// Process; −1 where the recording does not say.
    pub pid: i32,
    /// Thread; −1 where the recording does not say.
    pub tid: i32,
    /// Its name when it was sampled; empty where no record tells.
    pub name: String,
}

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its number in samples.
    pub id: u64,
    /// Its path below the mount of its hierarchy; none where the recording does not have it.
    pub path: Option<String>,
}

/// A distinct stack of a thread in a block of the time, with all its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Index of the event.
    pub event: u32,
    /// Index of the thread in [`Recorded::threads`].
    pub thread: u32,
    /// In which of [`Options::blocks`]; 0 without.
    pub block: u32,
    /// Index of the control group in [`Recorded::cgroups`]; none where samples do not tell it.
    pub cgroup: Option<u32>,
    /// Its functions, innermost first; never empty.
    pub functions: Box<[FunctionId]>,
    /// The sampled address, if [`Options::addresses`] asks for it and it lies in an image.
    pub at: Option<ImageAddr>,
    /// What its samples weigh.
    pub weight: Weight,
}

/// What became of the samples and records; what was used and what was not add up to what was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Samples of the recording.
    pub samples: u64,
    /// Samples in [`Recorded::stacks`].
    pub used: u64,
    /// Left out by the filter.
    pub filtered: u64,
    /// Their records are damaged.
    pub malformed: u64,
    /// Without an address.
    pub without_address: u64,
    /// For which there was no room, since the recording has too many distinct stacks.
    pub refused: u64,
    /// Of those used: with the sampled address alone.
    pub without_chain: u64,
    /// Of those used: cut to the innermost address for want of room.
    pub cut: u64,
    /// Of those used: with a user part that came later.
    pub deferred: u64,
    /// Of those used: whose later user part is not in the recording.
    pub deferred_missing: u64,
    /// What unwinding gave.
    pub frames: Frames,
    /// Records that the kernel or the recorder could not write.
    pub lost: u64,
    /// Other records that are damaged or of an unknown kind.
    pub unknown_records: u64,
    /// Bytes at the end that are missing or hold no whole record.
    pub truncated_bytes: u64,
}

/// The named stacks of a recording.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The events, by index; behind those of the recording the waits for each reason, if it has
    /// records of switches.
    pub events: Vec<Event>,
    /// Threads that were sampled.
    pub threads: Vec<Thread>,
    /// Control groups that samples were taken in.
    pub cgroups: Vec<Cgroup>,
    /// Functions and libraries.
    pub names: Names,
    /// Distinct stacks.
    pub stacks: Vec<Stack>,
    /// From the first to the last sample, in ns; 0 where samples have no times.
    pub span_ns: u64,
    /// What its context switches say, if it has records of them.
    pub switching: Option<Switching>,
    /// What was not used.
    pub ledger: Ledger,
    /// What else is to be said about the names.
    pub remarks: Vec<String>,
}

impl Recorded {
    /// Leaves out stacks for which `keep` is false; the ledger counts their samples as filtered.
    pub fn retain(&mut self, keep: impl Fn(&Thread, &Stack, &Names) -> bool) {
        let (threads, names, ledger) = (&self.threads, &self.names, &mut self.ledger);
        let sampled = self.events.iter().filter(|event| event.off_cpu.is_none()).count();
        self.stacks.retain(|stack| {
            let thread = threads.get(stack.thread as usize);
            let kept = thread.is_some_and(|thread| keep(thread, stack, names));
            // Waits are no samples of their own.
            if !kept && (stack.event as usize) < sampled {
                ledger.used = ledger.used.saturating_sub(stack.weight.samples);
                ledger.filtered = ledger.filtered.saturating_add(stack.weight.samples);
            }
            kept
        });
    }
}

/// Reads `input` (named `path` in messages) and names its stacks.
///
/// # Errors
/// Where the recording cannot be read or holds no sample.
pub fn read(path: &Path, input: &Input, options: &Options<'_>) -> Result<Recorded, Error> {
    read_then(path, input, options, |recorded, _| recorded)
}

/// As [`read`]; `then` gets what was read, and may go over the samples once more, each with its
/// time and its stack.
///
/// # Errors
/// As [`read`].
pub fn read_then<R>(
    path: &Path,
    input: &Input,
    options: &Options<'_>,
    then: impl FnOnce(Recorded, &Session<'_>) -> R,
) -> Result<R, Error> {
    let fault = |source| Error::Recording { path: path.to_owned(), source };
    let clock = Clock::of(input);
    let side = match options.index {
        Some(index) => sideband::of_index(input, index, clock)
            .map_err(|_| Error::Index { path: path.to_owned() })?,
        None => sideband::read(input, options.threads, clock).map_err(fault)?,
    };
    let part = options
        .index
        .zip(options.within.as_ref())
        .map(|(index, within)| Part::of(index, input, within));
    let nothing = || match input.wholeness().losses().into_iter().next() {
        Some(loss) => Error::Nothing { path: path.to_owned(), loss },
        None => Error::NoSamples { path: path.to_owned() },
    };
    if side.samples == 0 && !input.attrs().iter().any(records_switches) {
        return Err(nothing());
    }
    let same_clock = clock == Clock::Time && is_monotonic(input.attrs());
    let dumps = Dumps::open(&side.changes, options.dump, same_clock);
    let timeline = Timeline::build(side.changes);
    let names = ThreadNames::new(side.naming);
    let reference = side.kernel_text;
    let kernel = options.kernels.iter().find_map(|symbols| symbols.at(reference?));
    let kernel_runs = kernel.is_some_and(|kernel| kernel.runs());
    let files = Files::new(&timeline, options.open, kernel_runs, BuildIds::of(input));
    let deferred = DeferredChains::read(input).map_err(fault)?;
    let wakes = Wakes::of(input);
    let switching = switching::read(input, &wakes, options.keep).map_err(fault)?;
    if side.samples == 0 && switching.as_ref().is_none_or(|switching| switching.threads.is_empty())
    {
        return Err(nothing());
    }
    let mut events: Vec<Event> = input.attrs().iter().map(Event::of).collect();
    let at_switches = events.iter().map(|event| event.is_switches).collect();
    let sampled = events.len();
    if let Some(switching) = &switching {
        let told = |reason: &Reason| *reason != Reason::RunQueue || switching.has_wakes;
        events.extend(Reason::ALL.into_iter().filter(told).map(Event::off_cpu));
    }
    let running = match (options.latency, &switching) {
        (false, _) => None,
        (true, Some(switching)) => Some(Running::of(switching, input.attrs())),
        (true, None) => return Err(Error::NoSwitches { path: path.to_owned() }),
    };
    let shared = Shared {
        input: part.as_ref().map_or(input, |part| &part.input),
        timeline: &timeline,
        names: &names,
        deferred: &deferred,
        dumps: &dumps,
        files: &files,
        clock,
        bases: part.as_ref().map_or(&side.bases, |part| &part.bases),
        periods: input.attrs().iter().map(|attr| attr.period_or_freq).collect(),
        branch_callers: options.branch_callers,
        keep: options.keep,
        at_switches,
        wakes,
        running,
        blocks: options.blocks,
    };
    let counted = workers::count(&shared, switching.as_ref(), options.threads, options.progress);
    let mut counted = counted.map_err(fault)?;
    if part.as_ref().is_some_and(|part| !part.complete(&mut counted)) {
        return Err(Error::Index { path: path.to_owned() });
    }
    let kernel_space = timeline.space(KERNEL_PID, u64::MAX);
    let mut places = Places::new(&files, kernel_space, options.map, &dumps);
    let chains = placed(&counted, &timeline, &mut places);
    let asked = options.inlined.map(|search| Asked {
        search,
        lines: options.lines,
        threads: options.threads,
    });
    let (functions, of_places) = places.name(kernel, asked);
    let address = |place: PlaceId| places.address(place).filter(|_| options.addresses);
    let cgroups = cgroups(&chains, side.cgroups);
    let numbers = thread_numbers(&chains);
    let threads = named_threads(&chains, &numbers, names.names());
    let stacks = stacks(&chains, &of_places, &numbers, &cgroups, address);
    let (first, last) = counted.span.unwrap_or_default();
    let mut ledger = ledger(&counted);
    ledger.samples = side.samples;
    ledger.lost = side.lost_records.max(side.lost_samples);
    ledger.unknown_records = side.unknown;
    ledger.truncated_bytes = side.truncated_bytes;
    let own = |stack: &&Stack| (stack.event as usize) < sampled;
    ledger.used = stacks.iter().filter(own).map(|stack| stack.weight.samples).sum();
    drop(counted);
    let session = Session::new(path, &shared, &places, &of_places, &chains, &numbers);
    let recorded = Recorded {
        events,
        threads,
        cgroups,
        names: functions,
        stacks,
        span_ns: last - first,
        switching,
        ledger,
        remarks: remarks(input, places.remarks(), options.latency),
    };
    Ok(then(recorded, &session))
}

fn remarks(input: &Input, mut remarks: Vec<String>, latency: bool) -> Vec<String> {
    let whole = input.wholeness();
    remarks.extend(whole.losses());
    let (missing, all) = (whole.missing_features.len() as u64, whole.announced_features);
    if missing > 0 && !whole.unfinished {
        remarks.push(format!(
            "the end of the recording is cut off: {missing} of {all} sections are missing that say \
             how and where it was made; events may lack their names, and files their build IDs"
        ));
    }
    if latency {
        remarks.push(
            "--latency: time weighs what it adds to the length of the run; threads that ran at \
             once share it"
                .to_owned(),
        );
    }
    remarks
}

fn ledger(counted: &Counted) -> Ledger {
    Ledger {
        filtered: counted.filtered,
        malformed: counted.malformed,
        without_address: counted.without_address,
        refused: counted.chains.refused,
        without_chain: counted.without_chain,
        cut: counted.chains.cut,
        deferred: counted.deferred,
        deferred_missing: counted.deferred_missing,
        frames: counted.frames,
        ..Ledger::default()
    }
}

/// A distinct chain whose addresses are places.
pub(crate) struct Chain {
    pub event: u32,
    /// Process, thread and number of its name.
    pub thread: (i32, i32, u32),
    pub block: u32,
    /// Number of the control group; 0: none is known.
    pub cgroup: u64,
    pub places: Vec<PlaceId>,
    pub weight: Weight,
}

/// Numbers of threads, by process, thread and number of the name.
pub(crate) type ThreadNumbers = FxHashMap<(i32, i32, u32), u32>;

/// In the order in which the chains have them.
fn thread_numbers(chains: &[Chain]) -> ThreadNumbers {
    let mut numbers = ThreadNumbers::default();
    for chain in chains {
        let next = numbers.len() as u32;
        numbers.entry(chain.thread).or_insert(next);
    }
    numbers
}

fn named_threads(chains: &[Chain], numbers: &ThreadNumbers, names: &[String]) -> Vec<Thread> {
    let mut threads = Vec::with_capacity(numbers.len());
    for &(pid, tid, name) in chains.iter().map(|chain| &chain.thread) {
        // Each comes up first where its number is the next one.
        if numbers.get(&(pid, tid, name)).is_some_and(|number| *number as usize == threads.len()) {
            let name = names.get(name as usize).cloned().unwrap_or_default();
            threads.push(Thread { pid, tid, name });
        }
    }
    threads
}

fn placed(counted: &Counted, timeline: &Timeline, places: &mut Places<'_>) -> Vec<Chain> {
    let of = |(who, words, weight): (crate::distinct::Who, &[u64], Weight)| {
        let space = timeline.version(who.pid, who.version);
        let steps = marks::steps(words);
        let places = steps.map(|step| places.of(who.pid, space, step)).collect();
        let thread = (who.pid, who.tid, who.name);
        Chain { event: who.event, thread, block: who.block, cgroup: who.cgroup, places, weight }
    };
    // Numbers of places and functions follow from this order.
    counted.chains.sorted().into_iter().map(of).collect()
}

/// The control groups of the chains, by number, with the paths that the recording has.
fn cgroups(chains: &[Chain], mut paths: FxHashMap<u64, String>) -> Vec<Cgroup> {
    let mut ids: Vec<u64> = chains.iter().map(|chain| chain.cgroup).filter(|id| *id != 0).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter().map(|id| Cgroup { id, path: paths.remove(&id) }).collect()
}

/// Event, thread, block of the time, control group, functions and sampled address.
type Key = (u32, u32, u32, Option<u32>, Box<[FunctionId]>, Option<ImageAddr>);

/// Adds up chains that have the same functions.
fn stacks(
    chains: &[Chain],
    of_places: &[Vec<FunctionId>],
    numbers: &ThreadNumbers,
    cgroups: &[Cgroup],
    address: impl Fn(PlaceId) -> Option<ImageAddr>,
) -> Vec<Stack> {
    let mut sums: FxHashMap<Key, Weight> = FxHashMap::default();
    for chain in chains {
        let thread = numbers.get(&chain.thread).copied().unwrap_or_default();
        let functions = |place: &PlaceId| {
            of_places.get(place.index()).into_iter().flatten().copied().collect::<Vec<_>>()
        };
        let functions = chain.places.iter().flat_map(functions).collect();
        let at = chain.places.first().and_then(|&place| address(place));
        let cgroup = cgroups.binary_search_by_key(&chain.cgroup, |cgroup| cgroup.id);
        let cgroup = cgroup.ok().map(|index| index as u32);
        sums.entry((chain.event, thread, chain.block, cgroup, functions, at))
            .or_default()
            .add(chain.weight);
    }
    let stack = |((event, thread, block, cgroup, functions, at), weight): (Key, Weight)| Stack {
        event,
        thread,
        block,
        cgroup,
        functions,
        at,
        weight,
    };
    let mut stacks: Vec<Stack> = sums.into_iter().map(stack).collect();
    // The order of a hash table is no order.
    let key = |stack: &Stack| {
        (stack.event, stack.thread, stack.block, stack.cgroup, stack.functions.clone(), stack.at)
    };
    stacks.sort_by_cached_key(key);
    stacks
}
