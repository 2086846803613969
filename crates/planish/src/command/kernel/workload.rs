//! `planish kernel workload`: the initrd that kernels are trained and judged with.

use crate::cli::{FINE, Global};
use crate::output;
use kernel::workload;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Write an initrd with the workload that kernels are recorded and measured with.
///
/// A static program is compiled from the sources that planish carries; it is the initrd's /init and
/// its only program. It runs sections of system calls, which docs/reference/kernel.md lists: those to train
/// with and those held out.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  planish kernel workload -o initrd.cpio
  planish kernel record out --initrd initrd.cpio -o kernel.data
  planish kernel workload --program -o workload && ./workload --here    # on the kernel that runs

Exit codes: 0 fine, 2 no compiler, or it failed.")]
pub struct Args {
    /// Where to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Write only the program; `PROGRAM --here` runs the sections on the running kernel
    #[arg(long)]
    program: bool,
    /// The C compiler [default: clang, else cc]
    #[arg(long, value_name = "COMMAND")]
    cc: Option<std::ffi::OsString>,
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    if args.program {
        let program = workload::program(args.cc.as_deref())?;
        output::write_file(&args.output, |out| Ok(out.write_all(&program)?))?;
        if args.output.is_file() {
            std::fs::set_permissions(&args.output, PermissionsExt::from_mode(0o755))?;
        }
        return told(args, program.len(), global);
    }
    let made = tempfile::Builder::new().prefix("planish-workload-").tempdir()?;
    let archive = std::fs::read(workload::build(args.cc.as_deref(), made.path())?)?;
    output::write_file(&args.output, |out| Ok(out.write_all(&archive)?))?;
    told(args, archive.len(), global)
}

fn told(args: &Args, bytes: usize, global: &Global) -> anyhow::Result<u8> {
    if !global.quiet {
        eprintln!("{}: {bytes} bytes", args.output.display());
    }
    Ok(FINE)
}
