//! Several machines and benchmarks: what is common to the files, and the means over rows.

use super::cell::Row;
use crate::result::{Accumulated, Benchmark, Direction, Extreme, Index, MeasuredMachine, Variant};
use crate::runs::Recorded;
use crate::{Error, Metric};
use statistics::many;
use std::collections::BTreeMap;

/// All benchmarks of all files, by name.
pub(super) fn benchmarks(recorded: &[Recorded], deciding: Option<&Metric>) -> Vec<Benchmark> {
    let mut all: Vec<Benchmark> = Vec::new();
    for benchmark in recorded.iter().flat_map(|file| &file.design.benchmarks) {
        if all.iter().any(|known| known.name == benchmark.name) {
            continue;
        }
        let others = benchmark.metrics.iter().filter(|m| Some(*m) != deciding);
        all.push(Benchmark {
            name: benchmark.name.clone(),
            command: benchmark.command.join(" "),
            parameters: benchmark.parameters.clone(),
            metrics: deciding.into_iter().chain(others).map(Metric::info).collect(),
        });
    }
    all
}

/// All variants of all files, by name; the base must be the same everywhere.
pub(super) fn variants(recorded: &[Recorded]) -> Result<Vec<Variant>, Error> {
    let mut all: Vec<Variant> = Vec::new();
    for file in recorded {
        let base = file.design.variants.first().map_or("", |v| v.name.as_str());
        if let Some(first) = all.first().filter(|first| first.name != base) {
            return Err(Error::Design(format!(
                "the files compare with different bases ({:?} and {base:?}); their results cannot \
                 be merged",
                first.name
            )));
        }
        for (index, variant) in file.design.variants.iter().enumerate() {
            if all.iter().all(|known| known.name != variant.name) {
                all.push(Variant {
                    name: variant.name.clone(),
                    description: variant.description.clone(),
                    layouts: file.design.layouts_of(index),
                    freedom: variant.freedom.clone(),
                    matched_share: variant.matched_share,
                    sizes: variant.sizes,
                    code_metrics: variant.code_metrics.clone(),
                });
            }
        }
    }
    Ok(all)
}

/// Geometric means of every variant: over each machine's benchmarks, and over all cells where there
/// are several machines.
pub(super) fn indices(rows: &[Row], machines: &[MeasuredMachine]) -> Vec<Index> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.variant.as_str()) {
            names.push(&row.variant);
        }
    }
    let mut all = Vec::new();
    for name in names {
        for (index, machine) in machines.iter().enumerate() {
            let here = rows.iter().filter(|row| row.variant == name && row.machine == index);
            all.extend(mean_of(name, Some(machine.name.clone()), here));
        }
        if machines.len() > 1 {
            all.extend(mean_of(name, None, rows.iter().filter(|row| row.variant == name)));
        }
    }
    all
}

fn mean_of<'a>(
    variant: &str,
    machine: Option<String>,
    rows: impl Iterator<Item = &'a Row>,
) -> Option<Index> {
    let rows: Vec<&Row> = rows.collect();
    // A mean of times and rates would say nothing: their ratios go opposite ways.
    let ways = rows.iter().filter(|row| row.less_is_better()).count();
    if ways != 0 && ways != rows.len() {
        return None;
    }
    let effects: Vec<many::Effect> =
        rows.into_iter().map(Row::effect).filter(|e| e.standard_error.is_finite()).collect();
    if effects.len() < 2 {
        return None;
    }
    let index = many::index(&effects)?;
    let pooled = many::pool(&effects);
    let estimates: Vec<f64> = effects.iter().map(|e| e.estimate).collect();
    let ends = |(low, high): (f64, f64)| [low.exp(), high.exp()];
    Some(Index {
        variant: variant.to_owned(),
        machine,
        rows: effects.len(),
        mean: index.estimate.exp(),
        interval: Some(ends(index.fixed)),
        sample_interval: index.sample.map(ends),
        range: ends(index.range),
        random_effects: pooled.as_ref().map(|p| p.estimate.exp()),
        prediction: pooled.and_then(|p| p.prediction).map(ends),
        signs_p: many::one_sidedness(&estimates),
    })
}

/// Every benchmark over its parameters and machines; nothing where no benchmark of several has more
/// than one row, since the means say the same then.
pub(super) fn accumulated(
    rows: &[Row],
    benchmarks: &[Benchmark],
    machines: &[MeasuredMachine],
) -> Vec<Accumulated> {
    let families: BTreeMap<&str, &str> =
        benchmarks.iter().map(|own| (own.name.as_str(), own.family())).collect();
    let family_of = |name: &str| families.get(name).copied().unwrap_or_default();
    let mut groups: Vec<((&str, &str), Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|row| row.effect().estimate.is_finite()) {
        let key = (family_of(row.benchmark()), row.variant.as_str());
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, own)) => own.push(row),
            None => groups.push((key, vec![row])),
        }
    }
    let first = groups.first().map(|((family, _), _)| *family);
    let several = groups.iter().any(|((family, _), _)| Some(*family) != first);
    if !several || groups.iter().all(|(_, own)| own.len() < 2) {
        return Vec::new();
    }
    let extreme = |row: &Row| Extreme {
        ratio: row.effect().estimate.exp(),
        benchmark: row.benchmark().to_owned(),
        machine: machines.get(row.machine).map_or_else(String::new, |machine| machine.name.clone()),
    };
    let told = |((family, variant), own): ((&str, &str), Vec<&Row>)| {
        let effects: Vec<many::Effect> = own.iter().map(|row| row.effect()).collect();
        let by = |a: &&&Row, b: &&&Row| a.effect().estimate.total_cmp(&b.effect().estimate);
        let (lowest, highest) = (own.iter().min_by(by)?, own.iter().max_by(by)?);
        let mean = effects.iter().map(|effect| effect.estimate).sum::<f64>() / effects.len() as f64;
        let certain: Option<Vec<many::Effect>> =
            effects.iter().map(|e| e.standard_error.is_finite().then_some(*e)).collect();
        let index = certain.and_then(|effects| many::index(&effects));
        Some(Accumulated {
            benchmark: family.to_owned(),
            variant: variant.to_owned(),
            rows: own.len(),
            better: if lowest.less_is_better() { Direction::Lower } else { Direction::Higher },
            mean: mean.exp(),
            interval: index.map(|index| [index.fixed.0.exp(), index.fixed.1.exp()]),
            lowest: extreme(lowest),
            highest: extreme(highest),
        })
    };
    groups.into_iter().filter_map(told).collect()
}
