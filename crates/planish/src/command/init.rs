//! `planish init`: a planish.toml, made from the project's own files where they tell enough.

use super::project_args::ProjectArgs;
use crate::cli::{FINE, Global};
use crate::output;
use anyhow::bail;
use build::recognise::Recognised;
use std::path::{Path, PathBuf};

/// Write a planish.toml for the project in this directory.
///
/// Cargo, Meson, CMake, autotools and make are recognised by their files, of which nothing is run;
/// elsewhere an example to fill in is written. Say with --train what the program does all day, and
/// with --evaluate the same kind of work on other input: the file then needs no more.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Where to write; `-` is standard output
    #[arg(value_name = "FILE", default_value = "planish.toml")]
    pub file: PathBuf,
    /// Replace an existing file
    #[arg(long)]
    pub force: bool,
    /// Write the example with every key and its meaning
    #[arg(long, conflicts_with_all = ["system", "program", "train", "evaluate", "set"])]
    pub example: bool,
    /// The project
    #[command(flatten)]
    pub project: ProjectArgs,
}

/// Runs the command.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    let to_stdout = args.file.as_os_str() == "-";
    if args.file.exists() && !args.force && !to_stdout {
        bail!("{}: the file is there already; --force replaces it", args.file.display());
    }
    let said = args.project.said();
    let found = if args.example { None } else { recognised(&args, to_stdout)? };
    let text = match &found {
        Some(found) => said.with_settings(&found.toml(&said.work))?,
        None => build::Config::example().to_owned(),
    };
    output::write_file(&args.file, |out| Ok(out.write_all(text.as_bytes())?))?;
    if !global.quiet && !to_stdout {
        tell(&args.file, found.as_ref(), !said.work.train.is_empty());
    }
    Ok(FINE)
}

/// What the files say; none where they show no build system and none was asked for.
fn recognised(args: &Args, to_stdout: bool) -> anyhow::Result<Option<Recognised>> {
    let directory = match args.file.parent() {
        Some(parent) if !to_stdout && !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let said = args.project.said();
    let asked = said.describes() || said.program.is_some() || !said.work.train.is_empty();
    match said.recognise(directory) {
        Err(build::Error::NoBuildSystem { .. }) if !asked => Ok(None),
        found => Ok(Some(found?)),
    }
}

fn tell(file: &Path, found: Option<&Recognised>, trains: bool) {
    let file = file.display();
    match found {
        Some(found) => {
            eprintln!("wrote {file}: builds {} with {}", found.program, found.kind);
            let others = found.others.join(", ");
            if !others.is_empty() {
                eprintln!("  other programs (--program): {}", report::visible(&others));
            }
            found.notes.iter().for_each(|note| eprintln!("  note: {}", report::visible(note)));
            if !trains {
                eprintln!("  fill in [workload] train and [evaluate] command, then:");
            }
        }
        None => eprintln!("wrote {file}; fill in [build], [workload] and [evaluate], then:"),
    }
    eprintln!("  planish optimize --dry-run    prints what would be done");
    eprintln!("  planish optimize              does it");
}
