//! The page of a recording: `planish report tree --format html`.

use super::lines::heaviest;
use super::recording::{Detail, Source, open, origin};
use crate::cli::{FINE, Global};
use crate::output;
use report::calls::{self as tell, Extra};
use std::path::{Path, PathBuf};

/// Parts of the time that stacks are told apart by, so that a page can show one.
const BLOCKS: u32 = 128;

/// What the page of a recording shows.
#[derive(Debug, clap::Args)]
pub struct PageArgs {
    /// With --format html: look for source files below this directory first, by as much of the end
    /// of their recorded path as fits; repeatable
    #[arg(long = "source", value_name = "DIR")]
    pub sources: Vec<PathBuf>,
    /// With --format html: show at most this many of the heaviest functions by source line and
    /// instruction; 0: none
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub lines: usize,
}

/// Writes the page of a recording.
pub fn tree(
    source: &Source,
    args: &PageArgs,
    to: Option<&Path>,
    global: &Global,
) -> anyhow::Result<u8> {
    let recording = &source.recording;
    let input = open(&recording.input)?;
    let cut = recording.part.blocks(&recording.input, &input, BLOCKS, global)?;
    let detail = Detail { addresses: args.lines > 0, cut, ..Detail::default() };
    let recorded = recording.part.read(&recording.input, &input, detail, global)?;
    let selected = source.select(&recorded)?;
    let extra = Extra {
        blocks: cut,
        lines: heaviest(recording, &input, &selected, &args.sources, args.lines, global),
        comm: recording.part.filter.comm.clone(),
    };
    let text = tell::page(&selected, &origin(&recording.input, &input), &extra);
    write(&text, to)?;
    source.tell_notes(&selected, global);
    Ok(FINE)
}

/// Writes a page to a file or to standard output.
pub fn write(text: &str, to: Option<&Path>) -> anyhow::Result<()> {
    match to {
        Some(path) => output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?)),
        None => output::print(text),
    }
}
