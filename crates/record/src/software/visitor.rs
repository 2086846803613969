//! What is done at each stop: look ahead, write a sample, choose when to stop next.

use super::budget::Budget;
use super::check::{Checked, step_along};
use super::debuggers::Debuggers;
use super::look::{Known, Memory, registers};
use super::text::Mapped;
use super::with_cold_caches;
use crate::Error;
use crate::file::Output;
use crate::open::Opened;
use crate::seen::{Seen, mmap_build_id};
use crate::summary::LookAhead;
use crate::sys::vvar::Vvar;
use lookahead::{Branch, Engine, Limits, Stop};
use perfdata::write::{Encoder, SampleValues, StackValues};
use perfdata::{BranchEntry, BranchFlags, CpuMode, SampleId, kind};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use stops::{Next, Stopped, Visitor};

/// How often what was recorded goes to the disk.
const FLUSH: Duration = Duration::from_millis(100);
const FLUSH_BYTES: usize = 128 << 10;
/// Mismatches that are described, of those that are counted.
const MOST_DESCRIBED: usize = 5;
/// Letting a thread go on, which its own part of the visit cannot measure.
const RESUME: Duration = Duration::from_micros(8);

/// A process and what is known of it.
#[derive(Default)]
struct Process {
    engine: Option<Box<Engine>>,
    known: Known,
    /// Whether it may trace what it starts, once that was asked.
    may_trace: Option<bool>,
}

/// Looks ahead from each stop, and writes what it sees and what the kernel tells of mappings.
pub(crate) struct Recorder {
    pub opened: Opened,
    pub file: Output,
    pub encoder: Encoder,
    pub id: u64,
    pub budget: Budget,
    /// Every so many stops are held against single steps.
    pub check: Option<u64>,
    pub limits: Limits,
    pub seen: Seen,
    pub went: LookAhead,
    /// What went wrong while writing; everything after it is dropped, and the recording ends.
    pub failed: Option<Error>,
    pub described: Vec<String>,
    /// New threads of which the kernel told, traced or not.
    pub threads_born: u64,
    debuggers: Debuggers,
    processes: HashMap<i32, Process>,
    own_clock: Option<Vvar>,
    pending: Vec<u8>,
    flushed: Instant,
    branches: Vec<Branch>,
    entries: Vec<BranchEntry>,
    area: Vec<u8>,
}

impl Recorder {
    pub(crate) fn new(
        opened: Opened,
        file: Output,
        (encoder, id): (Encoder, u64),
        budget: Budget,
        (depth, check): (usize, Option<u64>),
    ) -> Recorder {
        Recorder {
            opened,
            file,
            encoder,
            id,
            budget,
            check,
            limits: Limits { depth, instructions: (depth as u64 * 64).max(20_000) },
            seen: Seen::default(),
            went: LookAhead { depth, ..LookAhead::default() },
            failed: None,
            described: Vec::new(),
            threads_born: 0,
            debuggers: Debuggers::default(),
            processes: HashMap::new(),
            own_clock: Vvar::here(),
            pending: Vec::new(),
            flushed: Instant::now(),
            branches: Vec::new(),
            entries: Vec::new(),
            area: Vec::new(),
        }
    }

    /// A process that runs already: its mappings, as MMAP2 records would tell them.
    pub(crate) fn running(&mut self, pid: i32) {
        let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else { return };
        let process = self.processes.entry(pid).or_default();
        for line in text.split(|byte| *byte == b'\n').filter_map(qemu_branches::maps::parse_line) {
            if line.executable {
                let (prot, flags) = if line.writable { (7, 2) } else { (5, 2) };
                let len = line.end - line.start;
                process.known.code.map(&Mapped {
                    pid,
                    start: line.start,
                    len,
                    prot,
                    flags,
                    path: line.path,
                });
            }
        }
    }

    /// Takes what the kernel has told since the last time.
    fn drain(&mut self) {
        let (processes, seen, pending) = (&mut self.processes, &mut self.seen, &mut self.pending);
        for ring in &mut self.opened.rings {
            let filled = ring.filled();
            let (start, bytes) = (pending.len(), filled.len());
            if bytes == 0 {
                continue;
            }
            pending.extend_from_slice(filled.one);
            pending.extend_from_slice(filled.two);
            ring.free(bytes);
            self.threads_born += note(pending.get(start..).unwrap_or_default(), processes, seen);
        }
    }

    fn flush(&mut self) {
        self.flushed = Instant::now();
        if self.pending.is_empty() || self.failed.is_some() {
            return;
        }
        let written = self
            .file
            .records(&self.pending)
            .and_then(|()| self.file.finish_round())
            .and_then(|()| self.file.flush());
        self.pending.clear();
        if let Err(error) = written {
            self.failed = Some(error);
        }
    }

    /// Writes everything that is left.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        self.drain();
        self.flush();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Looks ahead; the result is where the thread will be then.
    fn look(&mut self, thread: &mut Stopped<'_>) -> Option<u64> {
        let kernel_registers = thread.registers().ok()?;
        thread.xstate(&mut self.area).ok()?;
        let start = registers(&kernel_registers);
        let process = self.processes.entry(thread.pid()).or_default();
        let engine = process.engine.get_or_insert_with(|| Box::new(Engine::new()));
        let check = self.check.is_some_and(|every| self.went.stops.is_multiple_of(every.max(1)));
        let mut memory = Memory {
            thread,
            known: &mut process.known,
            own_clock: &mut self.own_clock,
            shadow_stack: None,
        };
        let mut foreseen = Vec::new();
        let outcome = if check {
            engine.trace(
                &start,
                &self.area,
                &mut memory,
                &self.limits,
                &mut self.branches,
                &mut |ip| {
                    foreseen.push(ip.0);
                },
            )
        } else {
            engine.run(&start, &self.area, &mut memory, &self.limits, &mut self.branches)
        };
        self.went.stops += 1;
        self.went.instructions += outcome.instructions;
        let reason = match outcome.stop {
            Stop::Depth => None,
            Stop::SystemCall => Some("system call".to_owned()),
            Stop::Long => Some("few branches".to_owned()),
            Stop::Fault => Some("fault or trap".to_owned()),
            Stop::Memory { .. } => Some("unreadable memory".to_owned()),
            Stop::Unmodelled { mnemonic } => Some(format!("instruction {mnemonic}")),
        };
        match reason {
            None => self.went.full += 1,
            Some(reason) => *self.went.shorter.entry(reason).or_default() += 1,
        }
        if check {
            // The last instruction was not followed where the look-ahead ended before it.
            let whole = matches!(outcome.stop, Stop::Depth);
            if !whole {
                foreseen.pop();
            }
            let end = whole.then(|| engine.registers(&outcome));
            self.hold_against_steps(thread, &foreseen, end.as_ref(), outcome.clock_read);
        }
        Some(outcome.instruction_pointer.0)
    }

    /// Steps the thread along what was foreseen, and takes note of how it went.
    fn hold_against_steps(
        &mut self,
        thread: &mut Stopped<'_>,
        foreseen: &[u64],
        end: Option<&lookahead::Registers>,
        clock_read: bool,
    ) {
        let (checked, steps) = step_along(thread, foreseen, end);
        self.budget.stepped(thread.pid(), thread.cpu_time_ns());
        self.went.checked += 1;
        self.went.checked_instructions += steps;
        match checked {
            Checked::Same => {}
            Checked::Cut => self.went.cut += 1,
            Checked::Different { .. } if clock_read => self.went.clock_races += 1,
            Checked::Different { what } => {
                self.went.mismatches += 1;
                if self.described.len() < MOST_DESCRIBED {
                    self.described.push(what);
                }
            }
        }
    }

    fn sample(&mut self, thread: &Stopped<'_>, ip: u64) {
        self.entries.clear();
        self.entries.extend(self.branches.iter().rev().map(|branch| BranchEntry {
            from: branch.from,
            to: branch.to,
            flags: BranchFlags::default(),
        }));
        let time = thread.time_ns();
        let values = SampleValues {
            cpumode: CpuMode::User,
            id: SampleId {
                pid: Some(thread.pid()),
                tid: Some(thread.tid()),
                time: Some(time),
                id: Some(self.id),
                ..SampleId::default()
            },
            ip,
            period: thread.period(),
            stacks: StackValues { branches: &self.entries, ..StackValues::default() },
            ..SampleValues::default()
        };
        if let Err(error) = self.encoder.sample(&mut self.pending, &values) {
            let source = std::io::Error::other(error);
            self.failed.get_or_insert(Error::io(self.file.path(), "write a sample")(source));
            return;
        }
        let seen = &mut self.seen;
        seen.samples += 1;
        seen.branch_entries += self.entries.len() as u64;
        seen.first_time = if seen.samples == 1 { time } else { seen.first_time.min(time) };
        seen.last_time = seen.last_time.max(time);
    }
}

/// Takes note of mappings and build IDs in whole records; how many threads were made.
fn note(mut records: &[u8], processes: &mut HashMap<i32, Process>, seen: &mut Seen) -> u64 {
    let mut threads = 0;
    while let Some(size) =
        records.get(6..8).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes)
    {
        let (Some(record), true) = (records.get(..usize::from(size)), size >= 8) else { break };
        let found = record.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        if let (kind::MMAP2, Some(mapped)) = (found, Mapped::read(record)) {
            let process = processes.entry(mapped.pid).or_default();
            if process.known.code.map(&mapped)
                && let Some(engine) = &mut process.engine
            {
                engine.forget();
            }
            seen.build_ids.extend(mmap_build_id(record));
        }
        // Process and parent process are the same where a thread was made.
        threads += u64::from(found == kind::FORK && record.get(8..12) == record.get(12..16));
        records = records.get(usize::from(size)..).unwrap_or_default();
    }
    threads
}

impl Visitor for Recorder {
    fn stopped(&mut self, thread: &mut Stopped<'_>) -> Next {
        let began = Instant::now();
        let passed = self.budget.reached(thread.pid(), thread.cpu_time_ns(), thread.period());
        self.drain();
        let late = crate::sys::clock_ns(libc::CLOCK_MONOTONIC)
            .map_or(0, |now| now.saturating_sub(thread.time_ns()));
        if self.failed.is_none()
            && let Some(ip) = self.look(thread)
        {
            self.went.program_cpu += passed;
            if self.branches.is_empty() {
                self.went.empty += 1;
            } else {
                self.sample(thread, ip);
            }
        }
        let cost = Duration::from_nanos(late) + began.elapsed() + RESUME;
        self.budget.spent(with_cold_caches(cost));
        Next { period: self.budget.next_period() }
    }

    fn forked(&mut self, parent: i32, child: i32) {
        let known =
            self.processes.get(&parent).map(|process| process.known.forked()).unwrap_or_default();
        let may_trace = self.processes.get(&parent).and_then(|process| process.may_trace);
        self.processes.insert(child, Process { known, engine: None, may_trace });
    }

    fn may_trace(&mut self, pid: i32) -> bool {
        let process = self.processes.entry(pid).or_default();
        *process.may_trace.get_or_insert_with(|| self.debuggers.is_one(pid))
    }

    fn executed(&mut self, pid: i32) {
        // Records of the old program's mappings are taken first; those of the new one may lie among
        // them, in the rings of several CPUs, so that its mappings are read afresh.
        self.drain();
        let process = self.processes.entry(pid).or_default();
        process.known.clear();
        (process.engine, process.may_trace) = (None, None);
        self.running(pid);
    }

    fn ended(&mut self, pid: i32, _: stops::Ending) {
        self.processes.remove(&pid);
    }

    fn tick(&mut self) {
        if self.pending.len() >= FLUSH_BYTES || self.flushed.elapsed() >= FLUSH {
            self.drain();
            self.flush();
        }
    }
}
