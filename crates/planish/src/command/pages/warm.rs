//! `planish pages warm`: reads text into superpages of the page cache.

use super::{and_more, print_json, size};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print;
use anyhow::bail;
use std::path::{Path, PathBuf};
use superpages::{Loading, Warmed};

/// Read the text of files or of a process into superpages of the page cache.
///
/// Exit code 1 when eligible text stays in small pages, with the processes that hold it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Programs, whose libraries are warmed with them, libraries, or numbers of processes
    #[arg(value_name = "FILE|PID", required = true)]
    what: Vec<String>,
    /// Only the files named, not their libraries
    #[arg(long)]
    alone: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(serde::Serialize)]
struct Report {
    whole: bool,
    eligible_bytes: u64,
    before_bytes: u64,
    after_bytes: u64,
    files: Vec<Warmed>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut files = Vec::new();
    for what in &args.what {
        files.extend(files_of(what, args.alone)?);
    }
    let files = warm_all(files)?;
    let sum = |of: fn(&Warmed) -> u64| files.iter().map(of).sum();
    let report = Report {
        whole: files.iter().all(Warmed::is_whole),
        eligible_bytes: sum(|f| f.eligible_bytes),
        before_bytes: sum(|f| f.before_bytes),
        after_bytes: sum(|f| f.after_bytes),
        files,
    };
    match args.format {
        Format::Json => print_json("planish-pages-warm", &report)?,
        Format::Text => {
            for file in report.files.iter().filter(|file| shown(file, global)) {
                print(&line(file))?;
            }
        }
    }
    if report.eligible_bytes == 0 {
        eprintln!(
            "planish: no text of these files can lie on superpages; planish pages check says why"
        );
        return Ok(NEGATIVE);
    }
    Ok(if report.whole { FINE } else { NEGATIVE })
}

fn shown(file: &Warmed, global: &Global) -> bool {
    !global.quiet && file.eligible_bytes > 0 || !file.is_whole() || global.verbose
}

/// The files that a word of the command line stands for. A file of that name comes before a process
/// of that number.
pub fn files_of(what: &str, alone: bool) -> anyhow::Result<Vec<PathBuf>> {
    let path = Path::new(what);
    match what.parse() {
        Ok(pid) if !path.exists() => {
            let (files, gone) = superpages::text_files(pid)?;
            if gone > 0 {
                eprintln!(
                    "planish: process {pid} runs text of {gone} files that were replaced; it must \
                     be started again"
                );
            }
            Ok(files)
        }
        _ if alone || !path.exists() => Ok(vec![path.to_owned()]),
        _ => Ok(superpages::files_of(path, None, Loading::Looked)?),
    }
}

/// Warms each file once.
pub fn warm_all(mut files: Vec<PathBuf>) -> anyhow::Result<Vec<Warmed>> {
    // Names that lead to one file are one file.
    for file in &mut files {
        *file = file.canonicalize().unwrap_or_else(|_| file.clone());
    }
    files.sort();
    files.dedup();
    if files.is_empty() {
        bail!("there is no file to warm");
    }
    Ok(files.iter().map(|file| superpages::warm(file)).collect::<Result<_, _>>()?)
}

/// What became of a file, and what to do when it is not whole.
pub fn line(file: &Warmed) -> String {
    let (after, eligible) = (size(file.after_bytes), size(file.eligible_bytes));
    let of_text = superpages::percent(file.after_bytes, file.text_bytes);
    let path = super::shown(&file.path);
    let mut text = format!(
        "{path}: {after} of {eligible} eligible text on superpages (before: {}); {of_text:.1} % \
         of all its text\n",
        size(file.before_bytes)
    );
    if !file.is_whole() {
        let advice = match file.busy.first() {
            Some(first) => format!(
                "  it is in use by {} ({}){}, so its pages cannot be dropped. Write it anew, \
                 planish pages align {path} -o {path}, and start them again\n",
                first.name,
                first.pid,
                and_more(file.busy.len() - 1)
            ),
            None => "  planish pages probe says whether this kernel and file system can; what was \
                     just written must reach the disk first (sync -f), and short memory can be \
                     the cause too (echo 1 > /proc/sys/vm/compact_memory)\n"
                .to_owned(),
        };
        text.push_str(&advice);
    }
    text
}
