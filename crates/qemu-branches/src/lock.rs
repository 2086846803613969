//! A lock that a forked child can take over, whoever held it in the parent.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// A value behind a spinning lock. Held for microseconds, and only while blocks are translated or a
/// watched system call is made, so that spinning with a yield is enough.
pub struct Lock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `with` gives one caller at a time access to the value.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Lock<T> {
        Lock { taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    /// Runs `work` with the value.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.acquire();
        // SAFETY: the lock is held, so nobody else has a reference.
        let result = work(unsafe { &mut *self.value.get() });
        self.release();
        result
    }

    /// Takes the lock across a fork (with [`Lock::release`] in parent and child).
    pub fn acquire(&self) {
        while self
            .taken
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            std::thread::yield_now();
        }
    }

    /// Gives the lock back.
    pub fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }
}
