//! `planish pages run`: warms a program and its libraries and becomes it.

use super::warm;
use crate::cli::{BAD_INPUT, Global};
use anyhow::bail;
use std::os::unix::process::CommandExt as _;
use superpages::Warmed;

/// Warm a program and its libraries, then run it.
///
/// The exit code is the program's. Text that cannot be warmed is named and the program runs all the same; with
/// --strict it does not and the exit code is 1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not run when eligible text stays in small pages
    #[arg(long)]
    strict: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let Some((name, arguments)) = args.command.split_first() else { bail!("there is no command behind --") };
    let path = superpages::find_program(name)?;
    let program = superpages::elf_program(&path)?;
    let warmed = warm::warm_all(superpages::files_of(&program, None)?)?;
    if !global.quiet {
        for file in warmed.iter().filter(|file| !file.is_whole() || global.verbose && file.eligible_bytes > 0)
        {
            eprint!("planish: {}", warm::line(file));
        }
        if warmed.iter().all(|file| file.eligible_bytes == 0) {
            eprintln!(
                "planish: no text of {name} can lie on superpages; planish pages check {} says why",
                program.display()
            );
        }
    }
    if args.strict
        && !(warmed.iter().all(Warmed::is_whole) && warmed.iter().any(|file| file.eligible_bytes > 0))
    {
        return Ok(crate::cli::NEGATIVE);
    }
    let error = std::process::Command::new(&path).args(arguments).exec();
    eprintln!("planish: {}: cannot be run: {error}", path.display());
    Ok(BAD_INPUT)
}
