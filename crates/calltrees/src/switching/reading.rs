//! A recording's switches, in time order, to the waits of its threads.

use super::{Ended, Interval, Pairing, Switching, ThreadRow, Wakes, Woken};
use crate::event;
use perfdata::{
    ChainSample, CpuMode, EventAttr, Input, OrderOptions, Record, Sample, SampleId, sample_type,
};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A switch takes a few microseconds, more with sampling and in virtual machines.
const LONGEST_SWITCH_NS: u64 = 20_000;

/// The waits of a recording that has switches; of samples and switches for which `keep` is false
/// nothing is counted but the books.
///
/// # Errors
/// Where the recording cannot be read.
pub(crate) fn read(
    input: &Input,
    wakes: &Wakes,
    keep: &(dyn Fn(&ChainSample<'_>) -> bool + Sync),
) -> Result<Option<Switching>, perfdata::Error> {
    if !input.attrs().iter().any(event::records_switches) {
        return Ok(None);
    }
    let mut reading = Reading {
        attrs: input.attrs(),
        wakes,
        keep,
        pairing: Pairing::default(),
        threads: FxHashMap::default(),
        ended: Vec::new(),
        went: FxHashMap::default(),
        left: FxHashMap::default(),
        span: None,
        out: Switching::default(),
    };
    let mut ordered = input.ordered(OrderOptions::default())?;
    while let Some(record) = ordered.next() {
        match record?.parse() {
            Ok((record, id)) => reading.record(&record, &id),
            Err(_) => reading.out.unreadable += 1,
        }
    }
    Ok(Some(reading.finish()))
}

struct Reading<'i> {
    attrs: &'i [EventAttr],
    wakes: &'i Wakes,
    keep: &'i (dyn Fn(&ChainSample<'_>) -> bool + Sync),
    pairing: Pairing,
    threads: FxHashMap<i32, ThreadRow>,
    /// Threads whose numbers may be another's by now.
    ended: Vec<ThreadRow>,
    /// The processor that a thread went off.
    went: FxHashMap<i32, u32>,
    /// When the last thread went off a CPU that no other has come onto since.
    left: FxHashMap<u32, u64>,
    span: Option<(u64, u64)>,
    out: Switching,
}

impl Reading<'_> {
    fn record(&mut self, record: &Record<'_>, id: &SampleId) {
        match record {
            Record::Fork(task) => {
                let name = self.threads.get(&task.parent_tid).map(|thread| thread.name.clone());
                self.pairing.begins(task.tid);
                self.ended.extend(self.threads.remove(&task.tid));
                let thread = self.thread(task.tid, Some(task.pid));
                thread.name = name.unwrap_or_default();
            }
            Record::Comm { pid, tid, exec, name } => {
                if *exec && let Some(time) = id.time {
                    self.pairing.runs(*tid, time);
                }
                self.thread(*tid, Some(*pid)).name = String::from_utf8_lossy(name).into_owned();
            }
            Record::Exit(task) => {
                let ended = self.pairing.exit(task.tid, task.time);
                self.ended(task.tid, task.time, ended, None);
            }
            Record::Switch { out, preempt } | Record::SwitchCpuWide { out, preempt, .. } => {
                self.switch(id, *out, *preempt);
            }
            Record::Sample(sample) => self.sample(sample),
            _ => {}
        }
    }

    fn thread(&mut self, tid: i32, pid: Option<i32>) -> &mut ThreadRow {
        let new = || ThreadRow {
            pid,
            tid,
            name: String::new(),
            voluntary: 0,
            preempted: 0,
            times: super::Times::default(),
            page_faults: 0,
            alive: None,
            ran_until: None,
        };
        let thread = self.threads.entry(tid).or_insert_with(new);
        thread.pid = thread.pid.or(pid);
        thread
    }

    /// Whether what a thread does at a time counts.
    fn counts(&mut self, tid: i32, time: u64) -> bool {
        let pid = self.threads.get(&tid).and_then(|thread| thread.pid).unwrap_or(-1);
        (self.keep)(&ChainSample {
            ip: None,
            pid,
            tid,
            time: Some(time),
            attr_index: 0,
            cpumode: CpuMode::Unknown,
            cpu: None,
            period: None,
            callchain: None,
            cgroup: None,
        })
    }

    fn switch(&mut self, id: &SampleId, out: bool, preempt: bool) {
        let (Some(tid), Some(time)) = (id.tid, id.time) else {
            self.out.unreadable += 1;
            return;
        };
        self.between(id.cpu, time, out);
        // The idle tasks are 0, and threads that gave their number back -1.
        if tid > 0 {
            self.thread(tid, id.pid);
        }
        let counts = self.counts(tid, time);
        if counts {
            let (first, last) = self.span.unwrap_or((time, time));
            self.span = Some((first.min(time), last.max(time)));
        }
        if tid > 0 {
            let thread = self.thread(tid, id.pid);
            thread.voluntary += u64::from(out && !preempt && counts);
            thread.preempted += u64::from(out && preempt && counts);
        }
        let ended = if out {
            self.pairing.switch_out(tid, time, preempt)
        } else {
            self.pairing.switch_in(tid, time)
        };
        self.ended(tid, time, ended, id.cpu);
        if let Some(cpu) = id.cpu.filter(|_| out && tid > 0) {
            self.went.insert(tid, cpu);
        }
    }

    /// Sums up the time of switches from one recorded thread to the next on a CPU. The records lie
    /// on both sides of it.
    fn between(&mut self, cpu: Option<u32>, time: u64, out: bool) {
        let Some(cpu) = cpu else { return };
        if out {
            self.left.insert(cpu, time);
        } else if let Some(since) = self.left.remove(&cpu) {
            // Longer than that the CPU was idle, or ran threads that are not recorded.
            let took = time.saturating_sub(since);
            self.out.switching_ns += if took <= LONGEST_SWITCH_NS { took } else { 0 };
        }
    }

    fn ended(&mut self, tid: i32, time: u64, ended: Ended, cpu: Option<u32>) {
        match ended {
            Ended::Nothing => {}
            Ended::Run(time_ns) => {
                if self.counts(tid, time.saturating_sub(time_ns)) {
                    let thread = self.thread(tid, None);
                    thread.times.cpu_ns = thread.times.cpu_ns.saturating_add(time_ns);
                    thread.lived(time.saturating_sub(time_ns), time);
                    thread.ran_until = Some(time);
                }
            }
            Ended::Wait(wait) => {
                // The sample stands for the wait, where there is one.
                if !self.counts(tid, wait.sample_ns.unwrap_or(wait.start_ns)) {
                    return;
                }
                let thread = self.thread(tid, None);
                for (reason, ns) in wait.parts() {
                    let one = super::Waits { count: 1, total_ns: ns, longest_ns: ns };
                    thread.times.of(reason).add(one);
                }
                thread.lived(wait.start_ns, wait.end_ns);
                let pid = thread.pid.unwrap_or(-1);
                let left_cpu = self.went.get(&tid).copied();
                self.out.intervals.push(Interval { wait, pid, left_cpu, came_cpu: cpu });
            }
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let Some(attr) = self.attrs.get(sample.attr_index as usize) else { return };
        let (Some(tid), Some(time)) = (sample.tid, sample.time) else { return };
        if event::is_switches(attr) && sample.callchain.is_some() {
            self.pairing.sample(tid, time);
        }
        if let Some(woken) = self.wakes.woken(sample) {
            self.pairing.wake(woken, Woken { time_ns: time, by: tid });
        }
        if event::is_page_faults(attr) && self.counts(tid, time) {
            let faults = sample.period.unwrap_or(1);
            let thread = self.thread(tid, sample.pid);
            thread.page_faults = thread.page_faults.saturating_add(faults);
        }
    }

    fn finish(mut self) -> Switching {
        let switched = |thread: &ThreadRow| {
            let ran = thread.times != super::Times::default() || thread.page_faults > 0;
            ran || thread.voluntary + thread.preempted > 0
        };
        let mut out = self.out;
        out.threads =
            self.ended.into_iter().chain(self.threads.into_values()).filter(switched).collect();
        out.threads
            .sort_by_key(|thread| (Reverse(thread.times.waited_ns()), thread.tid, thread.pid));
        out.intervals.sort_by_key(|interval| (interval.wait.tid, interval.wait.start_ns));
        out.ledger = self.pairing.finish();
        out.span_ns = self.span.take().map_or(0, |(first, last)| last - first);
        let chains = |is_it: fn(&EventAttr) -> bool| {
            let has = |attr: &EventAttr| attr.sample_type & sample_type::CALLCHAIN != 0;
            self.attrs.iter().any(|attr| is_it(attr) && has(attr))
        };
        out.has_stacks = chains(event::is_switches);
        out.has_clock = chains(event::is_clock);
        out.has_wakes = out.ledger.wakes > 0;
        let wakes = (0..).zip(self.attrs).filter(|(index, _)| self.wakes.is(*index));
        out.has_wakers = out.has_wakes
            && wakes.into_iter().any(|(_, attr)| attr.sample_type & sample_type::CALLCHAIN != 0);
        out.has_page_faults = self.attrs.iter().any(event::is_page_faults);
        out
    }
}
