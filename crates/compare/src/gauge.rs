//! How slow is the CPU while a program runs on it? A thread on the same CPU wakes about every
//! millisecond and times a fixed piece of work.
//!
//! On a shared machine, whoever uses the other hyperthread of a core takes up to half of its speed
//! and comes and goes within milliseconds; the kernel of a virtual machine sees none of it. The
//! timed work does, as its parts do not wait for each other and want more of the core than half of
//! it has. Waking costs all programs alike 1 to 2 % of CPU time and 2 to 3 % of wall time.

use crate::{Error, sys};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Steps of the timed work: some microseconds.
const STEPS: u32 = 1000;
/// Steps before it, which bring it back into the caches.
const WARM_STEPS: u32 = 100;
/// Times of the work with nothing else going on, of which the shortest is what it takes.
const TRIALS: usize = 200;
/// Longer than so many times the shortest, the thread was interrupted.
const INTERRUPTED: u64 = 4;
/// Fewer times tell nothing of a run.
const LEAST_TIMES: u64 = 5;
/// Shortest and longest sleep in microseconds; they vary, so as not to keep step with a program's
/// own timer.
const SLEEP_US: (u64, u64) = (750, 1250);

/// A thread that times its work while a program runs; it ends when this is dropped.
pub(crate) struct Gauge {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared(Mutex<Times>);

#[derive(Default)]
struct Times {
    /// Counts the programs that began.
    run: u64,
    /// One of them runs.
    on: bool,
    /// The measurement is over.
    over: bool,
    /// How often the work was timed since the program began, and how long it took in all.
    count: u64,
    total_ns: u64,
}

/// A program runs, until this is [ended](Reading::end) or dropped.
pub(crate) struct Reading<'a>(&'a Shared);

impl Gauge {
    /// Starts the thread, which has the CPU of the one that starts it, and sleeps until a program
    /// [begins](Gauge::begin).
    pub(crate) fn new() -> Result<Gauge, Error> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let work = move || {
            sys::go_first();
            theirs.watch(shortest_ns() * INTERRUPTED);
        };
        let thread = std::thread::Builder::new().name("gauge".into()).spawn(work);
        let thread = thread
            .map_err(|source| Error::System { action: "starting the thread of --gauge", source })?;
        Ok(Gauge { shared, thread: Some(thread) })
    }

    /// A program is about to start.
    pub(crate) fn begin(&self) -> Reading<'_> {
        let mut times = self.shared.times();
        *times = Times { run: times.run + 1, on: true, ..Times::default() };
        drop(times);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        Reading(&self.shared)
    }
}

impl Reading<'_> {
    /// The program has ended: the mean time of the work since it began, in nanoseconds; `None`
    /// after a run that was too short for it.
    pub(crate) fn end(self) -> Option<u64> {
        let times = self.0.times();
        (times.count >= LEAST_TIMES).then(|| times.total_ns / times.count)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.times().on = false;
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.shared.times().over = true;
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It holds nothing that could be spoilt.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn times(&self) -> MutexGuard<'_, Times> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, limit_ns: u64) {
        let mut random = random::Random::new(1);
        let (least, most) = SLEEP_US;
        loop {
            let times = self.times();
            let (run, on, over) = (times.run, times.on, times.over);
            drop(times);
            if over {
                break;
            }
            if !on {
                std::thread::park();
                continue;
            }
            let sleep_us = least as f64 + (most - least) as f64 * random.unit();
            std::thread::sleep(Duration::from_micros(sleep_us as u64));
            work(WARM_STEPS);
            let took_ns = timed_ns();
            let mut times = self.times();
            // The program may have ended meanwhile, and the next one begun.
            if took_ns <= limit_ns && times.on && times.run == run {
                times.total_ns += took_ns;
                times.count += 1;
            }
        }
    }
}

fn shortest_ns() -> u64 {
    (0..TRIALS).map(|_| timed_ns()).min().unwrap_or(u64::MAX / INTERRUPTED)
}

fn timed_ns() -> u64 {
    let begun = Instant::now();
    work(STEPS);
    begun.elapsed().as_nanos() as u64
}

/// Six chains of shifts that do not wait for each other (xorshift, Marsaglia 2003), of which the
/// compiler computes several in one vector: enough at once that whoever shares the core slows them.
fn work(steps: u32) {
    let mut chains: [u64; 6] = black_box([1, 2, 3, 4, 5, 6]);
    for _ in 0..steps {
        for chain in &mut chains {
            *chain ^= *chain << 13;
            *chain ^= *chain >> 7;
            *chain ^= *chain << 17;
        }
    }
    black_box(chains);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_timed_while_a_program_runs_and_only_then() {
        let gauge = Gauge::new().unwrap();
        let reading = gauge.begin();
        std::thread::sleep(Duration::from_millis(300));
        let during = reading.end().unwrap();
        assert!((100..100_000).contains(&during), "{during} ns");
        // A timing that was under way does not count any more.
        let count = gauge.shared.times().count;
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(gauge.shared.times().count, count);
        assert_eq!(gauge.begin().end(), None, "the next program begins at nothing");
        assert_eq!(gauge.shared.times().run, 2);
    }
}
