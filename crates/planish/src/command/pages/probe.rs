//! `planish pages probe`: which mechanisms work here, by trying.

use super::print_json;
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print;
use std::fmt::Write as _;
use std::path::PathBuf;
use superpages::{Backing, Probe};

/// Try which mechanisms work on this kernel and file system.
///
/// Also measures whether a virtual machine's superpages are backed by superpages of its host, which
/// no file tells. Exit code 1 when file-backed text does not get superpages here.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder of the file system to try; a file of 4 MiB is made there and removed
    #[arg(default_value = ".")]
    folder: PathBuf,
    /// Superpages whose backing is measured
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=4096))]
    superpages: u16,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(serde::Serialize)]
struct Report {
    #[serde(flatten)]
    probe: Probe,
    backing: Option<Backing>,
    no_backing: Option<String>,
}

pub fn run(args: &Args, _global: &Global) -> anyhow::Result<u8> {
    let probe = superpages::probe(&args.folder)?;
    let (backing, no_backing) = match superpages::host_backing(args.superpages.into()) {
        Ok(backing) => (Some(backing), None),
        Err(error) => (None, Some(error.to_string())),
    };
    let report = Report { probe, backing, no_backing };
    match args.format {
        Format::Json => print_json("planish-pages-probe", &report)?,
        Format::Text => print(&text(args, &report))?,
    }
    Ok(if report.probe.file_backed { FINE } else { NEGATIVE })
}

fn text(args: &Args, report: &Report) -> String {
    let mut text = format!("{} ({}):\n", super::shown(&args.folder), report.probe.file_system);
    for one in &report.probe.tried {
        let word = if one.works { "works" } else { "no" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {word:5}  {:46}  {}", one.mechanism, one.found);
    }
    let _ = match report.probe.file_backed {
        true => writeln!(
            text,
            "file-backed text gets superpages here: planish pages align and warm work"
        ),
        false => {
            writeln!(
                text,
                "file-backed text gets no superpages here; try a folder on another file system"
            )
        }
    };
    match (&report.backing, &report.no_backing) {
        (Some(backing), _) => {
            let mut sorted = backing.superpages_ns.clone();
            sorted.sort_by(f64::total_cmp);
            let at = |share: usize| {
                sorted.get((sorted.len() * share / 100).min(sorted.len().saturating_sub(1)))
            };
            let [low, middle, high] = [10, 50, 90].map(|share| at(share).copied().unwrap_or(0.0));
            let _ = writeln!(
                text,
                "host backing: a step through 448 pages of a superpage takes {middle:.2} ns \
                 ({low:.2} to {high:.2}); {:.2} ns where the TLB holds all, {:.2} ns through \
                 small pages",
                backing.few_pages_ns, backing.small_pages_ns
            );
            let tried = backing.superpages_ns.len();
            let _ = match backing.found {
                Some(found) => writeln!(
                    text,
                    "  of {tried} superpages {} are backed by superpages of the machine below, {} \
                     are not, {} undecided",
                    found.whole, found.splintered, found.undecided
                ),
                None => writeln!(
                    text,
                    "  undecided: the two differ too little, or not the same before and after, to \
                     tell how they are backed"
                ),
            };
        }
        (None, why) => {
            let _ = writeln!(
                text,
                "host backing: not measured: {}",
                why.as_deref().unwrap_or_default()
            );
        }
    }
    text
}
