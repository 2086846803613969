//! What counts say together: CPUs used, clock rate, instructions per cycle, shares of misses, rates
//! per second.
//!
//! Only events that count the same part (user, kernel, guests) are put together.

use super::counts::Counter;
use crate::attr::bit;
use perfdata::attr_flag as flag;

const HARDWARE: u32 = 0;
const CACHE: u32 = 3;
/// `config` of hardware events (`include/uapi/linux/perf_event.h`).
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const CACHE_REFERENCES: u64 = 2;
const CACHE_MISSES: u64 = 3;
const BRANCHES: u64 = 4;
const BRANCH_MISSES: u64 = 5;
const STALLED_FRONTEND: u64 = 7;
const STALLED_BACKEND: u64 = 8;
/// The bit of a cache event's `config` that says miss.
const CACHE_MISS: u64 = 1 << 16;

/// A number made of several.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Derived {
    /// The number.
    pub value: f64,
    /// What it is: `CPUs utilized`, `GHz`, `insn per cycle`, `/sec`, `% of all branches`, …
    pub unit: &'static str,
}

/// The derived number of each counter, from their scaled values, over `seconds` of wall time.
pub fn derived(counters: &[Counter], values: &[Option<f64>], seconds: f64) -> Vec<Option<Derived>> {
    let all = All { counters, values, seconds };
    counters.iter().zip(values).map(|(counter, value)| all.one(counter, (*value)?)).collect()
}

struct All<'a> {
    counters: &'a [Counter],
    values: &'a [Option<f64>],
    seconds: f64,
}

/// Which part an event counts.
fn part(counter: &Counter) -> u64 {
    const PARTS: u64 = flag::EXCLUDE_USER
        | flag::EXCLUDE_KERNEL
        | flag::EXCLUDE_HV
        | flag::EXCLUDE_GUEST
        | bit::EXCLUDE_HOST
        | bit::EXCLUDE_IDLE;
    counter.attr.flags & PARTS
}

impl All<'_> {
    fn one(&self, counter: &Counter, value: f64) -> Option<Derived> {
        let some = |value: f64, unit| value.is_finite().then_some(Derived { value, unit });
        if counter.is_clock() {
            return some(value / 1e9 / self.seconds, "CPUs utilized");
        }
        if counter.unit.is_some() {
            return None;
        }
        let (kind, config) = (counter.attr.kind, counter.attr.config);
        let of = |kind, config| self.value(counter, kind, config).filter(|whole| *whole > 0.0);
        let percent =
            |whole: Option<f64>, unit| whole.and_then(|whole| some(100.0 * value / whole, unit));
        let special = match (kind, config) {
            (HARDWARE, CYCLES) => {
                self.clock_ns(counter).and_then(|clock| some(value / clock, "GHz"))
            }
            (HARDWARE, INSTRUCTIONS) => {
                of(HARDWARE, CYCLES).and_then(|cycles| some(value / cycles, "insn per cycle"))
            }
            (HARDWARE, BRANCH_MISSES) => percent(of(HARDWARE, BRANCHES), "% of all branches"),
            (HARDWARE, CACHE_MISSES) => {
                percent(of(HARDWARE, CACHE_REFERENCES), "% of all cache refs")
            }
            (HARDWARE, STALLED_FRONTEND) => percent(of(HARDWARE, CYCLES), "% frontend cycles idle"),
            (HARDWARE, STALLED_BACKEND) => percent(of(HARDWARE, CYCLES), "% backend cycles idle"),
            (CACHE, config) if config & CACHE_MISS != 0 => {
                percent(of(CACHE, config & !CACHE_MISS), "% of all accesses")
            }
            _ => None,
        };
        special.or_else(|| {
            self.clock_ns(counter).and_then(|clock| some(value / (clock / 1e9), "/sec"))
        })
    }

    /// The value of an event that counts the same part as `like`.
    fn value(&self, like: &Counter, kind: u32, config: u64) -> Option<f64> {
        let same = |other: &Counter| {
            (other.attr.kind, other.attr.config, part(other)) == (kind, config, part(like))
                && other.cgroup == like.cgroup
        };
        let mut both = self.counters.iter().zip(self.values);
        both.find_map(|(other, value)| same(other).then_some(*value).flatten())
    }

    /// CPU time of the same control group, in ns.
    fn clock_ns(&self, like: &Counter) -> Option<f64> {
        let mut both = self.counters.iter().zip(self.values);
        let same = |counter: &Counter| counter.is_clock() && counter.cgroup == like.cgroup;
        let clock = both.find_map(|(counter, value)| same(counter).then_some(*value).flatten());
        clock.filter(|clock| *clock > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perfdata::EventAttr;

    fn counter(kind: u32, config: u64, flags: u64) -> Counter {
        let attr = EventAttr { kind, config, flags, ..EventAttr::default() };
        Counter {
            name: String::new(),
            attr,
            leader: 0,
            unit: None,
            cgroup: None,
            refused: None,
            denied: false,
        }
    }

    #[test]
    fn numbers_of_the_same_part_are_put_together() {
        let user = flag::EXCLUDE_KERNEL;
        let counters = [
            counter(1, 1, 0),
            counter(HARDWARE, CYCLES, 0),
            counter(HARDWARE, INSTRUCTIONS, 0),
            counter(HARDWARE, INSTRUCTIONS, user),
            counter(CACHE, 0x1_0000, 0),
            counter(CACHE, 0, 0),
            counter(HARDWARE, BRANCHES, 0),
        ];
        let values = [2e9, 6e9, 3e9, 1e9, 5.0, 50.0, 4e6].map(Some);
        let found = derived(&counters, &values, 4.0);
        let said: Vec<_> =
            found.iter().flatten().map(|derived| (derived.value, derived.unit)).collect();
        assert_eq!(
            said,
            [
                (0.5, "CPUs utilized"),
                (3.0, "GHz"),
                (0.5, "insn per cycle"),
                (0.5e9, "/sec"),
                (10.0, "% of all accesses"),
                (25.0, "/sec"),
                (2e6, "/sec"),
            ]
        );
        let none = derived(&counters[1..3], &[None, Some(1.0)], 1.0);
        assert_eq!(none, [None, None]);
    }
}
