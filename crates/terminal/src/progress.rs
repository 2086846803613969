//! Progress on standard error: only on a terminal, only when something takes longer than two
//! seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Silence before a bar appears.
const PATIENCE: Duration = Duration::from_secs(2);

/// What is drawn once the work has taken two seconds; never where `quiet` was asked for or where
/// standard error is no terminal. Gone when dropped.
struct Late {
    enabled: bool,
    began: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Late {
    fn new(quiet: bool) -> Late {
        let enabled = !quiet && std::io::stderr().is_terminal();
        Late { enabled, began: Instant::now(), bar: OnceLock::new() }
    }

    fn bar(&self, total: Option<u64>, template: &str) -> Option<&ProgressBar> {
        let draw = || {
            let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(template);
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        };
        (self.enabled && self.began.elapsed() > PATIENCE).then(|| self.bar.get_or_init(draw))
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// A bar over a number of bytes.
pub struct Bytes {
    total: u64,
    label: String,
    done: AtomicU64,
    late: Late,
}

impl Bytes {
    /// A bar for `total` bytes; never drawn where `quiet` or where standard error is no terminal.
    pub fn new(label: &str, total: u64, quiet: bool) -> Bytes {
        let label = report::visible(label).into_owned();
        Bytes { total, label, done: AtomicU64::new(0), late: Late::new(quiet) }
    }

    /// Tells that `bytes` more are done.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let template = "{msg} {wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {eta} left";
        if let Some(bar) = self.late.bar(Some(self.total), template) {
            bar.set_message(self.label.clone());
            bar.set_position(done);
        }
    }
}

/// A clock with the line that something said last.
pub struct Ticker {
    label: String,
    late: Late,
}

impl Ticker {
    /// Never drawn where `quiet` or where standard error is no terminal.
    pub fn new(label: &str, quiet: bool) -> Ticker {
        Ticker { label: report::visible(label).into_owned(), late: Late::new(quiet) }
    }

    /// Shows what was said, in one line.
    pub fn tell(&self, line: &str) {
        const WIDTH: usize = 60;
        if let Some(bar) = self.late.bar(None, "{prefix} {elapsed} {msg}") {
            bar.set_prefix(self.label.clone());
            bar.set_message(report::visible(line.trim()).chars().take(WIDTH).collect::<String>());
        }
    }
}

/// A spinner that turns by itself once the work has taken two seconds; gone when dropped.
pub struct Spinner {
    // Dropping the sender wakes the thread.
    _end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Spinner {
    /// Never drawn where `quiet` or where standard error is no terminal.
    pub fn start(label: &'static str, quiet: bool) -> Spinner {
        if quiet || !std::io::stderr().is_terminal() {
            return Spinner { _end: None, thread: None };
        }
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            if ended.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner().with_message(label);
            while ended.recv_timeout(Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        });
        Spinner { _end: Some(end), thread: Some(thread) }
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self._end = None;
        if let Some(thread) = self.thread.take() {
            // A spinner that failed is no reason to fail.
            let _ = thread.join();
        }
    }
}
