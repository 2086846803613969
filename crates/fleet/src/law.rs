//! How many executions does one count of a recording stand for? Its sampling law.
//!
//! A branch stack of 32 entries every 100,000 branches, a software stack of 1,024 every millisecond and
//! an emulator's every branch leave counts that mean different numbers of executions. A recording says
//! what its samples stand for together ([`Law::events`]) and how many counts they left
//! ([`Law::counts`]); the quotient, in executions, is the weight that makes counts of different
//! sources add up.
//!
//! Time and cycles say nothing about executions by themselves. Unless the recording was given the
//! program's own rate, three taken branches count for eight nanoseconds and one for eight cycles: an instruction
//! in each cycle at 3 GHz, of which every eighth is a taken branch.

use crate::Weight;
use serde::{Deserialize, Serialize};

/// Longest time that a recording is believed, in seconds.
const MOST_SECONDS: u64 = 31 * 86_400;

/// What the samples of a recording stand for together, and what they left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Law {
    /// What is counted.
    pub unit: Unit,
    /// So many of it passed: the samples times the period.
    pub events: u64,
    /// Entries of branch stacks that were recorded, or samples where there were none.
    pub counts: u64,
}

/// What the period of a sampler counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Executions of what is counted, each of which could have been sampled.
    Executions,
    /// Branches.
    Branches,
    /// Nanoseconds of CPU time.
    Ns,
    /// Cycles.
    Cycles,
}

impl Unit {
    /// Branches for each, as a fraction.
    fn rate(self) -> (u128, u128) {
        match self {
            Unit::Executions | Unit::Branches => (1, 1),
            Unit::Ns => (3, 8),
            Unit::Cycles => (1, 8),
        }
    }
}

impl Law {
    /// Executions for each count: `(2·events·p·65536 + counts·q) ÷ (2·counts·q)`, rounded down, in
    /// 1/65536, where p ÷ q is the rate of the unit. None where there are no counts, or the weight
    /// exceeds the largest one.
    pub fn weight(&self) -> Option<Weight> {
        let (p, q) = self.unit.rate();
        let counts = u128::from(self.counts) * q;
        let twice = (u128::from(self.events) * p) << 17;
        let bits = (twice + counts).checked_div(2 * counts)?;
        u64::try_from(bits).ok().and_then(Weight::from_bits)
    }

    /// The part of what passed that can have passed in so many seconds on so many CPUs, in 1/65536; none
    /// where all of it can. A CPU does at most 8 cycles or branches in a nanosecond, and a
    /// nanosecond in a nanosecond; a second more is granted, since times are whole seconds. Nobody records
    /// for more than 31 days.
    pub fn cap(&self, seconds: u64, cpus: u32) -> Option<Weight> {
        let most = match self.unit {
            Unit::Ns => 1,
            Unit::Cycles | Unit::Branches => 8,
            // Each stands for a period of operations, of which no more is known.
            Unit::Executions => return None,
        };
        let seconds = seconds.min(MOST_SECONDS);
        let ns = (u128::from(seconds) + 1) * u128::from(cpus) * 1_000_000_000;
        let (allowed, events) = (ns * most, u128::from(self.events));
        if events <= allowed {
            return None;
        }
        u64::try_from((allowed << 16) / events).ok().and_then(Weight::from_bits)
    }

    /// That of both recordings together, where both are of one unit.
    pub fn with(self, other: Law) -> Option<Law> {
        let events = self.events.checked_add(other.events)?;
        let counts = self.counts.checked_add(other.counts)?;
        (self.unit == other.unit).then_some(Law { unit: self.unit, events, counts })
    }
}

/// What merging does with counts of different sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mixing {
    /// Refuses to add them.
    #[default]
    Refused,
    /// Weighs each by its law, so that the result counts executions.
    Executions,
    /// Weighs them if they are of different sources.
    WhereNeeded,
    /// Adds them as they are.
    Raw,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_stands_for_what_passed_between_two_counts() {
        let weight = |unit, events, counts| Law { unit, events, counts }.weight().map(Weight::bits);
        // Ten stacks of 32 entries, one every 100,000 branches.
        assert_eq!(weight(Unit::Branches, 1_000_000, 320), Some(3125 << 16));
        assert_eq!(weight(Unit::Ns, 1_000_000, 1024), Some(24_000_000)); // 366.2
        assert_eq!(weight(Unit::Cycles, 8, 1), Some(1 << 16));
        assert_eq!(weight(Unit::Executions, 7, 7), Some(1 << 16));
        assert_eq!(weight(Unit::Branches, 1, 3), Some(21845), "rounded to the nearest");
        assert_eq!(weight(Unit::Branches, 2, 3), Some(43691));
        assert_eq!(weight(Unit::Branches, 5, 0), None);
        // A clock's sample every millisecond.
        assert_eq!(weight(Unit::Ns, 1_000_000, 1), Some(375_000 << 16));
        assert_eq!(weight(Unit::Branches, 1 << 32, 1), None, "more than the largest weight");
        assert_eq!(weight(Unit::Branches, u64::MAX, u64::MAX), Some(1 << 16));
        let law = |unit, events| Law { unit, events, counts: 1 };
        let second = 1_000_000_000;
        assert_eq!(law(Unit::Ns, 12 * second).cap(5, 2), None);
        assert_eq!(law(Unit::Ns, 24 * second).cap(5, 2), Weight::from_bits(32768));
        assert_eq!(law(Unit::Branches, 96 * second).cap(5, 2), None);
        assert_eq!(law(Unit::Executions, u64::MAX).cap(0, 1), None);
        let month = 31 * 86_400;
        assert_eq!(law(Unit::Ns, (month + 1) * second).cap(u64::MAX, 1), None);
        assert_eq!(
            law(Unit::Ns, (month + 1) * 2 * second).cap(u64::MAX, 1),
            Weight::from_bits(32768)
        );
        let one = Law { unit: Unit::Ns, events: 1, counts: 2 };
        assert_eq!(one.with(one), Some(Law { unit: Unit::Ns, events: 2, counts: 4 }));
        assert_eq!(one.with(Law { unit: Unit::Cycles, ..one }), None);
    }
}
