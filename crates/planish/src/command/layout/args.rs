//! What can be said of how a layout is computed and written?

use crate::cli::Format;
use crate::command::inputs::Selection;
use crate::command::percent::percent;
use layout::write::files::FileKind;
use std::path::PathBuf;

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
    #[arg(long, required = true, value_name = "PREFIX")]
    pub prefix: Option<PathBuf>,
}
