//! What did a server print last, and did it print the line that is waited for?
//!
//! A thread reads both outputs of the server to their end and keeps the last lines, each cut, so
//! that a flood takes no memory and no server waits for a reader.

use regex::bytes::Regex;
use std::collections::VecDeque;
use std::io::{PipeReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Lines that are kept.
const LINES: usize = 15;
/// Bytes of a line that are kept, and looked at for the pattern.
const LINE_BYTES: usize = 4 << 10;

/// What a server said so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    last: VecDeque<String>,
    seen: bool,
}

impl Said {
    /// Begins to read; `pattern` is what is waited for.
    pub(crate) fn hear(stream: PipeReader, pattern: Option<Regex>) -> Said {
        let said = Said::default();
        let state = said.clone();
        std::thread::spawn(move || state.read(stream, pattern.as_ref()));
        said
    }

    fn read(&self, mut stream: impl Read, pattern: Option<&Regex>) {
        let mut block = vec![0; 1 << 14];
        let mut line = Vec::new();
        while let Ok(got @ 1..) = stream.read(&mut block) {
            for &byte in block.get(..got).unwrap_or_default() {
                if byte == b'\n' {
                    self.take(&line, pattern);
                    line.clear();
                } else if line.len() < LINE_BYTES {
                    line.push(byte);
                }
            }
        }
        if !line.is_empty() {
            self.take(&line, pattern);
        }
    }

    fn take(&self, line: &[u8], pattern: Option<&Regex>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.seen |= pattern.is_some_and(|pattern| pattern.is_match(line));
        if state.last.len() == LINES {
            state.last.pop_front();
        }
        state.last.push_back(String::from_utf8_lossy(line).into_owned());
    }

    /// Whether the line that is waited for has come.
    pub(crate) fn seen(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seen
    }

    /// The last lines, begun with a line end; empty where there are none.
    pub(crate) fn last(&self) -> String {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_empty() {
            return "\n  (it printed nothing)".to_owned();
        }
        let lines = state.last.iter().map(|line| format!("\n  | {line}"));
        "\n  it printed last:".to_owned() + &lines.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_the_pattern_is_seen() {
        let said = Said::default();
        let pattern = Regex::new("ready on [0-9]+").unwrap();
        let text: String = (0..100).map(|n| format!("line {n}\n")).collect();
        said.read(text.as_bytes(), Some(&pattern));
        assert!(!said.seen());
        assert!(said.last().ends_with("line 99") && !said.last().contains("line 84\n"));
        said.read(&b"now ready on 80"[..], Some(&pattern));
        assert!(said.seen());
        said.read(vec![b'x'; 1 << 20].as_slice(), None);
        assert!(said.last().len() < 2 * LINE_BYTES);
    }
}
