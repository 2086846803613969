//! What the threads of a recording did over time, and how many ran at once.

use super::{Reason, Switching};

/// A thread's time in one part of the recording, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct States {
    /// On a CPU.
    pub running: u64,
    /// Off it, waiting for something.
    pub waiting: u64,
    /// Off it, though able to run.
    pub preempted: u64,
    /// Off it, after what it waited for had come.
    pub run_queue: u64,
}

impl States {
    /// Adds others.
    pub fn add(&mut self, other: States) {
        self.running = self.running.saturating_add(other.running);
        self.waiting = self.waiting.saturating_add(other.waiting);
        self.preempted = self.preempted.saturating_add(other.preempted);
        self.run_queue = self.run_queue.saturating_add(other.run_queue);
    }
}

/// A recording cut into parts of equal length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// When the first begins, in ns of the recording's clock.
    pub begin_ns: u64,
    /// How long each is, in ns; the last ends with the recording or after it.
    pub part_ns: u64,
    /// For each thread of [`Switching::threads`] what it did in each part.
    pub threads: Vec<Vec<States>>,
    /// For how long so many threads ran at once: none, one, two, …, in ns.
    pub at_once_ns: Vec<u64>,
}

/// What a thread did from one time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from: u64,
    to: u64,
    /// Why it was off its CPU; none: it ran.
    off: Option<Reason>,
}

/// What each thread did, in so many parts of the recording.
pub fn parts(switching: &Switching, count: usize) -> Parts {
    let of_threads: Vec<Vec<Stretch>> =
        (0..switching.threads.len()).map(|thread| stretches(switching, thread)).collect();
    let all = || of_threads.iter().flatten();
    let begin_ns = all().map(|stretch| stretch.from).min().unwrap_or(0);
    let end_ns = all().map(|stretch| stretch.to).max().unwrap_or(0);
    let part_ns = (end_ns - begin_ns).div_ceil(count.max(1) as u64).max(1);
    let place = |stretches: &Vec<Stretch>| {
        let mut states = vec![States::default(); count.max(1)];
        stretches.iter().for_each(|stretch| spread(stretch, begin_ns, part_ns, &mut states));
        states
    };
    let threads = of_threads.iter().map(place).collect();
    Parts { begin_ns, part_ns, threads, at_once_ns: at_once(all(), begin_ns, end_ns) }
}

/// What a thread did, in order: what is recorded of its waits, and runs between them.
fn stretches(switching: &Switching, thread: usize) -> Vec<Stretch> {
    let Some(row) = switching.threads.get(thread) else { return Vec::new() };
    let Some((first, last)) = row.alive else { return Vec::new() };
    let begin = switching.intervals.partition_point(|interval| interval.wait.tid < row.tid);
    let own = switching.intervals.get(begin..).unwrap_or_default().iter();
    let own = own.map(|interval| interval.wait).take_while(|wait| wait.tid == row.tid);
    // Another thread may have had the number before, or have it after.
    let own = own.filter(|wait| wait.start_ns >= first && wait.end_ns <= last);
    let mut all = Vec::new();
    let mut ran_since = first;
    for wait in own {
        if wait.start_ns > ran_since {
            all.push(Stretch { from: ran_since, to: wait.start_ns, off: None });
        }
        let mut from = wait.start_ns;
        for (reason, ns) in wait.parts() {
            all.push(Stretch { from, to: from.saturating_add(ns), off: Some(reason) });
            from = from.saturating_add(ns);
        }
        ran_since = wait.end_ns;
    }
    // Off at the end, it comes back no more.
    if row.ran_until.is_some_and(|until| until > ran_since) {
        all.push(Stretch { from: ran_since, to: row.ran_until.unwrap_or(last), off: None });
    }
    all
}

/// Adds a stretch to the parts that it lies in.
fn spread(stretch: &Stretch, begin_ns: u64, part_ns: u64, states: &mut [States]) {
    let mut at = stretch.from;
    while at < stretch.to {
        let part = (at - begin_ns) / part_ns;
        let until = stretch.to.min(begin_ns.saturating_add((part + 1).saturating_mul(part_ns)));
        let Some(state) = states.get_mut(part as usize) else { return };
        let time = match stretch.off {
            None => &mut state.running,
            Some(Reason::Synchronization) => &mut state.waiting,
            Some(Reason::Preemption) => &mut state.preempted,
            Some(Reason::RunQueue) => &mut state.run_queue,
        };
        *time += until - at;
        at = until;
    }
}

/// When how many more run, or fewer, in order.
fn changes<'s>(all: impl Iterator<Item = &'s Stretch>) -> Vec<(u64, i64)> {
    let runs = all.filter(|stretch| stretch.off.is_none() && stretch.from < stretch.to);
    let mut changes: Vec<(u64, i64)> =
        runs.flat_map(|stretch| [(stretch.from, 1), (stretch.to, -1)]).collect();
    changes.sort_unstable();
    changes
}

/// The same of all threads of a recording.
pub(super) fn all_changes(switching: &Switching) -> Vec<(u64, i64)> {
    let all = (0..switching.threads.len()).flat_map(|thread| stretches(switching, thread));
    changes(all.collect::<Vec<_>>().iter())
}

/// For how long so many ran at once.
fn at_once<'s>(all: impl Iterator<Item = &'s Stretch>, begin_ns: u64, end_ns: u64) -> Vec<u64> {
    let changes = changes(all);
    let mut sums: Vec<u64> = Vec::new();
    let (mut running, mut since) = (0i64, begin_ns);
    for (time, change) in changes.into_iter().chain([(end_ns, 0)]) {
        let place = usize::try_from(running).unwrap_or(0);
        if sums.len() <= place {
            sums.resize(place + 1, 0);
        }
        if let Some(sum) = sums.get_mut(place) {
            *sum += time - since;
        }
        (running, since) = (running + change, time);
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switching::{Interval, ThreadRow, Times, Wait};

    fn thread(tid: i32, alive: (u64, u64), ran_until: u64) -> ThreadRow {
        ThreadRow {
            pid: Some(1),
            tid,
            name: String::new(),
            voluntary: 0,
            preempted: 0,
            times: Times::default(),
            page_faults: 0,
            alive: Some(alive),
            ran_until: Some(ran_until),
        }
    }

    fn wait(tid: i32, start_ns: u64, end_ns: u64, reason: Reason) -> Interval {
        let wait = Wait { tid, reason, sample_ns: None, start_ns, woken: None, end_ns };
        Interval { wait, pid: 1, left_cpu: None, came_cpu: None }
    }

    #[test]
    fn parts_hold_all_the_time_of_a_thread_and_the_sums_agree() {
        let switching = Switching {
            threads: vec![thread(5, (100, 200), 200), thread(6, (150, 180), 180)],
            intervals: vec![
                wait(5, 120, 160, Reason::Synchronization),
                wait(5, 165, 170, Reason::Preemption),
                wait(6, 150, 155, Reason::Synchronization),
            ],
            ..Switching::default()
        };
        let found = parts(&switching, 4);
        assert_eq!((found.begin_ns, found.part_ns), (100, 25));
        let state = |running, waiting, preempted| States {
            running,
            waiting,
            preempted,
            ..States::default()
        };
        let first = [state(20, 5, 0), state(0, 25, 0), state(10, 10, 5), state(25, 0, 0)];
        assert_eq!(found.threads[0], first);
        assert_eq!(found.threads[1][2..], [state(20, 5, 0), state(5, 0, 0)]);
        // Nobody from 120 to 155, both from 160 to 165 and from 170 to 180.
        assert_eq!(found.at_once_ns, [35, 50, 15]);
        let ran: u64 = found.threads.iter().flatten().map(|states| states.running).sum();
        let weighted: u64 = (0..).zip(&found.at_once_ns).map(|(threads, ns)| threads * ns).sum();
        assert_eq!(ran, weighted);
        // Times at the very end of what a number holds end too.
        let late = (u64::MAX - 9, u64::MAX);
        let late = Switching { threads: vec![thread(7, late, late.1)], ..Switching::default() };
        let ran: u64 = parts(&late, 4).threads.iter().flatten().map(|part| part.running).sum();
        assert_eq!(ran, 9);
        // Nothing at all is nothing.
        assert_eq!(parts(&Switching::default(), 3).at_once_ns, [0]);
    }
}
