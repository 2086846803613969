//! The page as a whole: what was found, what to trust, all results, then each benchmark.

use super::cell::benchmark;
use super::{calibration, matrix, tables};
use crate::compare::find::{self, Cell};
use crate::compare::markup::Markup;
use crate::compare::words;
use crate::numbers::numbered;
use crate::page::{self, Frame};
use ::compare::result::{Evidence, Measurement, Verdict};

pub(crate) const STYLE: &str = concat!(include_str!("../../page.css"), include_str!("style.css"));
const SCRIPT: &str = include_str!("script.js");

/// The result as one HTML file. It loads nothing, and its policy forbids it to.
pub fn html(m: &Measurement, evidence: &[Evidence]) -> String {
    let cells = find::cells(m, evidence);
    let mut out = Markup::default();
    head(&mut out, m);
    trust(&mut out, m);
    if m.comparisons.len() > 1 {
        out.append(matrix::matrix(m));
    }
    for table in [tables::accumulated(m), tables::indices(m)].into_iter().flatten() {
        out.append(table);
    }
    let alone = cells.len() == 1;
    if cells.len() > 1 {
        out.raw(
            "<p class=\"tools\"><button type=\"button\" data-all=\"open\">Unfold all</button> \
             <button type=\"button\" data-all=\"close\">Fold all</button></p>",
        );
    }
    for index in 0..m.benchmarks.len() {
        let own: Vec<Cell> = cells.iter().filter(|c| c.benchmark == index).copied().collect();
        out.append(benchmark(m, &own, alone));
    }
    let whole = [tables::sizes(m), tables::code_metrics(m), tables::alignment(m)];
    whole.into_iter().flatten().for_each(|table| out.append(table));
    machines(&mut out, m);
    foot(&mut out, m);
    let title = format!("planish compare: {}", title(m));
    page::whole(Frame { title: &title, style: STYLE, script: SCRIPT }, out, None)
}

fn title(m: &Measurement) -> String {
    let base = m.variants.first().map_or("", |v| &v.name);
    format!("{} against {base}", find::others(m).join(", "))
}

fn head(out: &mut Markup, m: &Measurement) {
    out.raw("<header><p class=\"brand\">planish compare</p>");
    out.raw("<h1>");
    for line in words::headlines(m) {
        out.leaf("span", &[], &line);
        out.raw(" ");
    }
    out.raw("</h1>");
    if let [only] = m.comparisons.as_slice() {
        out.raw("<p class=\"hero\">");
        out.leaf(
            "b",
            &[("class", &super::forest::verdict_class(only))],
            &words::change(only.effect - 1.0),
        );
        if let Some([low, high]) = only.interval {
            out.leaf(
                "span",
                &[],
                &format!(
                    "95 % interval {} to {}",
                    words::change(low - 1.0),
                    words::change(high - 1.0)
                ),
            );
        }
        out.leaf("span", &[], &format!("{} rounds, {}", only.n, words::p_value(only.p_value)));
        out.raw("</p>");
    } else {
        tally(out, m);
    }
    out.leaf(
        "p",
        &[("class", &"small")],
        &format!(
            "{} · {} · {} · margin ±{}",
            title(m),
            numbered(m.benchmarks.len() as u64, "benchmark", "benchmarks"),
            numbered(m.machines.len() as u64, "machine", "machines"),
            words::percent(m.margin)
        ),
    );
    out.raw("</header>");
}

/// How many of each verdict.
fn tally(out: &mut Markup, m: &Measurement) {
    out.raw("<ul class=\"tally\">");
    for verdict in words::VERDICTS {
        let number = m.comparisons.iter().filter(|c| c.verdict == verdict).count();
        if number == 0 {
            continue;
        }
        out.raw(match verdict {
            Verdict::Faster => "<li class=\"good\">",
            Verdict::Slower => "<li class=\"bad\">",
            _ => "<li>",
        });
        out.raw("<span class=\"sign\" aria-hidden=\"true\">");
        out.raw(words::glyph(verdict, false).0);
        out.raw("</span> ");
        out.leaf("b", &[], &number.to_string());
        out.raw(" ");
        out.raw(words::word(verdict));
        out.raw("</li>");
    }
    out.raw("</ul>");
}

fn trust(out: &mut Markup, m: &Measurement) {
    out.raw("<section class=\"trust\"><h2>What to trust</h2><ul>");
    for s in &m.stopped {
        let text =
            format!("Stopped: {} on {} ({}): {}", s.variant, s.benchmark, s.machine, s.reason);
        out.leaf("li", &[("class", &"warn")], &text);
    }
    if m.interrupted {
        let text = "Interrupted: only the rounds finished before were used.";
        out.leaf("li", &[("class", &"warn")], text);
    }
    let notes = words::shared_notes(m);
    notes.iter().chain(&m.warnings).for_each(|w| out.leaf("li", &[("class", &"warn")], w));
    words::trust(m).iter().for_each(|line| out.leaf("li", &[], line));
    for machine in &m.machines {
        let class = if machine.calibration.is_some() { "" } else { "warn" };
        let text = format!("{}: {}", machine.name, words::calibration(machine));
        out.leaf("li", &[("class", &class)], &text);
    }
    for v in m.variants.iter().filter(|v| !v.freedom.is_empty()) {
        let text = format!(
            "{}: {} layouts besides the one as built; randomised: {}",
            v.name, v.layouts, v.freedom
        );
        out.leaf("li", &[], &text);
    }
    out.raw("</ul></section>");
}

fn machines(out: &mut Markup, m: &Measurement) {
    out.raw("<section><h2>Machines</h2><dl>");
    for machine in &m.machines {
        out.leaf("dt", &[], &machine.name);
        let text = format!("{}, {} CPUs, Linux {}", machine.cpu, machine.cores, machine.kernel);
        out.leaf("dd", &[], &text);
    }
    out.raw("</dl><div class=\"figures\">");
    for (index, machine) in m.machines.iter().enumerate() {
        if let Some(picture) = calibration::calibration(&format!("cal{index}"), machine) {
            out.append(picture);
        }
    }
    out.raw("</div></section>");
    if m.variants.iter().any(|v| !v.description.is_empty()) {
        out.raw("<section><h2>Variants</h2><dl>");
        for v in &m.variants {
            out.leaf("dt", &[], &v.name);
            out.leaf("dd", &[], &v.description);
        }
        out.raw("</dl></section>");
    }
}

fn foot(out: &mut Markup, m: &Measurement) {
    out.raw("<footer><p class=\"small\">");
    out.text(&format!("planish {}, seed {}, correction {}.", m.planish, m.seed, m.correction));
    if !m.raw.is_empty() {
        out.text(&format!(" Every run: {}.", m.raw.join(", ")));
    }
    out.raw(
        " Ratios are variant / base; what is quoted is averaged over layouts where there are \
         any.</p></footer>",
    );
}
