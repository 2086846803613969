//! Small plots in text, after FreeBSD's ministat: one line per variant, all on one scale.

use crate::compare::find::Cell;
use crate::compare::screen::Screen;
use crate::compare::words;
use ::compare::result::{Measurement, Shown};

/// One line of the plot: what stands where.
struct Line {
    name: String,
    marks: Vec<(f64, &'static str)>,
    /// From, to and the sign between; later ones cover earlier ones.
    bars: Vec<(f64, f64, &'static str)>,
}

/// Layout-averaged interval and as-built point of every variant.
pub(super) fn effects(cell: &Cell, margin: f64, screen: Screen) -> Vec<String> {
    let mut lines = Vec::new();
    for c in cell.comparisons() {
        let mut line = Line { name: c.variant.clone(), marks: Vec::new(), bars: Vec::new() };
        if let Some([low, high]) = c.interval.filter(|_| c.layouts.is_some()) {
            line.bars.push((low, high, screen.sign("━", "=")));
        }
        if let Some([low, high]) = c.interval.filter(|_| c.layouts.is_none()) {
            line.bars.push((low, high, screen.sign("─", "-")));
        }
        line.marks.push((c.as_built.ratio, screen.sign("◆", "#")));
        if c.layouts.is_some() {
            line.marks.push((c.effect, screen.sign("┃", "|")));
        }
        lines.push(line);
    }
    if lines.is_empty() {
        return Vec::new();
    }
    let grid = [
        (1.0 - margin, screen.sign("┊", ":")),
        (1.0, screen.sign("│", "!")),
        (1.0 + margin, screen.sign("┊", ":")),
    ];
    let label = |ratio: f64| words::change(ratio - 1.0);
    let key = if cell.comparisons().any(|c| c.layouts.is_some()) {
        format!(
            "{} averaged over layouts, {} as built, {} no difference, {} margin",
            screen.sign("━", "="),
            screen.sign("◆", "#"),
            screen.sign("│", "!"),
            screen.sign("┊", ":")
        )
    } else {
        format!(
            "{} as built with its interval, {} margin",
            screen.sign("◆", "#"),
            screen.sign("┊", ":")
        )
    };
    draw(screen, &lines, &grid, &label, &key)
}

/// Runs of every variant as built: lowest, quartiles, median, highest.
pub(super) fn runs(m: &Measurement, cell: &Cell, screen: Screen) -> Vec<String> {
    let Some(evidence) = cell.evidence else { return Vec::new() };
    let mut lines = Vec::new();
    for (index, variant) in m.variants.iter().enumerate() {
        let own = |run: &&Shown| run.variant == index && run.layout == 0 && run.value.is_finite();
        let mut values: Vec<f64> = evidence.runs.iter().filter(own).map(|run| run.value).collect();
        values.sort_by(f64::total_cmp);
        let (Some(low), Some(high)) = (values.first(), values.last()) else { continue };
        let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
        lines.push(Line {
            name: variant.name.clone(),
            bars: vec![
                (*low, *high, screen.sign("╌", ".")),
                (at(0.05), at(0.95), screen.sign("─", "-")),
                (at(0.25), at(0.75), screen.sign("█", "=")),
            ],
            marks: vec![(at(0.5), screen.sign("┃", "|"))],
        });
    }
    if lines.len() < 2 {
        return Vec::new();
    }
    let unit = cell.metric().unit;
    let label = |value: f64| words::quantity(value, &unit);
    let key = format!(
        "runs as built: {} median, {} half of them, {} 90 %, {} all",
        screen.sign("┃", "|"),
        screen.sign("█", "="),
        screen.sign("─", "-"),
        screen.sign("╌", ".")
    );
    draw(screen, &lines, &[], &label, &key)
}

fn draw(
    screen: Screen,
    lines: &[Line],
    grid: &[(f64, &'static str)],
    label: &dyn Fn(f64) -> String,
    key: &str,
) -> Vec<String> {
    let names: Vec<String> = lines.iter().map(|l| screen.text(&l.name)).collect();
    let longest = names.iter().map(|n| n.chars().count()).max().unwrap_or(0).min(screen.width / 3);
    let room = screen.width.saturating_sub(longest + 5).clamp(16, 72);
    let points = lines
        .iter()
        .flat_map(|l| l.bars.iter().flat_map(|b| [b.0, b.1]).chain(l.marks.iter().map(|m| m.0)));
    let points: Vec<f64> =
        points.chain(grid.iter().map(|g| g.0)).filter(|x| x.is_finite()).collect();
    let low = points.iter().copied().fold(f64::INFINITY, f64::min);
    let high = points.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Also without any point, when they are infinite.
    if high <= low || !(high - low).is_finite() {
        return Vec::new();
    }
    let at = |value: f64| {
        ((value - low) / (high - low) * (room - 1) as f64).round().clamp(0.0, (room - 1) as f64)
            as usize
    };
    let mut text = Vec::new();
    for (line, name) in lines.iter().zip(&names) {
        let mut columns = vec![" "; room];
        for (place, sign) in grid {
            columns[at(*place)] = sign;
        }
        for (from, to, sign) in line.bars.iter().filter(|b| b.0.is_finite() && b.1.is_finite()) {
            let (from, to) = (at(from.min(*to)), at(from.max(*to)));
            columns[from..=to].fill(sign);
        }
        for (place, sign) in line.marks.iter().filter(|m| m.0.is_finite()) {
            columns[at(*place)] = sign;
        }
        let name: String = name.chars().take(longest).collect();
        text.push(format!("  {name:longest$}  {}", columns.concat()).trim_end().to_owned());
    }
    text.push(axis(screen, longest, room, &label(low), &label(high)));
    // The signs of the key were chosen for this terminal already.
    text.extend(screen.wrap(key, longest + 4));
    text
}

fn axis(screen: Screen, longest: usize, room: usize, low: &str, high: &str) -> String {
    let (low, high) = (screen.text(low), screen.text(high));
    let between = room.saturating_sub(low.chars().count() + high.chars().count());
    let line = format!("  {:longest$}  {low}{}{high}", "", " ".repeat(between));
    screen.style.paint(crate::style::Colour::Faint, &line)
}
