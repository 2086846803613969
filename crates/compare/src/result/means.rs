//! What is told of several rows together: means and ranges.

use super::Direction;
use serde::{Deserialize, Serialize};

/// A mean over rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Index {
    /// The variant.
    pub variant: String,
    /// The machine; absent when over all machines.
    pub machine: Option<String>,
    /// Rows.
    pub rows: usize,
    /// Geometric mean of the effects, with the interval for just these benchmarks.
    pub mean: f64,
    /// That interval.
    pub interval: Option<[f64; 2]>,
    /// The interval when the benchmarks are taken as a sample of many.
    pub sample_interval: Option<[f64; 2]>,
    /// Lowest and highest row.
    pub range: [f64; 2],
    /// Random-effects mean (DerSimonian and Laird) and the interval in which another such row
    /// would lie.
    pub random_effects: Option<f64>,
    /// That prediction interval.
    pub prediction: Option<[f64; 2]>,
    /// p-value of "as many rows up as down" (binomial).
    pub signs_p: f64,
}

/// A variant on one benchmark, over all its parameters and machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Accumulated {
    /// The benchmark, without parameters.
    pub benchmark: String,
    /// The variant.
    pub variant: String,
    /// Rows: combinations of parameters, on each machine.
    pub rows: usize,
    /// Which way is good for the metric that decides.
    #[serde(default)]
    pub better: Direction,
    /// Geometric mean of their effects.
    pub mean: f64,
    /// Its 95 % interval, for just these rows.
    pub interval: Option<[f64; 2]>,
    /// The row with the lowest ratio.
    pub lowest: Extreme,
    /// The row with the highest.
    pub highest: Extreme,
}

/// A row at one end of a range.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Extreme {
    /// Variant / base.
    pub ratio: f64,
    /// The benchmark, with its parameters.
    pub benchmark: String,
    /// The machine.
    pub machine: String,
}
