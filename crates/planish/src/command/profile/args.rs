//! What can be said of how a profile is made and written?

use crate::cli::Format;
use crate::command::inputs::Selection;
use profile::format::gcov::GcovVersion;
use profile::format::{self, NameStorage, WriteOptions};
use profile::recorded;
use std::path::{Path, PathBuf};

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

impl ProfileFormat {
    /// Whether it has a place for pseudo probes and calling contexts.
    pub fn has_probes(self) -> bool {
        matches!(self, ProfileFormat::Text | ProfileFormat::Extbinary)
    }
}

/// Whether probes are counted where the binary has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProbeUse {
    /// Probes where the binary has them, the recording has branch stacks and the format a place for
    /// them
    #[default]
    Auto,
    /// Probes, or an error
    Use,
    /// Lines, also where the binary has probes
    Ignore,
}

impl From<ProbeUse> for recorded::ProbeUse {
    fn from(wanted: ProbeUse) -> recorded::ProbeUse {
        match wanted {
            ProbeUse::Auto => recorded::ProbeUse::Auto,
            ProbeUse::Use => recorded::ProbeUse::Use,
            ProbeUse::Ignore => recorded::ProbeUse::Ignore,
        }
    }
}

/// What becomes of the calling contexts of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ContextUse {
    /// Nothing: each function has one count at a place, whoever called it
    #[default]
    Off,
    /// Each becomes a call inlined into its caller, as llvm-profgen writes them
    Nested,
    /// They are kept as they are: `[main:3 @ foo]`
    Full,
}

/// By what the pre-inliner measures functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PreInline {
    /// The bytes of their code in the recorded program
    Code,
    /// The places in them that the profile counts
    Places,
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
    pub(super) profile: Vec<PathBuf>,
    /// The recorded ELF file
    #[arg(long, required = true, value_name = "FILE")]
    pub binary: Option<PathBuf>,
    /// The ELF file with the debug information, if planish cannot find it
    #[arg(long, value_name = "FILE")]
    pub debug_file: Option<PathBuf>,
    /// The DWARF package of a build with split debug information
    #[arg(long, value_name = "FILE.dwp")]
    pub dwp: Option<PathBuf>,
    /// What kind of profile to write
    #[arg(long, value_enum, value_name = "KIND", default_value_t = ProfileFormat::Extbinary)]
    pub emit: ProfileFormat,
    /// Whether to count pseudo probes (clang -fpseudo-probe-for-profiling) in place of lines
    #[arg(long, value_enum, default_value_t = ProbeUse::Auto)]
    pub probes: ProbeUse,
    /// Whether to tell calling contexts apart, from recordings with branch stacks and call chains
    /// (pseudo probes only)
    #[arg(long, value_enum, default_value_t = ContextUse::Off)]
    pub contexts: ContextUse,
    /// Decide for the whole program which contexts the compiler is to inline, as llvm-profgen's
    /// pre-inliner does, and merge the others into their functions; functions are measured by their
    /// code or by their counted places
    #[arg(long, value_enum, value_name = "BY")]
    pub pre_inline: Option<PreInline>,
    /// Merge contexts with a smaller total into their functions [default: the smallest hot count;
    /// with --pre-inline 0; 0 keeps all]
    #[arg(long, value_name = "COUNT")]
    pub cold_context: Option<u64>,
    /// List all functions of the binary, so that the compiler takes those that were never sampled
    /// for cold (extbinary, gcov)
    #[arg(long)]
    pub symbol_list: bool,
    /// Write an empty profile where nothing was counted in the binary, in place of an error: for
    /// one of several images of a project
    #[arg(long)]
    pub allow_empty: bool,
    #[command(flatten)]
    pub storage: Storage,
    #[command(flatten)]
    pub selection: Selection,
    /// How to print what the profile rests on; text goes to standard error
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Where to write; `-` is standard output
    #[arg(short, long, alias = "out", required = true, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

impl MakeArgs {
    /// The input that messages about all of them name.
    pub fn first_input(&self) -> &Path {
        self.inputs.first().map_or(Path::new(""), PathBuf::as_path)
    }
}
