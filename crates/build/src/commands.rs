//! `[workload]` and `[evaluate]`: on which commands is a program recorded, and on which measured?

use crate::around::Around;
use crate::split_words;
use compare::settings::{LEAST_LAYOUTS, enough_layouts};
use compare::{Metric, Source};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One command line or several.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged, expecting = "expected a command (\"{bin} input\") or a list of commands")]
pub enum Lines {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Lines {
    /// All lines.
    pub fn all(&self) -> Vec<&str> {
        match self {
            Lines::One(line) => vec![line],
            Lines::Many(lines) => lines.iter().map(String::as_str).collect(),
        }
    }

    /// Every line cut into words.
    pub fn words(&self) -> Result<Vec<Vec<String>>, String> {
        self.all().into_iter().map(split_words).collect()
    }
}

/// A table with commands and what stands around them: serde cannot refuse unknown keys of a table
/// that is put together from two structures.
macro_rules! table {
    ($(#[$about:meta])* $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// Variables that all commands get.
            #[serde(default)]
            pub environment: BTreeMap<String, String>,
            /// Where the commands run; the directory of planish.toml where nothing is said.
            pub directory: Option<String>,
            /// Exit codes of the commands that are as good as 0.
            #[serde(default)]
            pub exit_codes: Vec<i32>,
            /// A line for `sh -c` before every run.
            pub set_up: Option<String>,
            /// A line for `sh -c` after every run.
            pub tear_down: Option<String>,
            /// Program and arguments of a server, which the commands drive.
            pub start: Option<String>,
            /// By what one sees that the server can be driven.
            pub ready: Option<String>,
            /// A line for `sh -c` that ends the server; SIGTERM where there is none.
            pub stop: Option<String>,
        }

        impl $name {
            /// What stands around the commands.
            pub fn around(&self) -> Around<'_> {
                Around {
                    environment: &self.environment,
                    directory: self.directory.as_deref(),
                    exit_codes: &self.exit_codes,
                    set_up: self.set_up.as_deref(),
                    tear_down: self.tear_down.as_deref(),
                    start: self.start.as_deref(),
                    ready: self.ready.as_deref(),
                    stop: self.stop.as_deref(),
                }
            }
        }
    };
}

table! {
    /// `[workload]`.
    Workload {
        /// One command or several; `{bin}` stands for the program. `drive` is another name, for
        /// clients of a server.
        #[serde(alias = "drive")]
        pub train: Lines,
        /// What the weight of each command in the profile is multiplied by; empty: 1 each.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub weights: Vec<f64>,
        /// Input files of the commands; their change makes a new recording necessary.
        #[serde(default)]
        pub inputs: Vec<String>,
    }
}

table! {
    /// `[evaluate]`.
    Evaluate {
        /// One command or several; should differ from the training, else the gain is overstated.
        /// `drive` is another name, for clients of a server.
        #[serde(alias = "drive")]
        pub command: Lines,
        /// Rounds: every program runs once in each; absent: 30, with layouts 10.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rounds: Option<u32>,
        /// Random layouts of every program that planish links, besides the program as built, over
        /// which the change is averaged; 0: none.
        #[serde(default)]
        pub layouts: u32,
        /// What decides: cpu, user, wall, maxrss, output:PATTERN, throughput:PATTERN.
        #[serde(default = "default_metric")]
        pub metric: String,
        /// Seed of the schedule.
        #[serde(default = "default_seed")]
        pub seed: u64,
        /// Compare programs whose output differs as well.
        #[serde(default)]
        pub ignore_output: bool,
        /// The CPU that everything runs on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub cpu: Option<u32>,
        /// Time fixed work on that CPU during each run, and take what slowed it out of the times.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub gauge: bool,
        /// Input files of the commands; their change makes a new measurement necessary.
        #[serde(default)]
        pub inputs: Vec<String>,
    }
}

/// Rounds where the table names none.
const ROUNDS: u32 = 30;
/// The same where each round runs every layout: more layouts tell more than more rounds.
const ROUNDS_OF_LAYOUTS: u32 = 10;

fn default_metric() -> String {
    "cpu".into()
}

fn default_seed() -> u64 {
    1
}

/// What a command's weight can be multiplied by.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// Most rounds of a measurement.
const MOST_ROUNDS: u32 = 1_000_000;

impl Workload {
    /// Says what is wrong with the table, if something is.
    pub(crate) fn check(&self) -> Result<(), String> {
        checked("[workload] train", &self.train)?;
        let (weights, commands) = (self.weights.len(), self.train.all().len());
        if weights > 0 && weights != commands {
            return Err(format!(
                "[workload] weights has {weights} numbers and train {commands} commands: give one \
                 number for each command, in the same order"
            ));
        }
        if let Some(bad) = self.weights.iter().find(|weight| !WEIGHTS.contains(weight)) {
            return Err(format!(
                "[workload] weights: {bad} cannot be a weight; expected numbers from {} to {}",
                WEIGHTS.start(),
                WEIGHTS.end()
            ));
        }
        self.around().check("[workload]")
    }

    /// The commands in words, as they are run; `{bin}` is yet to be replaced.
    pub fn words(&self) -> Result<Vec<Vec<String>>, String> {
        Ok(self.train.words()?.iter().map(|words| self.around().words(words)).collect())
    }

    /// The first command that cannot be emulated.
    pub fn not_emulatable(&self) -> Option<&str> {
        not_emulatable(&self.train, &self.around())
    }
}

impl Evaluate {
    /// Says what is wrong with the table, if something is.
    pub(crate) fn check(&self) -> Result<(), String> {
        checked("[evaluate] command", &self.command)?;
        self.around().check("[evaluate]")?;
        self.check_metric()?;
        let rounds = self.rounds();
        if rounds < 6 {
            return Err(format!(
                "[evaluate] rounds = {rounds}: fewer than 6 cannot show a difference at 5 %; 30 is usual"
            ));
        }
        if rounds > MOST_ROUNDS {
            return Err(format!(
                "[evaluate] rounds = {rounds}: they would not end; {MOST_ROUNDS} are the most, 30 \
                 are usual"
            ));
        }
        if self.gauge && self.cpu.is_none() {
            return Err(
                "[evaluate] gauge = true: it needs one CPU for everything; add cpu = 0, or another"
                    .into(),
            );
        }
        if (1..LEAST_LAYOUTS).contains(&self.layouts) {
            return Err(format!(
                "[evaluate] layouts = {}: fewer than {LEAST_LAYOUTS} cannot show a difference at 5 %; 8 is \
                 usual, 0 measures the programs as built",
                self.layouts
            ));
        }
        enough_layouts("[evaluate] layouts =", Some(self.layouts)).map_err(|e| e.to_string())
    }

    /// The rounds asked for, or as many as are usual.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.layouts > 0 { ROUNDS_OF_LAYOUTS } else { ROUNDS })
    }

    /// Counters would count set-up and client as well, and the kernel does not tell what a living
    /// server's threads waited.
    fn check_metric(&self) -> Result<(), String> {
        let metric = Metric::parse(&self.metric).map_err(|error| format!("[evaluate] {error}"))?;
        let around = self.around();
        let Some(line) = first_but(&self.command, |words| around.is_direct(words)) else {
            return Ok(());
        };
        match metric.source {
            Source::Counter(_) => Err(format!(
                "[evaluate] metric = {:?}: counters cannot be told apart by the program and what \
                 stands around it in {line:?}; take cpu, user, wall, maxrss, faults, output:… or \
                 throughput:…",
                self.metric
            )),
            Source::Switches if self.start.is_some() => Err(format!(
                "[evaluate] metric = {:?} is not known of a server; take cpu, user, wall, maxrss, \
                 faults, output:… or throughput:…",
                self.metric
            )),
            _ => Ok(()),
        }
    }

    /// The commands in words, as they are run; `{bin}` is yet to be replaced.
    pub fn words(&self) -> Result<Vec<Vec<String>>, String> {
        Ok(self.command.words()?.iter().map(|words| self.around().words(words)).collect())
    }

    /// Whether the n-th command can be emulated.
    pub fn is_emulatable(&self, n: usize) -> bool {
        let lines = self.command.all();
        let words = lines.get(n).and_then(|line| split_words(line).ok());
        words.is_some_and(|words| self.around().is_emulatable(&words))
    }

    /// The first command that cannot be emulated.
    pub fn not_emulatable(&self) -> Option<&str> {
        not_emulatable(&self.command, &self.around())
    }
}

fn checked(key: &str, lines: &Lines) -> Result<(), String> {
    match lines.words().map_err(|problem| format!("{key}: {problem}"))?.is_empty() {
        true => Err(format!("{key}: there is no command")),
        false => Ok(()),
    }
}

fn not_emulatable<'l>(lines: &'l Lines, around: &Around<'_>) -> Option<&'l str> {
    first_but(lines, |words| around.is_emulatable(words))
}

/// The first line whose words are not so.
fn first_but(lines: &Lines, are: impl Fn(&[String]) -> bool) -> Option<&str> {
    lines.all().into_iter().find(|line| !split_words(line).is_ok_and(|words| are(&words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(text: &str) -> Result<Workload, String> {
        let table: Workload = toml::from_str(text).map_err(|error| error.to_string())?;
        table.check().map(|()| table)
    }

    fn words(text: &str) -> String {
        workload(text).unwrap().words().unwrap().concat().join(" ")
    }

    #[test]
    fn the_program_with_its_arguments_runs_as_it_is_and_all_else_by_the_workload_command() {
        assert_eq!(words("train = '{bin} a {bin}'"), "{bin} a {bin}");
        assert_eq!(
            words("train = './run.sh {bin}'"),
            "{planish} workload --program {bin} -- ./run.sh {PLANISH_BIN}"
        );
        assert_eq!(
            words(
                "train = '{bin}'\nenvironment = { A = '1' }\nexit_codes = [3]\nset_up = 'mkdir x'"
            ),
            "{planish} workload --program {bin} --environment=A=1 --exit-code=3 --set-up=mkdir x \
             -- {PLANISH_BIN}"
        );
        assert_eq!(
            words(
                "drive = 'client {port}'\nstart = '{bin} -p {port}'\nready = \
                 'tcp:127.0.0.1:{port}'\nstop = 'kill it'"
            ),
            "{planish} workload --program {bin} --start={PLANISH_BIN} -p {port} \
             --ready=tcp:127.0.0.1:{port} --stop=kill it -- client {port}"
        );
    }

    #[test]
    fn wrong_values_are_refused_with_the_way_out() {
        let wrong = |text: &str| workload(text).unwrap_err();
        assert!(wrong("train = 'a'\ndrive = 'b'").contains("duplicate field"));
        assert!(wrong("inputs = []").contains("missing field `train`"));
        assert!(wrong("train = []").contains("there is no command"));
        assert!(wrong("train = 'a'\nready = 'file:x'").contains("there is no start"));
        assert!(wrong("train = 'a'\nstop = 'x'").contains("there is no start"));
        assert!(wrong("train = 'a'\nstart = 'x'").contains("start needs ready"));
        assert!(wrong("train = 'a'\nstart = 'x | y'\nready = 'file:x'").contains("needs a shell"));
        let ready = wrong("train = 'a'\nstart = 'x'\nready = '6379'");
        assert!(ready.contains("expected \"tcp:HOST:PORT\""), "{ready}");
        assert!(wrong("train = 'a'\nexit_codes = [0]").contains("0 is always allowed"));
        assert!(wrong("train = 'a'\nexit_codes = [256]").contains("from 1 to 255"));
        assert!(wrong("train = 'a'\nenvironment = { 'a=b' = 'c' }").contains("no name"));
        assert!(wrong("train = 'a'\nsetup = 'x'").contains("unknown field `setup`"));
    }

    #[test]
    fn what_cannot_be_measured_of_a_server_is_refused() {
        let metric = |command: &str, metric: &str| {
            let text = format!("command = '{command}'\nmetric = '{metric}'\n");
            let table: Evaluate = toml::from_str(&text).unwrap();
            table.check()
        };
        assert!(metric("{bin} x", "instructions").is_ok());
        let gauged = |more: &str| {
            let table: Evaluate =
                toml::from_str(&format!("command = '{{bin}}'\ngauge = true\n{more}")).unwrap();
            table.check()
        };
        assert!(gauged("cpu = 1").is_ok() && gauged("").unwrap_err().contains("add cpu = 0"));
        assert!(metric("sh run.sh {bin}", "cpu").is_ok());
        assert!(metric("sh run.sh {bin}", "switches").is_ok());
        assert!(metric("sh run.sh {bin}", "instructions").unwrap_err().contains("take cpu"));
    }
}
