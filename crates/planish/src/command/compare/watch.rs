//! What a person sees while a comparison is prepared and measured, and how they end it.

use crate::cli::Global;
use compare::{Teller, Work};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A flag that Ctrl-C and a request to end set, instead of ending the process.
pub fn stop_flag() -> anyhow::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in terminal::heeded() {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    super::super::handle_interrupts();
    Ok(stop)
}

/// A bar on standard error, where that is a terminal, and notes.
pub struct Bar {
    bar: ProgressBar,
    quiet: bool,
}

impl Bar {
    /// Says nothing where the user wants it quiet.
    pub fn new(global: &Global) -> Bar {
        Bar { bar: ProgressBar::hidden(), quiet: global.quiet }
    }

    fn say(&self, line: &str) {
        if !self.quiet {
            self.bar.suspend(|| eprintln!("{line}"));
        }
    }
}

impl Teller for Bar {
    fn begin(&mut self, work: Work, done: u64, total: u64) {
        if self.quiet || !std::io::stderr().is_terminal() {
            return;
        }
        let style = ProgressStyle::with_template(match work {
            Work::Links => "layouts {wide_bar} {pos}/{len} links, {eta} left",
            Work::Runs => "compare {wide_bar} {pos}/{len} runs, {eta} left",
            Work::Boots => "{wide_bar} {pos}/{len} boots, {eta} left  {msg}",
        });
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        self.bar = ProgressBar::new(total).with_style(style);
        self.bar.set_position(done);
        self.bar.reset_eta();
        if work == Work::Boots {
            self.bar.enable_steady_tick(Duration::from_secs(1));
        }
    }

    fn at(&mut self, done: u64) {
        self.bar.set_position(done);
    }

    fn doing(&mut self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    fn end(&mut self) {
        self.bar.finish_and_clear();
        self.bar = ProgressBar::hidden();
    }

    fn note(&mut self, text: &str) {
        self.say(&format!("planish: {text}"));
    }

    fn warn(&mut self, text: &str) {
        self.say(&format!("warning: {text}"));
    }
}
