//! What a tracer does at each change of a thread: show it, pass its signal on, take its new
//! threads.

use crate::counts::{LeftAlone, Skip, add};
use crate::place::Place;
use crate::proc;
use crate::stopped::{Resume, Stopped};
use crate::sys::event::ThreadClock;
use crate::sys::{self, AT_CALL, Change, EVENT_STOP, fine};
use crate::thread::{Queued, State, Told};
use crate::tracer::{Tracer, possible_period};
use crate::visit::{Ending, Next, Visitor};

/// Code segment of 64-bit user code (`__USER_CS`).
const CODE_64_BIT: u64 = 0x33;
/// The kernel's mark for "begin again, unless a handler runs first; then it is EINTR"
/// (include/linux/errno.h).
const RESTART_UNLESS_HANDLED: i64 = -514;

/// Whether a signal stops a process by job control.
pub(crate) fn stops_process(signal: i32) -> bool {
    matches!(signal, libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

/// Lets the kernel begin a system call again that our stop ended with EINTR; true if it was one.
/// Calls that the kernel restarts by itself have another mark there already, and `close` must not
/// be repeated.
pub(crate) fn restart_call(tid: i32, registers: &libc::user_regs_struct) -> bool {
    let call = registers.orig_rax as i64;
    if call < 0 || call == libc::SYS_close || registers.rax as i64 != -i64::from(libc::EINTR) {
        return false;
    }
    let mut changed = *registers;
    changed.rax = RESTART_UNLESS_HANDLED as u64;
    sys::set_registers(tid, &changed).is_ok()
}

impl Tracer {
    /// Something happened to a thread.
    pub(crate) fn changed(
        &mut self,
        tid: i32,
        change: Change,
        visitor: &mut dyn Visitor,
        place: &mut Place,
    ) {
        match change {
            Change::Exited(code) => self.exited(tid, Ending::Exited(code), &mut Some(visitor)),
            Change::Killed(signal) => self.exited(tid, Ending::Killed(signal), &mut Some(visitor)),
            Change::ChildStopped => sys::consume(tid),
            Change::Stopped(code) => {
                if self.threads.contains_key(&tid) || self.adopt(tid, visitor) {
                    self.stopped(tid, code, visitor, place);
                }
            }
        }
    }

    /// A thread reports that was not announced: its maker's event comes later, or never if that was
    /// killed. False if it is not to be traced.
    pub(crate) fn adopt(&mut self, tid: i32, visitor: &mut dyn Visitor) -> bool {
        let Ok(status) = proc::status(tid) else {
            add(&mut self.counts.left_alone, LeftAlone::Gone);
            fine(sys::detach(tid, 0));
            sys::consume(tid);
            return false;
        };
        if status.tracer != self.own_tid {
            // A child of this process that another of its threads traces; it is shown here too.
            return false;
        }
        if !self.processes.contains_key(&status.tgid) && !self.options.follow {
            add(&mut self.counts.left_alone, LeftAlone::Child);
            fine(sys::detach(tid, 0));
            return false;
        }
        if self.insert(tid, status.tgid, State::Starting) {
            visitor.forked(status.ppid, status.tgid);
            self.watch(tid, status.ppid, visitor);
        }
        true
    }

    /// A thread has made another.
    pub(crate) fn announced(
        &mut self,
        maker: i32,
        tid: i32,
        visitor: &mut Option<&mut dyn Visitor>,
    ) {
        if self.threads.contains_key(&tid) {
            return;
        }
        let Some(parent) = self.threads.get(&maker).map(|thread| thread.pid) else { return };
        let Ok(status) = proc::status(tid) else { return };
        // Not followed, so `adopt` lets it go when it reports.
        if status.tgid != parent && !self.options.follow {
            return;
        }
        // It has reported already, and was let be.
        if status.tracer != self.own_tid {
            return;
        }
        if self.insert(tid, status.tgid, State::Starting)
            && let Some(visitor) = visitor
        {
            visitor.forked(parent, status.tgid);
            self.watch(tid, parent, *visitor);
        }
    }

    /// A known thread is in a ptrace stop.
    pub(crate) fn stopped(
        &mut self,
        tid: i32,
        code: i32,
        visitor: &mut dyn Visitor,
        place: &mut Place,
    ) {
        let signal = code & 0xff;
        let (arrived_ns, shown) = (sys::now_ns(), self.counts.stops);
        match code >> 8 {
            0 if code == AT_CALL => self.at_call(tid, visitor),
            0 => self.signalled(tid, signal, visitor, place),
            EVENT_STOP => self.event_stopped(tid, signal, visitor, place),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                if let Some(made) = fine(sys::event_message(tid)) {
                    self.announced(tid, made, &mut Some(visitor));
                }
                self.mute_where_crowded(tid);
                self.go_on(tid, 0);
            }
            libc::PTRACE_EVENT_EXEC => self.executed(tid, visitor),
            _ => self.go_on(tid, 0),
        }
        if code >> 8 != 0 && self.counts.stops == shown {
            self.counts.births_ns += sys::now_ns().saturating_sub(arrived_ns);
        }
    }

    /// Lets a thread go on, with a signal delivered (0: none).
    pub(crate) fn go_on(&self, tid: i32, signal: i32) {
        match self.threads.get(&tid) {
            Some(thread) => thread.go_on(tid, signal),
            None => {
                fine(sys::resume(tid, signal));
            }
        }
    }

    /// A signal is about to be delivered: ours is dropped, all others go on as they are.
    fn signalled(&mut self, tid: i32, signal: i32, visitor: &mut dyn Visitor, place: &mut Place) {
        let Some(info) = fine(sys::signal_info(tid)) else { return };
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let ours = thread.sent_by_clock(&info);
        if let Queued::Let(mask) = thread.queued {
            // A signal that comes first must find the program's own mask; ours is taken off another
            // time.
            fine(sys::set_signal_mask(tid, mask));
            thread.queued = if ours { Queued::No } else { Queued::Behind };
        }
        if !ours {
            self.counts.signals_passed += 1;
            if matches!(signal, libc::SIGURG | libc::SIGWINCH)
                && let Some(process) = self.processes.get_mut(&thread.pid)
            {
                process.doubtful = true;
            }
            self.go_on(tid, signal);
        } else if matches!(thread.told(), Some(Told::Signal(_))) {
            self.show(tid, visitor, place);
        } else {
            add(&mut self.counts.skipped, Skip::Late);
            self.go_on(tid, 0);
        }
    }

    /// A stop without a signal: a new thread, an interrupt, or job control.
    fn event_stopped(
        &mut self,
        tid: i32,
        signal: i32,
        visitor: &mut dyn Visitor,
        place: &mut Place,
    ) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let new = matches!(thread.state, State::Starting);
        let listen = stops_process(signal);
        let asked = thread.reported(listen);
        if new {
            if self.is_too_many(tid, visitor) {
                return;
            }
            self.start_clock(tid, false);
        }
        if listen {
            fine(sys::listen(tid));
        } else if asked && !new {
            self.show(tid, visitor, place);
        } else {
            self.go_on(tid, 0);
        }
    }

    /// A process has become another program, in a thread that now has the process's number.
    fn executed(&mut self, tid: i32, visitor: &mut dyn Visitor) {
        // A thread that has changed its number takes no request before this stop is consumed (the
        // kernel guards against requests meant for the former owner of the number).
        sys::consume(tid);
        let former = fine(sys::event_message(tid)).unwrap_or(tid);
        if former != tid
            && self.threads.remove(&former).is_some()
            && let Some(process) = self.processes.get_mut(&tid)
        {
            process.threads = process.threads.saturating_sub(1);
        }
        // The other threads are gone, and report it, if they have not yet.
        let first = self.first_period();
        self.listen_to_births(tid);
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.close_clock();
            thread.watched = 0;
            thread.period = first;
            (thread.state, thread.queued) = (State::Unclocked { listening: false }, Queued::No);
        }
        self.counts.execs += 1;
        if proc::runs_32_bit(tid) {
            self.leave_alone(tid, LeftAlone::ThirtyTwoBit, visitor);
            return;
        }
        visitor.executed(tid);
        if let Some(process) = self.processes.get_mut(&tid) {
            // An exec takes all handlers away.
            process.signal = Some(libc::SIGURG);
            process.doubtful = true;
            process.let_be = None;
        }
        self.start_clock(tid, false);
        self.go_on(tid, 0);
    }

    /// Shows a thread to the visitor, where its registers are those of running code, and lets it go
    /// on.
    fn show(&mut self, tid: i32, visitor: &mut dyn Visitor, place: &mut Place) {
        let follow = self.follow(true);
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        let arrived_ns = sys::now_ns();
        let by_signal = matches!(thread.told(), Some(Told::Signal(_)));
        let period_end = thread.event_mut().and_then(ThreadClock::latest);
        // An interrupted thread has gone on since.
        let moment = period_end.filter(|_| by_signal);
        let Some(registers) = fine(sys::registers(tid)) else {
            add(&mut self.counts.skipped, Skip::Ended);
            return;
        };
        let mut resume = Resume::Run(0);
        let mut next = Next::default();
        if registers.orig_rax as i64 >= 0 {
            add(&mut self.counts.skipped, Skip::InSystemCall);
            self.counts.calls_restarted += u64::from(restart_call(tid, &registers));
        } else if registers.cs != CODE_64_BIT {
            add(&mut self.counts.skipped, Skip::ThirtyTwoBitCode);
        } else {
            let registers = Some(registers);
            let mut stopped = Stopped { tid, thread, registers, moment, arrived_ns, resume };
            next = visitor.stopped(&mut stopped);
            resume = stopped.resume;
            self.counts.stops += 1;
            thread.stopped = true;
        }
        if let Some(period) = next.period.map(possible_period)
            && period != thread.period
        {
            self.period = period;
            thread.period = period;
            if let Some(event) = thread.event() {
                fine(event.set_period(period));
            }
        }
        if !by_signal {
            thread.seen = thread.clock(tid).unwrap_or(thread.seen);
            let runs = resume == Resume::Run(0) && (registers.orig_rax as i64) < 0;
            if thread.queued == Queued::Behind && runs {
                thread.queued = Queued::No;
                thread.unblock_own_signal(tid);
            }
        }
        if thread.muted && resume == Resume::Run(0) && self.allowance.is_full(arrived_ns) {
            thread.muted = fine(sys::set_follow(tid, follow)).is_none();
        }
        match resume {
            Resume::Run(signal) => {
                self.counts.signals_passed += u64::from(signal != 0);
                thread.go_on(tid, signal);
            }
            Resume::Listen => {
                thread.reported(true);
                fine(sys::listen(tid));
            }
            Resume::Gone => {}
        }
        let began_ns = moment.map_or(arrived_ns, |moment| moment.time_ns.min(arrived_ns));
        self.counts.stopped_ns += sys::now_ns().saturating_sub(began_ns);
        visitor.tick();
        if let Some(moment) = period_end {
            place.stop_on(moment.cpu);
        }
    }
}
