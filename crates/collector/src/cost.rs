//! What does the collector cost? The CPU time of all its threads, and what its samples take from the
//! programs that they interrupt.

use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Measures CPU time from one reading to the next.
#[derive(Clone, Debug)]
pub struct Meter {
    /// What one sample takes from a program.
    each: Duration,
    used: Duration,
    at: Instant,
}

/// What was used between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time.
    pub cost: Duration,
    /// The time between the readings, by a clock that never jumps.
    pub since: Duration,
}

impl Meter {
    /// Begins to measure; what the process used before counts to the first reading.
    pub fn new(each: Duration) -> Meter {
        Meter { each, used: Duration::ZERO, at: Instant::now() }
    }

    /// What was used since the last reading, in which so many samples were taken.
    pub fn read(&mut self, samples: u64) -> Used {
        let (used, now) = (cpu_time(), Instant::now());
        let sampling = self.each.saturating_mul(u32::try_from(samples).unwrap_or(u32::MAX));
        let cost = used.saturating_sub(self.used).saturating_add(sampling);
        let since = now.saturating_duration_since(self.at);
        (self.used, self.at) = (used, now);
        Used { cost, since }
    }

    /// What was used since the last reading, without being one.
    pub fn look(&self, samples: u64) -> Duration {
        self.clone().read(samples).cost
    }
}

/// CPU time of all threads of this process, those that ended included.
fn cpu_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_threads_work_is_measured_and_what_they_wait_is_not() {
        let mut meter = Meter::new(Duration::from_micros(3));
        meter.read(0);
        let work = || {
            // Of this thread: other tests work meanwhile.
            let own = || time_of(ClockId::ThreadCPUTime);
            let began = own();
            while own() - began < Duration::from_millis(30) {
                let _ = black_box(1);
            }
        };
        std::thread::spawn(work).join().unwrap_or_default();
        std::thread::sleep(Duration::from_millis(50));
        let used = meter.read(1000);
        // Other tests may run in other threads meanwhile.
        assert!(used.cost >= Duration::from_millis(33), "{used:?}");
        assert!(used.since >= Duration::from_millis(80), "{used:?}");
        assert!(meter.look(0) < Duration::from_secs(5));
    }
}
