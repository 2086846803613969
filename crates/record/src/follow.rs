//! The recording itself: rings emptied into the file until the command, the processes or the user end it.

use crate::file::Output;
use crate::live::Target;
use crate::open::Opened;
use crate::sys::ForwardSignals;
use crate::sys::perf::{Event, wait};
use crate::watch::Watch;
use crate::{Ending, Error};
use std::process::Child;
use std::time::Instant;

/// How long the reader sleeps at most, so that the end of the command is noticed soon.
const TICK_MS: i32 = 100;

/// A recording that goes on.
pub(crate) struct Recorded<'t> {
    pub watch: Watch,
    pub target: &'t Target,
    /// When sampling is to begin, as long as it has not.
    pub begin: Option<Instant>,
}

/// Reads the rings until the end.
pub(crate) fn follow(
    recorded: &mut Recorded<'_>,
    opened: &mut Opened,
    file: &mut Output,
    mut child: Option<&mut Child>,
    forward: &ForwardSignals,
) -> Result<Ending, Error> {
    loop {
        let leaders: Vec<&Event> = opened.leaders.iter().collect();
        wait(&leaders, recorded.sleep_ms());
        if recorded.begin.is_some_and(|begin| Instant::now() >= begin) {
            recorded.begin = None;
            for event in opened.all() {
                // A failure means that the event's task is gone.
                let _ = event.enable();
            }
        }
        let ended = match &mut child {
            Some(child) => child.try_wait().ok().flatten().map(Ending::from),
            None if forward.stopped() => Some(Ending::Unknown),
            None if recorded.gone() => Some(Ending::Unknown),
            None => None,
        };
        if ended.is_some() {
            for event in opened.all() {
                // A failure means that the event's task is gone, and it counts no more.
                let _ = event.disable();
            }
        }
        recorded.round(opened, file)?;
        if let Some(ending) = ended {
            return Ok(ending);
        }
    }
}

impl Recorded<'_> {
    fn sleep_ms(&self) -> i32 {
        let left = self.begin.map(|begin| begin.saturating_duration_since(Instant::now()).as_millis());
        left.and_then(|left| i32::try_from(left).ok()).map_or(TICK_MS, |left| left.clamp(1, TICK_MS))
    }

    /// Whether all threads that were to be recorded have ended.
    fn gone(&self) -> bool {
        !matches!(self.target, Target::Command | Target::System) && self.target.tids().is_empty()
    }

    /// Empties all rings once, which makes a finished round.
    fn round(&mut self, opened: &mut Opened, file: &mut Output) -> Result<(), Error> {
        let before = file.data_bytes();
        for ring in &mut opened.rings {
            ring.drain(|records| {
                self.watch.note(records);
                file.records(records)
            })?;
        }
        if file.data_bytes() == before {
            return Ok(());
        }
        file.finish_round()?;
        file.flush()
    }
}
