//! How is told what threads did over time? The JSON schema stands in `docs/reference/report.md`.

use super::{VERSION, ledger};
use calltrees::Recorded;
use calltrees::switching::{Parts, States, Switching, ThreadRow, parts};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What the threads of a recording did, in parts of equal length.
#[derive(Debug)]
pub struct Timeline<'r> {
    recorded: &'r Recorded,
    switching: &'r Switching,
    parts: Parts,
    /// Which threads are told, by number.
    threads: Vec<usize>,
    limit: usize,
}

/// A thread that did one thing for most of a part.
const RUNNING: char = '#';
const WAITING: char = '.';
const PREEMPTED: char = 'p';
const READY: char = 'r';
const ABSENT: char = ' ';

impl<'r> Timeline<'r> {
    /// That of a recording with switches, in so many parts. `is_told` says which threads to tell of, at
    /// most `limit`; 0: all.
    ///
    /// # Errors
    /// Where the recording has no records of switches.
    pub fn new(
        recorded: &'r Recorded,
        is_told: impl Fn(&ThreadRow) -> bool,
        (count, limit): (usize, usize),
    ) -> Result<Timeline<'r>, String> {
        let switching = super::waits::switching(recorded)?;
        if switching.threads.is_empty() {
            return Err(super::NOTHING_LEFT.to_owned());
        }
        let told = (0..).zip(&switching.threads).filter(|(_, thread)| is_told(thread));
        let mut threads: Vec<usize> = told.map(|(number, _)| number).collect();
        // Those that ran most, as one looks for them.
        let ran =
            |number: &usize| switching.threads.get(*number).map_or(0, |thread| thread.times.cpu_ns);
        threads.sort_by_key(|number| (std::cmp::Reverse(ran(number)), *number));
        let parts = parts(switching, count);
        Ok(Timeline { recorded, switching, parts, threads, limit })
    }

    fn top(&self) -> &[usize] {
        let all = self.threads.as_slice();
        if self.limit == 0 { all } else { all.get(..self.limit).unwrap_or(all) }
    }

    fn states(&self, thread: usize) -> &[States] {
        self.parts.threads.get(thread).map(Vec::as_slice).unwrap_or_default()
    }

    /// Of all threads that are told.
    fn sums(&self) -> Vec<States> {
        let mut sums = vec![States::default(); self.states(0).len()];
        for thread in &self.threads {
            let both = sums.iter_mut().zip(self.states(*thread));
            both.for_each(|(sum, states)| sum.add(*states));
        }
        sums
    }

    /// A line a thread, a letter a part; below it how many ran at once.
    pub fn text(&self) -> String {
        let sums = self.sums();
        let (count, length) = (sums.len(), self.parts.part_ns);
        let ready = match self.switching.has_wakes {
            true => format!("{READY} mostly woken but not yet on a CPU; "),
            false => String::new(),
        };
        let mut text = format!(
            "{} of {} each: {RUNNING} mostly ran, {WAITING} mostly waited, {PREEMPTED} \
             mostly stood in line for a CPU; {ready}blank: not there\n\n",
            crate::counted(count as u64, "part", "parts"),
            crate::duration_ns(length as f64)
        );
        // Writing to a string cannot fail.
        for number in self.top() {
            let Some(thread) = self.switching.threads.get(*number) else { continue };
            let letters: String = self.states(*number).iter().map(letter).collect();
            let _ = writeln!(
                text,
                "|{letters}| {:>10}  {}",
                crate::duration_ns(thread.times.cpu_ns as f64),
                super::waits::named(thread)
            );
        }
        let left_out = self.threads.len() - self.top().len();
        if left_out > 0 {
            let threads = crate::counted(left_out as u64, "more thread", "more threads");
            let _ = writeln!(text, "… {threads} (--limit 0)");
        }
        let mean = |sum: &States| sum.running as f64 / length as f64;
        let digits: String = sums.iter().map(|sum| digit(mean(sum))).collect();
        let _ = writeln!(text, "|{digits}| threads that ran at once, on average (+: 10 or more)\n");
        let whole: u64 = self.parts.at_once_ns.iter().sum();
        let _ = writeln!(text, "{:>8}{:>13}  threads that ran at once", "of all", "time");
        for (threads, ns) in self.parts.at_once_ns.iter().enumerate() {
            let share = 100.0 * *ns as f64 / whole.max(1) as f64;
            let time = crate::duration_ns(*ns as f64);
            let _ = writeln!(text, "{share:>6.2} %{time:>13}  {threads}");
        }
        text
    }

    /// The same as JSON, in ns.
    pub fn json(&self) -> Value {
        let each = |states: &[States]| {
            let of = |time: fn(&States) -> u64| states.iter().map(time).collect::<Vec<u64>>();
            json!({
                "running_ns": of(|states| states.running),
                "waiting_ns": of(|states| states.waiting),
                "preempted_ns": of(|states| states.preempted),
                "run_queue_ns": self.switching.has_wakes.then(|| of(|states| states.run_queue)),
            })
        };
        let thread = |number: &usize| {
            let thread = self.switching.threads.get(*number)?;
            let mut object = each(self.states(*number));
            object["pid"] = json!(thread.pid);
            object["tid"] = json!(thread.tid);
            object["name"] = json!(thread.name);
            Some(object)
        };
        json!({
            "schema": "planish-report-timeline",
            "version": VERSION,
            "span_ns": self.switching.span_ns,
            "begin_ns": self.parts.begin_ns,
            "part_ns": self.parts.part_ns,
            "all": each(&self.sums()),
            "thread_count": self.threads.len(),
            "threads": self.top().iter().filter_map(thread).collect::<Vec<_>>(),
            "at_once_ns": self.parts.at_once_ns,
            "ledger": ledger(self.recorded),
        })
    }
}

/// What a thread did for most of a part.
fn letter(states: &States) -> char {
    let States { running, waiting, preempted, run_queue } = *states;
    match running.max(waiting).max(preempted).max(run_queue) {
        0 => ABSENT,
        most if most == running => RUNNING,
        most if most == preempted => PREEMPTED,
        most if most == run_queue => READY,
        _ => WAITING,
    }
}

fn digit(mean: f64) -> char {
    let rounded = mean.round() as u32;
    char::from_digit(rounded, 10).unwrap_or('+')
}
