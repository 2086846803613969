//! From a perf.data to counts, in two passes over its bytes.
//!
//! The first pass reads only what is not a sample: mappings, forks, execs, losses. With the whole timeline known, the
//! second pass needs no order: worker threads take chunks as they come and count traces per address space version.
//! Memory is the chunks in flight and the tables of distinct traces, whatever the size of the recording.

use crate::binding::{Binding, Bindings};
use crate::error::Error;
use crate::ledger::{Ledger, Reason};
use crate::model::Counts;
use crate::resolve::{Rules, Spaces, Sums};
use crate::straight_line::Unrecorded;
use crate::timeline::{Change, KERNEL_PID, MappedFile, Timeline};
use crate::traces::{Trace, TraceTable};
use image::Image;
use perfdata::{Chunk, CpuMode, FastSample, Input, LayoutTable, RawRecord, Record, raw_records};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// How to aggregate.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which entries count.
    pub rules: Rules,
    /// Worker threads; the result does not depend on it.
    pub threads: usize,
    /// Only samples of this process.
    pub pid: Option<i32>,
}

/// What aggregation found, beside the counts.
#[derive(Debug)]
pub struct Aggregated {
    /// The counts.
    pub counts: Counts,
    /// Samples read.
    pub samples: u64,
    /// Remarks for the reader: files that did not match, in words.
    pub notes: Vec<String>,
    /// Samples in files that were not counted, most first.
    pub elsewhere: Vec<(String, u64)>,
}

/// What a record's time is: a clock, or its place in the file where the recording carries no times.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clock {
    Time,
    Position,
}

/// Worker tables are translated and emptied when they hold more slots than this, so that memory stays bounded.
const MOST_SLOTS: usize = 1 << 20;

/// Reads `input` (named `path` in messages) and counts what lies in `images`, or, where none are named, in the files
/// that the recording names. `progress` is told the bytes of the second pass as they are read.
///
/// # Errors
/// Where the recording cannot be read, holds no sample, or nothing in it belongs to `images`.
pub fn aggregate(
    path: &Path,
    input: &Input,
    images: &[Arc<Image>],
    options: Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Aggregated, Error> {
    let fault = |source| Error::Recording { path: path.to_owned(), source };
    let clock = clock_of(input);
    let sideband = read_sideband(input, clock).map_err(fault)?;
    if sideband.samples == 0 {
        return Err(Error::NoSamples { path: path.to_owned() });
    }
    let timeline = Timeline::build(sideband.changes);
    let bindings = Bindings::new(timeline.files(), images, listed_build_ids(input, &sideband.build_ids));
    let shared = Shared { input, timeline: &timeline, bindings: &bindings, options, clock };
    let mut sums = count_samples(&shared, progress).map_err(fault)?;
    sums.ledger.lost = sideband.lost;
    sums.ledger.unknown_records = sideband.unknown;
    sums.ledger.truncated_bytes = sideband.truncated_bytes;

    let name = |id: crate::timeline::FileId| timeline.files().get(id.0 as usize).map(|f| f.path.clone());
    let elsewhere: Vec<_> = sums.elsewhere().into_iter().filter_map(|(f, n)| Some((name(f)?, n))).collect();
    let notes = notes(&bindings);
    let counts = sums.finish(unrecorded(input));
    if counts.images.is_empty() {
        return Err(Error::NothingMatches {
            path: path.to_owned(),
            samples: sideband.samples,
            images: names_of(images),
            cause: cause(&counts.ledger, &notes, &elsewhere) + &damage(&counts.ledger),
        });
    }
    Ok(Aggregated { counts, samples: sideband.samples, notes, elsewhere })
}

fn clock_of(input: &Input) -> Clock {
    let timed =
        |a: &perfdata::EventAttr| a.sample_type & perfdata::sample_type::TIME != 0 && a.sample_id_all();
    if input.attrs().iter().all(timed) { Clock::Time } else { Clock::Position }
}

/// Transfers that the recording's branch filter leaves out; without a filter (`any`) nothing is.
fn unrecorded(input: &Input) -> Unrecorded {
    use perfdata::branch_sample as b;
    /// PERF_SAMPLE_BRANCH_CALL, direct calls.
    const CALL: u64 = 1 << 13;
    let mut out = Unrecorded::default();
    for attr in input.attrs().iter().filter(|a| a.sample_type & perfdata::sample_type::BRANCH_STACK != 0) {
        let filter = attr.branch_sample_type;
        if filter & b::ANY != 0 {
            continue;
        }
        out.calls |= filter & (b::ANY_CALL | CALL) == 0;
        out.returns |= filter & b::ANY_RETURN == 0;
        out.jumps = true;
    }
    out
}

/// What the first pass brings home.
#[derive(Default)]
struct Sideband {
    changes: Vec<(u64, Change)>,
    build_ids: Vec<(String, Vec<u8>)>,
    samples: u64,
    lost: u64,
    unknown: u64,
    truncated_bytes: u64,
}

fn read_sideband(input: &Input, clock: Clock) -> Result<Sideband, perfdata::Error> {
    let mut out = Sideband::default();
    let mut chunks = input.chunks()?;
    let mut position = 0u64;
    while let Some(chunk) = chunks.next() {
        let chunk = chunk?;
        for raw in raw_records(&chunk.bytes, chunk.offset, input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                out.samples += 1;
                continue;
            }
            let Ok((record, id)) = Record::parse(&raw, input.layouts()) else {
                out.unknown += 1;
                continue;
            };
            let time = match clock {
                Clock::Time => id.time.unwrap_or(0),
                Clock::Position => position + raw.offset.wrapping_sub(chunk.offset),
            };
            note_record(&mut out, time, &record);
        }
        position += chunk.bytes.len() as u64;
        chunks.recycle(chunk.bytes);
    }
    out.truncated_bytes = chunks.stats().truncated_bytes;
    Ok(out)
}

fn note_record(out: &mut Sideband, time: u64, record: &Record<'_>) {
    match record {
        Record::Mmap(m) if m.executable => {
            let path = String::from_utf8_lossy(m.path).into_owned();
            let kernel = matches!(m.cpumode, CpuMode::Kernel | CpuMode::GuestKernel) || m.pid == KERNEL_PID;
            let file = MappedFile { path, build_id: m.build_id.map(<[u8]>::to_vec), kernel };
            let pid = if kernel { KERNEL_PID } else { m.pid };
            out.changes.push((time, Change::Map { pid, start: m.start, len: m.len, pgoff: m.pgoff, file }));
        }
        Record::Fork(t) => out.changes.push((time, Change::Fork { pid: t.pid, parent: t.parent_pid })),
        Record::Comm { pid, exec: true, .. } => out.changes.push((time, Change::Exec { pid: *pid })),
        Record::Lost { lost, .. } | Record::LostSamples { lost } => out.lost = out.lost.saturating_add(*lost),
        Record::User(perfdata::UserRecord::BuildId(b)) => {
            out.build_ids.push((b.path.clone(), b.build_id.clone()))
        }
        Record::Unknown { .. } => out.unknown += 1,
        _ => {}
    }
}

fn listed_build_ids(input: &Input, in_stream: &[(String, Vec<u8>)]) -> Vec<(String, Vec<u8>)> {
    let listed = input.features().build_ids.iter();
    listed.map(|b| (b.path.clone(), b.build_id.clone())).chain(in_stream.iter().cloned()).collect()
}

/// What all workers see.
struct Shared<'t> {
    input: &'t Input,
    timeline: &'t Timeline,
    bindings: &'t Bindings<'t>,
    options: Options,
    clock: Clock,
}

fn count_samples<'t>(
    shared: &Shared<'t>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Sums<'t>, perfdata::Error> {
    let threads = shared.options.threads.max(1);
    let mut chunks = shared.input.chunks()?;
    let (send, receive) = crossbeam_channel::bounded::<(u64, Chunk)>(threads * 2);
    let (give_back, used) = crossbeam_channel::unbounded::<Vec<u8>>();
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (receive, give_back) = (receive.clone(), give_back.clone());
                scope.spawn(move || {
                    let mut worker = Worker::new(shared);
                    for (position, chunk) in receive {
                        worker.count(position, &chunk);
                        // The reader may have stopped already; then nobody needs the buffer.
                        let _ = give_back.send(chunk.bytes);
                    }
                    worker.finish()
                })
            })
            .collect();
        drop(receive);
        let mut position = 0u64;
        let mut fault = None;
        while let Some(chunk) = chunks.next() {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            };
            let bytes = chunk.bytes.len() as u64;
            if send.send((position, chunk)).is_err() {
                break;
            }
            position += bytes;
            progress(bytes);
            used.try_iter().for_each(|buffer| chunks.recycle(buffer));
        }
        drop(send);
        let mut total = Sums::new(shared.timeline, shared.bindings, shared.options.rules);
        for worker in workers {
            match worker.join() {
                Ok(sums) => total.merge(sums),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        fault.map_or(Ok(total), Err)
    })
}

/// Tables of one version of one address space.
#[derive(Default)]
struct Tables {
    traces: TraceTable,
    addresses: TraceTable,
}

/// Which address space a table belongs to: process, its version, the kernel's version.
type SpaceKey = (i32, u32, u32);

struct Worker<'s, 't> {
    shared: &'s Shared<'t>,
    layouts: &'s LayoutTable,
    /// Tables that are not current, with the spaces they were counted in.
    tables: FxHashMap<SpaceKey, (Spaces<'t>, Tables)>,
    current: Option<(i32, Spaces<'t>, Tables)>,
    slots: usize,
    wrong_path: u64,
    duplicates: u64,
    sums: Sums<'t>,
}

impl<'s, 't> Worker<'s, 't> {
    fn new(shared: &'s Shared<'t>) -> Self {
        Worker {
            shared,
            layouts: shared.input.layouts(),
            tables: FxHashMap::default(),
            current: None,
            slots: 0,
            wrong_path: 0,
            duplicates: 0,
            sums: Sums::new(shared.timeline, shared.bindings, shared.options.rules),
        }
    }

    fn count(&mut self, position: u64, chunk: &Chunk) {
        for raw in raw_records(&chunk.bytes, chunk.offset, self.shared.input.endian()) {
            if raw.kind == perfdata::kind::SAMPLE {
                self.sample(position.wrapping_add(raw.offset.wrapping_sub(chunk.offset)), &raw);
            }
        }
        if self.slots > MOST_SLOTS {
            self.translate();
        }
    }

    #[inline]
    fn sample(&mut self, position: u64, raw: &RawRecord<'_>) {
        let parsed = self.layouts.for_sample(raw.body).and_then(|layout| layout.fast(raw));
        let Ok(sample) = parsed else {
            self.sums.ledger.samples.write_off(Reason::Malformed, 1);
            return;
        };
        if self.shared.options.pid.is_some_and(|pid| pid != sample.pid) {
            self.sums.ledger.samples.write_off(Reason::OtherImage, 1);
            return;
        }
        let time = if self.shared.clock == Clock::Time { sample.time } else { position };
        match &self.current {
            Some((pid, spaces, _)) if *pid == sample.pid && spaces.holds_at(time) => {}
            _ => self.switch(sample.pid, time),
        }
        let rules = self.shared.options.rules;
        if let Some((_, _, tables)) = &mut self.current {
            let before = tables.traces.slots() + tables.addresses.slots();
            tables.addresses.add(sample.ip.0, 0, 0, 0);
            let skipped = count_stack(&mut tables.traces, &sample, rules);
            self.wrong_path += skipped.wrong_path;
            self.duplicates += skipped.duplicates;
            self.slots += tables.traces.slots() + tables.addresses.slots() - before;
        }
    }

    #[cold]
    fn switch(&mut self, pid: i32, time: u64) {
        self.park();
        let spaces = Spaces::at(self.shared.timeline, pid, time);
        let key = (pid, spaces.user.version, spaces.kernel.version);
        let tables = self.tables.remove(&key).map(|(_, t)| t).unwrap_or_else(|| {
            let tables = Tables::default();
            self.slots += tables.traces.slots() + tables.addresses.slots();
            tables
        });
        self.current = Some((pid, spaces, tables));
    }

    fn park(&mut self) {
        if let Some((pid, spaces, tables)) = self.current.take() {
            self.tables.insert((pid, spaces.user.version, spaces.kernel.version), (spaces, tables));
        }
    }

    /// Translates all tables into sums of image addresses and empties them.
    fn translate(&mut self) {
        self.park();
        for (_, (spaces, tables)) in self.tables.drain() {
            self.sums.add_samples(spaces, tables.addresses.iter().map(|t| (t.trace.from, t.count)));
            self.sums.add_traces(spaces, tables.traces.iter());
        }
        self.slots = 0;
    }

    fn finish(mut self) -> Sums<'t> {
        self.translate();
        self.sums.ledger.branches.write_off(Reason::WrongPath, self.wrong_path);
        self.sums.ledger.branches.write_off(Reason::DuplicateEntry, self.duplicates);
        self.sums
    }
}

/// Entries of one stack that were not counted.
#[derive(Default)]
struct Skipped {
    wrong_path: u64,
    duplicates: u64,
}

/// Distance from which on create_llvm_prof takes an equal newest pair for one entry written twice.
const AUTOFDO_STRIDE_BYTES: u64 = 0x1000;

#[inline(always)]
fn count_stack(traces: &mut TraceTable, sample: &FastSample<'_>, rules: Rules) -> Skipped {
    let mut stack =
        StackCounter { next_from: Trace::NONE.0, newest: None, skipped: Skipped::default(), rules };
    match sample.branches.raw_entries() {
        Some(entries) => entries.iter().for_each(|&[from, to, flags]| stack.entry(traces, from, to, flags)),
        None => sample.branches.iter().for_each(|e| stack.entry(traces, e.from.0, e.to.0, e.flags.0)),
    }
    stack.skipped
}

/// Walks one stack, newest entry first.
struct StackCounter {
    next_from: u64,
    newest: Option<(u64, u64)>,
    skipped: Skipped,
    rules: Rules,
}

impl StackCounter {
    #[inline(always)]
    fn entry(&mut self, traces: &mut TraceTable, from: u64, to: u64, flags: u64) {
        // perf_event.h: bit 0 mispredicted, bits 24 and 25 speculation, 1 = executed on the wrong path.
        if (flags >> 24) & 3 == 1 && matches!(self.rules, Rules::Auto | Rules::Autofdo) {
            self.skipped.wrong_path += 1;
            if self.rules == Rules::Autofdo && self.next_from != Trace::NONE.0 {
                self.next_from = from;
            }
            return;
        }
        if self.rules == Rules::Autofdo && self.autofdo_duplicate(from, to) {
            self.skipped.duplicates += 1;
            return;
        }
        traces.add(from, to, self.next_from, flags & 1);
        self.next_from = from;
    }

    fn autofdo_duplicate(&mut self, from: u64, to: u64) -> bool {
        match self.newest {
            None => {
                self.newest = Some((from, to));
                false
            }
            // Only the second entry is ever compared.
            Some(newest) => {
                self.newest = Some((u64::MAX, u64::MAX));
                newest == (from, to) && from.wrapping_sub(to) > AUTOFDO_STRIDE_BYTES
            }
        }
    }
}

fn notes(bindings: &Bindings<'_>) -> Vec<String> {
    let mut notes: BTreeMap<String, ()> = BTreeMap::new();
    for (file, binding) in bindings.bound() {
        let note = match binding {
            Binding::BuildIdMismatch(recorded, own) => format!(
                "{}: recorded with build ID {recorded}, the file at hand has {own}; give the recorded build with --binary",
                file.path
            ),
            Binding::Unavailable(why) => format!("{}: not counted: {why}", file.path),
            _ => continue,
        };
        notes.insert(note, ());
    }
    notes.into_keys().collect()
}

fn names_of(images: &[Arc<Image>]) -> String {
    let names: Vec<String> = images.iter().map(|i| i.path().display().to_string()).collect();
    if names.is_empty() { "any file at hand".into() } else { names.join(", ") }
}

/// What of the recording could not be read, which may be where the samples looked for lie.
fn damage(ledger: &Ledger) -> String {
    match (ledger.truncated_bytes, ledger.unknown_records) {
        (0, 0) => String::new(),
        (0, records) => format!(" (besides, {records} records of it are damaged or of unknown kinds)"),
        (bytes, _) => {
            format!(" (besides, the recording is truncated: {bytes} bytes follow its last whole record)")
        }
    }
}

fn cause(ledger: &Ledger, notes: &[String], elsewhere: &[(String, u64)]) -> String {
    if let Some(note) = notes.first() {
        return note.clone();
    }
    match elsewhere.first() {
        Some((path, count)) => format!(
            "most samples ({count}) lie in {path}; give that file with --binary, or record the program that you mean"
        ),
        None => format!(
            "{} samples lie where the recording shows no mapping; record from the start of the program, or with MMAP events",
            ledger.samples.entered
        ),
    }
}
