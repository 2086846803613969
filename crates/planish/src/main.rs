//! The `planish` command: reads arguments, hands over to one command, and turns what it says into
//! an exit code.

#[macro_use]
extern crate terminal;
mod cli;
mod command;
mod lacks;
mod output;

use std::process::ExitCode;
use terminal::{input, progress};

fn main() -> ExitCode {
    terminal::restore_broken_pipe();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(output::finish("").unwrap_or(code)),
    };
    terminal::end_whole_on_interrupt(command::handles_interrupts);
    let ran = cli.run();
    terminal::wait_where_ending();
    let (code, said) = match ran {
        Ok(code) => (code, String::new()),
        Err(error) => {
            let said = message(&error);
            tell(&error, &said);
            let code = if lacks::is_lack(&error) { cli::LACKING } else { cli::BAD_INPUT };
            (code, said)
        }
    };
    ExitCode::from(output::finish(&said).unwrap_or(code))
}

/// One line, but for what another program said or a file's lines that are shown: those stand below,
/// set in.
fn tell(error: &anyhow::Error, said: &str) {
    if !error.chain().any(output::has_lines) {
        return eprintln!("planish: {said}");
    }
    let mut lines = said.lines();
    eprintln!("planish: {}", lines.next().unwrap_or_default());
    lines.for_each(|line| eprintln!("  {line}"));
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
