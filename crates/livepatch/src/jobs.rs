//! Independent jobs on some threads, their results in the order of the jobs.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` for every number below `count`; each thread has a state of its own, for buffers and
/// caches.
pub(crate) fn run<S: Default, T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(count));
    let worker = || {
        let mut state = S::default();
        let mut own = Vec::new();
        loop {
            // The counter only hands out numbers; the results are published by the lock.
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                break;
            }
            own.push((number, work(&mut state, number)));
        }
        if let Ok(mut done) = done.lock() {
            done.append(&mut own);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.clamp(1, count.max(1)) {
            scope.spawn(worker);
        }
        worker();
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
