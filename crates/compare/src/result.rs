//! What a comparison found, as it is told: the form of `planish compare --format json`, which the
//! reports draw from.
//!
//! Effects are ratios variant / base of the metric's value (0.92: 8 % less time). For a metric
//! where more is better the ratio is still that of the printed numbers; `better` says which way is
//! good.

mod means;

pub use means::{Accumulated, Extreme, Index};
pub use statistics::Verdict;

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the form.
pub const SCHEMA: &str = "planish-compare";
/// Version of the form.
pub const VERSION: u32 = 2;

/// What `planish compare` found, over all machines and benchmarks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// [`SCHEMA`].
    pub schema: String,
    /// [`VERSION`].
    pub version: u32,
    /// Version of planish.
    pub planish: String,
    /// Seed of the schedule.
    pub seed: u64,
    /// Differences within ± this share count as none (0.01 for 1 %).
    pub margin: f64,
    /// How claims on several rows were corrected: `holm` or `bh`.
    pub correction: String,
    /// For how many rows: those here, and those of other measurements of the same question.
    #[serde(default)]
    pub among: usize,
    /// Where it was measured.
    pub machines: Vec<MeasuredMachine>,
    /// What was run.
    pub benchmarks: Vec<Benchmark>,
    /// The programs, the base first.
    pub variants: Vec<Variant>,
    /// Every other variant against the base, per machine and benchmark, judged by the deciding
    /// metric.
    pub comparisons: Vec<Compared>,
    /// Means over benchmarks, where there is more than one row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indices: Vec<Index>,
    /// Each benchmark over its parameters and machines, where one of several has more than one row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accumulated: Vec<Accumulated>,
    /// Variants that were stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopped: Vec<Stopped>,
    /// What the alignment probe found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alignment: Vec<Alignment>,
    /// True when the user stopped the measurement early.
    pub interrupted: bool,
    /// The files with every run.
    pub raw: Vec<String>,
    /// What concerns the whole measurement.
    pub warnings: Vec<String>,
}

/// A machine and what calibration knows about it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredMachine {
    /// Name given by the user, else of the host.
    pub name: String,
    /// CPU model, cores, kernel: equal fingerprints are taken for machines of one kind.
    pub fingerprint: String,
    /// CPU model.
    pub cpu: String,
    /// CPUs online.
    pub cores: u32,
    /// Kernel release.
    pub kernel: String,
    /// The stored A/A calibration, when one was made on such a machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

/// What comparing a program with itself showed (A/A): how often a difference is claimed where there
/// is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Date, `2026-11-20`.
    pub date: String,
    /// What was run.
    pub command: String,
    /// Rounds of each comparison.
    pub rounds: usize,
    /// Comparisons made by re-labelling one recorded stream of runs of one file under two names.
    pub comparisons: usize,
    /// Share of them called different.
    pub false_positive_rate: f64,
    /// 95 % Clopper–Pearson interval of that share.
    pub interval: [f64; 2],
    /// p-value of the Kolmogorov–Smirnov test that the p-values are uniform.
    pub uniform_p: f64,
    /// Sorted p-values, for the picture.
    #[serde(default)]
    pub p_values: Vec<f64>,
    /// Correlation of a run with the next (ln values, residuals of the mean).
    pub lag1: f64,
    /// Standard deviation of single runs (ln).
    pub within_sd: f64,
    /// Standard deviation between relinks of the same objects (ln), when layouts were part of the
    /// calibration.
    pub layout_sd: Option<f64>,
    /// Relinked base as both variants: share called really different, with its interval.
    pub relinked_rate: Option<f64>,
    /// 95 % interval of that.
    pub relinked_interval: Option<[f64; 2]>,
    /// Smallest difference seen with 80 % power at this number of rounds (0.01 for 1 %).
    pub smallest_effect: f64,
    /// Whether a gauge was read beside the runs, and what it explained was taken out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gauge: bool,
    /// Share of all CPU time that others used meanwhile, and share of its time that a run stood in
    /// the queue for a CPU; unknown in calibrations of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_share: Option<f64>,
    /// That share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued_share: Option<f64>,
}

impl Calibration {
    /// Was the machine busy with something else, so that this is not what it does when it is idle?
    pub fn was_busy(&self) -> bool {
        self.others_share.is_some_and(|share| share > 0.1)
            || self.queued_share.is_some_and(|share| share > 0.02)
    }
}

/// A command and its metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Benchmark {
    /// Name with parameters, unique.
    pub name: String,
    /// The command, with `{bin}`.
    pub command: String,
    /// Parameters of this cell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// Metrics; the first decides.
    pub metrics: Vec<MetricInfo>,
}

impl Benchmark {
    /// The name without the parameters.
    pub fn family(&self) -> &str {
        let parameters: String =
            self.parameters.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        self.name.strip_suffix(parameters.as_str()).unwrap_or(&self.name)
    }
}

/// A metric in words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricInfo {
    /// As it is given: `cpu`, `wall`, …, or its own name.
    pub name: String,
    /// In words.
    pub words: String,
    /// `ns`, `bytes`, the user's unit, or nothing.
    pub unit: String,
    /// `lower` or `higher`.
    pub better: Direction,
}

/// Which way is good?
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Less is better.
    #[default]
    Lower,
    /// More is better.
    Higher,
}

/// One of the programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// The name.
    pub name: String,
    /// What it is: a file, flags, a commit.
    pub description: String,
    /// Layouts measured besides the program as built.
    pub layouts: u32,
    /// What the layouts randomise, in words; empty without layouts.
    #[serde(default)]
    pub freedom: String,
    /// Share of function bytes at an address equal to the base's modulo 4096 in matched layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matched_share: Option<f64>,
    /// Bytes of text, data and bss.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sizes: Option<Sizes>,
    /// Deterministic metrics of the instruction stream, per benchmark name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub code_metrics: BTreeMap<String, BTreeMap<String, f64>>,
}

/// Section sizes as `size` counts them, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Code and read-only data.
    pub text: u64,
    /// Initialised data.
    pub data: u64,
    /// Zeroed data.
    pub bss: u64,
    /// The whole file; unknown in runs of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
}

impl Sizes {
    /// Names and bytes of a table's columns: `dec` is what size(1) calls the sum.
    pub fn columns(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let sum = self.text.saturating_add(self.data).saturating_add(self.bss);
        let sections = [("text", self.text), ("data", self.data), ("bss", self.bss), ("dec", sum)];
        sections.into_iter().chain(self.file.map(|bytes| ("file", bytes)))
    }
}

/// A variant that failed; the others went on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopped {
    /// Its name.
    pub variant: String,
    /// The benchmark.
    pub benchmark: String,
    /// The machine.
    pub machine: String,
    /// Why.
    pub reason: String,
}

/// One variant against the base on one machine and benchmark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// Name of the machine.
    pub machine: String,
    /// Name of the benchmark.
    pub benchmark: String,
    /// Name of the deciding metric.
    pub metric: String,
    /// The base.
    pub base: String,
    /// The variant.
    pub variant: String,
    /// The verdict.
    pub verdict: Verdict,
    /// True when a difference is shown but lies within the margin.
    pub negligible: bool,
    /// The verdict in a sentence that claims no more than was shown.
    pub sentence: String,
    /// The effect that is quoted, variant / base: averaged over layouts where there are any, else
    /// as built.
    pub effect: f64,
    /// Its 95 % interval; absent when there is too little for one.
    pub interval: Option<[f64; 2]>,
    /// Its p-value, not corrected.
    pub p_value: f64,
    /// Corrected for the number of rows.
    pub p_corrected: f64,
    /// Rounds used.
    pub n: usize,
    /// The two programs as built.
    pub as_built: Effect,
    /// Averaged over layouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layouts: Option<Averaged>,
    /// Median of the base as built, in the metric's unit.
    pub base_median: f64,
    /// Median of the variant as built.
    pub variant_median: f64,
    /// Robust relative spread of single runs: 1.4826 × median absolute deviation / median, base
    /// and variant.
    pub spread: [f64; 2],
    /// Smallest difference that this measurement finds with 80 % power among its rows (0.01 for 1
    /// %).
    pub smallest_effect: Option<f64>,
    /// What a second block of rounds said, where one was to confirm that the variant is slower.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmation: Option<Confirmation>,
    /// Rounds or layouts in all that would decide, when undecided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<Needed>,
    /// The other metrics of the benchmark (never decide).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherMetric>,
    /// What must be known about it.
    pub warnings: Vec<String>,
}

impl Compared {
    /// Does the whole interval lie beyond the margin, on one side of it?
    pub fn is_beyond(&self, margin: f64) -> bool {
        self.interval.is_some_and(|[low, high]| low > 1.0 + margin || high < 1.0 / (1.0 + margin))
    }

    /// Is this difference of two single links no larger than such between links of one program,
    /// which `averaged` over layouts tells?
    pub fn is_within_links_of(&self, averaged: &Compared) -> bool {
        let band = averaged.layouts.map_or(0.0, |layouts| layouts.one_relink);
        self.layouts.is_none() && self.effect.ln().abs() < band.ln_1p()
    }

    /// A difference of two single links is undecided where links of one program differ as much, which
    /// `averaged` over layouts tells. An averaged row stays as it is.
    pub fn judge_as_one_link(&mut self, averaged: &Compared) {
        let is_claim = matches!(self.verdict, Verdict::Faster | Verdict::Slower);
        if is_claim && self.is_within_links_of(averaged) {
            self.verdict = Verdict::Undecided;
            self.negligible = false;
            self.sentence =
                "undecided: both were linked once, and links of one program differ as much"
                    .to_owned();
        }
    }

    /// Did it take longer in both blocks of rounds, though the second was not certain enough to say
    /// so?
    pub fn is_slower_twice(&self) -> bool {
        let second = self.confirmation.and_then(|second| second.effect);
        let interval = second.and_then(|effect| effect.interval);
        // Of a rate, less is slower; the first block has said which it is.
        let again = interval.is_some_and(|[low, high]| match self.effect > 1.0 {
            true => low > 1.0,
            false => high < 1.0,
        });
        self.verdict == Verdict::Undecided && again
    }

    /// Is it a finding against the variant?
    pub fn is_slower(&self) -> bool {
        self.verdict == Verdict::Slower && !self.negligible
    }

    /// Was it slower by the first rounds, and is a second block of so many rounds still to say so?
    pub fn awaits_confirmation(&self, rounds: u32) -> bool {
        self.confirmation.is_some_and(|c| c.rounds < rounds as usize)
    }
}

/// A second block of rounds, measured because the first showed the variant slower.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// Its complete rounds.
    pub rounds: usize,
    /// The effect in it; absent where it was not measured.
    pub effect: Option<Effect>,
    /// True when it is whole and shows the variant slower too.
    pub confirmed: bool,
}

/// An estimate with its interval, as ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Variant / base.
    pub ratio: f64,
    /// 95 % interval.
    pub interval: Option<[f64; 2]>,
    /// p-value.
    pub p_value: f64,
}

/// What the layouts say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Averaged {
    /// Layouts of each variant.
    pub count: usize,
    /// True when both variants were linked in the same random orders.
    pub matched: bool,
    /// The effect averaged over layouts.
    pub effect: Effect,
    /// The as-built effect over the averaged one: what the one link happened to give.
    pub luck: Effect,
    /// Standard deviation between layouts (ln), with its 95 % interval.
    pub layout_sd: f64,
    /// That interval.
    pub layout_sd_interval: Option<[f64; 2]>,
    /// Standard deviation of single runs of one binary (ln).
    pub within_sd: f64,
    /// Standard deviation of slow changes of the machine, shared by all binaries (ln).
    pub drift_sd: f64,
    /// 95 % of all relinks of unchanged code differ from each other by less than ± this (0.02 for
    /// 2 %).
    pub one_relink: f64,
    /// Correlation of the two variants over matched layouts.
    pub correlation: Option<f64>,
}

/// What would decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needed {
    /// Rounds in all.
    pub rounds: Option<usize>,
    /// Layouts in all.
    pub layouts: Option<usize>,
}

/// A metric that is told beside the deciding one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherMetric {
    /// Its name.
    pub name: String,
    /// Effect averaged over layouts where there are any, else as built.
    pub effect: Effect,
    /// Median of the base.
    pub base_median: f64,
    /// Median of the variant.
    pub variant_median: f64,
}

/// One comparison when all functions are aligned (the probe of 0day's kernel robot).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alignment {
    /// Bytes, `-falign-functions=N`; 0 is as built.
    pub align: u32,
    /// The benchmark.
    pub benchmark: String,
    /// The variant.
    pub variant: String,
    /// The effect, variant / base, both aligned alike.
    pub effect: Effect,
    /// What remains of the as-built difference.
    pub sentence: String,
    /// Sizes of base and variant.
    pub sizes: [Sizes; 2],
}

/// The runs behind one machine × benchmark, for pictures; not part of the JSON form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Index into [`Measurement::machines`].
    pub machine: usize,
    /// Index into [`Measurement::benchmarks`].
    pub benchmark: usize,
    /// Runs in time order, the warm-up left out.
    pub runs: Vec<Shown>,
    /// One dot per variant and layout.
    pub layouts: Vec<Dot>,
}

/// One run in a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shown {
    /// Position in time.
    pub sequence: u64,
    /// Round.
    pub round: u32,
    /// Index into [`Measurement::variants`].
    pub variant: usize,
    /// Layout; 0 as built.
    pub layout: u32,
    /// The deciding metric's value.
    pub value: f64,
    /// Share of the run's time that the hypervisor gave to others (0 to 1).
    pub steal: f64,
    /// Why it lies far out, when it does.
    pub outlier: Option<String>,
}

/// One binary in a picture: its mean against the mean of all base layouts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dot {
    /// Index into [`Measurement::variants`].
    pub variant: usize,
    /// Layout; 0 as built.
    pub layout: u32,
    /// Ratio to the mean of the base's layouts (of the base as built without layouts).
    pub ratio: f64,
    /// 95 % interval of that from the runs.
    pub interval: [f64; 2],
}
