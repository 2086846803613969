//! Independent jobs on some threads, with results that do not depend on how many.
//!
//! Jobs have numbers; a thread that is free takes the next one, and the results come in the order
//! of the numbers. A job that panics makes the caller panic, with the same message.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Calls `work` for every number below `count`, on at most `threads` threads, this one among them.
pub fn run<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    run_with(count, threads, |(): &mut (), number| work(number))
}

/// As [`run`]; each thread has a state of its own, for buffers and caches.
pub fn run_with<S: Default, T: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(&mut S, usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut state = S::default();
        // The counter only hands out numbers; the results are published by the end of the thread.
        std::iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            (number < count).then(|| (number, work(&mut state, number)))
        })
        .collect::<Vec<_>>()
    };
    let others = 1..threads.min(count);
    let (parts, mut done) = beside(others, |_| worker(), worker);
    done.extend(parts.into_iter().flatten());
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// As [`run`], for jobs that can fail.
///
/// # Errors
/// That of the first faulty job by number. Jobs behind it may not be started.
pub fn try_run<T: Send, E: Send>(
    count: usize,
    threads: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let faulty = AtomicUsize::new(usize::MAX);
    let results = run(count, threads, |number| {
        // Jobs before the faulty one may have an error that counts for more.
        if number > faulty.load(Ordering::Relaxed) {
            return None;
        }
        let result = work(number);
        if result.is_err() {
            faulty.fetch_min(number, Ordering::Relaxed);
        }
        Some(result)
    });
    results.into_iter().flatten().collect()
}

/// Calls `work` with each of `inputs`, each on a thread of its own, while this thread does `own`.
/// Gives the results of `work` in the order of `inputs`, and that of `own`.
pub fn beside<I: Send, T: Send, R>(
    inputs: impl IntoIterator<Item = I>,
    work: impl Fn(I) -> T + Sync,
    own: impl FnOnce() -> R,
) -> (Vec<T>, R) {
    let work = &work;
    std::thread::scope(|scope| {
        let begin = |input| scope.spawn(move || work(input));
        let threads: Vec<_> = inputs.into_iter().map(begin).collect();
        let own = own();
        let end = |thread: std::thread::ScopedJoinHandle<'_, T>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        (threads.into_iter().map(end).collect(), own)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: [usize; 5] = [0, 1, 2, 7, 64];

    #[test]
    fn results_come_in_the_order_of_the_jobs_whatever_the_threads() {
        for threads in THREADS {
            let doubled = run(20, threads, |number| number * 2);
            assert_eq!(doubled, (0..20).map(|number| number * 2).collect::<Vec<_>>());
            assert!(run(0, threads, |number| number).is_empty());
        }
    }

    #[test]
    fn every_job_runs_once_and_sees_the_state_of_its_thread_alone() {
        for threads in THREADS {
            let seen = run_with(50, threads, |own: &mut Vec<usize>, number| {
                own.push(number);
                own.len()
            });
            // Each thread counts 1, 2, 3, … on its own.
            let begun = seen.iter().filter(|&&so_far| so_far == 1).count();
            assert!((1..=threads.max(1)).contains(&begun), "{threads}: {seen:?}");
            let most = seen.iter().max().copied().unwrap_or_default();
            for so_far in 1..=most {
                assert!(seen.contains(&so_far), "{threads}: {seen:?}");
            }
        }
    }

    #[test]
    fn the_first_error_by_number_counts() {
        for threads in THREADS {
            let faulty = try_run(20, threads, |job| if job % 7 == 5 { Err(job) } else { Ok(()) });
            assert_eq!(faulty, Err(5));
            assert_eq!(try_run(3, threads, Ok::<_, ()>), Ok(vec![0, 1, 2]));
            assert_eq!(try_run(0, threads, Err::<(), usize>), Ok(Vec::new()));
        }
    }

    #[test]
    fn what_threads_give_comes_in_the_order_of_what_they_got() {
        let (squares, own) = beside([3, 1, 2], |number| number * number, || "own");
        assert_eq!((squares, own), (vec![9, 1, 4], "own"));
    }

    #[test]
    fn a_panic_of_a_job_reaches_the_caller_with_its_message() {
        for threads in THREADS {
            let caught = std::panic::catch_unwind(|| {
                run(9, threads, |number| assert!(number != 4, "job four"));
            });
            let message = caught.err().and_then(|panic| panic.downcast_ref::<&str>().copied());
            assert_eq!(message, Some("job four"));
        }
    }
}
