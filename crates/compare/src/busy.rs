//! Was the machine busy with something else while a measurement ran?

use crate::Run;
use statistics::median;

/// What /proc/stat and the kernel's account of this process said at one moment, in clock ticks.
pub(crate) struct Snapshot {
    used: Option<u64>,
    all: Option<u64>,
    own: Option<u64>,
}

impl Snapshot {
    /// As it is now.
    pub(crate) fn now() -> Snapshot {
        let machine = std::fs::read_to_string("/proc/stat").ok().and_then(|text| totals(&text));
        let own = std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| own_ticks(&text));
        Snapshot { used: machine.map(|(used, _)| used), all: machine.map(|(_, all)| all), own }
    }

    /// Share of all CPU time since then that neither this process nor what it ran used.
    pub(crate) fn others_share(&self) -> Option<f64> {
        let now = Snapshot::now();
        let since =
            |later: Option<u64>, before: Option<u64>| Some(later?.saturating_sub(before?) as f64);
        let (used, all) = (since(now.used, self.used)?, since(now.all, self.all)?);
        let own = since(now.own, self.own)?;
        (all > 0.0).then(|| ((used - own) / all).clamp(0.0, 1.0))
    }
}

/// Ticks that all CPUs were used (by whomever, also the hypervisor's other guests), and ticks in
/// all.
fn totals(text: &str) -> Option<(u64, u64)> {
    // user, nice, system, idle, iowait, irq, softirq, steal; what follows is part of the first two.
    let line = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().take(8).map(|n| n.parse().unwrap_or(0)).collect();
    let all: u64 = ticks.iter().sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Some((all - idle, all))
}

/// Ticks of this process and of the children it waited for.
fn own_ticks(text: &str) -> Option<u64> {
    // Fields 14 to 17; the name in parentheses may hold blanks.
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let four = fields.get(11..15)?;
    Some(four.iter().map(|n| n.parse::<u64>().unwrap_or(0)).sum())
}

/// The typical share of its time that a run stood in the queue for a CPU; `None` where the kernel
/// did not tell.
pub(crate) fn queued_share(runs: &[Run]) -> Option<f64> {
    let share = |run: &Run| Some(run.queued_ns? as f64 / run.wall_ns.max(1) as f64);
    let mut shares: Vec<f64> = runs.iter().filter_map(share).collect();
    (!shares.is_empty()).then(|| median(&mut shares))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_used_is_what_is_left_of_the_machine() {
        assert_eq!(totals("cpu  100 0 50 800 20 5 5 20 0 0\ncpu0 1"), Some((180, 1000)));
        let own = "7 (a b) c) S 1 7 7 0 -1 0 0 0 0 0 11 12 13 14 20 0 1";
        assert_eq!(own_ticks(own), Some(50));
        assert!(totals("intr 5").is_none() && own_ticks("7").is_none());
        let share = Snapshot::now().others_share();
        assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)));
    }
}
