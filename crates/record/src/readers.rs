//! The threads that empty the rings: each waits for its own, and all end when told.

use crate::Error;
use crate::open::Opened;
use crate::stream::Stream;
use crate::streaming::Streaming;
use crate::sys::readers as sys;
use perf_events::Event;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// What lies in a ring that never gets full enough to wake its reader is written so often.
const TICK_MS: i32 = 500;

/// A stream and the lock that its reader holds while it empties the rings.
pub(crate) type Shared = Mutex<Stream>;

/// Takes the lock. A reader that panicked leaves a stream that is as good as before.
pub(crate) fn lock(stream: &Shared) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What the readers and the thread that leads them tell each other.
pub(crate) struct Signals {
    /// Its other end is closed when the readers are to end.
    end: PipeReader,
    ending: Mutex<Option<PipeWriter>>,
    /// A byte in it asks the leading thread to look.
    pub notice: PipeReader,
    noticing: PipeWriter,
    failure: Mutex<Option<Error>>,
    /// Bytes in the files so far, of all streams.
    bytes: AtomicU64,
    /// With so many bytes the leading thread is to look.
    limit: AtomicU64,
}

impl Signals {
    pub(crate) fn new() -> Result<Signals, Error> {
        let pipe = || io::pipe().map_err(Error::io("a pipe between threads".as_ref(), "create"));
        let ((end, ending), (notice, noticing)) = (pipe()?, pipe()?);
        Ok(Signals {
            end,
            ending: Mutex::new(Some(ending)),
            notice,
            noticing,
            failure: Mutex::new(None),
            bytes: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        })
    }

    /// Lets the readers empty their rings once more and end.
    pub(crate) fn end(&self) {
        self.ending.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    }

    /// What made a reader end early.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }

    fn fail(&self, error: Error) {
        let mut failure = self.failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failure.get_or_insert(error);
        self.notify();
    }

    fn notify(&self) {
        // It can only fail when the leading thread is gone.
        let _ = (&self.noticing).write_all(&[1]);
    }

    /// Bytes in the files so far, of all streams.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The leading thread is to look when there are so many bytes.
    pub(crate) fn give_notice_at(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// Takes a notice back, once it has been seen.
    pub(crate) fn seen(&self) {
        let _ = (&self.notice).read(&mut [0; 64]);
    }
}

/// Ends the readers also where the leading thread leaves early.
pub(crate) struct EndOnDrop<'s>(pub &'s Signals);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Gives the calling thread the priority that was asked for.
fn take_priority(how: &Streaming) -> Result<(), Error> {
    let Some(priority) = how.realtime else { return Ok(()) };
    sys::realtime(priority).map_err(|error| Error::Refused {
        event: format!("with real-time priority {priority} (-r)"),
        reason: format!(
            "{error}; a real-time priority needs root, CAP_SYS_NICE or a limit (`ulimit -r`) of \
             at least {priority}"
        ),
    })
}

/// Refuses a priority that readers would not get, before there is anything to read; tried on a
/// thread of its own.
pub(crate) fn check_priority(how: &Streaming) -> Result<(), Error> {
    let tried = std::thread::scope(|scope| scope.spawn(|| take_priority(how)).join());
    tried.unwrap_or(Ok(()))
}

/// One reader: empties the rings of its stream until the end.
pub(crate) fn read(stream: &Shared, opened: &Opened, signals: &Signals, how: &Streaming) {
    sys::block_signals();
    if let Err(error) = take_priority(how) {
        return signals.fail(error);
    }
    let mut waiting: Vec<Candidates<'_>> = lock(stream)
        .rings
        .iter()
        .filter_map(|emptied| Candidates::of(opened, emptied.number))
        .collect();
    let mut known = lock(stream).sink().bytes();
    let mut tick = TICK_MS;
    loop {
        let last = wait(&mut waiting, signals.end.as_fd(), tick);
        let mut stream = lock(stream);
        if let Err(error) = stream.drain() {
            return signals.fail(error);
        }
        opened.resume(&std::mem::take(&mut stream.resume));
        tick = stream.soon_ms().unwrap_or(TICK_MS).min(TICK_MS);
        // A file that is begun anew has fewer.
        let now = stream.sink().bytes();
        let fresh = now.checked_sub(known).unwrap_or(now);
        let sum = signals.bytes.fetch_add(fresh, Ordering::Relaxed) + fresh;
        known = now;
        if sum >= signals.limit.load(Ordering::Relaxed) {
            // Once is enough, and a pipe that is full would stop the reader.
            signals.limit.store(u64::MAX, Ordering::Relaxed);
            signals.notify();
        }
        if last {
            stream.settle();
            return;
        }
    }
}

/// The events that share a ring: the first of them that still lives is waited for.
struct Candidates<'o> {
    events: std::vec::IntoIter<&'o Event>,
    current: Option<&'o Event>,
}

impl<'o> Candidates<'o> {
    fn of(opened: &'o Opened, ring: usize) -> Option<Candidates<'o>> {
        let leader = opened.leaders.get(ring)?;
        if opened.overwritten.contains(&ring) {
            return None;
        }
        let followers = opened.followers.iter().filter(|follower| follower.ring == ring);
        let all: Vec<&Event> =
            std::iter::once(leader).chain(followers.map(|follower| &follower.event)).collect();
        let mut events = all.into_iter();
        let current = events.next();
        Some(Candidates { events, current })
    }
}

/// Waits for a ring or for the end, a tick at most; true at the end.
fn wait(waiting: &mut [Candidates<'_>], end: BorrowedFd<'_>, tick_ms: i32) -> bool {
    let mut list = vec![end];
    list.extend(waiting.iter().filter_map(|one| one.current).map(AsFd::as_fd));
    let ready = sys::wait(&list, tick_ms);
    let (last, rest) = match ready.split_first() {
        Some((first, rest)) => (first.0, rest),
        None => (true, &ready[..]),
    };
    for (one, (_, gone)) in waiting.iter_mut().filter(|one| one.current.is_some()).zip(rest) {
        if *gone {
            // It would be ready for ever.
            one.current = one.events.next();
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::perf::Ring;
    use perfdata::EventAttr;
    use std::time::{Duration, Instant};

    /// An event of a thread that has ended, with its ring: the kernel hangs its descriptor up.
    fn hung_up() -> Option<Opened> {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(link.file_name().unwrap().to_str().unwrap().parse::<i32>().unwrap()).unwrap();
            let _ = ended.recv();
        });
        let attr = EventAttr {
            kind: crate::attr::TYPE_SOFTWARE,
            config: crate::attr::CPU_CLOCK,
            size_bytes: EventAttr::WRITTEN_BYTES,
            period_or_freq: 1_000_000,
            flags: perfdata::attr_flag::EXCLUDE_KERNEL | perfdata::attr_flag::EXCLUDE_HV,
            ..EventAttr::default()
        };
        let event = Event::open(&attr, told.recv().unwrap(), -1, None);
        drop(end);
        thread.join().unwrap();
        let Ok(event) = event else {
            eprintln!("skipped: the kernel gives no event here");
            return None;
        };
        let ring = Ring::map(&event, crate::sys::page_bytes(), false).unwrap();
        Some(Opened { rings: vec![ring], cpus: vec![0], leaders: vec![event], ..Opened::default() })
    }

    #[test]
    fn a_ring_that_hangs_up_does_not_keep_its_reader_awake() {
        let Some(opened) = hung_up() else { return };
        let signals = Signals::new().unwrap();
        let mut waiting: Vec<Candidates<'_>> = Candidates::of(&opened, 0).into_iter().collect();
        // The task is taken out of the kernel's tables a moment after the thread was joined.
        let patience = Instant::now() + Duration::from_secs(60);
        while waiting[0].current.is_some() {
            assert!(Instant::now() < patience, "the kernel never hung up");
            assert!(!wait(&mut waiting, signals.end.as_fd(), TICK_MS));
        }
        // From here on there is only the end to wait for: were the ring still there, this would not
        // wait at all.
        let polled = crate::sys::readers::wait(&[opened.leaders[0].as_fd()], 0);
        assert_eq!(polled, [(true, true)]);
        let begin = Instant::now();
        assert!(!wait(&mut waiting, signals.end.as_fd(), TICK_MS));
        assert!(begin.elapsed() >= Duration::from_millis(TICK_MS as u64 / 2));
        signals.end();
        assert!(wait(&mut waiting, signals.end.as_fd(), TICK_MS));
    }
}
