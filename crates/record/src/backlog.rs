//! What waits for a slow disk or pipe: a bounded queue between the readers of the rings and a
//! thread that writes.
//!
//! Invariants: bytes are written in the order in which they came; never do more than `most` wait,
//! but for one piece that is larger alone; after a failure nothing is written until it is taken
//! back. A full queue makes the reader wait, and then its rings get full, where the kernel counts
//! what finds no room.

use crate::sys::readers::block_signals;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that may wait when nothing else is said.
pub(crate) const USUAL_BYTES: u64 = 64 << 20;
/// Who was asked to end waits so long for a place that takes nothing.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a waiting reader looks whether it was asked to end.
const LOOK: Duration = Duration::from_millis(200);
/// Buffers that are kept for use again.
const SPARE: usize = 4;

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    /// Bytes in the queue and on their way out of it.
    waiting: usize,
    most_waited: usize,
    /// Where in the file the bytes that were written end.
    end: u64,
    /// The number of the system's error.
    failure: Option<i32>,
    writing: bool,
    closed: bool,
    spare: Vec<Vec<u8>>,
    last_progress: Option<Instant>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file and the queue before it.
#[derive(Debug)]
pub(crate) struct Backlog {
    pub file: File,
    shared: Arc<Shared>,
    most: usize,
}

impl Backlog {
    /// Begins to write into a file at the place where it is.
    pub(crate) fn new(file: File, most: u64) -> io::Result<Backlog> {
        let shared = Arc::new(Shared::default());
        // The same open file, with the same place in it.
        let (own, out) = (Arc::clone(&shared), file.try_clone()?);
        std::thread::Builder::new().name("writer".to_owned()).spawn(move || write(&own, &out))?;
        Ok(Backlog { file, shared, most: usize::try_from(most).unwrap_or(usize::MAX) })
    }

    /// Hands bytes over; waits while too many wait before them.
    pub(crate) fn push(&self, bytes: Vec<u8>) -> io::Result<()> {
        let mut state =
            self.until(|state| state.waiting == 0 || state.waiting + bytes.len() <= self.most)?;
        state.waiting += bytes.len();
        state.most_waited = state.most_waited.max(state.waiting);
        state.queue.push_back(bytes);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// An empty buffer, used before where there is one.
    pub(crate) fn buffer(&self) -> Vec<u8> {
        self.shared.lock().spare.pop().unwrap_or_default()
    }

    /// Waits until nothing waits.
    pub(crate) fn drain(&self) -> io::Result<()> {
        self.until(|state| state.waiting == 0).map(drop)
    }

    /// The next bytes go there. Nothing waits.
    pub(crate) fn moved(&self, to: u64) {
        self.shared.lock().end = to;
    }

    /// Forgets what waits and what failed; what was written so far ends there in the file.
    pub(crate) fn discard(&self) -> io::Result<u64> {
        let mut state = self.shared.lock();
        state.waiting = 0;
        state.queue.clear();
        state.failure = None;
        drop(state);
        let state = self.until(|state| !state.writing)?;
        Ok(state.end)
    }

    /// Where in the file the bytes end that were written.
    pub(crate) fn end(&self) -> u64 {
        self.shared.lock().end
    }

    /// Bytes that wait, and how many may.
    pub(crate) fn load(&self) -> (usize, usize) {
        (self.shared.lock().waiting, self.most)
    }

    /// The most bytes that ever waited.
    pub(crate) fn most_waited(&self) -> u64 {
        self.shared.lock().most_waited as u64
    }

    fn until(&self, ready: impl Fn(&State) -> bool) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.shared.lock();
        let mut since = None;
        loop {
            if let Some(failure) = state.failure {
                return Err(io::Error::from_raw_os_error(failure));
            }
            if ready(&state) {
                return Ok(state);
            }
            if crate::sys::asked_to_end() {
                let began = *since.get_or_insert_with(Instant::now);
                let since = state.last_progress.map_or(began, |last| last.max(began));
                if since.elapsed() >= PATIENCE {
                    let text = format!(
                        "nothing was taken for {} s after a signal asked to end, and {} bytes \
                         still wait",
                        PATIENCE.as_secs(),
                        state.waiting
                    );
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
            }
            let waited = self.shared.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Backlog {
    /// The thread may be in the middle of a write that never ends: it is not waited for.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

fn write(shared: &Shared, mut out: &File) {
    block_signals();
    let mut state = shared.lock();
    loop {
        if state.closed {
            return;
        }
        let Some(mut bytes) = state.queue.pop_front() else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.writing = true;
        drop(state);
        let mut at = 0;
        let mut failure = None;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match out.write(rest) {
                Ok(0) => failure = Some(libc::ENOSPC),
                Ok(some) => {
                    at += some;
                    let mut state = shared.lock();
                    state.end += some as u64;
                    state.waiting = state.waiting.saturating_sub(some);
                    state.last_progress = Some(Instant::now());
                    shared.changed.notify_all();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => failure = Some(error.raw_os_error().unwrap_or(libc::EIO)),
            }
            if failure.is_some() {
                break;
            }
        }
        state = shared.lock();
        state.writing = false;
        if failure.is_some() {
            state.failure = failure;
            state.queue.clear();
            state.waiting = 0;
        } else if state.spare.len() < SPARE {
            bytes.clear();
            state.spare.push(bytes);
        }
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn no_more_waits_than_is_allowed_and_all_arrives_in_order() {
        let (mut reader, writer) = io::pipe().unwrap();
        let most = 100_000;
        let backlog = Backlog::new(File::from(std::os::fd::OwnedFd::from(writer)), most).unwrap();
        let total = 1_000_000_u32;
        let slow = std::thread::spawn(move || {
            let mut all = Vec::new();
            let mut some = [0; 30_000];
            loop {
                let count = reader.read(&mut some).unwrap();
                if count == 0 {
                    return all;
                }
                all.extend_from_slice(&some[..count]);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let all: Vec<u8> = (0..total / 4).flat_map(u32::to_le_bytes).collect();
        all.chunks(7_000).for_each(|chunk| backlog.push(chunk.to_vec()).unwrap());
        backlog.drain().unwrap();
        let waited = backlog.most_waited();
        assert!(waited > most / 2 && waited <= most, "{waited}");
        assert_eq!(backlog.end(), u64::from(total));
        drop(backlog);
        assert_eq!(slow.join().unwrap(), all);
    }

    #[test]
    fn a_full_disk_is_told_and_can_be_gone_on_from() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let backlog = Backlog::new(full, 1000).unwrap();
        backlog.push(vec![1; 10]).unwrap();
        let error = backlog.drain().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert!(backlog.push(vec![1; 10]).is_err());
        assert_eq!(backlog.discard().unwrap(), 0);
        backlog.push(vec![1; 10]).unwrap();
    }
}
