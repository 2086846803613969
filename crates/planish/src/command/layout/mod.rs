//! `planish layout`: a recording or its counts, and the binary, to the files that lay its code out;
//! are they applied, and what do they look like.

mod show;
mod verify;

use super::aggregate;
use super::inputs::{self, Selection};
use super::percent::percent;
use crate::cli::{FINE, Format, Global};
use crate::output::{self, error_style, print_json};
use anyhow::bail;
use image::{Image, ImageKind};
use layout::write::cc::CcVersion;
use layout::write::files::{FileKind, FileOptions, with_suffix};
use layout::{Plan, PlanOptions};
use report::layout::LayoutSummary;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What chains of blocks may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Mode {
    /// Each function is laid out alone
    #[default]
    PerFunction,
    /// Chains run across functions along calls
    InterFunction,
}

impl From<Mode> for layout::Mode {
    fn from(mode: Mode) -> layout::Mode {
        match mode {
            Mode::PerFunction => layout::Mode::PerFunction,
            Mode::InterFunction => layout::Mode::InterFunction,
        }
    }
}

/// Kinds of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Emit {
    /// Clusters of blocks for clang and the order of their sections for lld: PREFIX_cc_profile.txt,
    /// PREFIX_ld_profile.txt
    Propeller,
    /// Order of functions for lld (--symbol-ordering-file): PREFIX_symbol_order.txt
    SymbolOrder,
    /// Order of functions for GNU ld 2.43 and newer (--section-ordering-file):
    /// PREFIX_section_order.txt
    SectionOrder,
    /// The same for any GNU ld (-T): PREFIX_order.ld
    LinkerScript,
    /// The same for gold (--section-ordering-file): PREFIX_gold_order.txt
    GoldOrder,
    /// Branch profile for llvm-bolt (-data): PREFIX.fdata
    Fdata,
    /// Counts for perf2bolt (-pa -p): PREFIX_preaggregated.txt
    Preaggregated,
}

impl From<Emit> for FileKind {
    fn from(emit: Emit) -> FileKind {
        match emit {
            Emit::Propeller => FileKind::Propeller,
            Emit::SymbolOrder => FileKind::SymbolOrder,
            Emit::SectionOrder => FileKind::SectionOrder,
            Emit::LinkerScript => FileKind::LinkerScript,
            Emit::GoldOrder => FileKind::GoldOrder,
            Emit::Fdata => FileKind::Fdata,
            Emit::Preaggregated => FileKind::Preaggregated,
        }
    }
}

/// Lay the code of a program out: the order of its blocks and functions, from a recording or its
/// counts.
///
/// The binary must be the recorded build. Build it with clang and `-fbasic-block-address-map
/// -funique-internal-linkage-names`; orders of functions alone (`--emit symbol-order` and the
/// section orders) and BOLT's files do without.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    flatten_help = true
)]
pub struct Args {
    #[command(subcommand)]
    tool: Option<Tool>,
    #[command(flatten)]
    make: MakeArgs,
}

/// What can be done with a layout beside writing it.
#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Say whether a program that was linked anew has the layout
    Verify(verify::Args),
    /// Show which pages of the text are executed, before and after, and how a function is laid out
    Show(show::Args),
    /// Say what clang would end on or skip in a cc profile
    Check(verify::CheckArgs),
}

/// What a layout is computed from.
#[derive(Debug, clap::Args)]
pub struct Source {
    /// perf.data, counts artefacts, perf script text or pre-aggregated text; several are added up
    #[arg(required = true, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// The recorded ELF file
    #[arg(long, required = true, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// The recorded ELF file, where --binary is a newer build: its functions and blocks are
    /// recognised in the newer one
    #[arg(long, value_name = "OLD")]
    pub recorded: Option<PathBuf>,
    /// What chains of blocks may hold
    #[arg(long, value_enum, default_value_t = Mode::PerFunction)]
    pub mode: Mode,
    /// Judge branches, order blocks and score as Google's Propeller tools do
    #[arg(long)]
    pub upstream: bool,
    /// Clone small blocks into frequent predecessors, where paths of branches say that it saves
    /// taken branches
    #[arg(long = "clone")]
    pub clones: bool,
    /// Bytes of all clones, in percent of the bytes of executed blocks
    #[arg(long, value_name = "PERCENT", default_value_t = layout::CloneParams::default().budget_pct, requires = "clones", value_parser = percent)]
    pub clone_budget: f64,
    #[command(flatten)]
    pub selection: Selection,
}

/// Arguments of making a layout.
#[derive(Debug, clap::Args)]
pub struct MakeArgs {
    #[command(flatten)]
    pub from: Source,
    /// What to write; several are separated by commas
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "propeller"
    )]
    pub emit: Vec<Emit>,
    /// Version of the cc profile: 1 for clang 16 and newer, 0 for older ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub cc_version: u8,
    /// Write scores and edges as comments into the cc profile
    #[arg(long)]
    pub verbose_comments: bool,
    /// How to print the summary
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Begin of the names of the files that are written
    #[arg(short, long, required = true, value_name = "PREFIX")]
    pub output: Option<PathBuf>,
}

/// Runs the command or the tool asked for.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.tool {
        Some(Tool::Verify(args)) => verify::run(&args, global),
        Some(Tool::Show(args)) => show::run(&args, global),
        Some(Tool::Check(args)) => verify::check(&args, global),
        None => make(&args.make, global),
    }
}

fn make(args: &MakeArgs, global: &Global) -> anyhow::Result<u8> {
    let Some(prefix) = &args.output else {
        bail!("-o PREFIX is needed: the begin of the names of the files to write")
    };
    if names_directory(prefix) {
        bail!(
            "-o {}: a prefix is needed, the begin of the names of the files to write; for files \
             in this directory, {}",
            prefix.display(),
            prefix.join("app").display()
        );
    }
    let mut kinds: Vec<FileKind> = Vec::new();
    for kind in args.emit.iter().map(|emit| FileKind::from(*emit)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let ends = kinds.iter().flat_map(|kind| kind.suffixes());
    let outputs: Vec<PathBuf> = ends.map(|end| with_suffix(prefix, end)).collect();
    refuse_inputs(&args.from, &outputs)?;
    let plan = from(&args.from, kinds.contains(&FileKind::Propeller), global)?;
    let options = FileOptions {
        cc_version: if args.cc_version == 0 { CcVersion::V0 } else { CcVersion::V1 },
        verbose_comments: args.verbose_comments,
    };
    let mut summary = LayoutSummary::of(&plan);
    let mut files = Vec::new();
    for &kind in &kinds {
        files.extend(layout::write::files::files(&plan, kind, options)?);
    }
    // A cc profile of one run and an ld profile of another do not fit.
    let texts: Vec<(PathBuf, &str)> =
        files.iter().map(|file| (file.path(prefix), file.text.as_str())).collect();
    output::write_together(&texts)?;
    for file in files {
        summary.files.push((file.what.to_owned(), file.path(prefix).display().to_string()));
        summary.warnings.extend(file.warnings);
    }
    match args.format {
        Format::Json => print_json(&summary)?,
        Format::Text if !global.quiet => {
            aggregate::print_ledger_once(&plan.found, &args.from.inputs, global);
            let screen = report::Screen::from(error_style());
            eprint!("{}", report::layout::summary(&summary, screen));
            if kinds.contains(&FileKind::Propeller) {
                let prefix = prefix.display();
                if plan.image.kind() == ImageKind::Kernel {
                    eprintln!(
                        "next: planish kernel build TREE --profile FILE --layout {prefix}, FILE \
                         being what this kernel was built with"
                    );
                } else {
                    eprintln!(
                        "next: clang -fbasic-block-address-map \
                         -fbasic-block-sections=list={prefix}_cc_profile.txt … -fuse-ld=lld \
                         -Wl,--symbol-ordering-file={prefix}_ld_profile.txt \
                         -Wl,--no-warn-symbol-ordering"
                    );
                }
            }
        }
        Format::Text => {}
    }
    Ok(FINE)
}

/// Whether a path ends where a name could begin, so that files of this prefix would have none.
fn names_directory(prefix: &Path) -> bool {
    let bytes = prefix.as_os_str().as_encoded_bytes();
    let name = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    matches!(name, b"" | b"." | b"..")
}

/// Refuses outputs that are what the layout is computed from.
fn refuse_inputs(from: &Source, outputs: &[PathBuf]) -> anyhow::Result<()> {
    let inputs = from.inputs.iter().chain(&from.binary).chain(&from.recorded).map(PathBuf::as_path);
    output::refuse_inputs(outputs.iter().map(PathBuf::as_path), inputs)
}

/// Reads the inputs and plans the layout.
fn from(args: &Source, blocks_needed: bool, global: &Global) -> anyhow::Result<Plan> {
    let Some(binary) = &args.binary else {
        bail!("--binary FILE is needed: the ELF file that was recorded")
    };
    let image = Arc::new(Image::open(binary)?);
    let selection = Selection { paths: args.clones, ..args.selection };
    let recorded = args.recorded.as_deref().map(Image::open).transpose()?.map(Arc::new);
    let counted = recorded.as_ref().unwrap_or(&image);
    let found = inputs::read_all(&args.inputs, &[Arc::clone(counted)], selection, global)?;
    let params =
        layout::CloneParams { budget_pct: args.clone_budget, ..layout::CloneParams::default() };
    let clone = args.clones.then_some(params);
    // Only blocks are recognised in another build.
    let blocks_needed = blocks_needed || recorded.is_some();
    let options =
        PlanOptions { mode: args.mode.into(), upstream: args.upstream, blocks_needed, clone };
    let named = args.inputs.first().map_or(Path::new("-"), PathBuf::as_path);
    Ok(layout::plan(image, recorded, found, named, options)?)
}
