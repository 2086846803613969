//! Noise-free layout metrics: what a program's code costs the instruction side of a simulated core.
//!
//! [`measure`] runs a command under qemu-user with planish's plugin, which counts instructions and
//! branches and feeds a model of the instruction caches and translation buffers. The numbers are
//! the same for every run of the same binary and input, as long as the program has one thread and
//! does not ask for the time, random numbers or its own process number. They stand beside time,
//! never in its place: a model without prefetching, speculation and data accesses says where code
//! lies well, not how long it runs. `docs/reference/code-metrics.md` explains each number.
//!
//! [`machine::measure`] does the same with the kernel of an emulated machine, section by section of
//! its run.

mod error;
mod figures;
pub mod machine;
mod options;
mod result;
mod run;

pub use error::Error;
pub use figures::{Better, CodeMetrics, Counters, Figure};
pub use options::{Environment, MetricsOptions};
pub use qemu_branches::geometry::{CacheShape, DataGeometry, Geometry, TlbShape};

/// Runs a command under emulation and returns its layout metrics.
///
/// `command` is a program (a path, or a name in `PATH`) and its arguments. The program must be an
/// x86-64 or AArch64 ELF file and end with code 0. Its standard output is discarded. It takes 10 to
/// 30 times the native time.
///
/// # Errors
/// [`Error`] says what is missing (emulator, plugin, program), or how the program failed.
pub fn measure(command: &[String], options: &MetricsOptions) -> Result<CodeMetrics, Error> {
    run::measure(command, options)
}
