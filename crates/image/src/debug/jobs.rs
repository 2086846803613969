//! Runs independent jobs on some threads and hands the results back in the order of the jobs.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` for every number below `count`, on at most `threads` threads including this one.
pub(super) fn run<T: Send + Sync>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let threads = threads.min(count);
    if threads <= 1 {
        return (0..count).map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results: Vec<OnceLock<T>> = std::iter::repeat_with(OnceLock::new).take(count).collect();
    let worker = || {
        // The counter only hands out numbers; the results are published by the scope's end.
        while let Some((number, slot)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            results.get(number).map(|slot| (number, slot))
        } {
            let _ = slot.set(work(number));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(worker);
        }
        worker();
    });
    results.into_iter().filter_map(OnceLock::into_inner).collect()
}
