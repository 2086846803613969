//! What stands around the commands of `[workload]` and `[evaluate]`, and how do they run with it?
//!
//! A command that is the program with its arguments runs as it is. Every other one runs by
//! `planish workload`, which sets up, starts the server, drives, stops and tears down
//! ([`workload::run`]), and tells what the program alone used.

use crate::split_words;
use std::collections::BTreeMap;
use std::path::Path;
use workload::{PROGRAM, Ready};

/// Stands for the program in the commands of a planish.toml.
pub const BIN: &str = "{bin}";

/// Stands for the executable of planish in the words of a step.
pub const PLANISH: &str = "{planish}";

/// Puts the executable of planish in its place.
pub fn start_by(command: &mut [String], planish: &Path) {
    if let Some(first) = command.first_mut().filter(|word| *word == PLANISH) {
        *first = planish.to_string_lossy().into_owned();
    }
}

/// The keys that `[workload]` and `[evaluate]` share, beside the commands.
#[derive(Clone, Copy, Debug)]
pub struct Around<'c> {
    /// Variables that all commands get.
    pub environment: &'c BTreeMap<String, String>,
    /// Where they run, relative to planish.toml.
    pub directory: Option<&'c str>,
    /// Exit codes of the commands that are as good as 0.
    pub exit_codes: &'c [i32],
    /// A line for `sh -c` before every run.
    pub set_up: Option<&'c str>,
    /// A line for `sh -c` after every run.
    pub tear_down: Option<&'c str>,
    /// The server that the commands drive.
    pub start: Option<&'c str>,
    /// By what one sees that it can be driven.
    pub ready: Option<&'c str>,
    /// A line for `sh -c` that ends it.
    pub stop: Option<&'c str>,
}

impl Default for Around<'_> {
    fn default() -> Self {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        Around {
            environment: &NOTHING,
            directory: None,
            exit_codes: &[],
            set_up: None,
            tear_down: None,
            start: None,
            ready: None,
            stop: None,
        }
    }
}

impl Around<'_> {
    /// Whether a command runs as it is: it is the program with its arguments, and nothing stands
    /// around it.
    pub fn is_direct(&self, command: &[String]) -> bool {
        let nothing = self.environment.is_empty()
            && self.exit_codes.is_empty()
            && [self.directory, self.set_up, self.tear_down, self.start]
                .iter()
                .all(Option::is_none);
        nothing && command.first().is_some_and(|word| word == BIN)
    }

    /// Whether a command can be emulated: it is the program with its arguments, and what stands around
    /// it can stand around the emulator as well.
    pub fn is_emulatable(&self, command: &[String]) -> bool {
        // Recordings are named from where planish was called.
        let moved = self.directory.is_some() || self.start.is_some();
        !moved && command.first().is_some_and(|word| word == BIN)
    }

    /// The words that run a command with what stands around it; `{bin}` and [`PLANISH`] are yet to
    /// be replaced.
    pub fn words(&self, command: &[String]) -> Vec<String> {
        if self.is_direct(command) {
            return command.to_vec();
        }
        let bound = |text: &str| text.replace(BIN, PROGRAM);
        let mut words: Vec<String> =
            [PLANISH, "workload", "--program", BIN].map(str::to_owned).into();
        let mut add = |option: &str, value: String| words.extend([format!("--{option}={value}")]);
        for (name, value) in self.environment {
            add("environment", format!("{name}={}", bound(value)));
        }
        self.exit_codes.iter().for_each(|code| add("exit-code", code.to_string()));
        for (option, value) in [
            ("directory", self.directory),
            ("set-up", self.set_up),
            ("tear-down", self.tear_down),
            ("start", self.start),
            ("ready", self.ready),
            ("stop", self.stop),
        ] {
            value.into_iter().for_each(|value| add(option, bound(value)));
        }
        words.push("--".into());
        words.extend(command.iter().map(|word| bound(word)));
        words
    }

    /// Says what is wrong in `table`, if something is.
    pub(crate) fn check(&self, table: &str) -> Result<(), String> {
        for name in self.environment.keys() {
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(format!("{table} environment: {name:?} is no name of a variable"));
            }
        }
        if let Some(code) = self.exit_codes.iter().find(|code| !(1..=255).contains(*code)) {
            let what = match code {
                0 => "0 is always allowed; leave it out".to_owned(),
                _ => format!(
                    "a program cannot end with {code}; give codes from 1 to 255 that are as good as 0"
                ),
            };
            return Err(format!("{table} exit_codes: {what}"));
        }
        let Some(start) = self.start else {
            let without = [("ready", self.ready), ("stop", self.stop)];
            return match without.iter().find(|(_, value)| value.is_some()) {
                Some((key, _)) => Err(format!(
                    "{table} {key} is about a server, and there is no start = \"…\" that starts one"
                )),
                None => Ok(()),
            };
        };
        split_words(start).map_err(|problem| format!("{table} start: {problem}"))?;
        let Some(ready) = self.ready else {
            return Err(format!(
                "{table} start needs ready = \"tcp:127.0.0.1:PORT\", \"line:PATTERN\" or \
                 \"file:PATH\": by what one sees that the server can be driven"
            ));
        };
        ready.parse::<Ready>().map(|_| ()).map_err(|error| format!("{table} {error}"))
    }
}
