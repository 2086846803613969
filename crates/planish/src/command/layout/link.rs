//! `planish layout link`: a program in a layout by its link alone.

use crate::cli::{FINE, Global, NEGATIVE};
use crate::output;
use anyhow::{Context, bail};
use build::target::LayoutFiles;
use build::{reuse, training};
use record::Ending;
use std::path::PathBuf;

/// Arguments of `planish layout link`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The archive of its link (lld: -Wl,--reproduce=FILE)
    #[arg(long, required = true, value_name = "FILE")]
    pub objects: Option<PathBuf>,
    /// Beginning of the names of the layout's two files
    #[arg(long, required = true, value_name = "PREFIX")]
    pub prefix: Option<PathBuf>,
    /// The program to write
    #[arg(short, long, required = true, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// What builds the program with the layout where its link alone cannot
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// Runs the tool.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let (Some(objects), Some(prefix), Some(out)) = (&args.objects, &args.prefix, &args.output)
    else {
        bail!("--objects FILE, --prefix PREFIX and --output FILE are needed")
    };
    let layout = LayoutFiles::open(prefix)?;
    let read = [objects, &layout.cc_profile, &layout.ld_profile].into_iter();
    output::refuse_inputs([out.as_path()], read.map(PathBuf::as_path))?;
    let Some(why) = reuse::link_again(objects, &layout, out)? else {
        return Ok(FINE);
    };
    if args.command.is_empty() {
        bail!(
            "{}: {why}. Build the program with the layout: planish build --layout {}",
            objects.display(),
            prefix.display()
        );
    }
    if !global.quiet {
        eprintln!("note: the layout needs a whole build: {why}");
    }
    let stop = crate::command::compare::stop_flag()?;
    let mut child =
        training::command_of(&args.command)?.spawn().context("cannot start the build")?;
    let status = build::wait(&mut child, &stop)?;
    Ok(u8::try_from(Ending::from(status).code()).unwrap_or(NEGATIVE))
}
