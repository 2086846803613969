//! Design and run A/B measurements and say what they show.
//!
//! A [`Design`] is a value: which binaries, which command, how many rounds, which seed. [`run`] executes it: in every
//! round each binary runs once, in random order, under an environment of random size; round 0 warms up and is never
//! used. [`analyse`] turns the recorded [`Run`]s into a [`Comparison`]: a ratio with its interval and a [`Verdict`].
//! The runs are plain values that can be written as JSON lines and analysed again later ([`runs`]).
//!
//! Why so: measured in blocks, the same binary differs from itself on a shared machine in a fifth to two fifths of
//! all comparisons (runs that are neighbours in time resemble each other). The random order inside a round is what
//! makes the test exact, whatever the noise looks like: under the hypothesis of no difference, swapping the two
//! labels inside a round is exactly what the schedule itself could have done.

mod analyse;
mod design;
mod error;
mod execute;
mod metric;
pub mod result;
pub mod runs;
mod sys;

pub use analyse::{Analysis, Comparison, Options, Summary, Verdict, analyse};
pub use design::{Design, Variant, bind};
pub use error::Error;
pub use execute::{Progress, run};
pub use metric::Metric;
pub use runs::Run;
pub use statistics::Random;
