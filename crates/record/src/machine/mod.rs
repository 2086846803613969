//! Running a machine, with the plugin or without, and listening to its console, until it ends or
//! has to be ended.
//!
//! The console must be qemu's standard output (`-serial stdio`, as [`Guest::argv`] has it). Its
//! lines go to a watcher as they come; the last ones are kept for errors. Lines and their number
//! are bounded, whatever the guest prints.

mod arguments;
mod board;
mod console;
mod failure;
mod run;

pub use arguments::{Execution, Guest};
pub use board::Board;
pub use console::{Index, Section, Statement, Timing};
pub use failure::Failure;
pub use run::{Limits, Plugin, Run, Transcript, Watcher};
