//! When was a window, by the wall clock and by a clock that never jumps?
//!
//! Lengths and pauses are of the monotonic clock alone. Dates are needed to merge shards of many
//! hosts, and come from the wall clock at the start of a window; its end is the start and its
//! length. So a wall clock that jumps in a window changes nothing of it. One that was set back makes
//! the next window begin where the last one ended, until the clock gets there, so that no two windows
//! of a host cover the same time; a clock that was wrong by more than a day is believed again.

use std::time::Duration;

/// A clock that was set back by more than this was wrong before, not after.
const BELIEVED: u64 = 86_400 * NS;
const NS: u64 = 1_000_000_000;

/// Dates of windows, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dates {
    /// Where the last window ended.
    pub last_end: u64,
}

/// What time a window covers, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub begin: u64,
    /// Its end.
    pub end: u64,
}

impl Dates {
    /// The start of a window, when the wall clock shows this.
    pub fn begin(&self, wall: u64) -> u64 {
        let ahead = self.last_end.saturating_sub(wall);
        if ahead > BELIEVED { wall } else { wall.max(self.last_end) }
    }

    /// The window that began then and has such a length.
    pub fn end(&mut self, begin: u64, length: Duration) -> Span {
        let length = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let end = begin.saturating_add(length);
        self.last_end = end;
        Span { begin, end }
    }
}

impl Span {
    /// Both in seconds, as shards say it.
    pub fn seconds(self) -> (u64, u64) {
        (self.begin / NS, self.end / NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wall_clock_that_jumps_makes_no_window_negative_double_or_overlapping() {
        let mut dates = Dates::default();
        let start = 1_795_000_000 * NS;
        // What the wall clock shows at the start of windows of 5 s a minute apart, while it is set
        // forward by an hour and back by two.
        let shown = [0, 60, 120, 3780, 3840, -3300, -3240, 3900, 3960]
            .map(|s: i64| start.saturating_add_signed(s * NS as i64));
        let spans = shown.map(|wall| {
            let begin = dates.begin(wall);
            dates.end(begin, 5 * SECOND)
        });
        for span in spans {
            assert_eq!(span.end - span.begin, 5 * NS);
        }
        assert!(spans.windows(2).all(|pair| pair[0].end <= pair[1].begin), "{spans:?}");
        assert_eq!(spans[8].begin, shown[8], "the clock has caught up");
    }

    #[test]
    fn a_clock_that_was_wrong_by_years_is_believed_again() {
        let mut dates = Dates::default();
        let wrong = 4_000_000_000 * NS;
        let begin = dates.begin(wrong);
        dates.end(begin, SECOND);
        assert_eq!(dates.begin(1_795_000_000 * NS), 1_795_000_000 * NS);
        assert_eq!(Dates { last_end: u64::MAX }.end(u64::MAX, SECOND).end, u64::MAX);
    }

    proptest::proptest! {
        #[test]
        fn windows_never_overlap_while_a_clock_jumps_by_less_than_a_day(
            walls in proptest::collection::vec((0u64..80_000, 0u64..100), 1..50),
        ) {
            let mut dates = Dates::default();
            let mut before = 0;
            for (wall, length) in walls {
                let begin = dates.begin(wall * NS);
                proptest::prop_assert!(begin >= before);
                before = dates.end(begin, Duration::from_secs(length)).end;
            }
        }
    }
}
