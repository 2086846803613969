//! What do the recorded runs show? Effects with intervals, verdicts and warnings: a function of the
//! runs alone.

mod cell;
mod confirm;
mod evidence;
mod remarks;
mod suite;
mod words;

use crate::result::{Compared, Evidence, MeasuredMachine, Measurement, SCHEMA, VERSION, Variant};
use crate::runs::Recorded;
use crate::{Error, Metric};
use cell::{Block, Row};

pub(crate) use cell::gauge;

pub use words::{ABOUT_TWO_FILES, LAYOUTS_ADVICE};

/// How to analyse.
#[derive(Clone, Debug, PartialEq)]
pub struct AnalysisOptions {
    /// Differences within ± this share (0.01 for 1 %) count as none; absent: as the design has it.
    pub margin: Option<f64>,
    /// Label swaps drawn when there are too many to try all.
    pub draws: usize,
    /// How claims on several rows are corrected.
    pub correction: Correction,
    /// Judge by this metric instead of each benchmark's first one.
    pub metric: Option<Metric>,
    /// Rows that claims are corrected for, where these are some of more.
    pub among: usize,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        AnalysisOptions {
            margin: None,
            draws: 9999,
            correction: Correction::default(),
            metric: None,
            among: 0,
        }
    }
}

/// What a claim on one of several rows must hold against.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    /// The chance of any false claim stays 5 % (Holm).
    #[default]
    Holm,
    /// The expected share of false claims among all claims stays 5 % (Benjamini and Hochberg); for
    /// dashboards.
    FalseDiscoveryRate,
}

impl Correction {
    /// The word in the result.
    pub fn word(self) -> &'static str {
        match self {
            Correction::Holm => "holm",
            Correction::FalseDiscoveryRate => "bh",
        }
    }

    /// The p-values corrected for `among` rows, of which these are some; of the others it is taken
    /// that they show nothing.
    fn apply(self, p_values: &[f64], among: usize) -> Vec<f64> {
        let mut all = p_values.to_vec();
        all.resize(among.max(p_values.len()), 1.0);
        let mut corrected = match self {
            Correction::Holm => statistics::many::holm(&all),
            Correction::FalseDiscoveryRate => statistics::many::benjamini_hochberg(&all),
        };
        corrected.truncate(p_values.len());
        corrected
    }
}

/// A result with the runs behind it, for pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// The result.
    pub measurement: Measurement,
    /// One entry per machine and benchmark.
    pub evidence: Vec<Evidence>,
}

/// Analyses the files of one or more machines; warm-up and unfinished rounds are left out.
///
/// The files must have the same base; benchmarks and variants are matched by name.
pub fn analyse(recorded: &[Recorded], options: &AnalysisOptions) -> Result<Analysis, Error> {
    let first =
        recorded.first().ok_or_else(|| Error::TooFew("there are no runs to analyse".into()))?;
    let design = &first.design;
    let margin = options.margin.unwrap_or(design.margin);
    let machines = machines(recorded)?;
    let benchmarks = suite::benchmarks(recorded, options.metric.as_ref());
    let variants = suite::variants(recorded)?;
    let mut rows: Vec<Row> = Vec::new();
    let mut evidence = Vec::new();
    let mut warnings = Vec::new();
    for (machine, file) in recorded.iter().enumerate() {
        for (index, benchmark) in file.design.benchmarks.iter().enumerate() {
            let runs = cell::Runs::of(file, index, options.metric.as_ref(), Block::First)?;
            let place = match (machines.len(), file.design.benchmarks.len()) {
                (1, 1) => String::new(),
                (1, _) => format!("{}: ", benchmark.name),
                _ => format!("{}, {}: ", machines[machine].name, benchmark.name),
            };
            warnings
                .extend(remarks::of(&runs).into_iter().map(|remark| format!("{place}{remark}")));
            let name = benchmarks.iter().position(|b| b.name == benchmark.name).unwrap_or(0);
            let indices = |variant: &str| {
                variants.iter().position(|v: &Variant| v.name == variant).unwrap_or(0)
            };
            evidence.push(evidence::of(&runs, machine, name, indices));
            let second = cell::Runs::of(file, index, options.metric.as_ref(), Block::Second).ok();
            let found = cell::rows(&runs, machine, margin, options)?;
            rows.extend(found.into_iter().map(|row| row.followed_by(second.as_ref())));
        }
    }
    let among = options.among.max(rows.len());
    let p_values: Vec<f64> = rows.iter().map(Row::p_value).collect();
    let corrected = options.correction.apply(&p_values, among);
    warnings.extend(words::below_the_floor(&rows, &corrected, among));
    let indices = suite::indices(&rows, &machines);
    let accumulated = suite::accumulated(&rows, &benchmarks, &machines);
    let comparisons: Vec<Compared> =
        rows.into_iter().zip(corrected).map(|(row, p)| row.told(p, among)).collect();
    if comparisons.is_empty() {
        return Err(nothing_left(recorded));
    }
    let measurement = Measurement {
        schema: SCHEMA.into(),
        version: VERSION,
        planish: env!("CARGO_PKG_VERSION").into(),
        seed: design.seed,
        margin,
        correction: options.correction.word().into(),
        among,
        machines,
        benchmarks,
        variants,
        comparisons,
        indices,
        accumulated,
        stopped: recorded.iter().flat_map(|file| file.stopped.clone()).collect(),
        alignment: Vec::new(),
        interrupted: false,
        raw: Vec::new(),
        warnings,
    };
    Ok(Analysis { measurement, evidence })
}

fn machines(recorded: &[Recorded]) -> Result<Vec<MeasuredMachine>, Error> {
    let machines: Vec<MeasuredMachine> =
        recorded.iter().map(|file| file.design.machine.clone()).collect();
    for (index, machine) in machines.iter().enumerate() {
        if machines[..index].iter().any(|other| other.name == machine.name) {
            return Err(Error::Design(format!(
                "two of the files are of a machine called {:?}; one file is one machine: measure \
                 on with --resume, or tell them apart with --machine NAME when measuring",
                machine.name
            )));
        }
    }
    Ok(machines)
}

fn nothing_left(recorded: &[Recorded]) -> Error {
    match recorded.iter().flat_map(|file| &file.stopped).next() {
        Some(stopped) => {
            Error::TooFew(format!("every variant was stopped; the first: {}", stopped.reason))
        }
        None => Error::TooFew(
            "no round was finished after the warm-up, so there is nothing to compare".into(),
        ),
    }
}

#[cfg(test)]
#[path = "analyse_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "analyse_claims_tests.rs"]
mod claims_tests;
