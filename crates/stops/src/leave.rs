//! Letting everything go: no clock runs any more, no signal of ours is left behind, no system call
//! fails.

use crate::counts::{LeftAlone, add};
use crate::handle::{restart_call, stops_process};
use crate::sys::{self, AT_CALL, Change, EVENT_STOP, WaitFor, fine};
use crate::thread::{Queued, State, Thread};
use crate::tracer::Tracer;
use crate::visit::{Ending, Visitor};

/// How long to wait for threads that sleep in the kernel and do not stop, in nanoseconds.
const PATIENCE_NS: u64 = 2_000_000_000;
/// How long to look for children of threads that were killed, in nanoseconds.
const ORPHANS_NS: u64 = 5_000_000;

impl Tracer {
    /// Detaches all threads. A thread has to be stopped for that, so each is interrupted; one in a
    /// system call begins it again.
    pub(crate) fn let_go(&mut self, visitor: &mut Option<&mut dyn Visitor>) {
        self.threads.values_mut().for_each(Thread::close_clock);
        for (&tid, thread) in &self.threads {
            if !matches!(thread.state, State::Starting) {
                // One that stands already, or is gone, reports that.
                fine(sys::interrupt(tid));
            }
        }
        self.wait_until_gone(sys::now_ns() + PATIENCE_NS, visitor);
        if self.orphans {
            self.orphans = false;
            self.wait_until_gone(sys::now_ns() + ORPHANS_NS, visitor);
        }
        let left: Vec<i32> = self.threads.keys().copied().collect();
        for tid in left {
            add(&mut self.counts.left_alone, LeftAlone::Busy);
            self.forget(tid, Ending::LetGo, visitor);
        }
    }

    fn wait_until_gone(&mut self, deadline_ns: u64, visitor: &mut Option<&mut dyn Visitor>) {
        let orphans = self.threads.is_empty();
        while (orphans || !self.threads.is_empty()) && sys::now_ns() < deadline_ns {
            let peek = !self.is_careful();
            match sys::wait(WaitFor { peek, no_hang: true, ..WaitFor::default() }) {
                Ok(Some((tid, Change::Stopped(code)))) => self.leave(tid, code, visitor),
                Ok(Some((tid, Change::Exited(code)))) => {
                    self.exited(tid, Ending::Exited(code), visitor)
                }
                Ok(Some((tid, Change::Killed(signal)))) => {
                    self.exited(tid, Ending::Killed(signal), visitor)
                }
                Ok(Some((tid, Change::ChildStopped))) => sys::consume(tid),
                Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                    let before = self.threads.len();
                    self.forget_the_dead(visitor);
                    if self.threads.len() == before {
                        break;
                    }
                }
                Ok(None) | Err(_) => {
                    self.forget_the_dead(visitor);
                    std::thread::sleep(std::time::Duration::from_micros(200));
                }
            }
        }
    }

    /// Threads whose end is hidden behind a zombie, or was taken by another wait.
    fn forget_the_dead(&mut self, visitor: &mut Option<&mut dyn Visitor>) {
        let tids: Vec<i32> = self.threads.keys().copied().collect();
        for tid in tids {
            match sys::wait(WaitFor { tid: Some(tid), peek: true, no_hang: true }) {
                Ok(Some((tid, Change::Exited(code)))) => {
                    self.exited(tid, Ending::Exited(code), visitor)
                }
                Ok(Some((tid, Change::Killed(signal)))) => {
                    self.exited(tid, Ending::Killed(signal), visitor)
                }
                Ok(Some((tid, Change::Stopped(code)))) => self.leave(tid, code, visitor),
                Ok(None) => {
                    if let Ok(info) = sys::signal_info(tid) {
                        self.leave(tid, info.stop(), visitor);
                    }
                }
                Err(_) => self.forget(tid, Ending::Unknown, visitor),
                Ok(Some((_, Change::ChildStopped))) => {}
            }
        }
    }

    /// Detaches a stopped thread, or lets it run to where that can be done.
    fn leave(&mut self, tid: i32, code: i32, visitor: &mut Option<&mut dyn Visitor>) {
        let signal = code & 0xff;
        let mut deliver = 0;
        if code == AT_CALL {
            // What the call returned is its own.
            fine(sys::detach(tid, 0));
            self.forget(tid, Ending::LetGo, visitor);
            return;
        }
        match code >> 8 {
            0 => {
                let Some(info) = fine(sys::signal_info(tid)) else { return };
                if let Some(thread) = self.threads.get_mut(&tid)
                    && let Queued::Let(mask) = thread.queued
                {
                    thread.queued = Queued::No;
                    fine(sys::set_signal_mask(tid, mask));
                }
                let ours = self.threads.get(&tid).is_some_and(|thread| thread.sent_by_clock(&info));
                if !ours {
                    deliver = signal;
                    self.counts.signals_passed += 1;
                }
            }
            EVENT_STOP if !stops_process(signal) => {
                let in_call = fine(sys::registers(tid))
                    .is_some_and(|registers| registers.orig_rax as i64 >= 0);
                if !in_call
                    && let Some(thread) = self.threads.get_mut(&tid)
                    && !matches!(thread.queued, Queued::Let(_))
                    && thread.unblock_own_signal(tid)
                {
                    // It stops again at once, to be given the signal of its former clock.
                    fine(sys::resume(tid, 0));
                    return;
                }
            }
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let Some(made) = fine(sys::event_message(tid)) {
                    self.announced(tid, made, visitor);
                }
            }
            libc::PTRACE_EVENT_EXEC => {
                sys::consume(tid);
                if let Some(former) = fine(sys::event_message(tid)).filter(|former| *former != tid)
                {
                    self.forget(former, Ending::LetGo, visitor);
                }
            }
            _ => {}
        }
        if let Some(registers) = fine(sys::registers(tid)) {
            self.counts.calls_restarted += u64::from(restart_call(tid, &registers));
        }
        fine(sys::detach(tid, deliver));
        self.forget(tid, Ending::LetGo, visitor);
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.let_go(&mut None);
        }
    }
}
