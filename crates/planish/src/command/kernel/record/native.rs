//! `planish kernel record --native`: branch stacks of a kernel that is a process.

use super::Args;
use crate::command::INTERRUPTED;
use crate::output;
use anyhow::{Context, bail};
use kernel::experiment::native::{argv, kernel_of};
use kernel::recording::Sections;
use record::machine::Statement;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Nanoseconds of CPU time between two stops: a quarter of the time goes to looking ahead.
const PERIOD: u64 = 4_000_000;
/// The work of a section, in per cent of the usual one: ten seconds or so of CPU time, which give 2,500 stacks of a thousand
/// branches.
const PERCENT: u32 = 1500;

/// Records by `planish record` with the right options.
pub(super) fn record(args: &Args, kernel: &Path) -> anyhow::Result<u8> {
    let kernel = kernel_of(kernel)?;
    output::refuse_inputs([args.output.as_path()], [kernel.as_path()])?;
    let sections = match args.sections {
        Sections::Train => "train",
        Sections::Held => "held",
        Sections::All | Sections::Everything => "all",
    };
    let directory = tempfile::tempdir()?;
    let period = args.period.map_or(PERIOD, std::num::NonZeroU64::get);
    let planish = std::env::current_exe().context("cannot find this executable")?;
    let mut command = Command::new(planish);
    // Without children: such a kernel starts one that asks to be traced.
    command.args(["record", "-i", "--branches=software", "-c", &period.to_string(), "-o"]);
    command.arg(&args.output).arg("--");
    command.args(argv(&kernel, sections, PERCENT, directory.path()));
    crate::command::handle_interrupts();
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot run planish record")?;
    let mut failed = None;
    let mut ended = false;
    let said = child.stdout.take().map(BufReader::new);
    for line in said.into_iter().flat_map(|said| said.split(b'\n')) {
        match Statement::read(&String::from_utf8_lossy(&line?)) {
            Some(Statement::Failed { number, text }) => {
                failed.get_or_insert(format!("section {number}: {text}"));
            }
            Some(Statement::End) => ended = true,
            _ => {}
        }
    }
    let status = child.wait().context("cannot wait for planish record")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(INTERRUPTED);
    match failed {
        Some(why) => bail!("{}: the workload failed in {why}", kernel.display()),
        None if code == 0 && !ended => bail!(
            "{}: it ended before its workload did; is it a kernel that `planish kernel compare --native` built?",
            kernel.display()
        ),
        None => Ok(code),
    }
}
