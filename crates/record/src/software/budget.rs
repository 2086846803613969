//! How often to stop a thread, so that recording costs no more than was agreed.

use std::time::Duration;

/// The shortest and longest CPU time between two stops of a thread.
const SHORTEST_NS: f64 = 1_000_000.0;
const LONGEST_NS: f64 = 1_000_000_000.0;
/// Weight of the newest stop in the running mean of what a stop costs.
const NEWEST: f64 = 0.1;
/// What a stop costs before there was one; the first ones, which decode much code, cost more.
const FIRST_NS: f64 = 150_000.0;

/// How the interval between stops is chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pace {
    /// This share of the program's CPU time may go into stops: 0.03 for 3 %.
    Budget(f64),
    /// So many stops for each second of a thread's CPU time.
    Frequency(u64),
    /// So many nanoseconds of a thread's CPU time between two stops.
    Period(u64),
}

/// Keeps the mean cost of a stop, and derives periods from it.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pace: Pace,
    mean_ns: f64,
    random: u64,
}

impl Budget {
    pub(crate) fn new(pace: Pace) -> Budget {
        Budget { pace, mean_ns: FIRST_NS, random: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Takes note of what a stop cost.
    pub(crate) fn spent(&mut self, cost: Duration) {
        // One stop may have waited for another or met much new code; it moves the mean by no more than three usual ones.
        let cost = (cost.as_nanos() as f64).min(self.mean_ns * 3.0);
        self.mean_ns += NEWEST * (cost - self.mean_ns);
    }

    /// The next period, which varies by a quarter around its mean, lest stops fall into step with the program.
    pub(crate) fn period_ns(&mut self) -> u64 {
        let mean = match self.pace {
            Pace::Budget(share) => (self.mean_ns / share).clamp(SHORTEST_NS, LONGEST_NS),
            Pace::Frequency(hertz) => 1e9 / hertz.max(1) as f64,
            Pace::Period(ns) => ns as f64,
        };
        // xorshift64 (Marsaglia 2003): any sequence without a period of the program's would do.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = (self.random >> 11) as f64 / (1u64 << 53) as f64;
        (mean * (0.75 + 0.5 * part)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_follows_the_cost() {
        let mut budget = Budget::new(Pace::Budget(0.03));
        for _ in 0..200 {
            budget.spent(Duration::from_micros(300));
        }
        let periods: Vec<u64> = (0..1000).map(|_| budget.period_ns()).collect();
        let mean = periods.iter().sum::<u64>() as f64 / periods.len() as f64;
        assert!((mean - 10e6).abs() < 0.3e6, "{mean}");
        assert!(periods.iter().all(|period| (7_400_000..12_600_000).contains(period)));
    }

    #[test]
    fn one_outlier_moves_little() {
        let mut budget = Budget::new(Pace::Budget(0.03));
        budget.spent(Duration::from_secs(1));
        assert!(budget.period_ns() < 13_000_000);
    }
}
