//! How many threads ran at each time, by which a sample's share of the run's length is told.

use super::Switching;
use super::states::all_changes;
use crate::event;
use perfdata::EventAttr;

/// The number of running threads over time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    /// From when, in ns, how many; in order.
    steps: Vec<(u64, u32)>,
    /// The events whose weights grow with time, by index.
    times: Vec<bool>,
}

impl Running {
    /// That of the recorded threads.
    pub(crate) fn of(switching: &Switching, attrs: &[EventAttr]) -> Running {
        let mut steps: Vec<(u64, u32)> = Vec::new();
        let mut running = 0i64;
        for (time, change) in all_changes(switching) {
            running += change;
            let count = u32::try_from(running).unwrap_or(0);
            match steps.last_mut() {
                Some(last) if last.0 == time => last.1 = count,
                _ => steps.push((time, count)),
            }
        }
        Running { steps, times: attrs.iter().map(event::is_time).collect() }
    }

    /// What is left of the weight of a sample if those that ran at once share it.
    #[inline]
    pub(crate) fn share(&self, attr_index: u32, time: Option<u64>, period: u64) -> u64 {
        let is_time = self.times.get(attr_index as usize).is_some_and(|is_it| *is_it);
        let at_once = time.filter(|_| is_time).map_or(1, |time| self.at(time));
        period.saturating_add(at_once / 2) / at_once
    }

    /// How many ran at a time; one at least, since it is asked by one that did.
    #[inline]
    pub(crate) fn at(&self, time: u64) -> u64 {
        let next = self.steps.partition_point(|step| step.0 <= time);
        let count = next.checked_sub(1).and_then(|at| self.steps.get(at)).map_or(1, |step| step.1);
        u64::from(count.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switching::ThreadRow;

    fn clock() -> EventAttr {
        EventAttr { kind: 1, config: 0, ..EventAttr::default() }
    }

    fn faults() -> EventAttr {
        EventAttr { kind: 1, config: 2, ..EventAttr::default() }
    }

    #[test]
    fn as_many_run_as_are_on_a_cpu_and_one_at_least() {
        let thread = |tid, alive: (u64, u64)| ThreadRow {
            pid: Some(1),
            tid,
            name: String::new(),
            voluntary: 0,
            preempted: 0,
            times: crate::switching::Times::default(),
            page_faults: 0,
            alive: Some(alive),
            ran_until: Some(alive.1),
        };
        let threads = vec![thread(5, (100, 200)), thread(6, (150, 180)), thread(7, (150, 160))];
        let running =
            Running::of(&Switching { threads, ..Switching::default() }, &[clock(), faults()]);
        let at = [0, 100, 149, 150, 159, 160, 179, 180, 200, 300].map(|time| running.at(time));
        assert_eq!(at, [1, 1, 1, 3, 3, 2, 2, 1, 1, 1]);
        assert_eq!(Running::default().at(7), 1);
        assert_eq!([100, 155, 170].map(|time| running.share(0, Some(time), 900)), [900, 300, 450]);
        // Half a nanosecond is one, other events keep their weight, and so do those without a time.
        assert_eq!(running.share(0, Some(170), 901), 451);
        assert_eq!(running.share(1, Some(155), 900), 900);
        assert_eq!(running.share(0, None, 900), 900);
    }
}
