//! Which samples does a profile hold if the recording has more than anybody can open? Neighbours in
//! time of one thread and one stack become one sample with their weight.
//!
//! Cost: sorting what is held each time that it has doubled. Invariant: no weight is lost, and no
//! stack of a thread.

use std::mem::size_of;

/// Samples that are held, at most; more only if there are more distinct stacks. The Firefox Profiler
/// takes seconds for so many.
pub(super) const MOST: usize = 1 << 20;

/// A sample, or several as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Held {
    /// In ns of the recording's clock.
    pub time: u64,
    pub thread: u32,
    /// Number of the stack.
    pub stack: u32,
    pub count: u64,
    pub period: u64,
}

const _: () = assert!(size_of::<Held>() <= 32);

/// The samples of a profile.
#[derive(Debug)]
pub(super) struct Samples {
    held: Vec<Held>,
    most: usize,
    /// Within so many ns, samples of one stack are one; 0: each stands for itself.
    pub slot: u64,
}

impl Samples {
    pub(super) fn new(most: usize) -> Samples {
        Samples { held: Vec::new(), most: most.max(1), slot: 0 }
    }

    pub(super) fn add(&mut self, sample: Held) {
        self.held.push(sample);
        if self.held.len() > self.most.saturating_mul(2) {
            self.reduce();
        }
    }

    /// Doubles the slot until at most half of the room is taken, or nothing more can be merged.
    fn reduce(&mut self) {
        let times = self.held.iter().map(|sample| sample.time);
        let last = times.clone().max().unwrap_or(0);
        let span = last - times.min().unwrap_or(0);
        if self.slot > 0 {
            self.merge();
        }
        while self.held.len() > self.most {
            // The first slot is about as wide as one sample in the room that there is.
            let first = span / self.most as u64;
            self.slot = self.slot.saturating_mul(2).max(first).max(1);
            self.merge();
            if self.slot > last {
                // All of a stack is one: there are that many stacks.
                self.most = self.held.len().max(self.most);
            }
        }
    }

    fn merge(&mut self) {
        let slot = self.slot.max(1);
        let key = |sample: &Held| (sample.time / slot, sample.thread, sample.stack);
        self.held.sort_by_key(|sample| (key(sample), sample.time));
        self.held.dedup_by(|later, first| {
            let same = key(later) == key(first);
            if same {
                first.count = first.count.saturating_add(later.count);
                first.period = first.period.saturating_add(later.period);
            }
            same
        });
    }

    /// All, in time order.
    pub(super) fn finish(mut self) -> (Vec<Held>, u64) {
        if self.held.len() > self.most {
            self.reduce();
        } else if self.slot > 0 {
            self.merge();
        }
        self.held.sort_unstable();
        (self.held, self.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    proptest::proptest! {
        #[test]
        fn no_weight_of_a_stack_is_lost_and_what_is_held_is_bounded(
            samples in proptest::collection::vec((0u64..1 << 40, 0u32..2, 0u32..3, 1u64..100), 1..400),
            most in 8usize..64,
        ) {
            let mut held = Samples::new(most);
            let mut expected: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
            for (time, thread, stack, period) in samples {
                held.add(Held { time, thread, stack, count: 1, period });
                let sum = expected.entry((thread, stack)).or_default();
                *sum = (sum.0 + 1, sum.1 + period);
                proptest::prop_assert!(held.held.len() <= 2 * most);
            }
            let (held, slot) = held.finish();
            proptest::prop_assert!(held.len() <= most);
            proptest::prop_assert!(held.is_sorted());
            proptest::prop_assert!(slot <= 1 << 42);
            let mut found: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
            for one in held {
                let sum = found.entry((one.thread, one.stack)).or_default();
                *sum = (sum.0 + one.count, sum.1 + one.period);
            }
            proptest::prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn few_samples_stay_as_they_are() {
        let mut samples = Samples::new(100);
        let one = |time| Held { time, thread: 0, stack: 0, count: 1, period: 1 };
        for time in [5, 3, 4] {
            samples.add(one(time));
        }
        let (held, slot) = samples.finish();
        assert_eq!((held.len(), slot), (3, 0));
        assert_eq!(held.first().map(|sample| sample.time), Some(3));
    }
}
