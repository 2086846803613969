//! When may the next window begin, and how densely may it be sampled, so that the collector costs no
//! more than its budget?
//!
//! The budget is an account: it earns a share of a CPU as time goes by and pays for what was used.
//! A window begins only when what it is expected to cost is there, so that at no time more was
//! spent than earned, but for a window that costs more than the one before; that is earned before
//! the next. Where the windows would come too seldom, samples are taken less often, by halves; when
//! there is plenty, more often again, one step after some windows. On a busy machine the account
//! earns less. Where even the fewest samples cost more than the longest pause earns, several windows
//! in turn, the collector is to leave.

use crate::pressure::Pressure;
use std::time::Duration;

/// Pauses get so many times longer than asked for before samples are taken less often.
const STRETCH: f64 = 2.0;
/// Pauses that are this many times longer than asked for, at the fewest samples, are too long.
const LONGEST: f64 = 8.0;
/// After so many windows in turn with pauses too long it is time to leave.
const PATIENCE: u32 = 3;
/// Samples are taken 2 to the power of this less often at least.
const LOWEST: u32 = 6;
/// The first window has 2 to the power of this fewer samples, since what they cost is not known.
const FIRST: u32 = 3;
/// After so many windows within half of the budget in turn samples are taken twice as often.
const CALM: u32 = 4;
/// On a busy machine the account earns this part, on a very busy one the square of it, and gets back
/// to the whole by this factor a window.
const BUSY: f64 = 0.5;
const RECOVERY: f64 = 1.25;
/// How much of the expected cost the last window decides, where it cost less than expected.
const NEWEST: f64 = 0.5;

/// The account.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Share of a CPU; none where there is no limit.
    share: Option<f64>,
    /// From the start of one window to the next, as asked for.
    every: f64,
    /// What was earned and not spent, in seconds of CPU time.
    credit: f64,
    /// What the next window is expected to cost, in seconds of CPU time.
    expected: f64,
    /// Samples are taken 2^level less often than asked for.
    level: u32,
    /// Whether a window has said what it costs.
    is_known: bool,
    /// Windows in turn that cost little.
    calm: u32,
    /// Windows in turn that cost too much whatever is done.
    beyond: u32,
    /// Part of the share that is earned on a busy machine.
    part: f64,
}

/// What follows from a window's cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Next {
    /// The next window begins so long after this was said, at the earliest.
    pub pause: Duration,
    /// Whether the collector is to leave the host.
    pub leave: bool,
}

impl Budget {
    /// An account of a share of a CPU (0.01 is one percent) for windows that begin so often.
    pub fn new(share: Option<f64>, every: Duration) -> Budget {
        Budget {
            share,
            every: every.as_secs_f64(),
            credit: 0.0,
            expected: 0.0,
            level: if share.is_some() { FIRST } else { 0 },
            is_known: false,
            calm: 0,
            beyond: 0,
            part: 1.0,
        }
    }

    /// By how much less often than asked for samples are taken: 1, 2, 4 …
    pub fn slower(&self) -> u32 {
        1 << self.level
    }

    /// Whether less than the budget is spent since the machine is busy.
    pub fn is_busy(&self) -> bool {
        self.part < 1.0
    }

    /// Pays what was used since the last call, in the time since then. A window of `slower` that is
    /// a part of it says what the next may cost.
    pub fn pay(
        &mut self,
        cost: Duration,
        since: Duration,
        window: Option<Duration>,
        pressure: Pressure,
    ) -> Next {
        let Some(share) = self.share else {
            return Next { pause: Duration::from_secs_f64(self.every), leave: false };
        };
        self.part = match pressure {
            Pressure::Calm => (self.part * RECOVERY).min(1.0),
            Pressure::Busy => self.part.min(BUSY),
            Pressure::VeryBusy => BUSY * BUSY,
        };
        let earning = share * self.part;
        // What was not spent for long is not spent at once.
        let most = share * self.every;
        self.credit = (self.credit + earning * since.as_secs_f64() - cost.as_secs_f64()).min(most);
        if let Some(window) = window {
            let window = window.as_secs_f64();
            let usual = self.expected * (1.0 - NEWEST) + window * NEWEST;
            self.expected = usual.max(window);
            self.adapt(share, earning);
        }
        let missing = (self.expected - self.credit).max(0.0) / earning;
        Next {
            pause: Duration::try_from_secs_f64(missing).unwrap_or(Duration::MAX),
            leave: self.beyond >= PATIENCE,
        }
    }

    /// Chooses how densely the next window is sampled.
    fn adapt(&mut self, share: f64, earning: f64) {
        let pauses = |expected: f64, earning: f64| expected / earning / self.every;
        let too_long = self.level == LOWEST && pauses(self.expected, share) > LONGEST;
        self.beyond = if too_long { self.beyond + 1 } else { 0 };
        self.calm = if pauses(self.expected, earning) <= 0.5 { self.calm + 1 } else { 0 };
        let mut expected = self.expected;
        let mut level = self.level;
        let whole = expected * f64::from(self.slower());
        if !self.is_known && pauses(whole, earning) <= 0.5 {
            (level, expected) = (0, whole);
        }
        self.is_known = true;
        while pauses(expected, earning) > STRETCH && level < LOWEST {
            // A part of the cost is the same whatever the rate; the next window will tell.
            expected /= 2.0;
            level += 1;
        }
        if self.calm >= CALM && level > 0 {
            (self.calm, level, expected) = (0, level - 1, expected * 2.0);
        }
        (self.expected, self.level) = (expected, level);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    const EVERY: Duration = Duration::from_secs(60);

    /// Runs windows of 5 s for a day, each costing `fixed` and `each` at the full rate; the share of
    /// a CPU that was used, the number of windows, and the lowest rate.
    fn day(
        budget: &mut Budget,
        fixed: f64,
        each: f64,
        pressure: Pressure,
    ) -> (f64, u32, u32, bool) {
        let (mut now, mut used, mut windows, mut slowest) = (0.0, 0.0, 0, 1);
        let mut since = 0.0;
        while now < 86_400.0 {
            let cost = fixed + each / f64::from(budget.slower());
            slowest = slowest.max(budget.slower());
            let took = 5.0 + cost;
            used += cost;
            windows += 1;
            let cost = Duration::from_secs_f64(cost);
            let next =
                budget.pay(cost, Duration::from_secs_f64(since + took), Some(cost), pressure);
            if next.leave {
                return (used / (now + took), windows, slowest, true);
            }
            since = next.pause.as_secs_f64().max(60.0 - took);
            now += took + since;
        }
        (used / now, windows, slowest, false)
    }

    #[test]
    fn a_cheap_window_comes_as_often_as_asked_for() {
        let mut budget = Budget::new(Some(0.01), EVERY);
        let (share, windows, slowest, left) = day(&mut budget, 0.01, 0.05, Pressure::Calm);
        // The first one is to find out.
        assert_eq!((windows, slowest, left, budget.slower()), (1440, 8, false, 1));
        assert!(share < 0.002);
    }

    #[test]
    fn a_dear_window_comes_less_often_then_with_fewer_samples_and_stays_within_the_budget() {
        let mut budget = Budget::new(Some(0.01), EVERY);
        let (share, windows, slowest, left) = day(&mut budget, 0.1, 8.0, Pressure::Calm);
        assert!(!left && share <= 0.0102 && share > 0.004, "{share}");
        assert!(windows > 600 && slowest > 2, "{windows} {slowest}");
        // It comes back once it is cheap.
        let (_, windows, _, _) = day(&mut budget, 0.01, 0.1, Pressure::Calm);
        assert_eq!(budget.slower(), 1);
        assert!(windows > 1400);
    }

    #[test]
    fn a_busy_machine_gives_less() {
        let calm = day(&mut Budget::new(Some(0.01), EVERY), 0.3, 2.0, Pressure::Calm);
        let busy = day(&mut Budget::new(Some(0.01), EVERY), 0.3, 2.0, Pressure::Busy);
        let very = day(&mut Budget::new(Some(0.01), EVERY), 0.3, 2.0, Pressure::VeryBusy);
        assert!(
            busy.0 <= 0.0052 && very.0 <= 0.0027 && calm.0 > busy.0,
            "{calm:?} {busy:?} {very:?}"
        );
        let mut budget = Budget::new(Some(0.01), EVERY);
        let second = Duration::from_secs(1);
        budget.pay(second, second, None, Pressure::VeryBusy);
        let mut windows = 0;
        while budget.is_busy() {
            budget.pay(Duration::ZERO, second, None, Pressure::Calm);
            windows += 1;
        }
        assert!(windows >= 5, "it comes back slowly");
    }

    #[test]
    fn a_host_where_the_least_costs_too_much_is_left_within_the_budget() {
        let mut budget = Budget::new(Some(0.001), EVERY);
        let (_, windows, slowest, left) = day(&mut budget, 2.0, 1.0, Pressure::Calm);
        assert!(left && windows < 20 && slowest == 64, "{windows} {slowest}");
        // A machine that is only busy is no reason to leave.
        let (_, _, _, left) =
            day(&mut Budget::new(Some(0.01), EVERY), 2.0, 1.0, Pressure::VeryBusy);
        assert!(!left);
        let (_, windows, _, left) = day(&mut Budget::new(None, EVERY), 20.0, 1.0, Pressure::Calm);
        assert!(!left && windows > 1000, "no limit");
    }

    proptest::proptest! {
        #[test]
        fn what_was_spent_is_never_more_than_what_was_earned_and_the_dearest_window(
            costs in proptest::collection::vec((0.0f64..3.0, 0u8..3), 1..60),
        ) {
            let mut budget = Budget::new(Some(0.01), Duration::from_secs(10));
            let (mut now, mut used, mut dearest, mut since) = (0.0, 0.0, 0.0f64, 0.0);
            for (cost, pressure) in costs {
                let pressure = [Pressure::Calm, Pressure::Busy, Pressure::VeryBusy][usize::from(pressure)];
                now += cost;
                used += cost;
                dearest = dearest.max(cost);
                proptest::prop_assert!(used <= 0.01 * now + dearest + 1e-6, "{used} in {now}");
                let cost = Duration::from_secs_f64(cost);
                let since_all = Duration::from_secs_f64(since + cost.as_secs_f64());
                let next = budget.pay(cost, since_all, Some(cost), pressure);
                since = next.pause.as_secs_f64().max(0.001);
                now += since;
            }
        }
    }
}
