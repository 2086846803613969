//! Prints and writes a result.

use super::Told;
use super::args::Output;
use crate::cli::Format;
use crate::output;
use compare::bisect::Found;
use compare::result::Calibration;
use report::Form;
use std::io::Write;
use std::path::Path;

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
            write!(out, "{}", report::compare::terminal(result, evidence, output::screen()))?;
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
