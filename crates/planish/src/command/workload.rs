//! `planish workload`: a command with what stands around it.

use super::INTERRUPTED;
use crate::cli::NEGATIVE;
use anyhow::Context;
use build::split_words;
use std::path::{Path, PathBuf};
use std::time::Duration;
use workload::{Error, READY_WITHIN, Server, USED_VARIABLE, Workload};

/// Run a command with its set-up, a server and tear-down around it.
///
/// The commands of `planish optimize` that need more than a program call it; it ends as its command
/// does. Whoever measures it gets to know what the program used by the file that $PLANISH_USED
/// names.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The program; {PLANISH_BIN} and $PLANISH_BIN stand for its absolute path
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// A variable for all commands; repeat it for more
    #[arg(long, value_name = "NAME=VALUE")]
    environment: Vec<String>,
    /// Where all commands run
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// An exit code of the command that is as good as 0; repeat it for more
    #[arg(long, value_name = "CODE", value_parser = clap::value_parser!(i32).range(1..=255))]
    exit_code: Vec<i32>,
    /// A line for sh -c before the run
    #[arg(long, value_name = "LINE")]
    set_up: Option<String>,
    /// A line for sh -c after the run
    #[arg(long, value_name = "LINE")]
    tear_down: Option<String>,
    /// The server that the command drives; {port} is a free port
    #[arg(long, value_name = "LINE", requires = "ready")]
    start: Option<String>,
    /// What is waited for: tcp:HOST:PORT, line:PATTERN or file:PATH
    #[arg(long, value_name = "WHAT", requires = "start")]
    ready: Option<String>,
    /// How long the server may take until then, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = READY_WITHIN.as_secs(), requires = "start")]
    ready_within: u64,
    /// A line for sh -c that ends the server [default: SIGTERM, and SIGKILL after 10 seconds]
    #[arg(long, value_name = "LINE", requires = "start")]
    stop: Option<String>,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

/// Runs the command; its exit code is this command's own.
pub fn run(args: Args) -> anyhow::Result<u8> {
    let stop = super::compare::stop_flag()?;
    let used = std::env::var_os(USED_VARIABLE);
    let ran = match workload::run(&args.workload()?, &stop) {
        Err(Error::Interrupted) => return Ok(INTERRUPTED),
        other => other?,
    };
    if let Some(path) = used {
        let path = Path::new(&path);
        ran.used.write(path).with_context(|| path.display().to_string())?;
    }
    if let Some(said) = &ran.said {
        said.lines().for_each(|line| eprintln!("planish: {line}"));
    }
    Ok(u8::try_from(ran.code).unwrap_or(NEGATIVE))
}

impl Args {
    fn workload(self) -> anyhow::Result<Workload> {
        let words =
            |line: &str| split_words(line).map_err(|wrong| anyhow::anyhow!("--start: {wrong}"));
        let variable = |text: &String| {
            let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
            let (name, value) =
                pair.with_context(|| format!("--environment {text:?}: expected NAME=VALUE"))?;
            Ok((name.to_owned(), value.to_owned()))
        };
        let server = match (&self.start, &self.ready) {
            (Some(start), Some(ready)) => Some(Server {
                start: words(start)?,
                ready: ready.parse()?,
                within: Duration::from_secs(self.ready_within),
                stop: self.stop,
            }),
            _ => None,
        };
        Ok(Workload {
            program: self.program,
            environment: self.environment.iter().map(variable).collect::<anyhow::Result<_>>()?,
            directory: self.directory,
            exit_codes: self.exit_code,
            set_up: self.set_up,
            tear_down: self.tear_down,
            server,
            command: self.command,
        })
    }
}
