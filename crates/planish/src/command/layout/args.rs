//! What can be said of how a layout is computed and written?

use crate::cli::{Choice, Format};
use crate::command::inputs::Selection;
use crate::command::percent::percent;
use layout::Mode;
use layout::write::files::FileKind;
use std::path::PathBuf;

/// What chains of blocks may hold.
const MODE: Choice<Mode> = Choice(&[
    ("per-function", Mode::PerFunction, "Each function is laid out alone"),
    ("inter-function", Mode::InterFunction, "Chains run across functions along calls"),
]);

/// Kinds of files.
const EMIT: Choice<FileKind> = Choice(&[
    (
        "propeller",
        FileKind::Propeller,
        "Clusters of blocks for clang and the order of their sections for lld: \
         PREFIX_cc_profile.txt, PREFIX_ld_profile.txt",
    ),
    (
        "symbol-order",
        FileKind::SymbolOrder,
        "Order of functions for lld (--symbol-ordering-file): PREFIX_symbol_order.txt",
    ),
    (
        "section-order",
        FileKind::SectionOrder,
        "Order of functions for GNU ld 2.43 and newer (--section-ordering-file): \
         PREFIX_section_order.txt",
    ),
    ("linker-script", FileKind::LinkerScript, "The same for any GNU ld (-T): PREFIX_order.ld"),
    (
        "gold-order",
        FileKind::GoldOrder,
        "The same for gold (--section-ordering-file): PREFIX_gold_order.txt",
    ),
    ("fdata", FileKind::Fdata, "Branch profile for llvm-bolt (-data): PREFIX.fdata"),
    (
        "preaggregated",
        FileKind::Preaggregated,
        "Counts for perf2bolt (-pa -p): PREFIX_preaggregated.txt",
    ),
    (
        "rest",
        FileKind::Rest,
        "Functions that ran and have no address map, for llvm-bolt on the program with the layout \
         (-data, -funcs-file-no-regex): PREFIX_rest.fdata, PREFIX_rest_functions.txt",
    ),
]);

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
    #[arg(long, value_parser = MODE, default_value = "per-function")]
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
        value_parser = EMIT,
        value_name = "KIND",
        value_delimiter = ',',
        default_value = "propeller"
    )]
    pub emit: Vec<FileKind>,
    /// Version of the cc profile: 1 for clang 16 and newer, 0 for older ones
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub cc_version: u8,
    /// Write scores and edges as comments into the cc profile
    #[arg(long)]
    pub verbose_comments: bool,
    /// Write empty files for a binary in which nothing was counted, in place of an error: for one
    /// of several images of a project
    #[arg(long)]
    pub allow_empty: bool,
    /// How to print the summary
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// Beginning of the names of the files to write
    #[arg(long, required = true, value_name = "PREFIX")]
    pub prefix: Option<PathBuf>,
}
