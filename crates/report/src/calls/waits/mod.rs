//! How are the waits of threads and stacks told? The JSON schema stands in
//! `docs/reference/report-waits.md`.

mod books;
mod wakers;

pub use books::write_intervals;

use super::{VERSION, demangled, ledger as samples_ledger};
use crate::visible;
use books::{numbered, switches, unpaired};
use calltrees::switching::{
    Cause, Reason, StackRow, Switching, ThreadRow, Times, Waits, Wakers, cause, stack_rows,
};
use calltrees::{FunctionId, Recorded};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The waits of a recording, and how many rows of each kind to tell.
#[derive(Clone, Debug)]
pub struct Told<'r> {
    recorded: &'r Recorded,
    switching: &'r Switching,
    threads: Vec<&'r ThreadRow>,
    stacks: Vec<StackRow<'r>>,
    /// What the stacks waited for, and their times; those that waited longest first.
    causes: Vec<(Cause, Times)>,
    wakers: Option<Wakers>,
    totals: Times,
    limit: usize,
}

impl<'r> Told<'r> {
    /// Those of a recording with switches. `threads` says which threads to tell of, none of them
    /// where the stacks are those through a function. `wakers`: who ended the waits, if it was looked
    /// for. At most `limit` threads, stacks and pairs; 0: all.
    ///
    /// # Errors
    /// Where the recording has no records of switches.
    pub fn new(
        recorded: &'r Recorded,
        wakers: Option<Wakers>,
        threads: impl Fn(&ThreadRow) -> bool,
        limit: usize,
    ) -> Result<Told<'r>, String> {
        let switching = switching(recorded)?;
        if switching.threads.is_empty() {
            return Err(super::NOTHING_LEFT.to_owned());
        }
        let threads: Vec<_> = switching.threads.iter().filter(|thread| threads(thread)).collect();
        let stacks = stack_rows(recorded);
        let mut totals = Times::default();
        if threads.is_empty() {
            stacks.iter().for_each(|row| totals.add(&row.times));
        }
        threads.iter().for_each(|thread| totals.add(&thread.times));
        let causes = causes(recorded, &stacks);
        Ok(Told { recorded, switching, threads, stacks, causes, wakers, totals, limit })
    }

    fn top<'a, Row>(&self, rows: &'a [Row]) -> &'a [Row] {
        if self.limit == 0 { rows } else { rows.get(..self.limit).unwrap_or(rows) }
    }

    /// Percent of the waited time of all threads.
    fn share(&self, times: &Times) -> f64 {
        let whole = self.totals.waited_ns();
        if whole == 0 { 0.0 } else { 100.0 * times.waited_ns() as f64 / whole as f64 }
    }

    /// The columns of a row; `cpu` where the recording knows it.
    fn columns(&self, times: &Times, cpu: bool) -> String {
        let (wait, preempted) = (times.synchronization, times.preemption);
        let cpu = if cpu { milliseconds(times.cpu_ns) } else { "-".to_owned() };
        let ready = match self.switching.has_wakes {
            true => format!(" {:>12}", milliseconds(times.run_queue.total_ns)),
            false => String::new(),
        };
        format!(
            "{:>10} {:>8} {:>11}{ready} {:>13} {:>8} {cpu:>11} {:>5.1} %",
            milliseconds(wait.total_ns),
            wait.count,
            milliseconds(wait.longest_ns),
            milliseconds(preempted.total_ns),
            preempted.count,
            self.share(times)
        )
    }

    fn header(&self) -> String {
        let ready = if self.switching.has_wakes { "  runqueue ms" } else { "" };
        format!(
            "{:>10} {:>8} {:>11}{ready} {:>13} {:>8} {:>11}   share",
            "wait ms", "waits", "longest ms", "preempted ms", "times", "CPU ms"
        )
    }

    /// What was waited for, where stacks tell it.
    fn causes_text(&self, text: &mut String) {
        if !self.switching.has_stacks || self.causes.is_empty() {
            return;
        }
        let _ = writeln!(text, "{}  waited for", self.header());
        for (cause, times) in &self.causes {
            let columns = self.columns(times, false);
            let _ = writeln!(text, "{columns}  {}: {}", cause.name(), cause.meaning());
        }
        text.push('\n');
    }

    fn stack(&self, text: &mut String, row: &StackRow<'_>) {
        let columns = self.columns(&row.times, self.switching.has_clock);
        let frames = match row.functions {
            None => vec!["(no sample)".to_owned()],
            Some(functions) => functions.iter().map(|id| self.frame(*id)).collect(),
        };
        let indent = " ".repeat(columns.chars().count());
        // A walk that went astray, or a deep recursion, is one line.
        let runs = frames.chunk_by(|one, next| one == next);
        for (index, run) in runs.enumerate() {
            let frame = run.first().map(String::as_str).unwrap_or_default();
            let times =
                if run.len() > 1 { format!(", {} times", run.len()) } else { String::new() };
            let before = if index == 0 { &columns } else { &indent };
            let _ = writeln!(text, "{before}  {frame}{times}");
        }
    }

    fn frame(&self, id: FunctionId) -> String {
        let names = &self.recorded.names;
        let name = names.function(id).map(|function| demangled(&function.name)).unwrap_or_default();
        let library = names.library(id).map(calltrees::Library::short).unwrap_or_default();
        let name = visible(&name);
        match library {
            "[none]" => name.into_owned(),
            library if library.starts_with('[') => format!("{name} {library}"),
            library => format!("{name} ({})", visible(library)),
        }
    }

    fn more(&self, text: &mut String, all: usize, what: &str) {
        if self.limit != 0 && all > self.limit {
            let _ = writeln!(text, "… {} more {what} (--limit 0)", all - self.limit);
        }
    }

    /// How many switches count, and, where a filter left some out, of how many.
    fn switches(&self) -> String {
        let ledger = &self.switching.ledger;
        let all = ledger.outs.saturating_sub(ledger.outs_idle);
        let of = |thread: &ThreadRow| thread.voluntary.saturating_add(thread.preempted);
        let counted: u64 = self.switching.threads.iter().map(of).sum();
        let switches = crate::counted(all, "switch", "switches");
        if counted < all { format!("{counted} of {switches}") } else { switches }
    }

    /// The threads and stacks that waited longest.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{} in {} ms, {}\n",
            self.switches(),
            milliseconds(self.switching.span_ns),
            crate::counted(self.switching.threads.len() as u64, "thread", "threads")
        );
        if !self.threads.is_empty() {
            let _ = writeln!(text, "{}  thread", self.header());
            let _ = writeln!(text, "{}  all", self.columns(&self.totals, true));
            for thread in self.top(&self.threads) {
                let _ = writeln!(text, "{}  {}", self.columns(&thread.times, true), named(thread));
            }
            self.more(&mut text, self.threads.len(), "threads");
            text.push('\n');
        }
        self.causes_text(&mut text);
        if self.switching.has_stacks || self.switching.has_clock {
            let _ = writeln!(text, "{}  stack, innermost first", self.header());
            self.top(&self.stacks).iter().for_each(|row| self.stack(&mut text, row));
            self.more(&mut text, self.stacks.len(), "stacks");
        }
        if let Some(wakers) = &self.wakers {
            wakers::text(self, wakers, &mut text);
        }
        text
    }

    /// The same as JSON.
    pub fn json(&self) -> Value {
        let threads = self.top(&self.threads).iter().map(|thread| self.thread_json(thread));
        let stacks = self.top(&self.stacks).iter().map(|row| self.stack_json(row));
        json!({
            "schema": "planish-report-waits",
            "version": VERSION,
            "span_ns": self.switching.span_ns,
            "totals": self.times(&self.totals, true),
            "thread_count": self.threads.len(),
            "threads": threads.collect::<Vec<_>>(),
            "stack_count": self.stacks.len(),
            "stacks": stacks.collect::<Vec<_>>(),
            "causes": self.causes.iter().map(|row| self.cause_json(row)).collect::<Vec<_>>(),
            "wakers": self.wakers.as_ref().map(|wakers| wakers::json(self, wakers)),
            "has_stacks": self.switching.has_stacks,
            "has_clock": self.switching.has_clock,
            "has_wakes": self.switching.has_wakes,
            "switches": switches(&self.switching.ledger),
            "switching_ns": self.switching.switching_ns,
            "unreadable_records": self.switching.unreadable,
            "ledger": samples_ledger(self.recorded),
        })
    }

    fn cause_json(&self, (cause, times): &(Cause, Times)) -> Value {
        let mut object = self.times(times, false);
        object["cause"] = json!(cause.name());
        object
    }

    fn thread_json(&self, thread: &ThreadRow) -> Value {
        let mut object = self.times(&thread.times, true);
        object["pid"] = json!(thread.pid);
        object["tid"] = json!(thread.tid);
        object["name"] = json!(thread.name);
        object["voluntary_switches"] = json!(thread.voluntary);
        object["preempted_switches"] = json!(thread.preempted);
        object["page_faults"] =
            json!(Some(thread.page_faults).filter(|_| self.switching.has_page_faults));
        object
    }

    fn stack_json(&self, row: &StackRow<'_>) -> Value {
        let mut object = self.times(&row.times, self.switching.has_clock);
        object["frames"] = json!(row.functions.map(|all| self.frames_json(all)));
        object["cause"] = json!(row.functions.map(|all| self.cause(all).name()));
        object
    }

    fn frames_json(&self, functions: &[FunctionId]) -> Vec<Value> {
        let names = &self.recorded.names;
        let frame = |id: &FunctionId| {
            let linkage = names.function(*id).map(|function| function.name.as_str());
            json!({
                "function": demangled(linkage.unwrap_or_default()),
                "linkage_name": linkage,
                "library": names.library(*id).map(|library| &library.path),
            })
        };
        functions.iter().map(frame).collect()
    }

    fn cause(&self, functions: &[FunctionId]) -> Cause {
        cause(functions, &self.recorded.names)
    }

    fn times(&self, times: &Times, cpu: bool) -> Value {
        let waits = |waits: &Waits| {
            json!({
                "count": waits.count,
                "total_ns": waits.total_ns,
                "longest_ns": waits.longest_ns,
            })
        };
        json!({
            "cpu_ns": cpu.then_some(times.cpu_ns),
            "synchronization": waits(&times.synchronization),
            "preemption": waits(&times.preemption),
            "run_queue": self.switching.has_wakes.then(|| waits(&times.run_queue)),
            "share_percent": self.share(times),
        })
    }

    /// What was paired, and, as notes and warnings, what was not.
    pub fn notes(&self) -> Vec<String> {
        let (switching, ledger) = (self.switching, &self.switching.ledger);
        let mut notes = vec![format!(
            "paired {} of {} switch-outs with their switch-ins, {} of {} samples with their \
             switch-outs",
            ledger.outs_paired, ledger.outs, ledger.samples_paired, ledger.samples
        )];
        notes.extend(unpaired(ledger).into_iter().map(|(count, what)| numbered(count, what)));
        let without = ledger.waits_without_stack;
        if !switching.has_stacks {
            notes.push(
                "no stacks of waits: the recording has no samples of context switches with \
                 callers; record with --switch-events -g, as root or with CAP_PERFMON"
                    .to_owned(),
            );
        } else if without > 0 {
            notes.push(format!("{without} waits have no sample, so no stack"));
        }
        if !switching.has_wakes && ledger.outs > 0 {
            notes.push(
                "waits include the time in the run queue: the recording has no wake-ups; record \
                 with --switch-events as root, where tracefs is mounted"
                    .to_owned(),
            );
        }
        if let Some(wakers) = self.wakers.as_ref().filter(|wakers| wakers.without_waker > 0) {
            let waits = crate::counted(wakers.without_waker, "wait", "waits");
            notes.push(format!("{waits} ended by a wake-up that is not among the samples shown"));
        }
        // Half a percent is what rounding and the ends of the recording make.
        if switching.switching_ns * 200 > self.totals.cpu_ns {
            notes.push(format!(
                "CPU time is counted between the switches; the scheduler counts the switches too, \
                 here {} ms or more",
                milliseconds(switching.switching_ns)
            ));
        }
        if switching.unreadable > 0 {
            let unreadable = switching.unreadable;
            notes.push(format!("{unreadable} records could not be read or have no thread or time"));
        }
        notes.extend(super::losses(self.recorded));
        let waits = self.recorded.events.iter().position(|event| event.off_cpu.is_some());
        let waits = waits.unwrap_or_default() as u32;
        let reasons = Reason::ALL.iter().zip(waits..);
        let hidden = reasons
            .flat_map(|(_, event)| super::libraries::remarks(self.recorded, event, "waited time"));
        notes.extend(hidden);
        notes
    }
}

/// What a recording's switches say.
///
/// # Errors
/// Where it has no records of them.
pub(super) fn switching(recorded: &Recorded) -> Result<&Switching, String> {
    let found = recorded.switching.as_ref();
    found.filter(|switching| switching.ledger.outs + switching.ledger.ins > 0).ok_or_else(|| {
        let traced = recorded.events.iter().any(|event| event.name == "sched:sched_switch");
        let instead = match traced {
            true => " (samples of sched:sched_switch are not read as such)",
            false => "",
        };
        format!(
            "the recording holds no records of context switches{instead}; make one that does with \
             `planish record --switch-events -g -- COMMAND`"
        )
    })
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

/// The times of stacks by what they waited for.
fn causes(recorded: &Recorded, stacks: &[StackRow<'_>]) -> Vec<(Cause, Times)> {
    let mut sums: BTreeMap<Cause, Times> = BTreeMap::new();
    for row in stacks.iter().filter(|row| row.times.synchronization.count > 0) {
        let found = row.functions.map_or(Cause::Unknown, |all| cause(all, &recorded.names));
        // Who was preempted waited for nothing.
        let times = Times { preemption: Waits::default(), cpu_ns: 0, ..row.times };
        sums.entry(found).or_default().add(&times);
    }
    let mut rows: Vec<(Cause, Times)> = sums.into_iter().collect();
    rows.sort_by_key(|(cause, times)| (std::cmp::Reverse(times.waited_ns()), *cause));
    rows
}

/// A thread's name and numbers.
pub(super) fn named(thread: &ThreadRow) -> String {
    match thread.pid {
        Some(pid) => format!("{} {pid}/{}", visible(&thread.name), thread.tid),
        None => format!("{} {}", visible(&thread.name), thread.tid),
    }
}
