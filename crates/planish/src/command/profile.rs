//! `planish profile`: a recording or its counts, and the binary, to a profile that a compiler
//! reads.

use super::inputs::{self, Selection};
use super::profile_contexts::{self, ContextUse};
use super::profile_probes::{Binary, ProbeUse};
use super::{aggregate, profile_tools, used};
use crate::cli::{FINE, Global};
use crate::output;
use anyhow::{Context, anyhow, bail};
use counts::ImageCounts;
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::debug::{DebugInfo, Language};
use image::debug_files::DebugSearch;
use image::{Image, ImageKind};
use profile::SampleProfile;
use profile::attribute::{AttributeOptions, AttributeReport, attribute, attribute_probes};
use profile::format::gcov::GcovVersion;
use profile::format::{self, NameStorage, WriteOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// File formats of profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ProfileFormat {
    /// LLVM's text format
    Text,
    /// LLVM's extensible binary format: what clang and rustc read fastest
    Extbinary,
    /// LLVM's plain binary format
    Binary,
    /// gcc's AutoFDO format (gcc -fauto-profile)
    Gcov,
    /// Gzipped protocol buffer for pprof
    Pprof,
}

impl From<ProfileFormat> for format::Format {
    fn from(format: ProfileFormat) -> format::Format {
        match format {
            ProfileFormat::Text => format::Format::Text,
            ProfileFormat::Extbinary => format::Format::ExtBinary,
            ProfileFormat::Binary => format::Format::Binary,
            ProfileFormat::Gcov => format::Format::Gcov,
            ProfileFormat::Pprof => format::Format::Pprof,
        }
    }
}

/// How what a profile rests on is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Summary {
    /// A line on standard error
    #[default]
    Text,
    /// One JSON object on standard output beside it
    Json,
}

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
    flatten_help = true
)]
pub struct Args {
    #[command(subcommand)]
    tool: Option<profile_tools::Tool>,
    #[command(flatten)]
    make: MakeArgs,
}

/// How a format stores a profile.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Storage {
    /// Store hashes in place of names (extbinary)
    #[arg(long)]
    pub md5: bool,
    /// Compress every section (extbinary)
    #[arg(long)]
    pub compress: bool,
    /// Major version of the gcc that will read a gcov profile [default: of the one that built the
    /// binary, else 12]
    #[arg(long, value_name = "N")]
    pub gcc_version: Option<u32>,
}

impl Storage {
    /// As the writer takes it.
    pub fn options(self) -> WriteOptions {
        WriteOptions {
            names: if self.md5 { NameStorage::FixedHash } else { NameStorage::Plain },
            compress: self.compress,
            gcov: GcovVersion::for_gcc(self.gcc_version.unwrap_or(12)),
        }
    }
}

/// Arguments of making a profile.
#[derive(Clone, Debug, clap::Args)]
pub struct MakeArgs {
    /// perf.data, counts artefacts, perf script text or pre-aggregated text; several are added up
    #[arg(required_unless_present = "profile", value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// An input, as create_llvm_prof and llvm-profgen spell it
    #[arg(long, hide = true, alias = "perfdata", value_name = "INPUT")]
    profile: Vec<PathBuf>,
    /// The recorded ELF file
    #[arg(long, required = true, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// The ELF file with the debug information, where it cannot be found by itself
    #[arg(long, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,
    /// The DWARF package of a build with split debug information
    #[arg(long, value_name = "FILE.dwp")]
    pub dwp: Option<PathBuf>,
    /// Format of the profile
    #[arg(long, value_enum, default_value_t = ProfileFormat::Extbinary)]
    pub format: ProfileFormat,
    /// Whether to count pseudo probes (clang -fpseudo-probe-for-profiling) in place of lines
    #[arg(long, value_enum, default_value_t = ProbeUse::Auto)]
    pub probes: ProbeUse,
    /// Whether to tell calling contexts apart, from recordings with branch stacks and call chains
    /// (pseudo probes only)
    #[arg(long, value_enum, default_value_t = ContextUse::Off)]
    pub contexts: ContextUse,
    /// Merge contexts with a smaller total into their functions [default: the smallest hot count;
    /// 0 keeps all]
    #[arg(long, value_name = "COUNT")]
    pub cold_context: Option<u64>,
    /// List all functions of the binary, so that the compiler takes those that were never sampled
    /// for cold (extbinary)
    #[arg(long)]
    pub symbol_list: bool,
    #[command(flatten)]
    pub storage: Storage,
    #[command(flatten)]
    pub selection: Selection,
    /// How to print whether the samples are enough; json goes to standard output
    #[arg(long, value_enum, default_value_t)]
    pub summary: Summary,
    /// Where to write; `-` is standard output
    #[arg(short, long, alias = "out", required = true, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// Runs the command or the tool asked for.
pub fn run(mut args: Args, global: &Global) -> anyhow::Result<u8> {
    args.make.inputs.append(&mut args.make.profile);
    match args.tool {
        Some(tool) => profile_tools::run(tool, global),
        None => make(&args.make, global),
    }
}

fn make(args: &MakeArgs, global: &Global) -> anyhow::Result<u8> {
    let (Some(binary), Some(output)) = (&args.binary, &args.output) else {
        bail!("both --binary FILE and -o OUT are needed");
    };
    let read = args.inputs.iter().chain([binary]).chain(&args.debug_file).chain(&args.dwp);
    output::refuse_inputs([output.as_path()], read.map(PathBuf::as_path))?;
    if (args.storage.md5 || args.storage.compress) && args.format != ProfileFormat::Extbinary {
        bail!("--md5 and --compress are for --format extbinary; the other formats have neither");
    }
    if args.symbol_list
        && (args.format != ProfileFormat::Extbinary || args.contexts != ContextUse::Off)
    {
        bail!(
            "--symbol-list is for --format extbinary without --contexts; nothing else has a place \
             for it"
        );
    }
    if args.summary == Summary::Json && output == Path::new("-") {
        bail!("-o - and --summary json both want standard output; write the profile to a file");
    }
    let search = DebugSearch {
        debug_file: args.debug_file.clone(),
        dwp: args.dwp.clone(),
        ..DebugSearch::default()
    };
    let recorded = Binary::find(Image::open(binary)?, &search)?;
    if args.contexts != ContextUse::Off {
        return profile_contexts::make(args, &recorded, output, global);
    }
    if args.cold_context.is_some() {
        bail!("--cold-context is for --contexts nested and full");
    }
    let image = Arc::clone(&recorded.image);
    let found = inputs::read_all(&args.inputs, &[Arc::clone(&image)], args.selection, global)?;
    let counts = counts_of(&found, &image, &args.inputs)?;
    if let Some(package) = &args.dwp
        && Image::open(package)?.section_by_name(".debug_cu_index").is_none()
    {
        bail!("{}: expected a DWARF package, found no .debug_cu_index in it", package.display());
    }
    let options = AttributeOptions {
        threads: global.threads(),
        symbol_list: args.symbol_list,
        ..AttributeOptions::default()
    };
    let debug = DebugInfo::load(&image, &search)?;
    let (mut profile, report) =
        match recorded.probes(args.probes, args.format, counts, global.quiet)? {
            Some(probes) => attribute_probes(&image, &probes, counts, &options)?,
            None => attribute(&image, &debug, counts, &options)?,
        };
    profile.provenance = recorded.provenance;
    let main = debug.main_unit(global.threads()).unwrap_or_default();
    let gcc_version = args.storage.gcc_version.or(main.gcc_major());
    write(
        &MakeArgs { storage: Storage { gcc_version, ..args.storage }, ..args.clone() },
        &profile,
        output,
    )?;
    let evidence = super::evidence::told(&Evidence::of(counts, &image));
    if args.summary == Summary::Json {
        print_summary(&profile, &evidence, output)?;
    }
    if !global.quiet {
        if main.language == Language::Rust && !report.from_probes {
            used::warn_of_plain_names(&image, &debug, &profile, global);
        }
        aggregate::print_ledger_once(&found, &args.inputs, global);
        super::evidence::print(&evidence);
        warn_of_little(&found, counts, &report, binary);
        let next = next_step(args.format, &report, &image, main.language, output);
        print_report(&report, profile.functions.len(), output, &next, global);
    }
    Ok(FINE)
}

/// Tells what the profile rests on, as JSON on standard output.
pub fn print_summary(
    profile: &SampleProfile,
    evidence: &report::Evidence,
    output: &Path,
) -> anyhow::Result<()> {
    let summary = serde_json::json!({
        "schema": "planish-profile", "version": 1, "profile": output.display().to_string(),
        "functions": profile.functions.len(), "evidence": evidence,
    });
    output::print(&format!("{summary:#}\n"))
}

/// Writes the profile in the format asked for.
pub fn write(args: &MakeArgs, profile: &SampleProfile, output: &Path) -> anyhow::Result<()> {
    let bytes = format::write(profile, args.format.into(), &args.storage.options())?;
    output::write_file(output, |out| out.write_all(&bytes).context("profile"))
}

/// The counts of `image` among those found.
pub fn counts_of<'f>(
    found: &'f Aggregated,
    image: &Image,
    inputs: &[PathBuf],
) -> anyhow::Result<&'f ImageCounts> {
    let path = image.path().to_string_lossy();
    found.counts.find(image.build_id(), &path).ok_or_else(|| {
        let own = image.build_id().map_or_else(|| "none".to_owned(), ToString::to_string);
        let others: Vec<String> = found
            .counts
            .images
            .iter()
            .take(3)
            .map(|i| {
                format!(
                    "{} ({})",
                    i.path,
                    i.build_id.as_ref().map_or_else(|| "-".into(), ToString::to_string)
                )
            })
            .collect();
        anyhow!(
            "{}: holds no counts of {path} (build ID {own}), but of {}; give the build that was \
             recorded",
            inputs.first().map_or_else(String::new, |i| i.display().to_string()),
            if others.is_empty() { "nothing".to_owned() } else { others.join(", ") }
        )
    })
}

/// Below this share of the samples, the recording was hardly one of this program.
const LEAST_SHARE_PCT: u128 = 5;

/// Says what the profile lacks because of what was recorded.
fn warn_of_little(
    found: &Aggregated,
    counts: &ImageCounts,
    report: &AttributeReport,
    binary: &Path,
) {
    if !report.from_branches {
        eprintln!(
            "warning: {} samples without branch stacks: the profile says where time goes, but \
             holds no call counts and no call targets; planish record --branches=hardware or \
             --branches=emulated gives them",
            counts.sample_total()
        );
    }
    let (own, all) = (counts.sample_total(), u128::from(found.counts.ledger.samples.entered));
    if own > 0 && own * 100 < all * LEAST_SHARE_PCT {
        let most = found.elsewhere.iter().max_by_key(|(_, count)| *count);
        let most = most.map_or_else(String::new, |(path, count)| {
            format!(", most of the others ({count}) in {path}")
        });
        eprintln!(
            "warning: only {own} of {all} samples ({:.1} %) lie in {}{most}; record the program \
             alone, or for longer",
            own as f64 / all as f64 * 100.0,
            binary.display()
        );
    }
}

/// Functions without debug information that --verbose lists.
const MOST_OUTSIDE: usize = 10;

/// What attribution made of the counts, and what to do next.
pub fn print_report(
    report: &AttributeReport,
    functions: usize,
    output: &Path,
    next: &str,
    global: &Global,
) {
    let what = if report.from_probes { "pseudo probes" } else { "lines" };
    eprintln!("{:>20}: {functions} functions, by {what}", "profile");
    for line in report.lines() {
        eprintln!("{:>20}  {line}", "");
    }
    if global.verbose {
        let (largest, others) = report.largest_outside(MOST_OUTSIDE);
        let heading = format!("no {}", report.lacking());
        for (name, count) in largest {
            eprintln!("{heading:>20}: {count} in {name}");
        }
        if others.0 > 0 {
            eprintln!("{heading:>20}: {} in {} more", others.1, others.0);
        }
    }
    if output != Path::new("-") {
        eprintln!("wrote {}; next: {next}", output.display());
    }
}

/// What to do with the profile.
pub fn next_step(
    format: ProfileFormat,
    report: &AttributeReport,
    image: &Image,
    language: Language,
    output: &Path,
) -> String {
    let file = output.display();
    match format {
        ProfileFormat::Gcov => format!("gcc -fauto-profile={file} …"),
        ProfileFormat::Pprof => format!("pprof -top {file} …"),
        _ if image.kind() == ImageKind::Kernel => {
            format!(
                "planish kernel build TREE --profile {file}, with --first-round if this kernel \
                 had no profile"
            )
        }
        _ if report.from_probes => {
            format!("clang -fpseudo-probe-for-profiling -fprofile-sample-use={file} …")
        }
        _ if language == Language::Rust => {
            format!("rustc -Zdebug-info-for-profiling -Zprofile-sample-use={file} …")
        }
        _ => format!("clang -fprofile-sample-use={file} …"),
    }
}
