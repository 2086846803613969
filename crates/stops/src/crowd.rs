//! Threads that come faster than they can be afforded: those beyond an allowance are let be.
//!
//! To trace a thread from its birth to its end takes three stops and a clock, which is dear where
//! it runs for less than that. A thread that makes too many is told the kernel to make untraced
//! ones; those that still live two sweeps later are taken then, without a stop. What makes them is
//! listened to again once the allowance is whole.

use crate::proc;
use crate::sys::{self, fine};
use crate::tracer::Tracer;
use crate::visit::{Ending, Visitor};
use std::collections::HashSet;

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
