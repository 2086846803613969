//! The `planish` command: reads arguments, hands over to one command, and turns what it says into an exit code.

mod cli;
mod command;
mod output;
mod progress;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    output::restore_broken_pipe();
    let cli = cli::Cli::parse();
    output::remove_temporaries_on_interrupt();
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("planish: {error:#}");
            ExitCode::from(cli::BAD_INPUT)
        }
    }
}
