//! `planish layout show`: the map of the text before and after, and functions as they are laid out.

use super::{Source, from};
use crate::cli::{FINE, Format, Global};
use crate::output::{self, print, screen};
use report::layout::LayoutView;
use std::path::PathBuf;

/// Arguments of `planish layout show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub from: Source,
    /// Show the functions of this name: blocks, clusters, frequencies, edges, or why it is left
    /// out (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub function: Vec<String>,
    /// Write the map as a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the map and the functions as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Prints and writes what was asked for.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let outputs: Vec<PathBuf> = args.svg.iter().chain(&args.html).cloned().collect();
    super::refuse_inputs(&args.from, &outputs)?;
    let view = LayoutView::of(&from(&args.from, false, global)?, &args.function)?;
    if let Some(path) = &args.svg {
        let text = report::layout::picture(&view);
        output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if let Some(path) = &args.html {
        let text = report::layout::page(&view);
        output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    // What goes to standard output stands there alone.
    if outputs.iter().any(|path| path.as_os_str() == "-") {
        return Ok(FINE);
    }
    match args.format {
        Format::Json => print(&(report::json(&serde_json::to_string(&view)?).into_owned() + "\n"))?,
        Format::Text if view.functions.is_empty() => print(&report::layout::heat(&view, screen()))?,
        Format::Text => {
            for function in &view.functions {
                print(&report::layout::function(function, screen()))?;
            }
        }
    }
    Ok(FINE)
}
