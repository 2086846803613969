//! Where the tracing thread runs: on the CPU of the threads that stop.
//!
//! A stop whose tracer waits on the same CPU is a plain switch between two threads; across CPUs it
//! wakes a sleeping CPU twice, which costs ten times as much. A move costs about as much as one
//! stop across CPUs, so it is made when several stops in a row came from the same other CPU. With
//! two busy threads on two CPUs that is rarely so, and moving less is better: 4 in a row gave 25
//! moves and 105 us a stop where 1 gave 500 moves and 250 us.

use crate::sys::Affinity;

/// So many stops in a row on another CPU make the tracer move there.
const STOPS_BEFORE_MOVE: u32 = 4;

/// Keeps the calling thread near its targets until dropped.
pub(crate) struct Place {
    /// Where the thread was allowed to run; none when that cannot be asked, and nothing is ever
    /// moved then.
    allowed: Option<Affinity>,
    pinned: Option<u32>,
    /// The other CPU of the last stops, and how many those were.
    elsewhere: (u32, u32),
    moves: u64,
}

impl Place {
    /// Begins where the thread is.
    pub(crate) fn here() -> Place {
        Place {
            allowed: Affinity::of_this_thread().ok(),
            pinned: None,
            elsewhere: (0, 0),
            moves: 0,
        }
    }

    /// A thread stopped on this CPU.
    pub(crate) fn stop_on(&mut self, cpu: u32) {
        if self.pinned == Some(cpu) {
            self.elsewhere.1 = 0;
            return;
        }
        self.elsewhere =
            if self.elsewhere.0 == cpu { (cpu, self.elsewhere.1 + 1) } else { (cpu, 1) };
        let Some(allowed) = self.allowed else { return };
        if (self.pinned.is_none() || self.elsewhere.1 >= STOPS_BEFORE_MOVE) && allowed.has(cpu) {
            self.elsewhere.1 = 0;
            if Affinity::one(cpu).apply().is_ok() {
                self.pinned = Some(cpu);
                self.moves += 1;
            }
        }
    }

    /// How often it moved.
    pub(crate) fn moves(&self) -> u64 {
        self.moves
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let (Some(allowed), Some(_)) = (self.allowed, self.pinned) {
            // The set was the thread's own; a CPU that has gone since leaves it where it is.
            let _ = allowed.apply();
        }
    }
}
