//! Prints and writes a result.

use super::Told;
use super::args::Output;
use crate::cli::Format;
use crate::output;
use compare::bisect::Found;
use compare::result::Calibration;
use report::{Form, Screen, Style};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Colours where standard output is a terminal and the user does not object (<https://no-color.org>).
pub fn terminal_style() -> Style {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    Style { colour: !unwanted && std::io::stdout().is_terminal() }
}

/// What standard output can show.
pub fn screen() -> Screen {
    let width = match std::env::var("COLUMNS").ok().and_then(|n| n.parse().ok()) {
        Some(columns) => columns,
        None if std::io::stdout().is_terminal() => usize::from(console_width()),
        None => 100,
    };
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let ascii = locale.is_some_and(|l| !l.to_lowercase().replace('-', "").contains("utf8"));
    Screen {
        style: terminal_style(),
        width: width.clamp(40, 160),
        ascii: ascii && std::io::stdout().is_terminal(),
    }
}

fn console_width() -> u16 {
    console::Term::stdout().size().1
}

/// Prints the result in the wanted form and writes the files asked for.
pub fn tell(told: &Told, wanted: &Output) -> anyhow::Result<()> {
    let (result, evidence) = (&told.analysis.measurement, &told.analysis.evidence);
    if let Some(path) = &wanted.html {
        let page = report::compare::html(result, evidence);
        output::write_file(path, |out| Ok(out.write_all(page.as_bytes())?))?;
    }
    if let Some(path) = &wanted.markdown {
        let text = report::compare::markdown(result);
        output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    // What goes to standard output stands there alone.
    if [&wanted.html, &wanted.markdown].into_iter().flatten().any(|path| path.as_os_str() == "-") {
        return Ok(());
    }
    let mut out = output::text();
    match wanted.format {
        Format::Json => output::print_json(result)?,
        Format::Text => {
            write!(out, "{}", report::compare::terminal(result, evidence, screen()))?;
            if let Some(path) = &wanted.html {
                writeln!(out, "  report: {}", path.display())?;
            }
        }
    }
    Ok(out.flush()?)
}

/// Prints a calibration that is kept in `file`.
pub fn calibration(found: &Calibration, file: &Path, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => output::print_json(&Form::first("planish-calibration", found)),
        Format::Text => output::print(&report::compare::calibration(found, file)),
    }
}

/// Prints what a search for a slow commit found.
pub fn bisect(found: &Found, good: &str, bad: &str, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Json => output::print_json(found),
        Format::Text => output::print(&report::compare::bisect(found, good, bad)),
    }
}
