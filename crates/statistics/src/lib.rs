//! Is the difference between two programs real, layout luck, nothing, or undecided? Pure functions
//! on numbers.
//!
//! No files, no clock; the same numbers and seed give the same answer. Effects are differences of
//! natural logarithms, ln(B) − ln(A), of a metric of which less is better (a throughput enters as
//! −ln): 0.01 is 1 % slower, and e to the power of it is the ratio.
//!
//! | question | call | result |
//! |---|---|---|
//! | everything about B against A | [`compare`], [`compare_all`] (Holm-corrected) on [`Observation`]s | [`Answer`] |
//! | the two binaries as built | [`AsBuilt::of`] (on [`pair::PairTest`]) | [`AsBuilt`] |
//! | levels of the layouts, for pictures | [`LayoutMeans::new`], `.of(variant)`, `.pairs(a, b)`, `.cleaned()` | ln values |
//! | average over layouts | [`LayoutMeans::compare`] | [`Averaged`] |
//! | luck of this build | [`Luck::of`] | [`Luck`] |
//! | the word | [`judge`] | [`Judgement`] with a [`Verdict`] |
//! | where noise comes from | [`variance::components`] | [`Components`] |
//! | planning | [`power`] | layouts, rounds, smallest detectable difference |
//! | many rows, cells | [`many`] | Holm, BH, [`many::index`], [`many::pool`], [`many::one_sidedness`] |
//! | stop early, validly | [`sequential::Monitor`] fed round by round | [`sequential::Step`] |
//! | warm-up, drift, steps, modes, carry-over | [`series`] | remarks as values |
//! | did the share of something in a whole move? | [`shifts`] | difference with error and p-value |
//! | does it keep its promises here? | [`calibration`] | false positive rate with interval |
//!
//! An [`Observation`] is one run. Layout 0 is the binary as built (run twice per round, copies 0
//! and 1), layouts 1… are relinks. Observations are given in time order and without the warm-up
//! round; in each round every binary runs in random order. That randomisation is what makes the
//! tests exact.

mod answer;
mod as_built;
pub mod calibration;
mod changes;
pub mod distribution;
pub mod gauge;
mod layouts;
mod luck;
pub mod many;
pub mod pair;
pub mod power;
mod relabel;
mod robust;
pub mod sequential;
pub mod series;
pub mod shifts;
mod swaps;
pub mod variance;
mod verdict;

pub use answer::{Answer, AnswerOptions, compare, compare_all};
pub use as_built::AsBuilt;
pub use layouts::{
    Averaged, LAYOUT_TRIM, LayoutMeans, independent_effect, least_layouts, levelled, matched_effect,
};
pub use luck::Luck;
pub use robust::{
    WINDOW, mean, median, running_median, spread, trimmed_mean, trimmed_mean_error,
    variance as sample_variance,
};
pub use variance::Components;
pub use verdict::{Judgement, Needed, Rule, Verdict, judge};

/// One run as the statistics see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observation {
    /// Round; any numbers, each round holding every binary.
    pub round: u32,
    /// Variant, the base being 0.
    pub variant: usize,
    /// Layout; 0 is the binary as built.
    pub layout: u32,
    /// Which of the runs of the as-built binary in this round, 0 or 1; 0 for layouts.
    pub copy: u8,
    /// ln of the metric, less being better.
    pub log: f64,
}
