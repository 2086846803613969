//! `planish kernel workload`: the initrd that kernels are trained and judged with.

use super::arch::Arch;
use crate::cli::{FINE, Global};
use crate::output;
use anyhow::{anyhow, bail};
use kernel::workload::{self, Commands, GuestCommand, Parameter};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Write an initrd with the workload that kernels are recorded and measured with.
///
/// A static program is compiled from the sources that planish carries; it is the initrd's /init and
/// its only program. It runs sections of system calls, which docs/reference/kernel.md lists: those to train
/// with and those held out.
///
/// With --package programs of Debian's packages are the sections: apt fetches the packages, and the shared libraries that
/// their programs load come along. Nothing is installed. --train and --held name what runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel workload -o initrd.cpio
  planish kernel record out --initrd initrd.cpio -o kernel.data
  planish kernel workload --package rt-tests \\
      --train 'groups: hackbench -g 2 -l 100' \\
      --held 'threads: hackbench -T -g 4 -l 40' -o hackbench.cpio
  planish kernel workload --package rt-tests --parameter g=1,2,4 \\
      --train 'groups: hackbench -g {g} -l 50' -o grid.cpio
  planish kernel compare linux-6.12 --output-dir out --initrd hackbench.cpio \\
      --variant 'O3: KCFLAGS=-O3'
  planish kernel workload --program -o workload && ./workload --here

Exit codes: 0 fine, 2 the compiler failed, or a package or program that is not
there, 3 no compiler.")]
pub struct Args {
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// A Debian package with programs that are sections; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "program")]
    package: Vec<String>,
    /// A section to train with: its name, and a command of the packages. Repeatable
    #[arg(long, value_name = "NAME: COMMAND", requires = "package")]
    train: Vec<String>,
    /// A held-out section, likewise
    #[arg(long, value_name = "NAME: COMMAND", requires = "package")]
    held: Vec<String>,
    /// Values of a parameter, {NAME} in the commands: each combination is a section of its own. Repeatable
    #[arg(long, value_name = "NAME=A,B,…", requires = "package")]
    parameter: Vec<String>,
    /// Write only the program; `PROGRAM --here` runs the sections on the running kernel
    #[arg(long)]
    program: bool,
    /// The processor that the program is for
    #[arg(long, value_enum, default_value_t = Arch::X86_64)]
    arch: Arch,
    /// The C compiler; it must compile for that processor by itself [default: clang, else cc, or a
    /// cross compiler]
    #[arg(long, value_name = "COMMAND")]
    cc: Option<std::ffi::OsString>,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let architecture = args.arch.architecture();
    if args.program {
        let program = workload::program(architecture, args.cc.as_deref())?;
        output::write_file(&args.output, |out| Ok(out.write_all(&program)?))?;
        if args.output.is_file() {
            std::fs::set_permissions(&args.output, PermissionsExt::from_mode(0o755))?;
        }
        return told(args, program.len(), global);
    }
    let kinds = [commands(&args.train, "--train")?, commands(&args.held, "--held")?];
    let [train, held] = workload::over(kinds, &parameters(&args.parameter)?)?;
    let commands = Commands { packages: args.package.clone(), train, held };
    let made = tempfile::Builder::new().prefix("planish-workload-").tempdir()?;
    let archive = std::fs::read(workload::build_with(
        architecture,
        args.cc.as_deref(),
        made.path(),
        &commands,
    )?)?;
    output::write_file(&args.output, |out| Ok(out.write_all(&archive)?))?;
    told(args, archive.len(), global)
}

/// Commands with their names.
fn commands(given: &[String], option: &str) -> anyhow::Result<Vec<GuestCommand>> {
    let command = |text: &String| {
        let Some((name, words)) = text.split_once(':') else {
            bail!(
                "{option} '{text}': expected a name, a colon and a command, such as 'groups: hackbench -g 2'"
            );
        };
        let words = build::split_words(words).map_err(|why| anyhow!("{option} '{text}': {why}"))?;
        Ok(GuestCommand { name: name.trim().to_owned(), words })
    };
    given.iter().map(command).collect()
}

/// Parameters with their values.
fn parameters(given: &[String]) -> anyhow::Result<Vec<Parameter>> {
    let mut all: Vec<Parameter> = Vec::new();
    for text in given {
        let plain = |text: &str| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-+".contains(c))
        };
        let parts = text.split_once('=').map(|(name, values)| (name, values.split(',')));
        let Some((name, values)) =
            parts.filter(|(name, values)| plain(name) && values.clone().all(plain))
        else {
            bail!(
                "--parameter '{text}': expected NAME=A,B,… of letters, digits and . _ - +, such as groups=1,2,4"
            );
        };
        if all.iter().any(|(known, _)| known == name) {
            bail!("--parameter '{text}': {name} has values already");
        }
        all.push((name.to_owned(), values.map(str::to_owned).collect()));
    }
    Ok(all)
}

fn told(args: &Args, bytes: usize, global: &Global) -> anyhow::Result<u8> {
    if !global.quiet {
        eprintln!("{}: {bytes} bytes", args.output.display());
    }
    Ok(FINE)
}
