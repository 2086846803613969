//! `planish pages verify`: a map of every 2 MiB of a process's text.

use super::{print_json, size};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::command::percent::percent_of_all;
use crate::output::print;
use std::fmt::Write as _;
use superpages::Verification;

/// Say for every 2 MiB of a process's text whether it lies on a superpage.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The process
    pid: u32,
    /// Only text of files whose path contains this
    #[arg(long, value_name = "NAME")]
    file: Option<String>,
    /// Exit with 1 when less than this share lies on superpages
    #[arg(long, value_name = "PCT", value_parser = percent_of_all)]
    min: Option<f64>,
    /// What --min is a share of
    #[arg(long, value_enum, default_value_t = Of::Resident)]
    of: Of,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Of {
    /// The text that is mapped in, because the process has run something near it
    Resident,
    /// All text
    Text,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let found = superpages::verify(args.pid, args.file.as_deref())?;
    match args.format {
        Format::Json => print_json("planish-pages-verify", &found)?,
        Format::Text => print(&text(&found, global.verbose))?,
    }
    if let Some(why) = &found.no_map {
        eprintln!("planish: there is no map of every 2 MiB: {why}");
    }
    let share = match args.of {
        Of::Resident => found.of_resident_pct,
        Of::Text => found.of_text_pct,
    };
    let missed = args.min.filter(|&min| share < min);
    if let Some(min) = missed {
        eprintln!("planish: {share:.1} % lie on superpages, {min} % are wanted");
    }
    Ok(if missed.is_some() { NEGATIVE } else { FINE })
}

fn text(found: &Verification, verbose: bool) -> String {
    let mut text = String::new();
    for mapping in &found.mappings {
        // Small libraries can have no superpage; they count in the total.
        if mapping.text_bytes < superpages::SUPERPAGE && mapping.superpage_bytes == 0 && !verbose {
            continue;
        }
        let name = if mapping.name.is_empty() { "anonymous memory" } else { &mapping.name };
        let (huge, here) = (size(mapping.superpage_bytes), size(mapping.resident_bytes));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name}: {huge} on superpages of {here} mapped in of {}",
            size(mapping.text_bytes)
        );
        for row in mapping.map.chunks(64) {
            let _ = writeln!(text, "  {}", row.iter().map(|cell| cell.sign()).collect::<String>());
        }
        if let Some(scanned) =
            mapping.scanned_superpage_bytes.filter(|&scanned| scanned != mapping.superpage_bytes)
        {
            let _ = writeln!(
                text,
                "  PAGEMAP_SCAN says {} on superpages; the process changed meanwhile",
                size(scanned)
            );
        }
    }
    let _ = writeln!(
        text,
        "all text: {} on superpages, {:.1} % of {} mapped in, {:.1} % of {}",
        size(found.superpage_bytes),
        found.of_resident_pct,
        size(found.resident_bytes),
        found.of_text_pct,
        size(found.text_bytes)
    );
    let _ = writeln!(
        text,
        "# superpage  . small pages  _ not touched  - too little of it is text to be a superpage"
    );
    text
}
