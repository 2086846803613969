//! `planish profile`: a recording or its counts, and the binary, to a profile that a compiler
//! reads.

mod args;
mod contexts;
mod fit;
mod tool_args;
mod tools;

use super::{aggregate, inputs};
use crate::cli::{FINE, Format, Global};
use crate::output;
use anyhow::{Context, bail};
use args::{ContextUse, MakeArgs, ProbeUse};
pub use args::{ProfileFormat, Storage};
use counts::evidence::Evidence;
use image::Image;
use image::debug::{DebugInfo, Language};
use image::debug_files::DebugSearch;
use profile::SampleProfile;
use profile::attribute::{AttributeOptions, AttributeReport, attribute, attribute_probes};
use profile::format;
use profile::recorded::{Counting, Recorded};
use report::profile as tell;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Make a sample profile from a recording or its counts.
///
/// The binary must be the recorded build and needs debug information: build it with
/// `-gmlt -fdebug-info-for-profiling -funique-internal-linkage-names` (clang), `-g1` (gcc) or
/// `-Cdebuginfo=1 -Cstrip=none -Zdebug-info-for-profiling` (rustc). Separate debug files are found
/// by build ID and debug link. A binary built with `-fpseudo-probe-for-profiling` (clang) needs
/// none: its probes are counted, and the rebuild needs the same option.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    flatten_help = true,
    after_help = "\
Examples:
  planish profile perf.data --binary ./app -o app.afdo
  clang -O2 -fprofile-sample-use=app.afdo …     # build with it
  planish profile show app.afdo                 # what is in it"
)]
pub struct Args {
    #[command(subcommand)]
    tool: Option<tools::Tool>,
    #[command(flatten)]
    make: MakeArgs,
}

/// Runs the command or the tool asked for.
pub fn run(mut args: Args, global: &Global) -> anyhow::Result<u8> {
    args.make.inputs.append(&mut args.make.profile);
    match args.tool {
        Some(tool) => tools::run(tool, global),
        None => make(&args.make, global),
    }
}

fn make(args: &MakeArgs, global: &Global) -> anyhow::Result<u8> {
    let (Some(binary), Some(output)) = (&args.binary, &args.output) else {
        bail!("both --binary FILE and -o OUT are needed");
    };
    let read = args.inputs.iter().chain([binary]).chain(&args.debug_file).chain(&args.dwp);
    output::refuse_inputs([output.as_path()], read.map(PathBuf::as_path))?;
    if (args.storage.md5 || args.storage.compress) && args.emit != ProfileFormat::Extbinary {
        bail!("--md5 and --compress are for --emit extbinary; the other formats have neither");
    }
    let lists = matches!(args.emit, ProfileFormat::Extbinary | ProfileFormat::Gcov);
    if args.symbol_list && (!lists || args.contexts != ContextUse::Off) {
        bail!(
            "--symbol-list is for --emit extbinary and gcov without --contexts; nothing else has a \
             place for it"
        );
    }
    if args.format == Format::Json && output == Path::new("-") {
        bail!("-o - and --format json both want standard output; write the profile to a file");
    }
    let search = DebugSearch {
        debug_file: args.debug_file.clone(),
        dwp: args.dwp.clone(),
        ..DebugSearch::default()
    };
    let recorded = Recorded::find(Image::open(binary)?, &search)?;
    if args.contexts != ContextUse::Off {
        return contexts::make(args, (&recorded, &search), output, global);
    }
    if args.cold_context.is_some() || args.pre_inline.is_some() {
        bail!("--cold-context and --pre-inline are for --contexts nested and full");
    }
    let image = Arc::clone(&recorded.image);
    let found = inputs::read_all(&args.inputs, &[Arc::clone(&image)], args.selection, global)?;
    let counts = match found.of(&image, args.first_input()) {
        Err(counts::Error::OtherImage { .. }) if args.allow_empty => {
            return empty(args, &image, output, global);
        }
        other => other?,
    };
    if let Some(package) = &args.dwp
        && Image::open(package)?.section_by_name(".debug_cu_index").is_none()
    {
        bail!("{}: expected a DWARF package, found no .debug_cu_index in it", package.display());
    }
    let (threads, symbol_list) = (global.threads(), args.symbol_list);
    let options = AttributeOptions { threads, symbol_list, ..AttributeOptions::default() };
    let debug = DebugInfo::load(&image, &search)?;
    if args.probes == ProbeUse::Use && !args.emit.has_probes() {
        bail!(
            "--probes use is for --emit extbinary and text; the other formats have no place for \
             probes"
        );
    }
    let counting = recorded.counting(args.probes.into(), args.emit.has_probes(), counts)?;
    if let Counting::LinesSince(why) = counting
        && !global.quiet
    {
        eprintln!("note: the binary has pseudo probes, but {why}, so lines are counted");
    }
    let attributed = match counting {
        Counting::Probes(probes) => attribute_probes(&image, &probes, counts, &options),
        _ => attribute(&image, &debug, counts, &options),
    };
    let (mut profile, report) = match attributed {
        Err(error) if args.allow_empty && error.is_of_hardly_anything() => {
            return empty(args, &image, output, global);
        }
        other => other?,
    };
    profile.provenance = recorded.provenance;
    let main = debug.main_unit(global.threads()).unwrap_or_default();
    let gcc_version = args.storage.gcc_version.or(main.gcc_major());
    let args = &MakeArgs { storage: Storage { gcc_version, ..args.storage }, ..args.clone() };
    if args.emit == ProfileFormat::Gcov {
        profile = format::gcov::prepare(&profile);
    }
    write(args, &profile, output)?;
    let evidence = report::Evidence::from(&Evidence::of(counts, &image));
    if args.format == Format::Json {
        output::print_json(&tell::made_json(&profile, &evidence, output))?;
    }
    if !global.quiet {
        if main.language == Language::Rust && !report.from_probes {
            warn_of_plain_names(&image, &debug, &profile, global);
        }
        aggregate::print_ledger_once(&found, &args.inputs, global);
        print_evidence(&evidence);
        for warning in tell::warnings(&found, counts, &report, binary) {
            eprintln!("warning: {warning}");
        }
        print_made(args, (&image, main.language), &report, profile.functions.len(), global);
    }
    Ok(FINE)
}

/// Writes the profile of an image that was not run, and says so.
fn empty(args: &MakeArgs, image: &Image, output: &Path, global: &Global) -> anyhow::Result<u8> {
    let profile = SampleProfile::default();
    write(args, &profile, output)?;
    if args.format == Format::Json {
        output::print_json(&tell::made_json(&profile, &report::Evidence::nothing(), output))?;
    }
    if !global.quiet {
        let image = image.path().display();
        eprintln!("note: {image}: no sample hit its functions; the profile is empty");
    }
    Ok(FINE)
}

/// Says where the compiler that made a program could not find the functions of its profile by their
/// names.
fn warn_of_plain_names(image: &Image, debug: &DebugInfo, profile: &SampleProfile, global: &Global) {
    let matched = build::used::rust_names(image, debug, profile, global.threads());
    if let Some(cause) = &matched.cause {
        let missing = report::pct(1.0 - matched.share());
        eprintln!(
            "warning: {missing} of the samples belong to names that rustc does not know: {cause}"
        );
    }
}

/// The line on standard error, and a warning where there are too few samples.
pub fn print_evidence(of: &report::Evidence) {
    eprintln!("{:>20}: {}", "evidence", of.line);
    if let Some(warning) = &of.warning {
        eprintln!("warning: {warning}");
    }
}

/// Writes the profile in the format asked for.
pub fn write(args: &MakeArgs, profile: &SampleProfile, output: &Path) -> anyhow::Result<()> {
    let bytes = format::write(profile, args.emit.into(), &args.storage.options())?;
    output::write_file(output, |out| out.write_all(&bytes).context("profile"))
}

/// What attribution made of the counts of a program, whose main language is known, and what to do
/// with the profile.
pub fn print_made(
    args: &MakeArgs,
    (image, language): (&Image, Language),
    report: &AttributeReport,
    functions: usize,
    global: &Global,
) {
    for line in tell::attributed(report, functions, global.verbose) {
        eprintln!("{line}");
    }
    if let Some(output) = args.output.as_deref().filter(|path| *path != Path::new("-")) {
        let format = args.emit.into();
        let next =
            tell::next_step(format, report.from_probes, image, language, &output::word(output));
        eprintln!("wrote {}; next: {next}", output.display());
    }
}
