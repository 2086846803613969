//! The streams of a recording (one file, or several of a directory), read by several threads at
//! once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `read` for each of `streams` on up to `threads` threads, this one among them. Gives the
/// results in the order of the streams, or the error of the first stream that has one, so that
/// neither depends on the number of threads.
pub(crate) fn each_stream<T: Send, E: Send>(
    streams: usize,
    threads: usize,
    read: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    // Streams behind a faulty one need not be read; those before it may have an error that counts
    // for more.
    let faulty = AtomicUsize::new(usize::MAX);
    let results = Mutex::new(Vec::new());
    let work = || {
        loop {
            let stream = next.fetch_add(1, Ordering::Relaxed);
            if stream >= streams || stream > faulty.load(Ordering::Relaxed) {
                return;
            }
            let result = read(stream);
            if result.is_err() {
                faulty.fetch_min(stream, Ordering::Relaxed);
            }
            // Nothing that can panic runs under the lock.
            results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((stream, result));
        }
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads.min(streams)).map(|_| scope.spawn(work)).collect();
        work();
        for other in others {
            if let Err(panic) = other.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(stream, _)| *stream);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_streams_and_the_first_error_counts() {
        for threads in [0, 1, 2, 7] {
            let doubled = each_stream(20, threads, |stream| Ok::<_, ()>(stream * 2));
            assert_eq!(doubled, Ok((0..20).map(|n| n * 2).collect()));
            let faulty =
                each_stream(
                    20,
                    threads,
                    |stream| if stream % 7 == 5 { Err(stream) } else { Ok(()) },
                );
            assert_eq!(faulty, Err(5));
            assert_eq!(each_stream(0, threads, Err::<(), usize>), Ok(Vec::new()));
        }
    }
}
