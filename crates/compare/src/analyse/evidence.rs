//! Which numbers do the pictures show?

use super::cell::Runs;
use super::remarks::{cause, far_out};
use crate::result::{Dot, Evidence, Shown};
use statistics::{LayoutMeans, distribution, mean, spread};

/// Clock ticks of /proc/stat in a second, as every Linux has it.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn of(
    runs: &Runs,
    machine: usize,
    benchmark: usize,
    variant: impl Fn(&str) -> usize,
) -> Evidence {
    let index = |v: usize| runs.design.variants.get(v).map_or(0, |v| variant(&v.name));
    let far = far_out(runs);
    let shown = |(at, run): (usize, &&crate::Run)| Shown {
        sequence: run.sequence,
        round: run.round,
        variant: index(run.variant),
        layout: run.layout,
        value: runs.metric.value(run).unwrap_or(f64::NAN),
        steal: (run.steal_ticks as f64 / TICKS_PER_SECOND / (run.wall_ns.max(1) as f64 / 1e9))
            .min(1.0),
        outlier: far.contains(&at).then(|| cause(run).to_owned()),
    };
    Evidence {
        machine,
        benchmark,
        runs: runs.used.iter().enumerate().map(shown).collect(),
        layouts: dots(runs, index),
    }
}

fn dots(runs: &Runs, index: impl Fn(usize) -> usize) -> Vec<Dot> {
    let means = LayoutMeans::new(&runs.observations);
    let own: Vec<f64> = means.of(0).into_iter().map(|(_, level)| level).collect();
    let sign = runs.metric.sign();
    // The level is the one that the analysis uses; the interval is that of a mean of runs with this
    // robust spread.
    let middle = means.levels();
    let levels: Vec<((usize, u32), f64, f64)> = means
        .cleaned()
        .iter()
        .map(|(&key, runs)| {
            let values: Vec<f64> = runs.iter().map(|run| run.1).collect();
            let n = values.len() as f64;
            let quantile = if n > 1.0 { distribution::t_quantile(0.975, n - 1.0) } else { 0.0 };
            (key, middle.get(&key).copied().unwrap_or(0.0), quantile * spread(&values) / n.sqrt())
        })
        .collect();
    let as_built = levels.iter().find(|(key, ..)| *key == (0, 0)).map_or(0.0, |level| level.1);
    let zero = if own.is_empty() { as_built } else { mean(&own) };
    let dot = |&((variant, layout), level, half): &((usize, u32), f64, f64)| {
        let at = |x: f64| (sign * (x - zero)).exp();
        let (a, b) = (at(level - half), at(level + half));
        Dot { variant: index(variant), layout, ratio: at(level), interval: [a.min(b), a.max(b)] }
    };
    levels.iter().map(dot).collect()
}
