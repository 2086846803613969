//! `planish compiler`: stands in a compiler's place, so that a relink in a new layout compiles only
//! what it must.

use build::reuse;
use std::ffi::OsString;

/// Run a compiler, keep its objects, take kept ones.
///
/// The builds of `planish optimize` call it; what it does is decided by variables of their
/// environment.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The compiler and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMPILER"
    )]
    pub words: Vec<OsString>,
}

/// Runs the command; the compiler's exit code is its own.
pub fn run(args: &Args) -> anyhow::Result<u8> {
    let Some((compiler, arguments)) = args.words.split_first() else {
        return Ok(crate::cli::BAD_INPUT);
    };
    Ok(reuse::compiler(compiler, arguments, &|warning| eprintln!("planish: warning: {warning}"))?)
}
