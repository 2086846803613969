//! What does a running child say, and when has it ended?
//!
//! Both of its streams are read by threads of their own and handed over line by line, of bounded
//! length and number, so that neither a flood nor a line without end takes memory.

use processes::Ending;
use std::io::Read;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Grace given to a child between the user's wish to stop and its end by force.
const GRACE: Duration = Duration::from_secs(10);

/// How long a child's streams are waited for after its end: what it left running may hold them open
/// for ever.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Longer lines come in pieces.
const LINE_BYTES: usize = 8 << 10;

/// Lines that wait to be heard; a child that says more waits itself.
const WAITING: usize = 256;

/// The stream that a line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Output,
    Error,
}

/// A line, or a piece of one.
#[derive(Debug)]
pub(crate) struct Said {
    pub source: Source,
    pub line: String,
    /// Whether the line ends here.
    pub ended: bool,
}

/// Hears a child to its end. Streams that are no pipes are left alone.
pub(crate) fn hear(
    mut child: Child,
    stop: &AtomicBool,
    heard: &mut dyn FnMut(Said),
) -> std::io::Result<ExitStatus> {
    let (send, receive) = sync_channel::<Said>(WAITING);
    if let Some(stream) = child.stdout.take() {
        let send = send.clone();
        std::thread::spawn(move || read_lines(stream, Source::Output, &send));
    }
    if let Some(stream) = child.stderr.take() {
        let send = send.clone();
        std::thread::spawn(move || read_lines(stream, Source::Error, &send));
    }
    drop(send);
    let mut asked: Option<Asked> = None;
    let mut over: Option<(ExitStatus, Instant)> = None;
    loop {
        match receive.recv_timeout(Duration::from_millis(50)) {
            Ok(said) => heard(said),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                if over.is_some_and(|(_, since)| since.elapsed() > AFTERWARDS) {
                    break;
                }
            }
        }
        processes::take_orphans(child.id());
        if over.is_none() {
            over = child.try_wait()?.map(|status| (status, Instant::now()));
        }
        if over.is_none() {
            end_if_asked(&child, stop, &mut asked);
        }
        if asked.as_ref().is_some_and(|asked| asked.since.elapsed() > GRACE) {
            break;
        }
    }
    match over {
        Some((status, _)) => {
            end_rest(&child, asked, stop);
            Ok(status)
        }
        None => wait(&mut child, stop),
    }
}

fn read_lines(mut stream: impl Read, source: Source, to: &SyncSender<Said>) {
    let mut block = vec![0; 1 << 16];
    let mut line: Vec<u8> = Vec::new();
    let tell = |line: &mut Vec<u8>, ended| {
        let text = String::from_utf8_lossy(line).into_owned();
        line.clear();
        to.send(Said { source, line: text, ended }).is_ok()
    };
    loop {
        let got = match stream.read(&mut block) {
            Ok(0) => break,
            Ok(got) => got,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for &byte in block.get(..got).unwrap_or_default() {
            let ended = byte == b'\n';
            if !ended {
                line.push(byte);
            }
            if (ended || line.len() >= LINE_BYTES) && !tell(&mut line, ended) {
                return;
            }
        }
    }
    if !line.is_empty() {
        tell(&mut line, true);
    }
}

/// Waits for a child; where `stop` is set meanwhile it is asked to end with all that it started, and
/// killed five seconds later if it does not.
///
/// # Errors
/// Where the system cannot wait for it.
pub fn wait(child: &mut Child, stop: &AtomicBool) -> std::io::Result<ExitStatus> {
    let mut asked = None;
    loop {
        processes::take_orphans(child.id());
        if let Some(status) = child.try_wait()? {
            end_rest(child, asked, stop);
            return Ok(status);
        }
        end_if_asked(child, stop, &mut asked);
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A child that was asked to end.
struct Asked {
    since: Instant,
    looked: Instant,
    ending: Ending,
}

/// Ctrl-C reaches the children through the terminal, but a signal to this process alone must be
/// handed on, also to those that a build tool started. After half of [`GRACE`] they are killed.
fn end_if_asked(child: &Child, stop: &AtomicBool, asked: &mut Option<Asked>) {
    /// Between two looks, each of which reads all of /proc.
    const LOOK: Duration = Duration::from_millis(50);
    if !stop.load(Ordering::Relaxed) {
        return;
    }
    let now = Instant::now();
    let Asked { since, looked, ending } = match asked {
        Some(asked) if asked.looked.elapsed() < LOOK => return,
        Some(asked) => asked,
        None => asked.insert(Asked { since: now, looked: now, ending: of_all(child) }),
    };
    *looked = now;
    if since.elapsed() > GRACE / 2 {
        ending.kill();
    } else {
        ending.ask();
    }
}

/// A child and what it started. Who adopts orphans has those, too, that ignore the Ctrl-C which ended
/// the one that had started them.
fn of_all(child: &Child) -> Ending {
    if processes::adopts_orphans() { Ending::of_children() } else { Ending::of(child.id()) }
}

/// Ends what an ended child left running where the user wants to stop.
fn end_rest(child: &Child, asked: Option<Asked>, stop: &AtomicBool) {
    let (since, mut ending) = match asked {
        Some(Asked { since, ending, .. }) => (since, ending),
        // Its number may be another's by now.
        None if stop.load(Ordering::Relaxed) && processes::adopts_orphans() => {
            (Instant::now(), of_all(child))
        }
        None => return,
    };
    if !ending.wait((GRACE / 2).saturating_sub(since.elapsed())) {
        ending.kill();
    }
}
