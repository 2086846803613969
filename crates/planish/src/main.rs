//! The `planish` command: reads arguments, hands over to one command, and turns what it says into an exit code.

mod cli;
mod command;
mod output;
mod progress;

use std::process::ExitCode;

fn main() -> ExitCode {
    output::restore_broken_pipe();
    let cli = cli::parse();
    output::remove_temporaries_on_interrupt();
    match cli.run() {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("planish: {}", message(&error));
            ExitCode::from(cli::BAD_INPUT)
        }
    }
}

/// The error and its causes in one line; causes that a message already states are not said twice.
fn message(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.contains(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}
