//! What does planish.toml say about recording? `[record]`: where branch stacks come from, how far
//! they are apart, how long.

use record::Branches;
use serde::{Deserialize, Serialize};

/// `[record]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Record {
    /// Where branch stacks come from.
    pub branches: Branches,
    /// From one sample to the next: taken branches under emulation, events of the CPU where it
    /// records branches, and nanoseconds of CPU time elsewhere (with `stop_by = "branches"`
    /// taken branches); absent: what suits the way of recording.
    pub period: Option<u64>,
    /// Software branch stacks: per cent of the program's CPU time that may go into stops; absent:
    /// as many as go.
    pub budget: Option<f64>,
    /// Software branch stacks: what is counted between two stops; absent: what the machine can.
    pub stop_by: Option<StopBy>,
    /// Software branch stacks: the training commands are repeated until they have been recorded so
    /// many seconds together.
    pub seconds: Option<f64>,
    /// `auto` without a CPU that records branches: training that runs natively in fewer seconds is
    /// emulated.
    pub emulate_below: Option<f64>,
    /// Whether the profile lists all functions of the program, so that the compiler takes those
    /// never seen for cold; absent: for gcc, which else lets them grow as if they were hot.
    pub symbol_list: Option<bool>,
    /// Whether taken branches of all programs are counted under emulation, for the report.
    pub count_branches: bool,
}

impl Default for Record {
    fn default() -> Self {
        Record {
            branches: Branches::Auto,
            period: None,
            budget: None,
            stop_by: None,
            seconds: None,
            emulate_below: None,
            symbol_list: None,
            count_branches: true,
        }
    }
}

impl Record {
    /// Seconds of recording that short training is repeated to.
    pub const SECONDS: f64 = 60.0;
    /// Seconds of native training below which it is emulated.
    pub const EMULATE_BELOW: f64 = 5.0;

    pub(crate) fn check(&self) -> Result<(), String> {
        let software = matches!(self.branches, Branches::Auto | Branches::Software);
        let stopping = [
            ("budget", self.budget.is_some()),
            ("stop_by", self.stop_by.is_some()),
            ("seconds", self.seconds.is_some()),
        ];
        if let Some((key, _)) = stopping.iter().find(|(_, given)| *given && !software) {
            return Err(format!(
                "[record] {key} is for branches = \"software\" (or \"auto\"); with {:?} leave it \
                 out",
                self.branches.word()
            ));
        }
        if self.emulate_below.is_some() && self.branches != Branches::Auto {
            return Err(format!(
                "[record] emulate_below is for branches = \"auto\", which chooses; with {:?} \
                 leave it out",
                self.branches.word()
            ));
        }
        match self.period {
            Some(0) => {
                return Err(
                    "[record] period must be at least 1; 1000 taken branches are usual".into()
                );
            }
            Some(_) if self.branches == Branches::Auto => {
                return Err("[record] period needs branches = \"hardware\", \"emulated\", \
                            \"software\" or \"none\": each counts something else, and \"auto\" \
                            may be any of them"
                    .into());
            }
            Some(_) if self.budget.is_some() => {
                return Err(
                    "[record] budget and period exclude each other; leave one of them out".into()
                );
            }
            _ => {}
        }
        if let Some(budget) = self.budget.filter(|budget| !(0.01..=100.0).contains(budget)) {
            return Err(format!(
                "[record] budget = {budget}: expected per cent of CPU time, 0.01 to 100"
            ));
        }
        for (key, value) in [("seconds", self.seconds), ("emulate_below", self.emulate_below)] {
            if value.is_some_and(|value| !(0.0..=86_400.0).contains(&value)) {
                return Err(format!("[record] {key}: expected seconds, 0 to 86400"));
            }
        }
        Ok(())
    }
}

/// What is counted between two stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StopBy {
    /// CPU time of the thread.
    Clock,
    /// Taken branches.
    Branches,
}

impl StopBy {
    /// The word for `planish record --stop-by=`.
    pub fn word(self) -> &'static str {
        match self {
            StopBy::Clock => "clock",
            StopBy::Branches => "branches",
        }
    }
    /// The one that a word stands for.
    pub fn parse(word: &str) -> Option<StopBy> {
        [StopBy::Clock, StopBy::Branches].into_iter().find(|by| by.word() == word)
    }
}
