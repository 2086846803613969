//! Design and run A/B measurements and say what they show.
//!
//! A [`Design`] is a value: which binaries, which commands, how many rounds, which seed. [`run`]
//! executes it: in every round each binary runs once, in random order, under an environment of
//! random size; round 0 warms up and is never used. [`analyse`] turns the recorded [`Run`]s into a
//! [`result::Measurement`]: effects with intervals and verdicts. The runs are plain values that are
//! written as JSON lines and can be analysed again later ([`runs`]).
//!
//! Around that: a design is made of programs that were named ([`named`]), or by whoever builds them,
//! with random layouts of its variants ([`layouts`]); [`judge`] measures it with its runs kept on
//! disk. What runs in a round is a [`Runner`]'s: programs here, kernels elsewhere. A
//! program compared with itself calibrates a machine ([`calibrate`]), and many comparisons find a
//! commit ([`bisect`]).
//!
//! Why so: measured in blocks, the same binary differs from itself on a shared machine in a fifth
//! to two fifths of all comparisons (runs that are neighbours in time resemble each other). The
//! random order inside a round is what makes the test exact, whatever the noise looks like: under
//! the hypothesis of no difference, swapping the two labels inside a round is exactly what the
//! schedule itself could have done.

mod after_link;
mod analyse;
pub mod bisect;
mod busy;
pub mod calibrate;
mod design;
mod error;
mod execute;
pub mod gate;
mod gauge;
pub mod kept;
pub mod layouts;
mod machine;
mod measure;
mod metric;
pub mod named;
mod pair;
pub mod probe;
mod process;
pub mod result;
mod rounds;
pub mod runs;
pub mod settings;
mod sys;
mod teller;
mod watch;

pub use after_link::AfterLink;
pub use analyse::{
    ABOUT_TWO_FILES, Analysis, AnalysisOptions, Correction, LAYOUTS_ADVICE, analyse,
};
pub use design::{
    Aslr, Benchmark, Design, Layouts, MOST_LAYOUTS, MOST_ROUNDS, Slot, Stopping, Variant, bind,
    names_in_braces,
};
pub use error::Error;
pub use execute::{confirm, once, repeats, run};
pub use kept::{Keep, Resume};
pub use layouts::LayoutMode;
pub use machine::this_machine;
pub use measure::{Judged, judge, measure, measure_by};
pub use metric::{Counter, Metric, Source};
pub use result::Verdict;
pub use rounds::{Observer, Place, Progress, Ran, Runner, rounds};
pub use runs::{Recorded, Run};
pub use settings::Settings;
pub use teller::{Teller, Work};
