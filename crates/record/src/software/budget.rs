//! How often to stop a thread, so that recording costs no more than was agreed.

use super::Pace;
use random::Random;
use std::collections::HashMap;
use std::time::Duration;

/// The shortest CPU time between two stops of a thread, in nanoseconds.
const SHORTEST_NS: f64 = 1_000_000.0;
/// The longest one, in nanoseconds, so that a thread that runs for seconds is seen.
const LONGEST_NS: f64 = 1_000_000_000.0;
/// Weight of the newest stop in the running means: they follow a change of the program within some
/// ten stops.
const NEWEST: f64 = 0.1;
/// After so many stops, the period is renewed at this share of them.
const FIRST_STOPS: u32 = 64;
const RENEWED: f64 = 0.25;
/// Nanoseconds that a stop costs before there was one; the first ones, which decode much code, cost more.
const FIRST_NS: f64 = 150_000.0;
/// Taken branches in a nanosecond before any were counted.
const FIRST_RATE: f64 = 0.3;
/// Processes whose last stop is remembered; most of more have ended.
const MOST_PROCESSES: usize = 65_536;

/// Keeps the mean cost of a stop and how fast the trigger counts, and derives periods from them.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    pace: Pace,
    mean_ns: f64,
    counts: bool,
    /// Running means of what was counted between two stops, and of the CPU time that passed, in
    /// nanoseconds.
    recent: (f64, f64),
    /// CPU time of each process at its last stop.
    times: HashMap<i32, u64>,
    /// Stops so far, up to [`FIRST_STOPS`].
    learnt: u32,
    random: Random,
}

impl Budget {
    /// `counts`: the trigger is a counter of branches, else the CPU clock.
    pub(crate) fn new(pace: Pace, counts: bool) -> Budget {
        Budget {
            pace,
            mean_ns: FIRST_NS,
            counts,
            recent: (FIRST_RATE * SHORTEST_NS, SHORTEST_NS),
            times: HashMap::new(),
            learnt: 0,
            random: Random::new(0),
        }
    }

    /// Takes note of what a stop cost.
    pub(crate) fn spent(&mut self, cost: Duration) {
        // One stop may have waited for another or met much new code; it moves the mean by no more
        // than three usual ones.
        let cost = (cost.as_nanos() as f64).min(self.mean_ns * 3.0);
        self.mean_ns += NEWEST * (cost - self.mean_ns);
    }

    /// Takes note of a process's CPU time at a stop that one of its threads came to after a period.
    /// The result is the CPU time since the process's last stop.
    pub(crate) fn reached(&mut self, pid: i32, time_ns: Option<u64>, period: u64) -> Duration {
        let Some(now) = time_ns else { return Duration::ZERO };
        if self.times.len() >= MOST_PROCESSES {
            self.times.clear();
        }
        let before = self.times.insert(pid, now);
        // It may have run long before it was attached to.
        let usual = || (period as f64 / self.rate()) as u64;
        let passed = before.map_or_else(|| usual().min(now), |before| now.saturating_sub(before));
        if self.counts && before.is_some() {
            // Sums, since stops of several threads follow each other closely.
            let (units, time) = self.recent;
            self.recent =
                (units + NEWEST * (period as f64 - units), time + NEWEST * (passed as f64 - time));
        }
        Duration::from_nanos(passed)
    }

    /// Leaves out the CPU time that a process has just spent on single steps.
    pub(crate) fn stepped(&mut self, pid: i32, time_ns: Option<u64>) {
        self.times.extend(time_ns.map(|now| (pid, now)));
    }

    /// Units of the trigger in a nanosecond of CPU time; 1 where it is the clock.
    fn rate(&self) -> f64 {
        if self.counts { (self.recent.0 / self.recent.1.max(1.0)).clamp(0.001, 10.0) } else { 1.0 }
    }

    /// A new period where there is to be one: at each of the first stops, which teach what a stop
    /// costs, then at every fourth on the average. To set it takes the kernel a tenth of a
    /// stop.
    pub(crate) fn next_period(&mut self) -> Option<u64> {
        self.learnt = (self.learnt + 1).min(FIRST_STOPS);
        let wanted = self.learnt < FIRST_STOPS || self.random.unit() < RENEWED;
        wanted.then(|| self.period())
    }

    /// A period in the trigger's unit. It varies by a quarter around its mean, lest stops fall into
    /// step with the program.
    pub(crate) fn period(&mut self) -> u64 {
        let mean = match self.pace {
            Pace::Budget(share) => {
                (self.mean_ns / share).clamp(SHORTEST_NS, LONGEST_NS) * self.rate()
            }
            Pace::Frequency(hertz) => 1e9 / hertz.max(1) as f64 * self.rate(),
            Pace::Period(units) => units as f64,
        };
        (mean * (0.75 + 0.5 * self.random.unit())) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_follows_the_cost() {
        let mut budget = Budget::new(Pace::Budget(0.03), false);
        for _ in 0..200 {
            budget.spent(Duration::from_micros(300));
        }
        let periods: Vec<u64> = (0..1000).map(|_| budget.period()).collect();
        let mean = periods.iter().sum::<u64>() as f64 / periods.len() as f64;
        assert!((mean - 10e6).abs() < 0.3e6, "{mean}");
        assert!(periods.iter().all(|period| (7_400_000..12_600_000).contains(period)));
    }

    #[test]
    fn periods_are_renewed_at_first_always_and_then_now_and_then() {
        let mut budget = Budget::new(Pace::Frequency(100), false);
        assert!((1..FIRST_STOPS).all(|_| budget.next_period().is_some()));
        let renewed = (0..1000).filter(|_| budget.next_period().is_some()).count();
        assert!((180..320).contains(&renewed), "{renewed}");
    }

    #[test]
    fn one_outlier_moves_little() {
        let mut budget = Budget::new(Pace::Budget(0.03), false);
        budget.spent(Duration::from_secs(1));
        assert!(budget.period() < 13_000_000);
    }

    #[test]
    fn a_counter_is_turned_into_time_by_its_rate() {
        let mut budget = Budget::new(Pace::Frequency(1000), true);
        let mut time = 0;
        for _ in 0..200 {
            // Two branches in three nanoseconds.
            time += 1_500_000;
            budget.reached(7, Some(time), 1_000_000);
        }
        let period = budget.period() as f64;
        assert!((490_000.0..850_000.0).contains(&period), "{period}");
        assert_eq!(budget.reached(7, Some(time + 5), 1), Duration::from_nanos(5));
    }
}
