//! Why a machine's run is no good, in words.

use super::console::Statement;
use std::fmt;
use std::time::Duration;

/// Why a machine's run is no good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It took too long and was killed.
    TimedOut(Duration),
    /// Its kernel gave up.
    Panic,
    /// The workload said that it failed.
    Workload {
        /// In which section.
        section: u8,
        /// What it said.
        text: String,
    },
    /// The workload says that its lines have this form, which is not known here.
    Form(u32),
    /// It ended before its workload did.
    NoEnd,
    /// qemu returned this code, and the workload had not said that it ended.
    Returned(i32),
    /// A signal killed the emulator, or a kernel that is a process.
    Killed(i32),
    /// A signal asked us to end.
    Interrupted,
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::TimedOut(limit) => write!(
                out,
                "the machine was killed: it had not ended after {} s; if it does something still, \
                 allow it more time",
                limit.as_secs_f64()
            ),
            Failure::Panic => out.write_str("the machine's kernel panicked"),
            Failure::Workload { section, text } => {
                write!(out, "the machine's workload failed in section {section}: {text}")
            }
            Failure::Form(form) => write!(
                out,
                "the machine's workload says `planish: begin {form}`, and its lines are known \
                 here in form {}; boot the initrd that this planish makes (`planish kernel \
                 workload`)",
                Statement::FORM
            ),
            Failure::NoEnd => out.write_str(
                "the machine ended before its workload did, which prints `planish: end` at the end",
            ),
            Failure::Returned(code) => {
                write!(out, "it returned {code}; what it said on standard error stands above")
            }
            Failure::Killed(signal) => write!(out, "signal {signal} killed it"),
            Failure::Interrupted => out.write_str("interrupted; the machine was ended"),
        }
    }
}
