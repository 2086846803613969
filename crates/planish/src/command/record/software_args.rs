//! The options of `planish record` for software branch stacks.

use crate::cli::Choice;
use record::software::{LookAheadOptions, Pace, StopBy};

/// What is counted between two stops for a software branch stack.
const STOP_BY: Choice<StopBy> = Choice(&[
    ("clock", StopBy::Clock, "CPU time of the thread: on every machine; sees more of what is slow"),
    (
        "branches",
        StopBy::Branches,
        "Taken branches, where the CPU counts them (the default there): sees every branch as often \
         as it is taken",
    ),
]);

/// How to look ahead.
#[derive(Debug, clap::Args)]
pub struct SoftwareArgs {
    /// Software branch stacks: taken branches in each stack (1 to 2048) [default: 1024]
    #[arg(long, value_name = "BRANCHES", value_parser = clap::value_parser!(u16).range(1..=2048))]
    depth: Option<u16>,
    /// Software branch stacks: how much of the program's CPU time may go into stops [default: 3%]
    #[arg(long, value_name = "PERCENT", value_parser = budget, conflicts_with_all = ["period", "frequency"])]
    budget: Option<f64>,
    /// Software branch stacks: what is counted between two stops
    #[arg(long, value_parser = STOP_BY, value_name = "WHAT")]
    stop_by: Option<StopBy>,
    /// Software branch stacks, for tests: single-step the thread along every Nth stack that was
    /// foreseen, and count those from which it strayed (slow; if planish is killed with -9 meanwhile,
    /// the program may end too)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    check_stacks: Option<u64>,
}

/// A share of CPU time, as `3%` or `3`.
fn budget(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.strip_suffix('%').unwrap_or(text).trim().parse().ok();
    let share =
        number.filter(|number| (0.01..=100.0).contains(number)).map(|number| number / 100.0);
    share.ok_or_else(|| "it is no percentage from 0.01% to 100%".to_owned())
}

impl SoftwareArgs {
    /// Those given.
    pub fn given(&self) -> [(bool, &'static str); 4] {
        [
            (self.depth.is_some(), "--depth"),
            (self.budget.is_some(), "--budget"),
            (self.stop_by.is_some(), "--stop-by"),
            (self.check_stacks.is_some(), "--check-stacks"),
        ]
    }

    /// The same as values; the pace that stands outside of them (`-c`, `-F`) where there is one.
    pub fn options(&self, pace: Option<Pace>, no_inherit: bool) -> LookAheadOptions {
        let usual = LookAheadOptions::default();
        LookAheadOptions {
            depth: self.depth.map_or(usual.depth, usize::from),
            pace: self.budget.map(Pace::Budget).or(pace).unwrap_or(usual.pace),
            stop_by: match self.stop_by {
                // A period means the same on every machine.
                None if matches!(pace, Some(Pace::Period(_))) => StopBy::Clock,
                None => usual.stop_by,
                Some(stop_by) => stop_by,
            },
            check: self.check_stacks,
            no_inherit,
            until: usual.until,
        }
    }
}
