//! A counter's value with the times that it was asked for and ran, and sums and differences of
//! such.

use perfdata::EventAttr;
use std::time::Duration;

/// A value as the kernel gives it. Where a CPU has fewer counters than were asked for, they take
/// turns: then the time it ran is shorter than the time it was asked for, and the count is an
/// estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Events (of the clocks: nanoseconds) while it ran.
    pub value: u64,
    /// Time it was to count, in ns, over all threads and CPUs.
    pub enabled_ns: u64,
    /// Time it did count, in ns.
    pub running_ns: u64,
}

impl Count {
    /// The value for the whole time that it was asked for; none when it never ran.
    pub fn scaled(&self) -> Option<u64> {
        if self.running_ns == 0 {
            return None;
        }
        if self.running_ns >= self.enabled_ns {
            return Some(self.value);
        }
        let (value, enabled, running) =
            (u128::from(self.value), u128::from(self.enabled_ns), u128::from(self.running_ns));
        let scaled = (value * enabled + running / 2) / running;
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The part of the time in which it ran, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.enabled_ns == 0 {
            return 0.0;
        }
        (self.running_ns as f64 / self.enabled_ns as f64).min(1.0)
    }

    /// Adds another thread's or CPU's count.
    pub(crate) fn add(&mut self, other: Count) {
        self.value = self.value.wrapping_add(other.value);
        self.enabled_ns = self.enabled_ns.wrapping_add(other.enabled_ns);
        self.running_ns = self.running_ns.wrapping_add(other.running_ns);
    }

    /// What came since an earlier reading.
    pub(crate) fn since(&self, earlier: &Count) -> Count {
        Count {
            value: self.value.saturating_sub(earlier.value),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

/// An event that was to be counted.
#[derive(Clone, Debug)]
pub struct Counter {
    /// As perf calls it.
    pub name: String,
    /// What the kernel was asked for.
    pub attr: EventAttr,
    /// Index of its group's leader; its own when it has none.
    pub leader: usize,
    /// What its counts are in, and by how much to multiply them; of the kernel's description of
    /// it.
    pub unit: Option<(String, f64)>,
    /// The control group that it counts, as asked for; all of them when none.
    pub cgroup: Option<String>,
    /// Why it cannot be counted here.
    pub refused: Option<String>,
    /// Whether that is for want of rights.
    pub denied: bool,
}

impl Counter {
    /// Whether it counts nanoseconds of CPU time: `cpu-clock`, `task-clock`.
    pub fn is_clock(&self) -> bool {
        self.attr.kind == 1 && self.attr.config <= 1
    }
}

/// The counts of a stretch of time.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// When it ended, since counting began.
    pub at: Duration,
    /// How long it was.
    pub length: Duration,
    /// One a counter; `None` where that cannot be counted.
    pub counts: Vec<Option<Count>>,
    /// The same by thread, where that was asked for.
    pub threads: Vec<Thread>,
}

/// The counts of a thread and of the threads that it started.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its number.
    pub tid: i32,
    /// Its name when counting began.
    pub name: String,
    /// One a counter.
    pub counts: Vec<Option<Count>>,
}

impl Counts {
    /// What came since an earlier reading of the same counters.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        let differences = |now: &[Option<Count>], then: &[Option<Count>]| -> Vec<Option<Count>> {
            let then = then.iter().copied().chain(std::iter::repeat(None));
            now.iter()
                .zip(then)
                .map(|(now, then)| now.map(|now| now.since(&then.unwrap_or_default())))
                .collect()
        };
        let threads = self.threads.iter().map(|thread| {
            let then = earlier.threads.iter().find(|then| then.tid == thread.tid);
            let then = then.map_or(&[][..], |then| &then.counts);
            Thread { counts: differences(&thread.counts, then), ..thread.clone() }
        });
        Counts {
            at: self.at,
            length: self.at.saturating_sub(earlier.at),
            counts: differences(&self.counts, &earlier.counts),
            threads: threads.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_of_a_part_of_the_time_is_scaled_to_the_whole() {
        let count = |value, enabled_ns, running_ns| Count { value, enabled_ns, running_ns };
        assert_eq!(count(100, 1000, 1000).scaled(), Some(100));
        assert_eq!(count(100, 1000, 300).scaled(), Some(333));
        assert_eq!(count(u64::MAX / 2, 1 << 40, 1).scaled(), Some(u64::MAX));
        assert_eq!(count(0, 1000, 0).scaled(), None);
        assert_eq!(count(1, 1000, 250).share(), 0.25);
        assert_eq!(count(0, 0, 0).share(), 0.0);
    }

    #[test]
    fn the_counts_of_intervals_add_up_to_the_total() {
        let at = |value| Counts {
            counts: vec![Some(Count { value, enabled_ns: value, running_ns: value }), None],
            ..Counts::default()
        };
        let (one, two) = (at(5), at(12));
        let second = two.since(&one);
        assert_eq!(second.counts[0].map(|count| count.value), Some(7));
        assert_eq!(one.since(&Counts::default()).counts[0].map(|count| count.value), Some(5));
        assert_eq!(second.counts[1], None);
    }
}
