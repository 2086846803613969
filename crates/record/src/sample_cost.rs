//! How much time does one sample take from the program that it interrupts?
//!
//! The thread samples itself while it counts to a number, densely, and counts once more without
//! samples. The difference of the shortest times, divided by the samples, is what one costs: the
//! interrupt, what the kernel writes into the ring, and what the program finds gone from its caches.

use crate::attr::{CPU_CLOCK, TYPE_SOFTWARE};
use crate::event::EventSources;
use crate::events;
use crate::options::RecordOptions;
use crate::sys::perf::Ring;
use crate::target::Target;
use perf_events::Event;
use perfdata::{EventAttr, attr_flag as flag, kind};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// `PERF_TYPE_HARDWARE`, whose event 0 counts cycles.
const HARDWARE: u32 = 0;
const CYCLES: u64 = 0;
/// Nanoseconds or cycles between two samples: some ten thousand a second.
const CLOCK_PERIOD: u64 = 50_000;
const CYCLE_PERIOD: u64 = 150_000;
/// How long it is counted, how often.
const SLICE: Duration = Duration::from_millis(1);
const ROUNDS: usize = 12;
const RING_BYTES: usize = 1 << 18;
/// What is believed: no interrupt takes less, and what takes more was something else.
const LEAST: Duration = Duration::from_nanos(200);
const MOST: Duration = Duration::from_micros(50);

/// The time that one sample of a recording takes from what it interrupts; none where the event is no
/// clock or counter of cycles, or cannot be had. It takes about 30 ms of CPU time to find out.
pub fn sample_cost(target: &Target, options: &RecordOptions) -> Option<Duration> {
    let choice = events::choose(options, target.scope(), &EventSources::here()).ok()?;
    let event = choice.events.iter().find(|event| !event.is_tracker() && event.trace.is_none())?;
    let attr = dense(&event.attr)?;
    let event = Event::open(&attr, 0, -1, None).ok()?;
    let mut ring = Ring::map(&event, RING_BYTES, false).ok()?;
    let steps = steps_of_a_slice();
    let (mut without, mut with) = (Duration::MAX, Duration::MAX);
    let mut samples = 0;
    for _ in 0..ROUNDS {
        without = without.min(timed(steps));
        event.enable().ok()?;
        with = with.min(timed(steps));
        event.disable().ok()?;
        samples += emptied(&mut ring);
    }
    let each = u32::try_from(samples / ROUNDS).ok().filter(|each| *each > 0)?;
    Some((with.saturating_sub(without) / each).clamp(LEAST, MOST))
}

/// The same event for the calling thread, sampled densely.
fn dense(attr: &EventAttr) -> Option<EventAttr> {
    let period = match (attr.kind, attr.config) {
        (TYPE_SOFTWARE, CPU_CLOCK) => CLOCK_PERIOD,
        (HARDWARE, CYCLES) => CYCLE_PERIOD,
        _ => return None,
    };
    let mut attr = attr.clone();
    attr.flags &= !(flag::FREQ | flag::INHERIT | flag::ENABLE_ON_EXEC);
    attr.flags |= flag::DISABLED;
    attr.period_or_freq = period;
    Some(attr)
}

fn timed(steps: u64) -> Duration {
    let began = Instant::now();
    for step in 0..steps {
        let _ = black_box(step);
    }
    began.elapsed()
}

/// So far is counted in the time of a slice.
fn steps_of_a_slice() -> u64 {
    const FEW: u64 = 10_000;
    let took = (0..3).map(|_| timed(FEW)).min().unwrap_or(SLICE).as_nanos().max(1);
    u64::try_from(u128::from(FEW) * SLICE.as_nanos() / took).unwrap_or(FEW)
}

/// Counts the samples in a ring and empties it.
fn emptied(ring: &mut Ring) -> usize {
    let filled = ring.filled();
    let (mut at, mut samples) = (0, 0);
    while let Some(header) = filled.header(at) {
        samples += usize::from(header.kind == kind::SAMPLE);
        at += header.bytes;
    }
    let bytes = filled.len();
    ring.free(bytes);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Branches;

    #[test]
    fn a_sample_of_the_clock_costs_something_and_not_much() {
        let options = RecordOptions { branches: Branches::None, ..RecordOptions::default() };
        match sample_cost(&Target::Command, &options) {
            Some(cost) => assert!((LEAST..=MOST).contains(&cost), "{cost:?}"),
            None => eprintln!("skipped: the kernel gives no event here"),
        }
    }
}
