//! Commands to a recording that runs: words in a fifo, each answered with `ack` (`perf record
//! --control`).

use crate::Error;
use crate::streaming::Control;
use crate::sys::readers::open_fifo;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// What a recording can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Enable,
    Disable,
    Snapshot,
    Stop,
    Ping,
}

/// A fifo of commands.
pub(crate) struct Commands {
    commands: File,
    answers: Option<File>,
    rest: Vec<u8>,
    /// Words that are none of them.
    pub unknown: Vec<String>,
}

impl Commands {
    /// Opens the fifos.
    pub(crate) fn open(control: &Control) -> Result<Commands, Error> {
        let open = |path: &std::path::Path| {
            open_fifo(path).map_err(Error::io(path, "open the control fifo"))
        };
        let commands = open(&control.commands)?;
        let answers = control.answers.as_deref().map(open).transpose()?;
        Ok(Commands { commands, answers, rest: Vec::new(), unknown: Vec::new() })
    }

    /// What becomes ready when a command comes.
    pub(crate) fn ready(&self) -> BorrowedFd<'_> {
        self.commands.as_fd()
    }

    /// The commands that came since the last question.
    pub(crate) fn taken(&mut self) -> Vec<Command> {
        /// A line longer than this is no command.
        const LONGEST: usize = 4096;
        let mut buffer = [0; 512];
        // The fifo does not wait: an error says that there is no more.
        while let Ok(got @ 1..) = self.commands.read(&mut buffer) {
            self.rest.extend_from_slice(buffer.get(..got).unwrap_or_default());
        }
        let mut found = Vec::new();
        while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=end).collect();
            let word = String::from_utf8_lossy(line.trim_ascii()).into_owned();
            match parse(&word) {
                Some(command) => found.push(command),
                None if word.is_empty() => {}
                None => self.unknown.push(word),
            }
        }
        if self.rest.len() > LONGEST {
            self.rest.clear();
        }
        found
    }

    /// Says that a command is done.
    pub(crate) fn answer(&mut self) {
        if let Some(answers) = &mut self.answers {
            // Nobody may listen; that is no reason to stop recording.
            let _ = answers.write_all(b"ack\n");
        }
    }
}

fn parse(word: &str) -> Option<Command> {
    Some(match word {
        "enable" => Command::Enable,
        "disable" => Command::Disable,
        "snapshot" => Command::Snapshot,
        "stop" => Command::Stop,
        "ping" => Command::Ping,
        _ => return None,
    })
}
