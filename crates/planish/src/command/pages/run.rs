//! `planish pages run`: warms a program and its libraries, or has its text copied, and becomes it.

use crate::cli::{BAD_INPUT, Choice, Global, NEGATIVE};
use crate::output;
use anyhow::bail;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use superpages::{Error, Memory, Request, Warmed};

/// Warm a program and its libraries, then run it.
///
/// The exit code is the program's. Text that cannot be warmed or copied is named and the program
/// runs all the same; with --strict it does not and the exit code is 1.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not run when eligible text stays in small pages
    #[arg(long)]
    strict: bool,
    /// Copy the text into superpages of the process instead, where the page cache gives none: for
    /// programs that run long, since it takes time and memory of its own for each process
    #[arg(long, value_parser = MEMORY, value_name = "MEMORY", num_args = 0..=1, require_equals = true, default_missing_value = "anonymous")]
    copy: Option<Memory>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Where copies go.
const MEMORY: Choice<Memory> = Choice(&[
    ("anonymous", Memory::Anonymous, "Transparent superpages"),
    ("hugetlb", Memory::Hugetlb, "Superpages reserved with vm.nr_hugepages"),
]);

type Variables = Vec<(&'static str, OsString)>;

pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let Some((name, arguments)) = args.command.split_first() else {
        bail!("there is no command behind --")
    };
    let path = superpages::find_program(name)?;
    let program = superpages::elf_program(&path)?;
    let files = superpages::files_of(&program, None, superpages::Loading::Runs)?;
    let variables = match args.copy {
        Some(memory) => copied(args, memory, &program, &files, global)?,
        None => warmed(args, name, &program, files, global)?.then(Variables::new),
    };
    let Some(variables) = variables else { return Ok(NEGATIVE) };
    let error = std::process::Command::new(&path).args(arguments).envs(variables).exec();
    eprintln!("planish: {}: cannot be run: {error}", path.display());
    Ok(BAD_INPUT)
}

/// Warms the files; whether the program may run.
fn warmed(
    args: &Args,
    name: &str,
    program: &Path,
    files: Vec<PathBuf>,
    global: &Global,
) -> anyhow::Result<bool> {
    let warmed = superpages::warm_all(files)?;
    if !global.quiet {
        for file in warmed
            .iter()
            .filter(|file| !file.is_whole() || global.verbose && file.eligible_bytes > 0)
        {
            eprint!("planish: {}", report::pages::warmed(file));
        }
        if warmed.iter().all(|file| file.eligible_bytes == 0) {
            eprintln!(
                "planish: no text of {name} can lie on superpages; planish pages check {} says why",
                output::word(program)
            );
        }
    }
    let whole =
        warmed.iter().all(Warmed::is_whole) && warmed.iter().any(|file| file.eligible_bytes > 0);
    Ok(whole || !args.strict)
}

/// The environment with which the program copies its text; none where that cannot be, which is
/// said.
fn copied(
    args: &Args,
    memory: Memory,
    program: &Path,
    files: &[PathBuf],
    global: &Global,
) -> anyhow::Result<Option<Variables>> {
    let request = match Request::new(program, memory, args.strict, global.quiet) {
        Err(refused @ Error::NotCopied { .. }) => {
            eprintln!("planish: {refused}");
            return Ok(None);
        }
        other => other?,
    };
    // The dynamic linker says by itself which library it cannot read.
    let large = |file: &PathBuf| {
        superpages::text_bytes(file).is_ok_and(|bytes| bytes >= superpages::SUPERPAGE)
    };
    if !files.iter().any(large) {
        eprintln!(
            "planish: neither {} nor its libraries have text for a superpage (2 MiB)",
            program.display()
        );
        return Ok(None);
    }
    if let Err(missing) = superpages::copying_works(memory) {
        eprintln!("planish: {:#}", anyhow::Error::from(missing));
        return Ok(None);
    }
    let variables = request.variables(&superpages::copying_library()?)?;
    if !global.quiet {
        for warning in WARNINGS {
            eprintln!("planish: {warning}");
        }
    }
    Ok(Some(variables))
}

/// What a copy breaks.
const WARNINGS: [&str; 3] = [
    "--copy: uprobes do not reach copied text: those set before keep a file's text where it is, \
     those set later do not hit",
    "--copy: perf attached later sees anonymous memory and takes names from /tmp/perf-PID.map, \
     which stays when the program ends; recordings that start the program with perf are not \
     affected",
    "--copy: every process has its text for itself, core files hold it, and under PR_SET_MDWE \
     (MemoryDenyWriteExecute= of systemd) it is refused",
];
