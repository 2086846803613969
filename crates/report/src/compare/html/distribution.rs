//! Histogram and ECDF: what do the runs of each variant look like by themselves?

use super::scale::{Scale, labels};
use super::svg::{Anchor, HALF, Picture, figure, legend, series};
use crate::compare::find::Cell;
use crate::compare::markup::{Markup, Px};
use crate::compare::words;
use ::compare::result::{Evidence, Measurement, Shown};
use std::fmt::Write;

const TOP: f64 = 10.0;
const BOTTOM: f64 = 200.0;
const LEFT: f64 = 48.0;
const RIGHT: f64 = HALF - 10.0;
/// Steps drawn of an ECDF; more would fall on the same pixels.
const STEPS: usize = 300;

/// Sorted values of one variant.
type Values = (usize, Vec<f64>);

/// Both pictures; nothing where fewer than five runs of any program as built are at hand.
pub(super) fn distributions(
    id: &str,
    m: &Measurement,
    cell: &Cell,
    evidence: &Evidence,
) -> Option<Markup> {
    let values: Vec<Values> = (0..m.variants.len())
        .map(|variant| {
            let own = |r: &&Shown| r.variant == variant && r.layout == 0 && r.value.is_finite();
            let mut values: Vec<f64> = evidence.runs.iter().filter(own).map(|r| r.value).collect();
            values.sort_by(f64::total_cmp);
            (variant, values)
        })
        .filter(|(_, values)| values.len() >= 5)
        .collect();
    if values.is_empty() {
        return None;
    }
    let low = values.iter().map(|(_, v)| quantile(v, 0.0)).fold(f64::INFINITY, f64::min);
    let high = values.iter().map(|(_, v)| quantile(v, 0.985)).fold(f64::NEG_INFINITY, f64::max);
    let x = Scale::linear(low, high + (high - low) * 0.05, LEFT, RIGHT);
    let beyond: usize =
        values.iter().map(|(_, v)| v.iter().filter(|v| !x.holds(**v)).count()).sum();
    let metric = cell.metric();
    let (divisor, unit) = words::scale_of(x.range()[1].abs(), &metric.unit);
    let axis =
        if unit.is_empty() { metric.words.clone() } else { format!("{}, {unit}", metric.words) };
    let names: Vec<(usize, &str)> =
        values.iter().map(|(v, _)| (*v, m.variants[*v].name.as_str())).collect();
    let described: Vec<String> = values
        .iter()
        .map(|(variant, v)| {
            let at = |share| words::quantity(quantile(v, share), &metric.unit);
            format!(
                "{}: median {}, half between {} and {}",
                m.variants[*variant].name,
                at(0.5),
                at(0.25),
                at(0.75)
            )
        })
        .collect();
    let described = described.join("; ");
    let mut both =
        histogram(&format!("{id}h"), &values, &x, &described, divisor, &axis, &names, beyond);
    both.append(ecdf(&format!("{id}e"), &values, &x, &described, divisor, &axis, &names));
    Some(both)
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

fn axes(p: &mut Picture, x: &Scale, y: &Scale, divisor: f64, axis: &str) {
    let ticks = x.ticks(5);
    p.axis_x(x, &ticks, &labels(&ticks, divisor), BOTTOM, BOTTOM);
    p.line("frame", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    let ticks = y.ticks(4);
    let names: Vec<String> = labels(&ticks, 0.01).into_iter().map(|t| t + " %").collect();
    p.axis_y(y, &ticks, &names, LEFT, RIGHT);
    p.text("tick", (RIGHT, BOTTOM + 31.0), Anchor::End, axis);
}

/// Bins as wide as Freedman and Diaconis say for the narrowest variant, within what can be told
/// apart.
fn bins(values: &[Values], span: f64) -> usize {
    let width =
        |v: &Vec<f64>| 2.0 * (quantile(v, 0.75) - quantile(v, 0.25)) / (v.len() as f64).cbrt();
    let widths = values.iter().map(|(_, v)| width(v)).filter(|w| *w > 0.0);
    // A float beyond the range of usize becomes its largest value.
    ((span / widths.fold(f64::INFINITY, f64::min)) as usize).clamp(8, 44)
}

#[allow(clippy::too_many_arguments)] // What both pictures share is computed once.
fn histogram(
    id: &str,
    values: &[Values],
    x: &Scale,
    described: &str,
    divisor: f64,
    axis: &str,
    names: &[(usize, &str)],
    beyond: usize,
) -> Markup {
    let [low, high] = x.range();
    let number = bins(values, high - low);
    let mut shares = Vec::new();
    for (variant, v) in values {
        let mut bins = vec![0usize; number];
        for value in v.iter().filter(|value| x.holds(**value)) {
            let bin = ((value - low) / (high - low) * number as f64) as usize;
            bins[bin.min(number - 1)] += 1;
        }
        shares
            .push((*variant, bins.iter().map(|n| *n as f64 / v.len() as f64).collect::<Vec<_>>()));
    }
    let top = shares.iter().flat_map(|(_, s)| s).copied().fold(0.0, f64::max);
    let y = Scale::linear(0.0, (top * 1.06).max(0.01), BOTTOM, TOP);
    let mut p = Picture::new(id, HALF, BOTTOM + 36.0, "Histogram of the runs as built", described);
    axes(&mut p, x, &y, divisor, axis);
    for (variant, bins) in &shares {
        let edge = |bin: usize| x.at(low + (high - low) * bin as f64 / number as f64);
        let mut path = format!("M{} {}", Px(edge(0)), Px(BOTTOM));
        for (bin, share) in bins.iter().enumerate() {
            // Writing to a string does not fail.
            let _ = write!(path, "V{}H{}", Px(y.at(*share)), Px(edge(bin + 1)));
        }
        let _ = write!(path, "V{}", Px(BOTTOM));
        p.path(&series('f', *variant), &path);
        p.path(&series('l', *variant), &path);
    }
    let mut body = p.finish();
    body.append(legend(names));
    if beyond > 0 {
        let text = format!("{beyond} of the slowest or largest values lie right of the picture.");
        body.leaf("p", &[("class", &"small")], &text);
    }
    figure("half", "Histogram", "Runs of the programs as built.", body)
}

fn ecdf(
    id: &str,
    values: &[Values],
    x: &Scale,
    described: &str,
    divisor: f64,
    axis: &str,
    names: &[(usize, &str)],
) -> Markup {
    let y = Scale::linear(0.0, 1.0, BOTTOM, TOP);
    let mut p = Picture::new(
        id,
        HALF,
        BOTTOM + 36.0,
        "Cumulative distribution of the runs as built",
        described,
    );
    axes(&mut p, x, &y, divisor, axis);
    for (variant, v) in values {
        p.path(&series('l', *variant), &steps(v, x, &y));
    }
    let mut body = p.finish();
    body.append(legend(names));
    figure("half", "Cumulative", "Share of runs at or below a value; further left is lower.", body)
}

/// The empirical distribution of sorted values as a path of steps.
pub(super) fn steps(sorted: &[f64], x: &Scale, y: &Scale) -> String {
    let mut path =
        format!("M{} {}", Px(x.at(sorted.first().copied().unwrap_or(0.0))), Px(y.at(0.0)));
    let stride = sorted.len().div_ceil(STEPS).max(1);
    for (index, value) in sorted.iter().enumerate() {
        if index % stride != 0 && index + 1 != sorted.len() {
            continue;
        }
        if !x.holds(*value) {
            // The rest lies right of the picture.
            break;
        }
        let share = (index + 1) as f64 / sorted.len() as f64;
        let _ = write!(path, "H{}V{}", Px(x.at(*value)), Px(y.at(share)));
    }
    let _ = write!(path, "H{}", Px(x.at(f64::INFINITY)));
    path
}
