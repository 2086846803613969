//! Counter values, as samples and READ records hold them (`perf_output_read` in
//! kernel/events/core.c).

use crate::attr::read_format as rf;
use crate::bytes::{Cursor, Words};
use crate::error::RecordError;

/// Which fields a counter value has (bits of [`crate::read_format`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReadFormat(pub u64);

impl ReadFormat {
    fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    fn words_per_value(self) -> usize {
        1 + usize::from(self.has(rf::ID)) + usize::from(self.has(rf::LOST))
    }

    fn time_words(self) -> usize {
        usize::from(self.has(rf::TOTAL_TIME_ENABLED))
            + usize::from(self.has(rf::TOTAL_TIME_RUNNING))
    }

    /// Size in bytes, when every value of this format has the same one.
    pub(crate) fn fixed_bytes(self) -> Option<usize> {
        (!self.has(rf::GROUP)).then(|| 8 * (self.words_per_value() + self.time_words()))
    }
}

/// Counter values of a sample or a READ record.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ReadValues<'a> {
    /// The recorded words: with GROUP nr, times, values; without it value, times, id, lost.
    pub words: Words<'a>,
    /// Which of these words there are.
    pub format: ReadFormat,
}

impl ReadValues<'_> {
    /// Time the event was enabled, in ns.
    pub fn time_enabled(&self) -> Option<u64> {
        self.format.has(rf::TOTAL_TIME_ENABLED).then(|| self.words.get(1)).flatten()
    }

    /// Time the event was counting, in ns.
    pub fn time_running(&self) -> Option<u64> {
        let at = 1 + usize::from(self.format.has(rf::TOTAL_TIME_ENABLED));
        self.format.has(rf::TOTAL_TIME_RUNNING).then(|| self.words.get(at)).flatten()
    }

    /// The counters as (value, id, lost).
    pub fn counters(&self) -> impl Iterator<Item = (u64, Option<u64>, Option<u64>)> + '_ {
        let format = self.format;
        let (count, first, step) = if format.has(rf::GROUP) {
            let first = 1 + format.time_words();
            let step = format.words_per_value();
            (self.words.len().saturating_sub(first) / step, first, step)
        } else {
            (self.words.len().min(1), 0, 1)
        };
        // Without GROUP the times stand between the value and its id.
        let gap = if format.has(rf::GROUP) { 0 } else { format.time_words() };
        (0..count).map(move |index| {
            let at = first + index * step;
            let extra = |nth: usize| self.words.get(at + gap + nth);
            let id = format.has(rf::ID).then(|| extra(1)).flatten();
            let lost =
                format.has(rf::LOST).then(|| extra(1 + usize::from(format.has(rf::ID)))).flatten();
            (self.words.get(at).unwrap_or(0), id, lost)
        })
    }
}

/// Reads a counter value or a group of them.
pub(crate) fn read_values<'a>(
    c: &mut Cursor<'a>,
    format: ReadFormat,
) -> Result<ReadValues<'a>, RecordError> {
    let words = match format.fixed_bytes() {
        Some(bytes) => bytes as u64 / 8,
        None => {
            let nr = c.clone().u64("read nr")?;
            nr.saturating_mul(format.words_per_value() as u64)
                .saturating_add(1 + format.time_words() as u64)
        }
    };
    Ok(ReadValues { words: c.words(words, "read values")?, format })
}
