//! How fast were all sections of a kind together, boot by boot?
//!
//! Of each boot the geometric mean of its sections' times is one more number, which is compared as
//! theirs are. Its logarithm is the mean of their logarithms, so the effect is the geometric mean
//! of the sections' effects, as `planish compare` has it for benchmarks. Sections of one boot share
//! what that boot happened to get, memory above all; a mean over rows would take
//! them for independent and state too narrow an interval.

use compare::{Benchmark, Metric, Recorded, Run};
use std::collections::BTreeMap;

/// The parameter of a section's benchmark that names its kind, and the two kinds.
pub(super) const KIND: &str = "kind";
pub(super) const TRAIN: &str = "train";
pub(super) const HELD: &str = "held";
/// Names of the two, training and held out.
pub const NAMES: [&str; 2] = ["training sections", "held-out sections"];

/// Runs with those of the sums behind them; a kind without sections has none.
pub(super) fn with_sums(recorded: &Recorded) -> Recorded {
    let mut all = recorded.clone();
    for (name, kind) in NAMES.into_iter().zip([TRAIN, HELD]) {
        let is_of = |benchmark: &Benchmark| {
            benchmark.parameters.get(KIND).map(String::as_str) == Some(kind)
        };
        let own = |run: &Run| recorded.design.benchmarks.get(run.benchmark).is_some_and(is_of);
        let Some(first) = recorded.design.benchmarks.iter().find(|benchmark| is_of(benchmark))
        else {
            continue;
        };
        let count = recorded.design.benchmarks.iter().filter(|benchmark| is_of(benchmark)).count();
        let label = first.metrics.first().map(Metric::label).unwrap_or_default();
        let mut boots = BTreeMap::<u64, Vec<&Run>>::new();
        let mut begins = BTreeMap::new();
        for run in recorded.runs.iter().filter(|run| own(run)) {
            let begin = *begins.entry((run.round, run.slot())).or_insert(run.sequence);
            boots.entry(begin).or_default().push(run);
        }
        let index = all.design.benchmarks.len();
        for runs in boots.into_values().filter(|runs| runs.len() == count) {
            let logs = runs
                .iter()
                .filter_map(|run| run.printed.get(&label))
                .map(|nanoseconds| nanoseconds.ln());
            let mean = (logs.sum::<f64>() / count as f64).exp();
            let Some(boot) = runs.first() else { continue };
            let printed = BTreeMap::from([(label.clone(), mean)]);
            all.runs.push(Run { benchmark: index, printed, ..(*boot).clone() });
        }
        all.design.benchmarks.push(Benchmark {
            name: name.to_owned(),
            parameters: BTreeMap::new(),
            ..first.clone()
        });
    }
    all
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn a_sum_is_the_geometric_mean_of_its_kind_boot_by_boot() {
        let metric = Metric::parse("t[ns]=output:(.)").unwrap();
        let benchmark = |name: &str, kind: &str| Benchmark {
            name: name.to_owned(),
            parameters: BTreeMap::from([(KIND.to_owned(), kind.to_owned())]),
            metrics: vec![metric.clone()],
            ..Benchmark::default()
        };
        let mut recorded = Recorded::default();
        recorded.design.benchmarks =
            vec![benchmark("a", TRAIN), benchmark("b", HELD), benchmark("c", TRAIN)];
        // The second boot is not whole.
        for (sequence, (variant, benchmark, time)) in
            [(1, 0, 2000.0), (1, 1, 5000.0), (1, 2, 8000.0), (0, 0, 9.0), (0, 1, 3000.0)]
                .into_iter()
                .enumerate()
        {
            let printed = BTreeMap::from([("t".to_owned(), time)]);
            recorded.runs.push(Run {
                sequence: sequence as u64,
                variant,
                benchmark,
                printed,
                ..Run::default()
            });
        }
        let all = with_sums(&recorded);
        assert_eq!(all.runs[..5], recorded.runs);
        assert_eq!(
            all.design.benchmarks.iter().skip(3).map(|b| &*b.name).collect::<Vec<_>>(),
            NAMES
        );
        let sums: Vec<_> = all
            .runs
            .iter()
            .skip(5)
            .map(|r| (r.benchmark, r.variant, r.printed["t"].round()))
            .collect();
        assert_eq!(sums, [(3, 1, 4000.0), (4, 1, 5000.0), (4, 0, 3000.0)]);
    }
}
