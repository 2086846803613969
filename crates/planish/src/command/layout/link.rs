//! `planish layout link`: a program in a layout by its link alone.

use crate::cli::{FINE, Global};
use crate::output;
use anyhow::{Context, bail};
use build::reuse;
use build::target::LayoutFiles;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        if !global.quiet {
            eprintln!("wrote {}, by its link alone", out.display());
        }
        return Ok(FINE);
    };
    let Some((program, words)) = args.command.split_first() else {
        bail!(
            "{why}. Where a link cannot lay the program out, build it: planish build --layout {}",
            output::word(prefix)
        );
    };
    if !global.quiet {
        eprintln!("note: the layout needs a whole build: {why}");
    }
    let before = state_of(out);
    let ended = Command::new(program).args(words).status();
    let ended = ended.with_context(|| format!("cannot start {program}"))?;
    let after = state_of(out);
    if ended.success() && (after.is_none() || after == before) {
        let out = out.display();
        let did = match after {
            None => format!("made no {out}"),
            Some(_) => format!("left {out} as it was"),
        };
        bail!("{program} ended well, and {did}: name by --output the program that it builds");
    }
    Ok(reuse::code_of(ended))
}

/// By what a file that was written anew is known; none where there is no file.
fn state_of(path: &Path) -> Option<(u64, i64, i64, u64)> {
    let about = path.metadata().ok()?;
    Some((about.ino(), about.mtime(), about.mtime_nsec(), about.len()))
}
