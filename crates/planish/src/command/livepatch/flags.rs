//! `planish livepatch flags`: the compiler asked for its own interprocedural optimisations.

use crate::cli::{FINE, Format};
use crate::output;
use anyhow::{Context as _, bail, ensure};
use livepatch::flags::{
    WITH_TRACE, WITHOUT_TRACE, every, kernel_matrix, matrix, states, turned_off,
};
use programs::Surroundings;
use report::livepatch::Flags;

/// The modes of gcc's `-flive-patching`.
const MODES: [&str; 2] = ["inline-clone", "inline-only-static"];

/// Say which optimisations leave no trace, what live patching turns off, and what to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The compiler to ask
    #[arg(long, default_value = "gcc", value_name = "COMPILER")]
    compiler: String,
    /// The optimisation level it is used with
    #[arg(long, default_value = "-O2", value_name = "-O…", allow_hyphen_values = true)]
    level: String,
    /// Print a [matrix] for planish.toml instead
    #[arg(long)]
    matrix: bool,
    /// In the matrix, every interprocedural switch of the compiler: also those that leave traces and
    /// those that the level leaves off
    #[arg(long, requires = "matrix")]
    every: bool,
    /// Print the matrix as [kernel.variants], for `planish kernel compare`
    #[arg(long, requires = "matrix")]
    kernel: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "matrix")]
    format: Format,
}

pub fn run(args: &Args) -> anyhow::Result<u8> {
    let base = ask(args, None)?;
    let base = states(&base);
    ensure!(
        !base.is_empty(),
        "{}: its answer to `-Q --help=optimizers` states no switch; expected gcc (clang has no \
         such list)",
        args.compiler
    );
    let is_on = |option: &&&str| base.get(**option) == Some(&true);
    let silent: Vec<&str> = WITHOUT_TRACE.iter().filter(is_on).copied().collect();
    let traced: Vec<&str> = WITH_TRACE.iter().filter(is_on).copied().collect();
    let mut modes = Vec::new();
    for mode in MODES {
        // Older compilers have no live patching.
        if let Ok(answer) = ask(args, Some(mode)) {
            let off: Vec<String> =
                turned_off(&base, &states(&answer)).into_iter().map(str::to_owned).collect();
            modes.push((mode, off));
        }
    }
    if args.matrix {
        let names: Vec<&str> = modes.iter().map(|(mode, _)| *mode).collect();
        let options = if args.every { every(&base) } else { silent };
        let table = match args.kernel {
            true => kernel_matrix(&args.compiler, &options, &names),
            false => matrix(&options, &names),
        };
        print!("{table}");
        return Ok(FINE);
    }
    let (compiler, level) = (&args.compiler, &args.level);
    let told = Flags { compiler, level, silent: &silent, traced: &traced, modes: &modes };
    match args.format {
        Format::Json => output::print_json(&told.json())?,
        Format::Text => print!("{}", told.text()),
    }
    Ok(FINE)
}

fn ask(args: &Args, mode: Option<&str>) -> anyhow::Result<String> {
    let around = Surroundings::here();
    let Some(compiler) = around.named(&args.compiler) else {
        bail!(
            "{}: no such program; name a gcc in PATH (absolute entries count), or its path",
            args.compiler
        );
    };
    let mut command = around.ask(&compiler);
    command.args([&args.level, "-Q", "--help=optimizers"]);
    if let Some(mode) = mode {
        command.arg(format!("-flive-patching={mode}"));
    }
    let done = command.output().with_context(|| format!("{}: cannot be started", args.compiler))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        let said = said.lines().next().unwrap_or_default();
        bail!("{}: did not answer `-Q --help=optimizers` ({said}); this needs gcc", args.compiler);
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}
