//! The strip plot: where does each layout of each variant lie, and do matched layouts move
//! together?

use super::forest::shorten;
use super::scale::{Scale, around, ratio_labels};
use super::svg::{Anchor, HALF, Picture, figure, marker, series};
use crate::compare::find::Cell;
use crate::compare::markup::{Markup, Px};
use crate::compare::words;
use ::compare::result::{Dot, Evidence, Measurement};
use std::collections::BTreeMap;
use std::fmt::Write;

const TOP: f64 = 12.0;
const BOTTOM: f64 = 252.0;
const LEFT: f64 = 62.0;

/// Nothing where there are no layouts.
pub(super) fn strip(id: &str, m: &Measurement, cell: &Cell, evidence: &Evidence) -> Option<Markup> {
    let known = |d: &&Dot| d.variant < m.variants.len() && d.ratio.is_finite();
    let dots: Vec<&Dot> = evidence.layouts.iter().filter(known).collect();
    if dots.iter().all(|d| d.layout == 0) {
        return None;
    }
    let mut columns: Vec<usize> = dots.iter().map(|d| d.variant).collect();
    columns.sort_unstable();
    columns.dedup();
    let [low, high] =
        around(dots.iter().flat_map(|d| [d.ratio, d.interval[0], d.interval[1]]), 0.05);
    let y = Scale::ratios(low, high, BOTTOM, TOP);
    let matched = cell.comparisons().any(|c| c.layouts.is_some_and(|a| a.matched));
    let described =
        columns.iter().map(|v| column_words(m, &dots, *v)).collect::<Vec<_>>().join("; ");
    let mut p = Picture::new(id, HALF, BOTTOM + 30.0, "Every layout of every variant", &described);
    let ticks = y.ticks(5);
    p.axis_y(&y, &ticks, &ratio_labels(&y, &ticks), LEFT, HALF - 8.0);
    if y.holds(1.0) {
        p.line("zero", (LEFT, y.at(1.0)), (HALF - 8.0, y.at(1.0)));
    }
    let last = dots.iter().map(|d| d.layout).max().unwrap_or(1).max(1);
    let width = (HALF - 8.0 - LEFT) / columns.len() as f64;
    // Layouts stand side by side in their order, so that matched ones are found again at the same
    // place.
    let place = |d: &Dot| {
        let column = columns.iter().position(|v| *v == d.variant).unwrap_or(0) as f64;
        let share = (f64::from(d.layout) + 0.5) / (f64::from(last) + 1.0);
        (LEFT + width * (column + 0.14 + 0.72 * share), y.at(d.ratio))
    };
    if matched {
        pairs(&mut p, &dots, &columns, &place);
    }
    for d in &dots {
        let variant = &m.variants[d.variant].name;
        let layout = if d.layout == 0 { "as built".into() } else { format!("layout {}", d.layout) };
        let change = [d.ratio, d.interval[0], d.interval[1]].map(|r| words::change(r - 1.0));
        let title = format!("{variant}, {layout}: {} [{}, {}]", change[0], change[1], change[2]);
        p.titled(&title, |p| dot(p, d, place(d), &y));
    }
    for (column, variant) in columns.iter().enumerate() {
        let at = LEFT + width * (column as f64 + 0.5);
        let room = (width / 7.0) as usize;
        p.text(
            "label",
            (at, BOTTOM + 20.0),
            Anchor::Middle,
            &shorten(&m.variants[*variant].name, room.max(4)),
        );
    }
    let reading = if matched {
        "One mark per binary with the 95 % interval of its runs; lines join the same function \
         order. Hollow: as built."
    } else {
        "One mark per binary with the 95 % interval of its runs. Hollow: as built."
    };
    Some(figure("half", "Layouts", reading, p.finish()))
}

fn column_words(m: &Measurement, dots: &[&Dot], variant: usize) -> String {
    let own = dots.iter().filter(|d| d.variant == variant && d.layout > 0).map(|d| d.ratio);
    let number = own.clone().count();
    let [low, high] = around(own, 0.0);
    format!(
        "{}: {number} layouts from {} to {}",
        m.variants[variant].name,
        words::ratio(low),
        words::ratio(high)
    )
}

/// Lines between neighbouring columns, in one path.
fn pairs(p: &mut Picture, dots: &[&Dot], columns: &[usize], place: &dyn Fn(&Dot) -> (f64, f64)) {
    let mut by_layout: BTreeMap<u32, Vec<&Dot>> = BTreeMap::new();
    for d in dots.iter().filter(|d| d.layout > 0) {
        by_layout.entry(d.layout).or_default().push(d);
    }
    let mut path = String::new();
    for joined in by_layout.values() {
        let ordered = columns.iter().filter_map(|v| joined.iter().find(|d| d.variant == *v));
        for (index, d) in ordered.enumerate() {
            let (x, y) = place(d);
            // Writing to a string does not fail.
            let _ = write!(path, "{}{} {}", if index == 0 { 'M' } else { 'L' }, Px(x), Px(y));
        }
    }
    p.path("pair", &path);
}

fn dot(p: &mut Picture, d: &Dot, (x, at): (f64, f64), y: &Scale) {
    if d.interval.iter().all(|e| e.is_finite()) {
        let whisker = format!("M{} {}V{}", Px(x), Px(y.at(d.interval[0])), Px(y.at(d.interval[1])));
        p.path(&series('l', d.variant), &whisker);
    }
    let mut path = String::new();
    marker(&mut path, d.variant, x, at, if d.layout == 0 { 5.0 } else { 3.6 });
    p.path(&series(if d.layout == 0 { 'h' } else { 'm' }, d.variant), &path);
}
