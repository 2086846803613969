//! `planish livepatch`: which functions change when some functions do, and what tells us so.

mod flags;

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output::print_json;
use crate::progress::Bytes;
use anyhow::{Context as _, bail};
use livepatch::{
    Analysis, Closure, NodeId, Touched, analyse, closure, diff, scan, select, touched_by,
};
use report::livepatch as tell;
use std::path::{Path, PathBuf};

/// Say which other functions change when some do: what a live patch must cover, and how planish
/// knows.
///
/// Reads a build directory: object files or programs with debug information, and what the compiler
/// wrote beside them: gcc with `-fdump-ipa-clones -fdump-ipa-icf-details -g`, clang with
/// `-fsave-optimization-record -g`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

/// Arguments of `planish livepatch closure`.
#[derive(Debug, clap::Args)]
struct ClosureArgs {
    /// The directory of a build
    #[arg(value_name = "BUILD_DIR")]
    directory: PathBuf,
    /// The functions that are changed: NAME or FILE:NAME, with the name the assembler sees
    #[arg(long, short = 'f', value_name = "NAME", num_args = 1..)]
    function: Vec<String>,
    /// The functions that this unified diff touches; it must fit the sources of the build
    #[arg(long, value_name = "FILE.diff")]
    patch: Option<PathBuf>,
    /// Also name direct callers and callees that may rely on a member without holding any of its
    /// code
    #[arg(long)]
    possible: bool,
    /// The shape in which a closure is printed
    #[arg(long, value_enum, value_name = "KIND", default_value_t = Shape::Tree)]
    emit: Shape,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

const EXAMPLES: &str = "\
Examples:
  planish livepatch closure build --function do_sys_open
  planish livepatch closure build --function fs/open.c:do_open --format json
  planish livepatch closure build --patch fix.diff --possible
  planish livepatch closure build --function parse --emit dot > f.dot
  planish livepatch diff build-old build-new
  planish livepatch flags --compiler gcc --matrix >> planish.toml";

/// How a closure is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    /// By the way each function was reached
    Tree,
    /// One function a line: object file, name, source place
    Flat,
    /// A graph for Graphviz
    Dot,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Print what changes with some functions; without any, a summary of the build
    Closure(ClosureArgs),
    /// Show how closures differ between two builds; exit code 1 when any does
    Diff {
        /// The old build
        old: PathBuf,
        /// The new build
        new: PathBuf,
        /// Only these functions
        #[arg(long, short = 'f', value_name = "NAME", num_args = 1..)]
        function: Vec<String>,
        /// How to print the result
        #[arg(long, value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Say which optimisations leave no trace, what live patching turns off, and what to measure
    Flags(flags::Args),
}

/// Runs the command.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    match &args.tool {
        Tool::Closure(args) => print_closure(args, global),
        Tool::Flags(args) => flags::run(args),
        Tool::Diff { old, new, function, format } => compare((old, new), function, *format, global),
    }
}

fn print_closure(args: &ClosureArgs, global: &Global) -> anyhow::Result<u8> {
    let directory = &args.directory;
    let analysis = read(directory, global)?;
    let mut touches = Touched::default();
    if let Some(patch) = &args.patch {
        touches = read_patch(patch, directory, &analysis)?;
    }
    let mut asked: Vec<NodeId> = touches.functions.clone();
    for name in &args.function {
        asked.extend(select(&analysis, name).with_context(|| directory.display().to_string())?);
    }
    if asked.is_empty() && args.patch.is_none() {
        if args.emit != Shape::Tree {
            bail!("--emit flat and dot are for closures; give --function or --patch");
        }
        if args.format == Format::Json {
            print_json(&tell::summary_json(&analysis))?;
        } else {
            print!("{}", tell::summary(&analysis));
            say(tell::notes(&analysis, &touches), global);
        }
        return Ok(FINE);
    }
    let found = closure(&analysis.graph, &asked);
    let possible = args.possible.then(|| possible(&analysis, &found));
    let told = tell::Told {
        analysis: &analysis,
        closure: &found,
        touched: &touches,
        possible: possible.as_deref(),
    };
    match (args.format, args.emit) {
        (Format::Json, _) => print_json(&tell::json(&told))?,
        (Format::Text, Shape::Tree) => print!("{}", tell::tree(&told)),
        (Format::Text, Shape::Flat) => print!("{}", tell::flat(&told)),
        (Format::Text, Shape::Dot) => print!("{}", tell::dot(&told)),
    }
    say(tell::notes(&analysis, &touches), global);
    say(tell::no_code(&told), global);
    // The process ends; a large build need not be taken apart piece by piece.
    std::mem::forget(analysis);
    // A live patch of this closure alone might miss what the other lines change.
    Ok(if touches.elsewhere.is_empty() { FINE } else { NEGATIVE })
}

/// Notes on standard error, unless nobody wants them.
fn say(notes: impl IntoIterator<Item = impl std::fmt::Display>, global: &Global) {
    if !global.quiet {
        notes.into_iter().for_each(|note| eprintln!("planish: {note}"));
    }
}

fn compare(
    (old_path, new_path): (&Path, &Path),
    functions: &[String],
    format: Format,
    global: &Global,
) -> anyhow::Result<u8> {
    let (old, new) = (read(old_path, global)?, read(new_path, global)?);
    let mut found = diff(&old, &new);
    if !functions.is_empty() {
        for (name, is_old) in found.keep(&old, &new, functions)? {
            let alone = if is_old { old_path } else { new_path };
            eprintln!("planish: {name} is in {} alone, with nothing to compare", alone.display());
        }
    }
    match format {
        Format::Json => print_json(&tell::differences_json(&found))?,
        Format::Text => print!("{}", tell::differences(&found)),
    }
    [&old, &new].into_iter().for_each(|build| say(tell::left_out(build), global));
    Ok(if found.functions.is_empty() { FINE } else { NEGATIVE })
}

fn possible(analysis: &Analysis, found: &Closure) -> Vec<livepatch::possible::Possible> {
    let members: Vec<NodeId> = found.members.iter().map(|member| member.node).collect();
    livepatch::possible::possible(analysis, &members)
}

fn read(directory: &Path, global: &Global) -> anyhow::Result<Analysis> {
    let build = scan(directory, global.threads())?;
    let total = build.units.iter().map(|unit| unit.bytes).sum();
    let bar = Bytes::new("reading object files", total, global.quiet);
    let analysis = analyse(&build, global.threads(), &|bytes| bar.add(bytes))?;
    drop(bar);
    if let Some(why) = analysis.implausible() {
        tell::left_out(&analysis).iter().for_each(|note| eprintln!("planish: {note}"));
        bail!("{}: {why}", directory.display());
    }
    Ok(analysis)
}

fn read_patch(patch: &Path, root: &Path, analysis: &Analysis) -> anyhow::Result<Touched> {
    // Patches of old sources may be in Latin-1.
    let text = crate::input::read(patch)?;
    let source = |file: &str| {
        // The names are the patch's.
        let read = |path: &Path| beside::given::read(path, crate::input::TEXT_BYTES);
        let bytes = read(&root.join(file)).or_else(|_| read(Path::new(file))).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(touched_by(&analysis.graph, patch, &String::from_utf8_lossy(&text), &source)?)
}
