//! How deep is a recording compressed? As the place where it goes needs, as far as the rings leave
//! time for it.
//!
//! It begins with the fastest level. A queue before the file that grows says that the place takes
//! less than comes: the next round is compressed deeper. A ring that gets full although the queue
//! is short says that the CPU is what is short: the next round is compressed faster. With an empty
//! queue it goes back, step by step.

use perfdata::write::Compressor;

/// Levels of zstd, by depth: 3 gives up to a quarter less than 1 in up to one and a half times the
/// time, 6 up to another fifth in four times that, and 9 next to nothing more.
const LEVELS: [i32; 3] = [1, 3, 6];
/// From this part of the queue on, it is compressed deeper; below that one, faster again.
const LONG: f64 = 0.25;
const SHORT: f64 = 0.05;
/// From this part of a ring on, its reader comes too late.
const FULL: f64 = 0.5;
/// So many rounds with a short queue make it go back by one.
const CALM: u32 = 16;

/// The level of a stream, and why it changes.
#[derive(Debug, Default)]
pub(crate) struct Effort {
    step: usize,
    calm: u32,
    deepest: usize,
}

impl Effort {
    /// The level to begin with.
    pub(crate) const FIRST: i32 = LEVELS[0];

    /// The level for the next round: `ring` and `queue` are the parts that were filled at this one.
    pub(crate) fn next(&mut self, ring: f64, queue: f64) -> i32 {
        self.calm = if queue < SHORT { self.calm + 1 } else { 0 };
        if queue > LONG {
            self.step = (self.step + 1).min(LEVELS.len() - 1);
        } else if ring > FULL || self.calm >= CALM {
            self.step = self.step.saturating_sub(1);
            self.calm = 0;
        }
        self.deepest = self.deepest.max(self.step);
        LEVELS.get(self.step).copied().unwrap_or(Effort::FIRST)
    }

    /// The deepest level so far.
    pub(crate) fn deepest(&self) -> i32 {
        LEVELS.get(self.deepest).copied().unwrap_or(Effort::FIRST)
    }
}

/// A compressor and what chooses its level, unless one was asked for.
pub(crate) struct Packing {
    pub compressor: Compressor,
    pub effort: Option<Effort>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_place_is_given_less_and_a_busy_cpu_is_spared() {
        let mut effort = Effort::default();
        assert_eq!(effort.next(0.1, 0.0), 1);
        assert_eq!([0.3, 0.3, 0.9].map(|queue| effort.next(0.9, queue)), [3, 6, 6]);
        // The ring got full and the queue is short: the CPU is what is short.
        assert_eq!(effort.next(0.6, 0.1), 3);
        assert_eq!(effort.next(0.2, 0.1), 3);
        let calm: Vec<i32> = (0..2 * CALM).map(|_| effort.next(0.1, 0.0)).collect();
        assert_eq!((calm[0], calm[calm.len() - 1], effort.deepest()), (3, 1, 6));
    }
}
