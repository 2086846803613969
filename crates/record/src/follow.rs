//! The recording itself, from its first enabled event to its end: the leading thread follows the
//! command, the signals and the commands, while the readers empty the rings.

use crate::control::{Command, Commands};
use crate::hotplug::{CpuWatch, Hotplug};
use crate::open::Opened;
use crate::readers::{self, EndOnDrop, Shared, Signals, lock};
use crate::rotate::Rotation;
use crate::streaming::{Streaming, Switch};
use crate::sys::ForwardSignals;
use crate::sys::count::end_of;
use crate::sys::readers::{NowSignal, terminate, wait};
use crate::target::Target;
use crate::{Ending, Error};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::time::{Duration, Instant};

/// How often is looked whether processes that planish did not start have ended, and whether a
/// signal came.
const TICK: Duration = Duration::from_millis(100);

/// A recording that goes on.
pub(crate) struct Session<'s, 'r> {
    pub target: &'s Target,
    pub how: &'s Streaming,
    pub opened: &'s Opened,
    pub streams: &'s [Shared],
    pub signals: &'s Signals,
    /// When the events began to count.
    pub began: Instant,
    /// When sampling is to begin, as long as it has not.
    pub begin: Option<Instant>,
    pub commands: Option<Commands>,
    pub now: Option<NowSignal>,
    pub rotation: Rotation<'r>,
    /// The CPUs, where those are recorded.
    pub cpus: Option<CpuWatch>,
    /// Sentences for the summary.
    pub notes: Vec<String>,
}

/// How a recording came to its end.
pub(crate) struct Ended {
    pub ending: Ending,
    /// What made the recording end before the program.
    pub failure: Option<Error>,
    /// Whether the recording ended at the size that was asked for.
    pub full: bool,
    /// CPUs that went or came meanwhile.
    pub hotplug: Hotplug,
}

impl Session<'_, '_> {
    /// Reads the rings until the end.
    pub(crate) fn follow(
        &mut self,
        mut child: Option<&mut Child>,
        forward: &ForwardSignals,
    ) -> Ended {
        let child_end =
            child.as_ref().and_then(|child| end_of(i32::try_from(child.id()).ok()?, false));
        let (streams, opened, signals, how) = (self.streams, self.opened, self.signals, self.how);
        std::thread::scope(|scope| {
            let end = EndOnDrop(signals);
            for stream in streams {
                scope.spawn(move || readers::read(stream, opened, signals, how));
            }
            let mut ended = self.lead(&mut child, child_end.as_ref(), forward);
            self.disable();
            drop(end);
            if let Some(cpus) = &mut self.cpus {
                cpus.look();
                ended.hotplug = cpus.seen.clone();
            }
            ended.failure = ended.failure.or_else(|| signals.failure());
            ended
        })
    }

    fn lead(
        &mut self,
        child: &mut Option<&mut Child>,
        child_end: Option<&OwnedFd>,
        forward: &ForwardSignals,
    ) -> Ended {
        let (mut stopped, mut full, mut failure) = (false, false, None);
        self.rearm();
        loop {
            self.sleep(child_end);
            self.begin_late();
            if let Some(cpus) = &mut self.cpus {
                cpus.tick();
            }
            if failure.is_none() {
                failure = self.signals.failure();
            }
            let mut stop = failure.is_some() || self.how.until.is_over(self.began);
            if self.signals.bytes() >= self.how.max_bytes.unwrap_or(u64::MAX) {
                (stop, full) = (true, true);
            }
            // Where another file cannot be begun, what is in this one is to be kept.
            let obeyed = self.obey().and_then(|told| {
                stop |= told;
                if stopped || stop { Ok(()) } else { self.change_file() }
            });
            if let Err(error) = obeyed {
                failure.get_or_insert(error);
                stop = true;
            }
            let over = stopped || stop;
            if stop && !stopped {
                stopped = true;
                self.disable();
                // A disk that is full is no fault of the program's; it goes on to its end, without
                // being recorded.
                if failure.is_none()
                    && let Some(child) = child
                {
                    terminate(child.id());
                }
            }
            let ending = match child {
                Some(child) => child.try_wait().ok().flatten().map(Ending::from),
                None if over || forward.stopped() || self.gone() => Some(Ending::Unknown),
                None => None,
            };
            if let Some(ending) = ending {
                return Ended { ending, failure, full, hotplug: Hotplug::default() };
            }
        }
    }

    /// Stops all events. A failure means that the event's task is gone, and it counts no more.
    fn disable(&self) {
        drop(self.opened.set_running(false));
    }

    fn enable(&self) {
        drop(self.opened.set_running(true));
    }

    fn begin_late(&mut self) {
        if self.begin.is_some_and(|begin| Instant::now() >= begin) {
            self.begin = None;
            self.enable();
        }
    }

    /// Waits for a reader's notice, the end of the command, a word in the fifo, a signal, or the
    /// next thing to do.
    fn sleep(&self, child_end: Option<&OwnedFd>) {
        let mut list: Vec<BorrowedFd<'_>> = vec![self.signals.notice.as_fd()];
        list.extend(child_end.map(AsFd::as_fd));
        list.extend(self.commands.as_ref().map(Commands::ready));
        let until = |at: Instant| {
            at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
        };
        // Signals wake this thread; one that comes just before the wait is seen a tick later.
        let over = self.how.until.end(self.began);
        let times = [Some(TICK), self.begin.map(until), self.rotation.next().map(until)];
        let times = times.into_iter().chain([over.map(until)]);
        let time = times.flatten().min().unwrap_or(TICK);
        let ready = wait(&list, i32::try_from(time.as_millis()).unwrap_or(i32::MAX).max(1));
        if ready.first().is_some_and(|(ready, _)| *ready) {
            self.signals.seen();
        }
    }

    /// Does what the fifo says; true when it says that the recording is to end.
    fn obey(&mut self) -> Result<bool, Error> {
        let taken = self.commands.as_mut().map(Commands::taken).unwrap_or_default();
        let mut stop = false;
        for command in taken {
            match command {
                Command::Enable => {
                    self.begin = None;
                    self.enable();
                }
                Command::Disable => self.disable(),
                Command::Snapshot => self.rotate()?,
                Command::Stop => stop = true,
                Command::Ping => {}
            }
            if let Some(commands) = &mut self.commands {
                commands.answer();
            }
        }
        if let Some(commands) = &mut self.commands {
            for word in commands.unknown.drain(..) {
                self.notes.push(format!(
                    "the control fifo said {word:?}, which is no command: enable, disable, \
                     snapshot, stop, ping"
                ));
            }
        }
        Ok(stop)
    }

    /// Goes on in another file where it is time.
    fn change_file(&mut self) -> Result<(), Error> {
        let asked = self.now.as_ref().is_some_and(NowSignal::taken);
        let time = self.rotation.next().is_some_and(|next| Instant::now() >= next);
        let full = match self.how.switch {
            Some(Switch::Bytes(most)) => self.signals.bytes() - self.rotation.bytes_before >= most,
            _ => false,
        };
        if asked || time || full { self.rotate() } else { Ok(()) }
    }

    fn rotate(&mut self) -> Result<(), Error> {
        let Some(stream) = self.streams.first() else { return Ok(()) };
        let mut stream = lock(stream);
        stream.drain()?;
        self.opened.resume(&std::mem::take(&mut stream.resume));
        stream.dump(|ring, pause| self.opened.pause_ring(ring, pause))?;
        self.rotation.rotate(&mut stream, self.target)?;
        drop(stream);
        self.rotation.bytes_before = self.signals.bytes();
        self.rearm();
        Ok(())
    }

    /// Tells the readers at what size to give notice.
    fn rearm(&self) {
        let switch = match self.how.switch {
            Some(Switch::Bytes(most)) => self.rotation.bytes_before.saturating_add(most),
            _ => u64::MAX,
        };
        self.signals.give_notice_at(switch.min(self.how.max_bytes.unwrap_or(u64::MAX)));
    }

    /// Whether all threads that were to be recorded have ended.
    fn gone(&self) -> bool {
        !matches!(self.target, Target::Command | Target::System) && self.target.tids().is_empty()
    }
}
