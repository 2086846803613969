//! `planish layout`: a recording or its counts, and the binary, to the files that lay its code out;
//! are they applied, and what do they look like.

mod args;
mod link;
mod merge;
mod show;
mod verify;

use super::aggregate;
use super::inputs::{self, Selection};
use crate::cli::{FINE, Format, Global};
use crate::output::{self, error_style, print_json, word};
use anyhow::bail;
use args::{MakeArgs, Source};
use image::{Image, ImageKind};
use layout::write::cc::CcVersion;
use layout::write::files::{FileKind, FileOptions, with_suffix};
use layout::{Plan, PlanOptions};
use report::layout::LayoutSummary;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lay out the code of a program: the order of its blocks and functions, from a recording or its
/// counts.
///
/// The binary must be the recorded build. Build it with clang and `-fbasic-block-address-map
/// -funique-internal-linkage-names`; orders of functions alone (`--emit symbol-order` and the
/// section orders) and BOLT's files do without.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    flatten_help = true,
    after_help = "\
Examples:
  planish layout perf.data --binary ./app --prefix app
  clang -O2 -fbasic-block-sections=list=app_cc_profile.txt \\
      -fuse-ld=lld -Wl,--symbol-ordering-file=app_ld_profile.txt …
  planish layout verify perf.data --binary ./app --new ./app.new"
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
    /// Put the layouts of several images into one, for a build that makes all of them
    Merge(merge::Args),
    /// Link a program of bitcode again in a layout, from the archive of its link
    Link(link::Args),
    /// Say what in a cc profile would stop clang, and what it would skip
    Check(verify::CheckArgs),
}

/// Runs the command or the tool asked for.
pub fn run(args: Args, global: &Global) -> anyhow::Result<u8> {
    match args.tool {
        Some(Tool::Verify(args)) => verify::run(&args, global),
        Some(Tool::Show(args)) => show::run(&args, global),
        Some(Tool::Merge(args)) => merge::run(&args, global),
        Some(Tool::Link(args)) => link::run(&args, global),
        Some(Tool::Check(args)) => verify::check(&args, global),
        None => make(&args.make, global),
    }
}

fn make(args: &MakeArgs, global: &Global) -> anyhow::Result<u8> {
    let Some(prefix) = &args.prefix else {
        bail!("--prefix PREFIX is needed: the start of the names of the files to write")
    };
    if names_directory(prefix) {
        bail!(
            "--prefix {}: a prefix is needed, the start of the names of the files to write; for files \
             in this directory, {}",
            prefix.display(),
            prefix.join("app").display()
        );
    }
    let mut kinds: Vec<FileKind> = Vec::new();
    for &kind in &args.emit {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    let ends = kinds.iter().flat_map(|kind| kind.suffixes());
    let outputs: Vec<PathBuf> = ends.map(|end| with_suffix(prefix, end)).collect();
    refuse_inputs(&args.from, &outputs)?;
    let plan = match from(&args.from, kinds.contains(&FileKind::Propeller), global) {
        Err(error) if args.allow_empty && is_uncounted(&error) => {
            return empty(args, &outputs, global);
        }
        other => other?,
    };
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
    beside::named::write_together(&texts)?;
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
                if plan.image.kind() == ImageKind::KernelModule {
                    eprintln!(
                        "next: planish kernel layout BUILD, which puts the kernel and its modules \
                         into one layout"
                    );
                } else if plan.image.kind() == ImageKind::Kernel {
                    eprintln!(
                        "next: planish kernel build TREE --profile FILE --layout {}, FILE being \
                         what this kernel was built with",
                        word(prefix)
                    );
                } else {
                    eprintln!(
                        "next: clang -fbasic-block-address-map \
                         -fbasic-block-sections=list={} … -fuse-ld=lld \
                         -Wl,--symbol-ordering-file={} -Wl,--no-warn-symbol-ordering",
                        word(&with_suffix(prefix, "_cc_profile.txt")),
                        word(&with_suffix(prefix, "_ld_profile.txt"))
                    );
                }
            }
        }
        Format::Text => {}
    }
    Ok(FINE)
}

/// Whether nothing was counted in the binary, or hardly anything.
fn is_uncounted(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(layout::Error::is_of_hardly_anything)
}

/// Writes the files of an image that was not run, and says so.
fn empty(args: &MakeArgs, outputs: &[PathBuf], global: &Global) -> anyhow::Result<u8> {
    let texts: Vec<(PathBuf, &str)> = outputs.iter().map(|path| (path.clone(), "")).collect();
    beside::named::write_together(&texts)?;
    let binary = args.from.binary.as_deref().unwrap_or(Path::new(""));
    let summary = LayoutSummary::nothing(&Image::open(binary)?);
    match args.format {
        Format::Json => print_json(&summary)?,
        Format::Text if !global.quiet => {
            let binary = binary.display();
            eprintln!("note: {binary}: nothing was counted in it; the layout's files are empty");
        }
        Format::Text => {}
    }
    Ok(FINE)
}

/// Whether a path ends where a name could begin, so that files of this prefix would have none.
pub fn names_directory(prefix: &Path) -> bool {
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
    let options = PlanOptions { mode: args.mode, upstream: args.upstream, blocks_needed, clone };
    let named = args.inputs.first().map_or(Path::new("-"), PathBuf::as_path);
    Ok(layout::plan(image, recorded, found, named, options)?)
}
