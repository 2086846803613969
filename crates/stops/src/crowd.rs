//! Threads that come faster than they can be afforded: those beyond an allowance are let be.
//!
//! To trace a thread from its birth to its end takes three stops and a clock, which is dear where
//! it runs for less than that. A thread that makes too many is told the kernel to make untraced
//! ones; those that still live two sweeps later are taken then, without a stop. What makes them is
//! listened to again once the allowance is whole.

use crate::proc;
use crate::sys;
use crate::tracer::{Thread, Tracer, fine};
use crate::visit::{Ending, Visitor};
use std::collections::HashSet;

const SECOND_NS: f64 = 1e9;

/// How many threads may be born traced: so many at once, and as many again in a second.
#[derive(Debug)]
pub(crate) struct Allowance {
    per_second: Option<f64>,
    left: f64,
    at_ns: u64,
}

impl Allowance {
    pub(crate) fn new(per_second: Option<u32>) -> Allowance {
        let per_second = per_second.map(f64::from);
        Allowance { per_second, left: per_second.unwrap_or_default(), at_ns: sys::now_ns() }
    }

    /// What is left; none where there is no limit.
    fn refill(&mut self, now_ns: u64) -> Option<f64> {
        let most = self.per_second?;
        let passed = now_ns.saturating_sub(self.at_ns) as f64 / SECOND_NS;
        self.left = (self.left + passed * most).min(most);
        self.at_ns = now_ns;
        Some(self.left)
    }

    fn take(&mut self, now_ns: u64) -> bool {
        match self.refill(now_ns) {
            None => true,
            Some(left) if left >= 1.0 => {
                self.left -= 1.0;
                true
            }
            Some(_) => false,
        }
    }

    fn is_spent(&mut self, now_ns: u64) -> bool {
        self.refill(now_ns).is_some_and(|left| left < 1.0)
    }

    /// Whether nothing of it is used.
    pub(crate) fn is_full(&mut self, now_ns: u64) -> bool {
        let most = self.per_second;
        self.refill(now_ns).zip(most).is_none_or(|(left, most)| left >= most)
    }
}

impl Tracer {
    /// A new thread that has stopped for the first time is let be where too many came; true if it
    /// was. A process's first thread stays, and has its own new ones traced, whatever its
    /// maker's were.
    pub(crate) fn is_too_many(&mut self, tid: i32, visitor: &mut dyn Visitor) -> bool {
        let Some(pid) = self.threads.get(&tid).map(|thread| thread.pid) else { return true };
        if pid == tid {
            if self.counts.muted > 0 {
                self.listen_to_births(tid);
            }
            return false;
        }
        if self.allowance.take(sys::now_ns()) {
            return false;
        }
        fine(sys::detach(tid, 0));
        self.counts.let_be += 1;
        self.counts.threads = self.counts.threads.saturating_sub(1);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.let_be.get_or_insert_default();
        }
        self.forget(tid, Ending::LetGo, &mut Some(visitor));
        true
    }

    /// Has a stopped thread make untraced threads where the allowance is spent.
    pub(crate) fn mute_where_crowded(&mut self, tid: i32) {
        let follow = self.follow(false);
        if !self.allowance.is_spent(sys::now_ns()) {
            return;
        }
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        if !thread.muted && fine(sys::set_follow(tid, follow)).is_some() {
            thread.muted = true;
            self.counts.muted += 1;
            if let Some(process) = self.processes.get_mut(&thread.pid) {
                process.let_be.get_or_insert_default();
            }
        }
    }

    /// Has the new threads of a stopped one traced.
    pub(crate) fn listen_to_births(&mut self, tid: i32) {
        if fine(sys::set_follow(tid, self.follow(true))).is_some()
            && let Some(thread) = self.threads.get_mut(&tid)
        {
            thread.muted = false;
        }
    }

    /// Takes threads that were let be and were there at the last sweep already.
    pub(crate) fn find_survivors(&mut self) {
        let crowded: Vec<i32> = self
            .processes
            .iter()
            .filter(|(_, process)| process.let_be.is_some())
            .map(|(pid, _)| *pid)
            .collect();
        for pid in crowded {
            let there = proc::threads(pid).unwrap_or_default();
            let unknown: HashSet<i32> =
                there.into_iter().filter(|tid| !self.threads.contains_key(tid)).collect();
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            let before = process.let_be.replace(unknown.clone()).unwrap_or_default();
            for tid in unknown.intersection(&before) {
                // One that cannot be had is let be for good.
                let _ = self.take(pid, *tid);
            }
        }
    }
}

impl Thread {
    /// Lets the thread go on, with a signal delivered (0: none).
    pub(crate) fn go_on(&self, tid: i32, signal: i32) {
        let resume = if self.watched > 0 { sys::resume_to_call } else { sys::resume };
        fine(resume(tid, signal));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_is_for_so_many_at_once_and_in_a_second() {
        let mut allowance = Allowance::new(Some(50));
        let now = allowance.at_ns;
        assert_eq!((0..200).filter(|_| allowance.take(now)).count(), 50);
        assert!(allowance.is_spent(now) && !allowance.is_full(now));
        let later = now + 500_000_000;
        assert_eq!((0..200).filter(|_| allowance.take(later)).count(), 25);
        assert!(allowance.is_full(later + 60_000_000_000));
        assert_eq!((0..200).filter(|_| allowance.take(later + 60_000_000_000)).count(), 50);
        assert!((0..1000).all(|_| Allowance::new(None).take(now)));
    }
}
