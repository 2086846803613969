//! qemu plugin that gives an emulated CPU a branch stack: a program's (qemu-user) or a kernel's
//! (qemu-system).
//!
//! qemu (plugin interface version 1, as in qemu 6.0 to 8.2) loads this library, and calls back
//! before every translation block it runs. A block that does not begin where the one before it
//! ended was reached by a taken branch; the last 32 of those, per virtual CPU, are the branch
//! stack. Every so many taken branches the stack becomes a `PERF_RECORD_SAMPLE`, in the bytes that
//! perf.data uses, in a spool file (see [`spool`]) that survives whatever ends the program. The
//! crate `record` turns the spool into a perf.data.
//!
//! With `metrics=FILE` it records nothing, and runs a model of the instruction caches and
//! translation buffers beside the program, or a machine's kernel, instead (see `metrics`); the
//! module `code_metrics` of `crates/record` drives that.
//!
//! With `traces=on` a machine's branches are not sampled but counted, all of them, in the plugin's
//! memory (see [`traces`]).
//!
//! A machine's programs may divide its run into sections by markers (see `sections`): with
//! `from=LO,to=HI` only those sections are recorded, and metrics are counted per section.
//!
//! What is not recorded: a program that the guest starts with `execve` runs natively (its number is
//! counted), and a signal handler's entry and return are no branches (they empty the stack).

mod api;
mod block;
mod calls;
mod chain;
pub mod elf;
pub mod geometry;
mod hooks;
mod kernel;
mod lock;
mod lru;
pub mod maps;
mod metrics;
mod process;
pub mod records;
mod sections;
mod settings;
pub mod spool;
mod system;
pub mod traces;
mod vcpu;
mod watch;

pub use metrics::RESULT_BEGINS;

/// One line on standard error, which is the emulated program's too: where it takes none, nothing is
/// said.
pub(crate) fn say(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "planish plugin: {line}");
}
