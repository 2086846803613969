//! The matrix: all rows at one glance, each cell a way to the pictures behind it.

use super::forest::verdict_class;
use crate::compare::markup::Markup;
use crate::compare::{find, words};
use ::compare::result::{Compared, Measurement, Verdict};

/// Identifier of the section of a machine × benchmark.
pub(super) fn cell_id(benchmark: usize, machine: usize) -> String {
    format!("b{benchmark}m{machine}")
}

/// Benchmarks down, variants within machines across.
pub(super) fn matrix(m: &Measurement) -> Markup {
    let mut out = Markup::default();
    let variants = find::others(m);
    out.raw(
        "<section id=\"matrix\" aria-labelledby=\"matrix-h\"><h2 id=\"matrix-h\">All results</h2>",
    );
    out.raw(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"All results, moves \
         sideways\">",
    );
    out.raw("<table class=\"matrix\"><thead>");
    if m.machines.len() > 1 {
        out.raw("<tr><td></td>");
        for machine in &m.machines {
            out.leaf("th", &[("scope", &"colgroup"), ("colspan", &variants.len())], &machine.name);
        }
        out.raw("</tr>");
    }
    out.raw("<tr><th scope=\"col\">Benchmark</th>");
    for _ in &m.machines {
        for variant in &variants {
            out.leaf("th", &[("scope", &"col"), ("class", &"n")], variant);
        }
    }
    out.raw("</tr></thead><tbody>");
    for (row, benchmark) in m.benchmarks.iter().enumerate() {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &benchmark.name);
        for (column, machine) in m.machines.iter().enumerate() {
            for variant in &variants {
                let found = m.comparisons.iter().find(|c| {
                    c.benchmark == benchmark.name
                        && c.machine == machine.name
                        && c.variant == *variant
                });
                cell(&mut out, m, found, &cell_id(row, column));
            }
        }
        out.raw("</tr>");
    }
    out.raw("</tbody>");
    means(&mut out, m, &variants);
    out.raw("</table></div>");
    legend(&mut out, m);
    out.raw("</section>");
    out
}

fn cell(out: &mut Markup, m: &Measurement, found: Option<&Compared>, id: &str) {
    let Some(c) = found else {
        out.raw(
            "<td class=\"n\"><span class=\"cell none\">–<span class=\"hidden\"> not \
             measured</span></span></td>",
        );
        return;
    };
    let title = format!("{} on {}, {}", c.benchmark, c.machine, words::sentence(c));
    let class = format!("cell {}{}", verdict_class(c), if c.negligible { " weak" } else { "" });
    let href = format!("#{id}");
    out.raw("<td class=\"n\">");
    out.open("a", &[("class", &class), ("href", &href), ("title", &title)]);
    out.text(&words::ratio(c.effect));
    out.raw(" <span class=\"sign\" aria-hidden=\"true\">");
    out.raw(words::glyph(c.verdict, c.negligible).0);
    out.raw("</span><span class=\"hidden\"> ");
    out.raw(words::verdict(m, c));
    out.raw("</span></a></td>");
}

/// Geometric means below the rows they are of.
fn means(out: &mut Markup, m: &Measurement, variants: &[&str]) {
    let of = |machine: &str, variant: &str| {
        m.indices.iter().find(|i| i.machine.as_deref() == Some(machine) && i.variant == variant)
    };
    let alone =
        |variant: &str| m.indices.iter().find(|i| i.machine.is_none() && i.variant == variant);
    let one = m.machines.len() == 1;
    if m.indices.is_empty() {
        return;
    }
    out.raw("<tfoot><tr><th scope=\"row\">Geometric mean</th>");
    for machine in &m.machines {
        for variant in variants {
            let index = of(&machine.name, variant).or_else(|| alone(variant).filter(|_| one));
            match index {
                Some(i) => {
                    let title = words::index(i);
                    out.open("td", &[("class", &"n"), ("title", &title)]);
                    out.leaf("span", &[("class", &"cell")], &words::ratio(i.mean));
                    out.leaf("small", &[], &words::interval(i.interval));
                    out.raw("</td>");
                }
                None => out.raw("<td class=\"n\"></td>"),
            }
        }
    }
    out.raw("</tr></tfoot>");
}

fn legend(out: &mut Markup, m: &Measurement) {
    out.raw("<ul class=\"legend\">");
    for verdict in words::VERDICTS {
        out.raw("<li><span class=\"sign ");
        out.raw(match verdict {
            Verdict::Faster => "good",
            Verdict::Slower => "bad",
            _ => "grey",
        });
        out.raw("\" aria-hidden=\"true\">");
        out.raw(words::glyph(verdict, false).0);
        out.raw("</span>");
        out.raw(words::word(verdict));
        out.raw("</li>");
    }
    out.raw("<li><span class=\"sign\" aria-hidden=\"true\">△ ▽</span>");
    out.text(&format!("shown, but within ±{}", words::percent(m.margin)));
    out.raw("</li></ul>");
    let base = m.variants.first().map_or("the base", |v| &v.name);
    out.leaf(
        "p",
        &[("class", &"small")],
        &format!(
            "Ratios to {base}. Green and red only for what holds after correction for all rows. A \
             cell leads to the pictures behind it."
        ),
    );
}
