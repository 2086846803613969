//! `planish pages check`: which bytes of text can lie on superpages, and why the others cannot.

use super::{print_json, size};
use crate::cli::{BAD_INPUT, FINE, Format, Global, NEGATIVE};
use crate::command::percent::percent_of_all;
use crate::output::print;
use std::fmt::Write as _;
use std::path::PathBuf;
use superpages::{Arch, Assessment, Kind};

/// Where programs and libraries usually lie.
const USUAL: [&str; 8] = ["/usr", "/opt", "/bin", "/sbin", "/lib", "/lib64", "/snap", "/srv"];

/// Say which bytes of text can lie on superpages and why the others cannot.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs and libraries; with --system, folders to walk instead of the usual ones
    #[arg(value_name = "FILE", required_unless_present = "system")]
    files: Vec<PathBuf>,
    /// One table of all programs and libraries with at least 2 MiB of text
    #[arg(long)]
    system: bool,
    /// Exit with 1 when less than this share of the text of a file is eligible
    #[arg(long, value_name = "PCT", value_parser = percent_of_all)]
    min: Option<f64>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(serde::Serialize)]
struct Report {
    text_bytes: u64,
    eligible_bytes: u64,
    eligible_pct: f64,
    /// The same after `align`, files that it refuses counted as they are.
    aligned_pct: f64,
    files: Vec<Assessment>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_elf: Option<usize>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut unreadable = None;
    let mut other_elf = None;
    let files: Vec<Assessment> = if args.system {
        let usual = || USUAL.iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect();
        let folders = if args.files.is_empty() { usual() } else { args.files.clone() };
        let found = superpages::find(&folders, superpages::SUPERPAGE);
        let asked = found.files.len();
        // A file that goes away or changes meanwhile is counted as unreadable.
        let files: Vec<Assessment> =
            found.files.iter().filter_map(|path| superpages::check(path).ok()).collect();
        unreadable = Some(found.unreadable + asked - files.len());
        other_elf = Some(found.other_elf);
        files
    } else {
        let mut files = Vec::new();
        for path in &args.files {
            match superpages::check(path) {
                Ok(file) => files.push(file),
                Err(error) if args.files.len() == 1 => return Err(error.into()),
                // The others are told all the same.
                Err(error) => {
                    eprintln!("planish: {error}");
                    unreadable = Some(unreadable.unwrap_or(0) + 1);
                }
            }
        }
        files
    };
    let sum = |of: fn(&Assessment) -> u64| files.iter().map(of).sum::<u64>();
    let (text_bytes, eligible_bytes) = (sum(|f| f.text_bytes), sum(|f| f.eligible_bytes));
    let after =
        |f: &Assessment| f.aligned_pct.unwrap_or(f.eligible_pct) / 100.0 * f.text_bytes as f64;
    let report = Report {
        text_bytes,
        eligible_bytes,
        eligible_pct: superpages::percent(eligible_bytes, text_bytes),
        aligned_pct: superpages::percent(files.iter().map(after).sum::<f64>() as u64, text_bytes),
        files,
        unreadable,
        other_elf,
    };
    match args.format {
        Format::Json => print_json("planish-pages-check", &report)?,
        Format::Text if args.system => print(&table(&report))?,
        Format::Text => print(
            &report.files.iter().map(|file| details(file, global.verbose)).collect::<String>(),
        )?,
    }
    let below = |min: f64| match args.system {
        true => report.eligible_pct < min,
        false => report.files.iter().any(|file| file.eligible_pct < min),
    };
    if !args.system && report.unreadable.is_some() {
        return Ok(BAD_INPUT);
    }
    Ok(if args.min.is_some_and(below) { NEGATIVE } else { FINE })
}

fn optional(pct: Option<f64>) -> String {
    pct.map_or_else(|| "-".to_owned(), |pct| format!("{pct:.1}"))
}

/// One line a file, the largest loss first.
fn table(report: &Report) -> String {
    let mut files: Vec<&Assessment> = report.files.iter().collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.text_bytes - file.eligible_bytes));
    let mut text =
        format!("{:>10} {:>8} {:>8} {:>8}  file\n", "text", "now %", "aligned", "filled");
    for file in files {
        let (aligned, filled) = (optional(file.aligned_pct), optional(file.filled_pct));
        let (now, path) = (file.eligible_pct, super::shown(&file.path));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:>10} {now:>8.1} {aligned:>8} {filled:>8}  {path}",
            size(file.text_bytes)
        );
    }
    let _ = writeln!(
        text,
        "\n{} files with {} of text: {:.1} % can lie on superpages as they are, {:.1} % after \
         planish pages align",
        report.files.len(),
        size(report.text_bytes),
        report.eligible_pct,
        report.aligned_pct
    );
    let (unreadable, other) = (report.unreadable.unwrap_or(0), report.other_elf.unwrap_or(0));
    let _ = writeln!(
        text,
        "not looked at: {unreadable} that cannot be read, {other} ELF files that are no program \
         or library of this kind"
    );
    text
}

fn details(file: &Assessment, verbose: bool) -> String {
    let mut text = String::new();
    let kind = match file.kind {
        Kind::Fixed => "program at fixed addresses",
        Kind::Pie => "position-independent program",
        Kind::Library => "shared library",
    };
    let _ = writeln!(text, "{}: {kind}", super::shown(&file.path));
    let (all, can) = (size(file.text_bytes), size(file.eligible_bytes));
    let _ =
        writeln!(text, "  {can} of {all} text ({:.1} %) can lie on superpages", file.eligible_pct);
    for segment in &file.segments {
        let (address, bytes) = (segment.address, size(segment.bytes));
        let _ = writeln!(text, "  segment at {address:#x}, offset {:#x}, {bytes}:", segment.offset);
        for one in &segment.sizes {
            let how = if one.size.contiguous { ", contiguous entries" } else { "" };
            let pages = format!(
                "{} pages on {} base pages{how}",
                size(one.size.bytes),
                size(one.size.base_page)
            );
            let _ = writeln!(text, "    {pages}: {} can", size(one.share.eligible_bytes));
            for (reason, &bytes) in &one.share.losses {
                let cure = reason.cure().map_or_else(String::new, |cure| format!("; {cure}"));
                let _ =
                    writeln!(text, "      {:>10} cannot: {}{cure}", size(bytes), reason.words());
            }
        }
    }
    match (&file.refused, file.aligned_pct) {
        (None, Some(aligned))
            if aligned > file.eligible_pct || file.filled_pct > file.aligned_pct =>
        {
            let filled = file.filled_pct.filter(|&filled| filled > aligned);
            let filled = filled.map_or_else(String::new, |pct| format!(", {pct:.1} % with --fill"));
            let _ = writeln!(text, "  after planish pages align: {aligned:.1} %{filled}");
        }
        (Some(refused), _) if file.eligible_pct < 90.0 => {
            let _ =
                writeln!(text, "  planish pages align does not help: {}", report::visible(refused));
        }
        _ => {}
    }
    if file.eligible_pct < 90.0 || verbose {
        let _ = writeln!(text, "  linked anew:");
        let bases: &[u64] = if matches!(file.arch, Arch::Aarch64 | Arch::Arm) {
            &[0x1000, 0x4000]
        } else {
            &[0x1000]
        };
        for &base in bases {
            for advice in superpages::link_flags(file.arch, base) {
                let on = if bases.len() > 1 {
                    format!(" ({} base pages)", size(base))
                } else {
                    String::new()
                };
                let _ = writeln!(
                    text,
                    "    {}{on}: {}\n      {}",
                    advice.linker, advice.flags, advice.effect
                );
            }
        }
    }
    text
}
