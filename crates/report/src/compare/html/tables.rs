//! The tables of the page: values per variant, sizes, exact metrics of the code, other metrics,
//! alignment.

use super::forest::verdict_class;
use crate::compare::find::{self, Cell};
use crate::compare::markup::Markup;
use crate::compare::words;
use crate::numbers::count;
use ::compare::result::{Measurement, Variant};
use std::collections::BTreeSet;

/// Opens a table that is moved sideways where it does not fit.
fn open(out: &mut Markup, class: &'static str, label: &str, head: &[(&str, bool)]) {
    out.open(
        "div",
        &[("class", &"scroll"), ("tabindex", &"0"), ("role", &"group"), ("aria-label", &label)],
    );
    out.open("table", &[("class", &class)]);
    out.raw("<thead><tr>");
    for (text, number) in head {
        out.leaf("th", &[("scope", &"col"), ("class", if *number { &"n" } else { &"" })], text);
    }
    out.raw("</tr></thead><tbody>");
}

fn close(out: &mut Markup) {
    out.raw("</tbody></table></div>");
}

fn number(out: &mut Markup, text: &str) {
    out.leaf("td", &[("class", &"n")], text);
}

/// Median, spread, ratio and verdict of every variant in the cells of one benchmark.
pub(super) fn results(m: &Measurement, cells: &[Cell]) -> Markup {
    let mut out = Markup::default();
    let several = m.machines.len() > 1;
    let mut head = vec![("Variant", false)];
    if several {
        head.push(("Machine", false));
    }
    head.extend([("Median", true), ("Spread", true), ("Ratio", true), ("95 % interval", true)]);
    head.extend([("p", true), ("p corrected", true), ("n", true), ("Verdict", false)]);
    open(&mut out, "", "Results, moves sideways", &head);
    for cell in cells {
        let unit = cell.metric().unit;
        let mut bases: Vec<&str> = Vec::new();
        let place = |out: &mut Markup| {
            if several {
                out.leaf("td", &[], cell.machine_name());
            }
        };
        for c in cell.comparisons() {
            if !bases.contains(&c.base.as_str()) {
                bases.push(&c.base);
                out.raw("<tr class=\"base\">");
                out.leaf("th", &[("scope", &"row")], &c.base);
                place(&mut out);
                number(&mut out, &words::quantity(c.base_median, &unit));
                number(&mut out, &format!("±{}", words::percent(c.spread[0])));
                out.raw(
                    "<td class=\"n\">1</td><td></td><td></td><td></td><td></td><td>base</td></tr>",
                );
            }
            out.raw("<tr>");
            out.leaf("th", &[("scope", &"row")], &c.variant);
            place(&mut out);
            number(&mut out, &words::quantity(c.variant_median, &unit));
            number(&mut out, &format!("±{}", words::percent(c.spread[1])));
            out.leaf("td", &[("class", &"n strong")], &words::ratio(c.effect));
            number(
                &mut out,
                &c.interval.map_or("none".into(), |[l, h]| format!("{l:.3} – {h:.3}")),
            );
            let p = |p: f64| {
                words::p_value(p).trim_start_matches("p ").trim_start_matches("= ").to_owned()
            };
            number(&mut out, &p(c.p_value));
            number(&mut out, &p(c.p_corrected));
            number(&mut out, &c.n.to_string());
            out.raw("<td>");
            out.open("span", &[("class", &format!("verdict {}", verdict_class(c)))]);
            out.raw("<span class=\"sign\" aria-hidden=\"true\">");
            out.raw(words::glyph(c.verdict, c.negligible).0);
            out.raw("</span> ");
            out.raw(words::verdict(m, c));
            out.raw("</span></td></tr>");
        }
    }
    close(&mut out);
    out
}

/// Bytes of the sections, with the change against the base.
pub(super) fn sizes(m: &Measurement) -> Option<Markup> {
    let base = m.variants.iter().find_map(|v| v.sizes)?;
    let mut out = Markup::default();
    out.raw("<section><h2>Sizes</h2>");
    let columns = base.columns().flat_map(|(name, _)| [(name, true), ("Δ", true)]);
    let head: Vec<(&str, bool)> = std::iter::once(("Variant", false)).chain(columns).collect();
    open(&mut out, "fit", "Sizes in bytes, moves sideways", &head);
    for variant in &m.variants {
        let Some(s) = variant.sizes else { continue };
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &variant.name);
        for ((_, bytes), (_, before)) in s.columns().zip(base.columns()) {
            number(&mut out, &count(bytes));
            number(&mut out, &difference(bytes, before));
        }
        out.raw("</tr>");
    }
    close(&mut out);
    out.raw("<p class=\"small\">Bytes as size(1) counts them: dec is the sum of the three; file is the whole file.</p></section>");
    Some(out)
}

fn difference(bytes: u64, before: u64) -> String {
    match (bytes == before, before) {
        (true, _) => String::new(),
        (false, 0) => "new".into(),
        (false, _) => words::change(bytes as f64 / before as f64 - 1.0),
    }
}

/// Deterministic metrics of the instruction stream.
pub(super) fn code_metrics(m: &Measurement) -> Option<Markup> {
    let mut keys: BTreeSet<(&str, &str)> = BTreeSet::new();
    for variant in &m.variants {
        for (benchmark, metrics) in &variant.code_metrics {
            keys.extend(metrics.keys().map(|metric| (benchmark.as_str(), metric.as_str())));
        }
    }
    if keys.is_empty() {
        return None;
    }
    let of = |v: &Variant, key: &(&str, &str)| v.code_metrics.get(key.0)?.get(key.1).copied();
    let mut out = Markup::default();
    out.raw("<section><h2>Metrics of the code</h2>");
    let mut head = vec![("Benchmark", false), ("Metric", false)];
    head.extend(m.variants.iter().map(|v| (v.name.as_str(), true)));
    open(&mut out, "fit", "Metrics of the code, moves sideways", &head);
    for key in &keys {
        let base = m.variants.first().and_then(|v| of(v, key));
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], key.0);
        out.leaf("td", &[], key.1);
        for (index, variant) in m.variants.iter().enumerate() {
            out.raw("<td class=\"n\">");
            let value = of(variant, key);
            out.text(&value.map_or("–".into(), |v| words::quantity(v, "")));
            if let (Some(value), Some(base), true) = (value, base.filter(|b| *b > 0.0), index > 0) {
                out.raw(" <small>");
                out.text(&words::change(value / base - 1.0));
                out.raw("</small>");
            }
            out.raw("</td>");
        }
        out.raw("</tr>");
    }
    close(&mut out);
    out.raw(
        "<p class=\"small\">Counted under emulation: the same in every run. They explain time and \
         never decide.</p></section>",
    );
    Some(out)
}

/// Metrics that do not decide.
pub(super) fn other_metrics(cell: &Cell) -> Option<Markup> {
    if cell.comparisons().all(|c| c.others.is_empty()) {
        return None;
    }
    let mut out = Markup::default();
    out.raw("<h4>Other metrics</h4>");
    let head = [
        ("Variant", false),
        ("Metric", false),
        ("Base", true),
        ("Variant", true),
        ("Ratio", true),
        ("95 % interval", true),
    ];
    open(&mut out, "fit", "Other metrics, moves sideways", &head);
    for c in cell.comparisons() {
        for other in &c.others {
            let info = find::metric(cell.benchmark(), Some(&other.name));
            let own = info.name == other.name;
            let (words_of, unit) =
                if own { (info.words, info.unit) } else { (other.name.clone(), String::new()) };
            out.raw("<tr>");
            out.leaf("th", &[("scope", &"row")], &c.variant);
            out.leaf("td", &[], &words_of);
            number(&mut out, &words::quantity(other.base_median, &unit));
            number(&mut out, &words::quantity(other.variant_median, &unit));
            number(&mut out, &words::ratio(other.effect.ratio));
            number(
                &mut out,
                &other.effect.interval.map_or("none".into(), |[l, h]| format!("{l:.3} – {h:.3}")),
            );
            out.raw("</tr>");
        }
    }
    close(&mut out);
    Some(out)
}

/// What the alignment probe found.
pub(super) fn alignment(m: &Measurement) -> Option<Markup> {
    if m.alignment.is_empty() {
        return None;
    }
    let mut out = Markup::default();
    out.raw("<section><h2>With aligned functions</h2>");
    let head = [
        ("Variant", false),
        ("Benchmark", false),
        ("Alignment", true),
        ("Ratio", true),
        ("95 % interval", true),
        ("text of base", true),
        ("text of variant", true),
        ("What remains", false),
    ];
    open(&mut out, "", "Alignment probe, moves sideways", &head);
    for a in &m.alignment {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &a.variant);
        out.leaf("td", &[], &a.benchmark);
        number(&mut out, &if a.align == 0 { "as built".into() } else { a.align.to_string() });
        number(&mut out, &words::ratio(a.effect.ratio));
        number(
            &mut out,
            &a.effect.interval.map_or("none".into(), |[l, h]| format!("{l:.3} – {h:.3}")),
        );
        a.sizes.iter().for_each(|s| number(&mut out, &count(s.text)));
        out.leaf("td", &[("class", &"words")], &a.sentence);
        out.raw("</tr>");
    }
    close(&mut out);
    out.raw("</section>");
    Some(out)
}

/// Each benchmark over its parameters and machines.
pub(super) fn accumulated(m: &Measurement) -> Option<Markup> {
    if m.accumulated.is_empty() {
        return None;
    }
    let mut out = Markup::default();
    out.raw("<section><h2>Benchmarks over their parameters and machines</h2>");
    let head = [
        ("Benchmark", false),
        ("Variant", false),
        ("Rows", true),
        ("Mean [lowest, highest]", true),
        ("95 % interval", true),
        ("Lowest in", false),
        ("Highest in", false),
    ];
    open(&mut out, "", "Benchmarks over their parameters and machines, moves sideways", &head);
    for own in &m.accumulated {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &words::family(own));
        out.leaf("td", &[], &own.variant);
        number(&mut out, &own.rows.to_string());
        out.leaf("td", &[("class", &"n strong")], &words::accumulated(own));
        number(&mut out, &words::interval(own.interval));
        out.leaf("td", &[], &words::place(&own.lowest, m));
        out.leaf("td", &[], &words::place(&own.highest, m));
        out.raw("</tr>");
    }
    close(&mut out);
    out.raw("<p class=\"small\">Geometric means of the rows; the interval holds for just these.</p></section>");
    Some(out)
}

/// Means over rows.
pub(super) fn indices(m: &Measurement) -> Option<Markup> {
    if m.indices.is_empty() {
        return None;
    }
    let mut out = Markup::default();
    out.raw("<section><h2>Geometric means</h2>");
    let head = [
        ("Variant", false),
        ("Machine", false),
        ("Rows", true),
        ("Mean", true),
        ("95 % interval", true),
        ("As a sample", true),
        ("Lowest – highest", true),
        ("Random effects", true),
        ("Another row", true),
    ];
    open(&mut out, "", "Geometric means, moves sideways", &head);
    let range =
        |i: Option<[f64; 2]>| i.map_or("–".to_owned(), |[l, h]| format!("{l:.3} – {h:.3}"));
    for i in &m.indices {
        out.raw("<tr>");
        out.leaf("th", &[("scope", &"row")], &i.variant);
        out.leaf("td", &[], i.machine.as_deref().unwrap_or("all"));
        number(&mut out, &i.rows.to_string());
        out.leaf("td", &[("class", &"n strong")], &words::ratio(i.mean));
        number(&mut out, &range(i.interval));
        number(&mut out, &range(i.sample_interval));
        number(&mut out, &range(Some(i.range)));
        number(&mut out, &i.random_effects.map_or("–".to_owned(), words::ratio));
        number(&mut out, &range(i.prediction));
        out.raw("</tr>");
    }
    close(&mut out);
    out.raw(
        "<p class=\"small\">The first interval holds for just these benchmarks, “as a sample” for \
         benchmarks like them; “another row” is where one more would lie.</p></section>",
    );
    Some(out)
}
