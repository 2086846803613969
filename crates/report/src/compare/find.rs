//! Which comparisons, runs and variants belong together?

use ::compare::result::{Benchmark, Compared, Evidence, Measurement, MetricInfo, Variant};

/// One machine × benchmark.
#[derive(Clone, Copy)]
pub(crate) struct Cell<'a> {
    /// Index of the machine.
    pub(crate) machine: usize,
    /// Index of the benchmark.
    pub(crate) benchmark: usize,
    measurement: &'a Measurement,
    /// The runs, when they are at hand.
    pub(crate) evidence: Option<&'a Evidence>,
}

/// Cells that were measured, benchmark by benchmark.
pub(crate) fn cells<'a>(m: &'a Measurement, evidence: &'a [Evidence]) -> Vec<Cell<'a>> {
    let mut cells = Vec::new();
    for benchmark in 0..m.benchmarks.len() {
        for machine in 0..m.machines.len() {
            let evidence =
                evidence.iter().find(|e| e.machine == machine && e.benchmark == benchmark);
            let cell = Cell { machine, benchmark, measurement: m, evidence };
            if evidence.is_some() || cell.comparisons().next().is_some() {
                cells.push(cell);
            }
        }
    }
    cells
}

impl<'a> Cell<'a> {
    /// The benchmark.
    pub(crate) fn benchmark(&self) -> &'a Benchmark {
        &self.measurement.benchmarks[self.benchmark]
    }

    /// The machine's name.
    pub(crate) fn machine_name(&self) -> &'a str {
        &self.measurement.machines[self.machine].name
    }

    /// What was found here.
    pub(crate) fn comparisons(&self) -> impl Iterator<Item = &'a Compared> + use<'a> {
        let (machine, benchmark) = (self.machine_name(), self.benchmark().name.as_str());
        let all = &self.measurement.comparisons;
        all.iter().filter(move |c| c.machine == machine && c.benchmark == benchmark)
    }

    /// The deciding metric.
    pub(crate) fn metric(&self) -> MetricInfo {
        let decided = self.comparisons().next().map(|c| c.metric.as_str());
        metric(self.benchmark(), decided)
    }
}

/// The metric of that name, else the first.
pub(crate) fn metric(benchmark: &Benchmark, name: Option<&str>) -> MetricInfo {
    let named = benchmark.metrics.iter().find(|m| Some(m.name.as_str()) == name);
    let unknown = || MetricInfo {
        name: name.unwrap_or_default().into(),
        words: name.unwrap_or("value").into(),
        unit: String::new(),
        better: ::compare::result::Direction::Lower,
    };
    named.or(benchmark.metrics.first()).cloned().unwrap_or_else(unknown)
}

/// The deciding metric of a comparison in words.
pub fn metric_words(m: &Measurement, c: &Compared) -> String {
    let benchmark = m.benchmarks.iter().find(|b| b.name == c.benchmark);
    benchmark.map_or(c.metric.clone(), |b| metric(b, Some(&c.metric)).words)
}

/// The variant of that name.
pub(crate) fn variant<'a>(m: &'a Measurement, name: &str) -> Option<&'a Variant> {
    m.variants.iter().find(|v| v.name == name)
}

/// Names of all variants but the base, in the order of the measurement.
pub(crate) fn others(m: &Measurement) -> Vec<&str> {
    let mut names: Vec<&str> = m.variants.iter().skip(1).map(|v| v.name.as_str()).collect();
    // A file by somebody else may compare what it does not list.
    for c in &m.comparisons {
        if !names.contains(&c.variant.as_str()) {
            names.push(&c.variant);
        }
    }
    names
}
