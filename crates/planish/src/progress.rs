//! Progress on standard error: only on a terminal, only when something takes longer than two
//! seconds.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Silence before a bar appears.
const PATIENCE: Duration = Duration::from_secs(2);

/// A bar over a number of bytes that appears once the work has taken two seconds.
pub struct Bytes {
    total: u64,
    label: String,
    enabled: bool,
    began: Instant,
    done: std::sync::atomic::AtomicU64,
    bar: OnceLock<ProgressBar>,
}

impl Bytes {
    /// A bar for `total` bytes; never drawn where `quiet` or where standard error is no terminal.
    pub fn new(label: &str, total: u64, quiet: bool) -> Bytes {
        Bytes {
            total,
            label: label.to_owned(),
            enabled: !quiet && std::io::stderr().is_terminal(),
            began: Instant::now(),
            done: 0.into(),
            bar: OnceLock::new(),
        }
    }

    /// Tells that `bytes` more are done.
    pub fn add(&self, bytes: u64) {
        let done = self.done.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed) + bytes;
        if self.enabled && self.began.elapsed() > PATIENCE {
            self.bar.get_or_init(|| self.draw()).set_position(done);
        }
    }

    fn draw(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(Some(self.total), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(report::visible(&self.label).into_owned());
        bar
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// A clock with the line that something said last.
pub struct Ticker {
    label: String,
    enabled: bool,
    began: Instant,
    bar: OnceLock<ProgressBar>,
}

impl Ticker {
    /// Never drawn where `quiet` or where standard error is no terminal.
    pub fn new(label: &str, quiet: bool) -> Ticker {
        let enabled = !quiet && std::io::stderr().is_terminal();
        Ticker { label: label.to_owned(), enabled, began: Instant::now(), bar: OnceLock::new() }
    }

    /// Shows what was said, in one line.
    pub fn tell(&self, line: &str) {
        const WIDTH: usize = 60;
        if self.enabled && self.began.elapsed() > PATIENCE {
            let bar = self.bar.get_or_init(|| self.draw());
            bar.set_message(report::visible(line.trim()).chars().take(WIDTH).collect::<String>());
        }
    }

    fn draw(&self) -> ProgressBar {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.set_prefix(report::visible(&self.label).into_owned());
        bar
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
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
