//! Standard output and standard error: one way for everything that is printed.
//!
//! Nothing here panics. A stream that takes no more, or was closed from the start, is remembered,
//! what else would go there is dropped, and [`failed`] makes exit code 2 of it, with a message
//! where one can be written. What is printed holds nothing that a terminal obeys: [`line`] writes
//! one line whatever names are in it, [`text`] whole lines.

use crate::sys;
use report::Style;
use std::fmt::Arguments;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One of the two standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Results.
    Output,
    /// What is said about them.
    Error,
}

/// Why each stream takes no more.
static FAILED: Mutex<[Option<String>; 2]> = Mutex::new([None, None]);

fn failures() -> MutexGuard<'static, [Option<String>; 2]> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stream {
    fn name(self) -> &'static str {
        match self {
            Stream::Output => "standard output",
            Stream::Error => "standard error",
        }
    }

    fn was_closed(self) -> bool {
        match self {
            Stream::Output => sys::output_was_closed(),
            Stream::Error => sys::error_was_closed(),
        }
    }

    /// Colours where the stream is a terminal and the user does not object (<https://no-color.org>).
    pub fn style(self) -> Style {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let terminal = match self {
            Stream::Output => io::stdout().is_terminal(),
            Stream::Error => io::stderr().is_terminal(),
        };
        Style { colour: !unwanted && terminal }
    }

    /// Writes and hands on; the first failure is remembered and is that of all that follows.
    fn send(self, bytes: &[u8]) -> io::Result<()> {
        if let Some(why) = self.failure() {
            return Err(io::Error::other(why));
        }
        let sent = match self {
            _ if self.was_closed() => Err(io::Error::other("it is closed")),
            Stream::Output => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Stream::Error => io::stderr().lock().write_all(bytes),
        };
        sent.map_err(|error| {
            if error.kind() == io::ErrorKind::BrokenPipe {
                crate::signals::end_without_reader();
            }
            let why = format!("{}: {error}", self.name());
            self.fail(&why);
            io::Error::new(error.kind(), why)
        })
    }

    fn failure(self) -> Option<String> {
        failures().get(self as usize).cloned().flatten()
    }

    fn fail(self, why: &str) {
        if let Some(place) = failures().get_mut(self as usize) {
            place.get_or_insert_with(|| why.to_owned());
        }
    }

    /// Several lines, as [`report::visible_lines`] shows them.
    pub fn text(self, text: &str) -> io::Result<()> {
        self.send(report::visible_lines(text, self.style().colour).as_bytes())
    }

    /// One line, whatever is in it.
    fn line(self, said: Arguments<'_>) -> io::Result<()> {
        self.send((one_line(&said.to_string(), self.style().colour) + "\n").as_bytes())
    }
}

/// What is said without the line ends in it; tabs stay, as they part columns.
fn one_line(said: &str, colours: bool) -> String {
    let ends = ['\n', '\r', '\u{2028}', '\u{2029}'];
    report::visible_lines(&said.replace(ends, " "), colours).into_owned()
}

/// A stream as a sink of bytes that go out as they are: recordings, profiles, pages, JSON.
#[derive(Clone, Copy, Debug)]
pub struct Raw(Stream);

/// Standard output for bytes as they are.
pub fn raw() -> Raw {
    Raw(Stream::Output)
}

impl Write for Raw {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A stream as a sink of text, whole characters at a time.
#[derive(Clone, Copy, Debug)]
pub struct Shown(Stream);

/// Standard output for text.
pub fn text() -> Shown {
    Shown(Stream::Output)
}

/// Standard error for text.
pub fn error_text() -> Shown {
    Shown(Stream::Error)
}

impl Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.text(&String::from_utf8_lossy(bytes)).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes text to standard output; a reader that has gone away ends the program as other tools end.
pub fn print(text: &str) -> anyhow::Result<()> {
    Ok(Stream::Output.text(text)?)
}

/// Writes a value to standard output as indented JSON, which a terminal can show too.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(value)? + "\n";
    Ok(Stream::Output.send(report::json(&text).as_bytes())?)
}

/// What the macros of this crate call. A failure is told by [`failed`].
pub fn say_line(stream: Stream, said: Arguments<'_>) {
    let _ = stream.line(said);
}

/// What the macros of this crate call. A failure is told by [`failed`].
pub fn say_text(stream: Stream, said: Arguments<'_>) {
    let _ = stream.text(&said.to_string());
}

/// Whether a stream did not take what it was sent; says so on standard error, unless `told` did.
pub fn failed(told: &str) -> bool {
    let failures = failures().clone();
    let reason = |failure: &str| {
        failure.split_once(": ").map_or(failure.to_owned(), |(_, why)| why.to_owned())
    };
    for failure in failures.iter().flatten().filter(|failure| !told.contains(&reason(failure))) {
        say_line(Stream::Error, format_args!("planish: {failure}"));
    }
    failures.iter().any(Option::is_some)
}

/// In place of the standard library's, which panics where the stream takes no more: one line on
/// standard output.
#[macro_export]
macro_rules! println {
    () => { $crate::say_text($crate::Stream::Output, format_args!("\n")) };
    ($($said:tt)*) => { $crate::say_line($crate::Stream::Output, format_args!($($said)*)) };
}

/// In place of the standard library's: one line on standard error.
#[macro_export]
macro_rules! eprintln {
    () => { $crate::say_text($crate::Stream::Error, format_args!("\n")) };
    ($($said:tt)*) => { $crate::say_line($crate::Stream::Error, format_args!($($said)*)) };
}

/// In place of the standard library's: text of any number of lines on standard output.
#[macro_export]
macro_rules! print {
    ($($said:tt)*) => { $crate::say_text($crate::Stream::Output, format_args!($($said)*)) };
}

/// In place of the standard library's: text of any number of lines on standard error.
#[macro_export]
macro_rules! eprint {
    ($($said:tt)*) => { $crate::say_text($crate::Stream::Error, format_args!($($said)*)) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_one_line_whatever_is_in_it() {
        let shown = one_line("a\x1b[2Jb\u{202e}\u{2028}c\nd\te", false);
        assert_eq!(shown, "a\u{fffd}[2Jb\u{fffd} c d\te");
    }
}
