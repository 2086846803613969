//! The run sequence: what did the machine do while it measured?

use super::scale::{Scale, labels};
use super::svg::{FULL, Picture, figure, legend, marker, series};
use crate::compare::find::Cell;
use crate::compare::markup::{Markup, Px};
use crate::compare::words;
use ::compare::result::{Evidence, Measurement, Shown};
use std::collections::BTreeSet;
use std::fmt::Write;

const TOP: f64 = 10.0;
const BOTTOM: f64 = 230.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = FULL - 8.0;
/// More rings than this are not drawn one by one; their number is said.
const RINGS: usize = 200;
/// From here on runs that fall on the same spot are drawn once.
const DENSE: usize = 2000;

/// Runs in time order.
pub(super) fn sequence(
    id: &str,
    m: &Measurement,
    cell: &Cell,
    evidence: &Evidence,
) -> Option<Markup> {
    let runs: Vec<&Shown> = evidence
        .runs
        .iter()
        .filter(|r| r.variant < m.variants.len() && r.value.is_finite())
        .collect();
    let (first, last) =
        (runs.iter().map(|r| r.sequence).min()?, runs.iter().map(|r| r.sequence).max()?);
    let x = Scale::linear(first as f64 - 0.5, last as f64 + 0.5, LEFT, RIGHT);
    let y = vertical(&runs);
    let metric = cell.metric();
    let unit_of = y.range()[1].abs();
    let (divisor, unit) = words::scale_of(unit_of, &metric.unit);
    let outside = runs.iter().filter(|r| !y.holds(r.value)).count();
    let outliers: Vec<&&Shown> = runs.iter().filter(|r| r.outlier.is_some()).collect();
    let described = format!(
        "{} runs in time order, {} of them far out, {outside} beyond the scale",
        runs.len(),
        outliers.len()
    );
    let mut p = Picture::new(id, FULL, BOTTOM + 34.0, "Runs in time order", &described);
    let stolen = steal(&mut p, &runs, &x);
    let ticks = y.ticks(5);
    p.axis_y(&y, &ticks, &labels(&ticks, divisor), LEFT, RIGHT);
    let ticks: Vec<f64> =
        x.ticks(8).into_iter().filter(|t| *t >= first as f64 && t.fract() == 0.0).collect();
    p.axis_x(&x, &ticks, &labels(&ticks, 1.0), BOTTOM, BOTTOM);
    p.line("frame", (LEFT, BOTTOM), (RIGHT, BOTTOM));
    let axis =
        if unit.is_empty() { metric.words.clone() } else { format!("{}, {unit}", metric.words) };
    p.text(
        "tick",
        (LEFT, BOTTOM + 31.0),
        super::svg::Anchor::Start,
        &format!("Upward: {axis}. To the right: runs."),
    );
    marks(&mut p, &runs, m.variants.len(), &x, &y);
    for run in outliers.iter().take(RINGS) {
        let cause = run.outlier.as_deref().unwrap_or_default();
        let name = &m.variants[run.variant].name;
        let value = words::quantity(run.value, &metric.unit);
        let title = format!("run {} (round {}), {name}, {value}: {cause}", run.sequence, run.round);
        p.titled(&title, |p| {
            let (cx, cy) = (Px(x.at(run.sequence as f64)), Px(y.at(run.value)));
            p.m.empty("circle", &[("class", &"ring"), ("cx", &cx), ("cy", &cy), ("r", &"6")]);
        });
    }
    let mut body = scroll(p.finish());
    let used: BTreeSet<usize> = runs.iter().map(|r| r.variant).collect();
    let names: Vec<(usize, &str)> =
        used.iter().map(|v| (*v, m.variants[*v].name.as_str())).collect();
    body.append(legend(&names));
    body.append(causes(m, &outliers, outside, &metric.unit));
    let reading = match stolen {
        true => {
            "Shape and colour: variant. Ringed: far out. Grey from below: share of the time that \
             the hypervisor took."
        }
        false => "Shape and colour: variant. Ringed: far out, the cause is named below.",
    };
    Some(figure("full", "Runs in time order", reading, body))
}

/// The middle 99 % with room around it, so that one run far out does not flatten the rest.
fn vertical(runs: &[&Shown]) -> Scale {
    let mut values: Vec<f64> = runs.iter().map(|r| r.value).collect();
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    let (low, high) = (at(0.005), at(0.995));
    let room = (high - low) * 0.3;
    let (lowest, highest) = (at(0.0), at(1.0));
    let pad = (high - low) * 0.04;
    Scale::linear((low - room).max(lowest - pad), (high + room).min(highest + pad), BOTTOM, TOP)
}

/// Columns of four pixels, as high as the largest steal in them. False when there was none.
fn steal(p: &mut Picture, runs: &[&Shown], x: &Scale) -> bool {
    const WIDTH: f64 = 4.0;
    let mut columns = vec![0.0f64; ((RIGHT - LEFT) / WIDTH) as usize + 1];
    for run in runs.iter().filter(|r| r.steal.is_finite()) {
        let column = ((x.at(run.sequence as f64) - LEFT) / WIDTH) as usize;
        if let Some(most) = columns.get_mut(column) {
            *most = most.max(run.steal.clamp(0.0, 1.0));
        }
    }
    let mut path = String::new();
    for (index, share) in columns.iter().enumerate().filter(|(_, share)| **share > 0.002) {
        let (left, height) = (LEFT + WIDTH * index as f64, (BOTTOM - TOP) * share);
        // Writing to a string does not fail.
        let _ = write!(path, "M{} {}h4V{}h-4z", Px(left), Px(BOTTOM), Px(BOTTOM - height));
    }
    p.path("steal", &path);
    !path.is_empty()
}

/// One path per variant.
fn marks(p: &mut Picture, runs: &[&Shown], variants: usize, x: &Scale, y: &Scale) {
    let radius = match runs.len() {
        n if n <= 300 => 3.2,
        n if n <= DENSE => 2.2,
        _ => 1.5,
    };
    let mut paths = vec![String::new(); variants];
    let mut taken = BTreeSet::new();
    for run in runs {
        let (px, py) = (x.at(run.sequence as f64), y.at(run.value));
        let spot = (run.variant, (px * 2.0) as i64, (py * 2.0) as i64);
        if runs.len() <= DENSE || taken.insert(spot) {
            marker(&mut paths[run.variant], run.variant, px, py, radius);
        }
    }
    for (variant, path) in paths.iter().enumerate() {
        p.path(&series('m', variant), path);
    }
}

/// What rings say, as text: a picture's tooltips are not reached by the keyboard.
fn causes(m: &Measurement, outliers: &[&&Shown], outside: usize, unit: &str) -> Markup {
    let mut out = Markup::default();
    if outside > 0 {
        let one = if outside == 1 { "run lies" } else { "runs lie" };
        out.leaf(
            "p",
            &[("class", &"small")],
            &format!("{outside} {one} beyond the scale and stand on its edge."),
        );
    }
    if outliers.is_empty() {
        return out;
    }
    out.raw("<details class=\"small\"><summary>");
    out.text(&format!("{} far out, with the cause", outliers.len()));
    out.raw("</summary><ul>");
    for run in outliers.iter().take(RINGS) {
        let text = format!(
            "run {}, round {}, {}, {}: {}",
            run.sequence,
            run.round,
            m.variants[run.variant].name,
            words::quantity(run.value, unit),
            run.outlier.as_deref().unwrap_or_default()
        );
        out.leaf("li", &[], &text);
    }
    if outliers.len() > RINGS {
        out.leaf(
            "li",
            &[],
            &format!("and {} more, in the file with every run", outliers.len() - RINGS),
        );
    }
    out.raw("</ul></details>");
    out
}

/// Wide pictures are moved sideways on narrow screens, also with the keyboard.
fn scroll(picture: Markup) -> Markup {
    let mut m = Markup::default();
    m.raw(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Runs in time order, \
         moves sideways\">",
    );
    m.append(picture);
    m.raw("</div>");
    m
}
