//! What does make say while it builds, and how does it end?

use crate::Error;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// What make did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Made {
    /// Files that it compiled or assembled.
    pub compiled: u64,
    /// Warnings that it printed.
    pub warnings: Vec<String>,
    /// How long it took.
    pub seconds: f64,
}

/// Lines of make's output that an error shows.
const LAST_LINES: usize = 25;

/// Runs make with these words. Its output goes to `log`, behind `command`, and line by line to
/// `said`.
///
/// # Errors
/// Where it cannot be run, or its output not be kept; [`Error::Make`] where it failed.
pub fn run(
    words: &[String],
    command: &str,
    log: &Path,
    said: &mut dyn FnMut(&str),
) -> Result<Made, Error> {
    let began = Instant::now();
    let mut log_file = beside::fresh(log).map_err(Error::io(log))?;
    writeln!(log_file, "$ {command}").map_err(Error::io(log))?;
    // One stream, so that messages stand where they belong.
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec make \"$@\" 2>&1", "make"]).args(words);
    let child = shell.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(Error::doing("cannot run make"))?;
    let mut made = Made::default();
    let mut last: VecDeque<String> = VecDeque::new();
    if let Some(out) = child.stdout.take() {
        for line in BufReader::new(out).split(b'\n') {
            let line = line.map_err(Error::doing("cannot read what make prints"))?;
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(log_file, "{line}").map_err(Error::io(log))?;
            let word = line.split_whitespace().next().unwrap_or_default();
            made.compiled += u64::from(word == "CC" || word == "AS");
            if line.contains("warning:") {
                made.warnings.push(line.clone());
            }
            said(&line);
            last.push_back(line);
            if last.len() > LAST_LINES {
                last.pop_front();
            }
        }
    }
    let status = child.wait().map_err(Error::doing("cannot wait for make"))?;
    made.seconds = began.elapsed().as_secs_f64();
    if status.success() {
        return Ok(made);
    }
    let full = last.iter().any(|line| line.contains("No space left on device"));
    let next = if full {
        "the disk is full; make room and run this again"
    } else {
        "the whole output is in the log"
    };
    let tail = last.iter().map(|line| format!("  {line}\n")).collect();
    Err(Error::Make { status: status.to_string(), next, log: log.to_owned(), tail })
}
