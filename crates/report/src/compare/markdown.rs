//! How is a comparison told in a pull request? GitHub's Markdown, with every name made harmless.

use super::{find, words};
use crate::escape::{markdown as text_of, markdown_code as code};
use ::compare::result::{Compared, Evidence, Measurement, MetricInfo};
use std::fmt::Write;

/// The result as Markdown: the verdict first, then one table per benchmark, then what to trust.
pub fn markdown(m: &Measurement) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(out, "**{}**\n", text_of(&words::headline(m)));
    matrix(&mut out, m);
    const NO_RUNS: &[Evidence] = &[];
    for cell in find::cells(m, NO_RUNS) {
        let metric = cell.metric();
        let _ = writeln!(
            out,
            "### {} on {}: {}\n\n{}\n",
            text_of(&cell.benchmark().name),
            text_of(cell.machine_name()),
            text_of(&metric.words),
            code(&cell.benchmark().command)
        );
        let _ = writeln!(
            out,
            "| variant | median | spread | ratio | 95 % interval | p (corrected) | verdict \
             |\n|---|---:|---:|---:|---|---:|---|"
        );
        let mut bases: Vec<&str> = Vec::new();
        for c in cell.comparisons() {
            if !bases.contains(&c.base.as_str()) {
                bases.push(&c.base);
                let median = words::quantity(c.base_median, &metric.unit);
                let _ = writeln!(
                    out,
                    "| {} | {} | ±{} | 1 | | | base |",
                    text_of(&c.base),
                    text_of(&median),
                    words::percent(c.spread[0])
                );
            }
            row(&mut out, c, &metric);
        }
        out.push('\n');
        for c in cell.comparisons() {
            remarks(&mut out, m, c);
        }
        other_metrics(&mut out, &cell);
        out.push('\n');
    }
    indices(&mut out, m);
    accumulated(&mut out, m);
    sizes(&mut out, m);
    alignment(&mut out, m);
    notes(&mut out, m);
    out
}

/// Benchmarks down, variants and machines across; only where there are several rows.
fn matrix(out: &mut String, m: &Measurement) {
    if m.comparisons.len() < 4 {
        return;
    }
    let variants = find::others(m);
    let columns: Vec<(&str, &str)> = m
        .machines
        .iter()
        .flat_map(|machine| variants.iter().map(|v| (machine.name.as_str(), *v)))
        .collect();
    out.push_str("| benchmark |");
    for (machine, variant) in &columns {
        let _ = match m.machines.len() {
            1 => write!(out, " {} |", text_of(variant)),
            _ => write!(out, " {}<br>{} |", text_of(variant), text_of(machine)),
        };
    }
    let _ = writeln!(out, "\n|---|{}", "---:|".repeat(columns.len()));
    for benchmark in &m.benchmarks {
        let _ = write!(out, "| {} |", text_of(&benchmark.name));
        for (machine, variant) in &columns {
            let found = m.comparisons.iter().find(|c| {
                c.benchmark == benchmark.name && c.machine == *machine && c.variant == *variant
            });
            let _ = match found {
                Some(c) => write!(out, " {} {} |", words::ratio(c.effect), sign(c)),
                None => write!(out, " – |"),
            };
        }
        out.push('\n');
    }
    let legend: Vec<String> = words::VERDICTS
        .iter()
        .map(|v| format!("{} {}", words::glyph(*v, false).0, words::word(*v)))
        .collect();
    let _ = writeln!(
        out,
        "\nRatio to the base; {}; hollow: within the margin of ±{}.\n",
        legend.join(", "),
        words::percent(m.margin)
    );
}

fn sign(c: &Compared) -> &'static str {
    words::glyph(c.verdict, c.negligible).0
}

fn row(out: &mut String, c: &Compared, metric: &MetricInfo) {
    let unit = metric.unit.as_str();
    let p = |p: f64| {
        words::p_value(p).trim_start_matches("p ").trim_start_matches("= ").replace('<', "&lt;")
    };
    let interval = c.interval.map_or("none".into(), |[low, high]| format!("{low:.3} to {high:.3}"));
    let _ = writeln!(
        out,
        "| {} | {} | ±{} | **{}** | {interval} | {} ({}) | {} {} |",
        text_of(&c.variant),
        text_of(&words::quantity(c.variant_median, unit)),
        words::percent(c.spread[1]),
        words::ratio(c.effect),
        p(c.p_value),
        p(c.p_corrected),
        sign(c),
        words::word_of(c.verdict, words::measures_speed(metric))
    );
}

fn remarks(out: &mut String, m: &Measurement, c: &Compared) {
    let _ = writeln!(out, "- {}", text_of(&words::sentence(c)));
    if let Some(averaged) = &c.layouts {
        let line = words::layouts(averaged, find::variant(m, &c.variant));
        let _ = writeln!(
            out,
            "  - {}; as built {}",
            text_of(&line),
            text_of(&words::effect(&c.as_built))
        );
    }
    for warning in words::own_notes(m, c) {
        let _ = writeln!(out, "  - note: {}", text_of(warning));
    }
}

fn other_metrics(out: &mut String, cell: &find::Cell) {
    if cell.comparisons().all(|c| c.others.is_empty()) {
        return;
    }
    let _ = writeln!(
        out,
        "\n<details><summary>Other metrics</summary>\n\n| variant | metric | base | variant | \
         ratio |\n|---|---|---:|---:|---|"
    );
    for c in cell.comparisons() {
        for other in &c.others {
            let info = find::metric(cell.benchmark(), Some(&other.name));
            let unit = if info.name == other.name { info.unit.as_str() } else { "" };
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                text_of(&c.variant),
                text_of(&other.name),
                text_of(&words::quantity(other.base_median, unit)),
                text_of(&words::quantity(other.variant_median, unit)),
                text_of(&words::effect(&other.effect))
            );
        }
    }
    let _ = writeln!(out, "\n</details>");
}

fn indices(out: &mut String, m: &Measurement) {
    for index in &m.indices {
        let _ = writeln!(out, "- {}", text_of(&words::index(index)));
    }
    if !m.indices.is_empty() {
        out.push('\n');
    }
}

/// Each benchmark over its parameters and machines.
fn accumulated(out: &mut String, m: &Measurement) {
    if m.accumulated.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "| benchmark, over its parameters and machines | variant | rows | mean [lowest, highest] | 95 % interval \
         | lowest in | highest in |\n|---|---|---:|---:|---:|---|---|"
    );
    for own in &m.accumulated {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            text_of(&words::family(own)),
            text_of(&own.variant),
            own.rows,
            words::accumulated(own),
            words::interval(own.interval),
            text_of(&words::place(&own.lowest, m)),
            text_of(&words::place(&own.highest, m))
        );
    }
    out.push('\n');
}

fn sizes(out: &mut String, m: &Measurement) {
    let Some(base) = m.variants.iter().find_map(|v| v.sizes) else { return };
    let names: Vec<&str> = base.columns().map(|(name, _)| name).collect();
    let _ = writeln!(
        out,
        "| size in bytes | {} |\n|---|{}",
        names.join(" | "),
        "---:|".repeat(names.len())
    );
    for variant in &m.variants {
        let Some(s) = variant.sizes else { continue };
        let cell = |((_, bytes), (_, before)): ((&str, u64), (&str, u64))| match before {
            before if before == bytes || before == 0 => crate::numbers::count(bytes),
            before => {
                format!(
                    "{} ({})",
                    crate::numbers::count(bytes),
                    words::change(bytes as f64 / before as f64 - 1.0)
                )
            }
        };
        let cells: Vec<String> = s.columns().zip(base.columns()).map(cell).collect();
        let _ = writeln!(out, "| {} | {} |", text_of(&variant.name), cells.join(" | "));
    }
    out.push('\n');
}

fn alignment(out: &mut String, m: &Measurement) {
    for a in &m.alignment {
        let at = if a.align == 0 {
            "as built".into()
        } else {
            format!("functions aligned to {}", a.align)
        };
        let _ = writeln!(
            out,
            "- {}, {}, {at}: {} {}",
            text_of(&a.variant),
            text_of(&a.benchmark),
            text_of(&words::effect(&a.effect)),
            text_of(&a.sentence)
        );
    }
    if !m.alignment.is_empty() {
        out.push('\n');
    }
}

fn notes(out: &mut String, m: &Measurement) {
    for s in &m.stopped {
        let [variant, benchmark, machine, reason] =
            [&s.variant, &s.benchmark, &s.machine, &s.reason].map(|t| text_of(t));
        let _ = writeln!(out, "- stopped: {variant} on {benchmark} ({machine}): {reason}");
    }
    if m.interrupted {
        let _ = writeln!(out, "- interrupted: only the rounds finished before were used");
    }
    for warning in words::shared_notes(m).iter().chain(&m.warnings) {
        let _ = writeln!(out, "- note: {}", text_of(warning));
    }
    for line in words::trust(m) {
        let _ = writeln!(out, "- {}", text_of(&line));
    }
    for machine in &m.machines {
        let _ = writeln!(
            out,
            "- {}: {}, {} CPUs, Linux {}; {}",
            text_of(&machine.name),
            text_of(&machine.cpu),
            machine.cores,
            text_of(&machine.kernel),
            text_of(&words::calibration(machine))
        );
    }
    if !m.raw.is_empty() {
        let files: Vec<String> = m.raw.iter().map(|file| code(file)).collect();
        let _ = writeln!(out, "- every run: {} (seed {})", files.join(", "), m.seed);
    }
    let _ = writeln!(out, "- planish {}", text_of(&m.planish));
}
