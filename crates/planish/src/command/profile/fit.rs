//! `planish profile match`: the profile of an older source, carried over to a newer program, with a
//! measure of the fit.

use super::args::{ProfileFormat, Storage};
use super::tool_args::WriteArgs;
use super::tools::{print, read, write};
use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use anyhow::{Context, bail};
use image::Image;
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use profile::matching::{MatchReport, ProgramShape, match_profile};
use std::path::{Path, PathBuf};

/// Under this share the rebuild of `planish build` refuses a profile, too.
const LEAST_PCT: f64 = 50.0;

/// Arguments of `planish profile match`.
#[derive(Debug, clap::Args)]
pub struct MatchArgs {
    /// The profile of an older source
    #[arg(value_name = "OLD")]
    pub input: PathBuf,
    /// The program built from the newer source, with debug information
    #[arg(long, value_name = "NEW")]
    pub binary: PathBuf,
    /// The ELF file with the debug information, if planish cannot find it
    #[arg(long, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,
    /// The DWARF package of a build with split debug information
    #[arg(long, value_name = "FILE.dwp")]
    pub dwp: Option<PathBuf>,
    /// Exit with 1 if less than this percentage of the samples can be carried over, or of these lie
    /// on lines with code
    #[arg(long, value_name = "PERCENT", default_value_t = LEAST_PCT, value_parser = crate::command::percent::percent_of_all)]
    pub min_match: f64,
    /// How to print how well it fits, to standard output (to standard error if the profile goes
    /// there)
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// What kind of profile to write [default: that of OLD]
    #[arg(long, value_enum, value_name = "KIND")]
    pub emit: Option<ProfileFormat>,
    #[command(flatten)]
    pub storage: Storage,
    /// Where to write the profile that fits NEW; without it, you only see how well OLD fits
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// Runs the tool.
pub fn run(args: &MatchArgs, global: &Global) -> anyhow::Result<u8> {
    let inputs = [&args.input, &args.binary].into_iter().chain(&args.debug_file).chain(&args.dwp);
    output::refuse_inputs(args.output.as_deref(), inputs.map(PathBuf::as_path))?;
    let (profile, format) = read(&args.input)?;
    let image = Image::open(&args.binary)?;
    let search = DebugSearch {
        debug_file: args.debug_file.clone(),
        dwp: args.dwp.clone(),
        ..DebugSearch::default()
    };
    let shape = ProgramShape::read(&image, &DebugInfo::load(&image, &search)?, global.threads())?;
    let (matched, report) = match_profile(&profile, &shape)
        .with_context(|| format!("{}, {}", args.input.display(), args.binary.display()))?;
    if let Some(problem) = shape.problems.first.as_ref().filter(|_| !global.quiet) {
        eprintln!("warning: {}: {problem}", args.binary.display());
    }
    if let Some(output) = &args.output {
        if matched.functions.is_empty() {
            tell(args, &report)?;
            bail!(
                "{}: not written, no function is left: it is of another program",
                output.display()
            );
        }
        let as_it_is = args.emit.is_none() && !args.storage.md5 && !args.storage.compress;
        if report.unchanged && as_it_is && args.input != Path::new("-") {
            let bytes = crate::input::read(&args.input)?;
            output::write_file(output, |out| Ok(out.write_all(&bytes)?))?;
        } else {
            let how = WriteArgs { emit: args.emit, storage: args.storage, output: output.clone() };
            write(&matched, &how, format)?;
        }
    }
    tell(args, &report)?;
    let enough = report.carried_pct().min(report.with_code_pct().1) >= args.min_match;
    Ok(if enough { FINE } else { NEGATIVE })
}

/// Prints the measure.
fn tell(args: &MatchArgs, report: &MatchReport) -> anyhow::Result<()> {
    let (profile, binary) = (&args.input, &args.binary);
    let told = report::profile::Match { profile, binary, min_match: args.min_match, report };
    let text = match args.format {
        Format::Json => told.json(),
        Format::Text => told.text(),
    };
    if args.output.as_deref() == Some(Path::new("-")) {
        eprint!("{text}");
        return Ok(());
    }
    print(Path::new("-"), &text)
}
