//! `planish init`: a commented planish.toml to fill in.

use crate::cli::{FINE, Global};
use crate::output;
use anyhow::bail;
use std::path::PathBuf;

/// Write a commented planish.toml.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "planish.toml")]
    pub file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    let to_stdout = args.file.as_os_str() == "-";
    if args.file.exists() && !args.force && !to_stdout {
        bail!("{}: the file is there already; --force replaces it", args.file.display());
    }
    output::write_file(&args.file, |out| Ok(out.write_all(build::Config::example().as_bytes())?))?;
    if !global.quiet && !to_stdout {
        eprintln!(
            "wrote {}; fill in [build], [workload] and [evaluate], then:",
            args.file.display()
        );
        eprintln!("  planish optimize --dry-run    prints what would be done");
        eprintln!("  planish optimize              does it");
    }
    Ok(FINE)
}
