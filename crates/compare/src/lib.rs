//! Design and run A/B measurements and say what they show.
//!
//! A [`Design`] is a value: which binaries, which commands, how many rounds, which seed. [`run`]
//! executes it: in every round each binary runs once, in random order, under an environment of
//! random size; round 0 warms up and is never used. [`analyse`] turns the recorded [`Run`]s into a
//! [`result::Measurement`]: effects with intervals and verdicts. The runs are plain values that are
//! written as JSON lines and can be analysed again later ([`runs`]).
//!
//! Why so: measured in blocks, the same binary differs from itself on a shared machine in a fifth
//! to two fifths of all comparisons (runs that are neighbours in time resemble each other). The
//! random order inside a round is what makes the test exact, whatever the noise looks like: under
//! the hypothesis of no difference, swapping the two labels inside a round is exactly what the
//! schedule itself could have done.

mod analyse;
mod design;
mod error;
mod execute;
mod machine;
mod metric;
mod pair;
mod process;
pub mod result;
pub mod runs;
mod sys;
mod watch;

pub use analyse::{Analysis, Correction, LAYOUTS_ADVICE, Options, analyse};
pub use design::{
    Aslr, Benchmark, Design, Layouts, MOST_LAYOUTS, MOST_ROUNDS, Slot, Stopping, Variant, bind,
};
pub use error::Error;
pub use execute::{Observer, Progress, confirm, run};
pub use machine::this_machine;
pub use metric::{Counter, Metric, Source};
pub use result::Verdict;
pub use runs::{Recorded, Run};
