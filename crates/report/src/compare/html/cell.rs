//! A benchmark's section: results and effects over all machines, then the pictures of each machine.

use super::forest::verdict_class;
use super::matrix::cell_id;
use super::{distribution, forest, sequence, strip, tables, variance};
use crate::compare::find::{self, Cell};
use crate::compare::markup::Markup;
use crate::compare::words;
use ::compare::result::{Compared, Measurement};

/// The section of a benchmark with these cells. `alone`: nothing is folded away.
pub(super) fn benchmark(m: &Measurement, cells: &[Cell], alone: bool) -> Markup {
    let mut out = Markup::default();
    let Some(first) = cells.first() else { return out };
    let (index, metric) = (first.benchmark, first.metric());
    let id = format!("b{index}");
    out.open("section", &[("class", &"benchmark"), ("id", &id)]);
    out.leaf("h2", &[], &first.benchmark().name);
    out.raw("<p class=\"small\"><code>");
    out.text(&first.benchmark().command);
    out.raw("</code> · ");
    out.text(&metric.words);
    for (name, value) in &first.benchmark().parameters {
        out.text(&format!(" · {name} = {value}"));
    }
    out.raw("</p>");
    let rows: Vec<&Compared> = cells.iter().flat_map(|c| c.comparisons()).collect();
    if !rows.is_empty() {
        out.append(tables::results(m, cells));
        out.raw("<div class=\"figures\">");
        out.append(forest::forest(&format!("{id}f"), &rows, m.margin, m.machines.len(), &metric));
        out.raw("<div class=\"half said\">");
        for c in &rows {
            said(&mut out, m, c);
        }
        out.raw("</div></div>");
    }
    for cell in cells {
        machine(&mut out, m, cell, alone);
    }
    out.close("section");
    out
}

/// The results of one of several measurements, for a page that tells of more.
pub(crate) fn measured(m: &Measurement, number: usize) -> Markup {
    let mut out = Markup::default();
    for (index, cell) in find::cells(m, &[]).iter().enumerate() {
        let id = format!("m{number}c{index}");
        let metric = cell.metric();
        let rows: Vec<&Compared> = cell.comparisons().collect();
        out.open("section", &[("class", &"benchmark"), ("id", &id)]);
        out.leaf("h2", &[], &format!("Measured: {}", metric.words));
        out.raw("<p class=\"small\"><code>");
        out.text(&cell.benchmark().command);
        out.raw("</code></p>");
        if !rows.is_empty() {
            out.append(tables::results(m, std::slice::from_ref(cell)));
            out.raw("<div class=\"figures\">");
            out.append(forest::forest(&format!("{id}f"), &rows, m.margin, 1, &metric));
            out.raw("<div class=\"half said\">");
            rows.iter().for_each(|c| said(&mut out, m, c));
            out.raw("</div></div>");
        }
        out.close("section");
    }
    out
}

/// The verdict in a sentence and what stands behind it.
fn said(out: &mut Markup, m: &Measurement, c: &Compared) {
    out.open("div", &[("class", &format!("say {}", verdict_class(c)))]);
    out.raw("<p><span class=\"sign\" aria-hidden=\"true\">");
    out.raw(words::glyph(c.verdict, c.negligible).0);
    out.raw("</span> ");
    if m.machines.len() > 1 {
        out.leaf("b", &[], &format!("{}: ", c.machine));
    }
    out.text(&words::sentence(c));
    out.raw("</p><ul class=\"small\">");
    if let Some(a) = &c.layouts {
        out.leaf("li", &[], &words::layouts(a, find::variant(m, &c.variant)));
        out.leaf("li", &[], &format!("as built {}", words::effect(&c.as_built)));
    }
    if let Some(smallest) = c.smallest_effect {
        out.leaf("li", &[], &format!("finds {} with 80 % power", words::percent(smallest)));
    }
    for warning in words::own_notes(m, c) {
        out.leaf("li", &[("class", &"warn")], warning);
    }
    out.raw("</ul></div>");
}

/// The pictures of one machine.
fn machine(out: &mut Markup, m: &Measurement, cell: &Cell, alone: bool) {
    let id = cell_id(cell.benchmark, cell.machine);
    // Attributes without a value are no XML; an empty one means the same.
    if alone {
        out.open("details", &[("class", &"machine"), ("id", &id), ("open", &"")]);
    } else {
        out.open("details", &[("class", &"machine"), ("id", &id)]);
    }
    out.raw("<summary><h3>");
    out.text(&format!("Behind it: {} on {}", cell.benchmark().name, cell.machine_name()));
    out.raw("</h3></summary>");
    let rows: Vec<&Compared> = cell.comparisons().collect();
    out.raw("<div class=\"figures\">");
    match cell.evidence {
        Some(evidence) => {
            if let Some(picture) = strip::strip(&format!("{id}s"), m, cell, evidence) {
                out.append(picture);
            }
            if let Some(picture) = variance::variance(&format!("{id}v"), &rows) {
                out.append(picture);
            }
            if let Some(picture) = sequence::sequence(&format!("{id}q"), m, cell, evidence) {
                out.append(picture);
            }
            if let Some(pictures) =
                distribution::distributions(&format!("{id}d"), m, cell, evidence)
            {
                out.append(pictures);
            }
        }
        None => {
            if let Some(picture) = variance::variance(&format!("{id}v"), &rows) {
                out.append(picture);
            }
            out.raw(
                "<p class=\"small\">The runs are not at hand, so there are no pictures of them; \
                 make the report from the file with every run.</p>",
            );
        }
    }
    out.raw("</div>");
    if let Some(table) = tables::other_metrics(cell) {
        out.append(table);
    }
    if m.comparisons.len() > 1 {
        out.raw("<p class=\"small\"><a href=\"#matrix\">Back to all results</a></p>");
    }
    out.raw("</details>");
}
