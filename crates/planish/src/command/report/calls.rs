//! `planish report hot`, `callers`, `callees` and `tree`.

use super::filter;
use super::interactive::{self, Begin};
use super::page::{self, PageArgs};
use super::recording::{Detail, Part, Recording, Shown, Source};
use crate::cli::{Choice, FINE, Format, Global};
use crate::output;
use anyhow::{Context as _, bail};
use calltrees::Recorded;
use calltrees::rows::By;
use report::calls::{self as tell, Direction, Selected, Shape};
use std::path::{Path, PathBuf};
use viewer::View;

/// What rows are about.
pub const BY: Choice<By> = Choice(&[
    ("function", By::Function, "Functions, separately for each library"),
    ("library", By::Library, "Programs, shared libraries, the kernel and its modules"),
    ("line", By::Line, "Source lines, also of inlined functions; functions where no line is known"),
    ("thread", By::Thread, "Threads, with a row for each name that a thread had"),
    ("process", By::Process, "Processes, with all their threads"),
    (
        "cgroup",
        By::Cgroup,
        "Control groups, if recorded (perf record --all-cgroups, planish record -a -G NAME)",
    ),
]);

/// Show what weighs most: the time spent in functions, lines, libraries, threads, processes or
/// control groups.
///
/// "self" is what was sampled in a function itself, "total" what was sampled in it or in what it
/// called. Totals need call chains: record with `planish record -g`, or with `--call-graph dwarf` if
/// the program has no frame pointers.
#[derive(Debug, clap::Args)]
pub struct HotArgs {
    #[command(flatten)]
    source: Source,
    /// What the rows are about [default: function]
    #[arg(long, value_parser = BY)]
    by: Option<By>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl HotArgs {
    /// Of a recording, with the usual options.
    pub fn of(path: &Path) -> HotArgs {
        let (part, input) = (Part::default(), path.to_owned());
        let recording = Recording { input, interactive: false, part };
        let source = Source { recording, shown: Shown::default() };
        HotArgs { source, by: None, format: Format::Text }
    }
}

/// Show what called a function, with the weight of each caller.
///
/// If the function calls itself, a sample counts once, for the outermost frame, so the first line
/// shows the function's total.
#[derive(Debug, clap::Args)]
pub struct CallersArgs {
    /// The function: its linkage name, or its name as in the source, with or without arguments
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[command(flatten)]
    graph: GraphArgs,
}

/// Show what a function called, with the weight of each callee.
#[derive(Debug, clap::Args)]
pub struct CalleesArgs {
    /// The function: its linkage name, or its name as in the source, with or without arguments
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[command(flatten)]
    graph: GraphArgs,
}

/// Options of trees.
#[derive(Debug, clap::Args)]
struct GraphArgs {
    #[command(flatten)]
    source: Source,
    /// Print at most this many frames from the root; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Show all calls as a tree, from the outermost function inwards.
///
/// With --format html, it is one page that needs no network, with flame graphs of all events, the
/// threads over time, the tree, a table of functions and source lines. There you can search, zoom in
/// and switch to the callers' view.
#[derive(Debug, clap::Args)]
pub struct TreeArgs {
    #[command(flatten)]
    source: Source,
    /// Print at most this many frames from the root; 0: all
    #[arg(long, value_name = "N", default_value_t = 0)]
    depth: usize,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: TreeFormat,
    /// Print all stacks for another program instead of the tree; ignores --limit, --percent and
    /// --depth
    #[arg(long, value_enum, value_name = "KIND", conflicts_with_all = ["format", "interactive"])]
    emit: Option<Stacks>,
    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE", conflicts_with = "interactive")]
    output: Option<PathBuf>,
    #[command(flatten)]
    page: PageArgs,
}

/// How a tree is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum TreeFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object
    Json,
    /// One page to look around in, 5 MB at most; ignores --limit, --percent and --depth
    Html,
}

/// How stacks are written for other programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Stacks {
    /// One line per stack with its weight, for flame graph programs
    Folded,
}

/// Runs `planish report hot`.
pub fn hot(args: &HotArgs, global: &Global) -> anyhow::Result<u8> {
    let source = &args.source;
    if source.recording.interactive {
        let begin = Begin { view: View::Hot, function: None, by: args.by };
        return interactive::run(&source.recording, &source.shown, &[], begin, global);
    }
    let by = args.by.unwrap_or_default();
    let recorded = args.source.recording.read_with(Detail::of(by), global)?;
    by_what_is_recorded(by, &recorded)
        .with_context(|| args.source.recording.input.display().to_string())?;
    let selected = args.source.select(&recorded)?;
    match args.format {
        Format::Text => output::print(&tell::hot_text(&selected, by))?,
        Format::Json => output::print_json(&tell::hot_json(&selected, by))?,
    }
    args.source.tell_notes(&selected, global);
    Ok(FINE)
}

/// Refuses rows of what no sample tells.
fn by_what_is_recorded(by: By, recorded: &Recorded) -> anyhow::Result<()> {
    if by == By::Cgroup && recorded.cgroups.is_empty() {
        bail!(filter::NO_CGROUPS);
    }
    Ok(())
}

/// Runs `planish report callers`.
pub fn callers(args: &CallersArgs, global: &Global) -> anyhow::Result<u8> {
    around(&args.function, Direction::Callers, &args.graph, global)
}

/// Runs `planish report callees`.
pub fn callees(args: &CalleesArgs, global: &Global) -> anyhow::Result<u8> {
    around(&args.function, Direction::Callees, &args.graph, global)
}

fn around(
    function: &str,
    direction: Direction,
    args: &GraphArgs,
    global: &Global,
) -> anyhow::Result<u8> {
    let source = &args.source;
    if source.recording.interactive {
        let view = if direction == Direction::Callers { View::Callers } else { View::Callees };
        let begin = Begin { view, function: Some(function), by: None };
        return interactive::run(&source.recording, &source.shown, &[], begin, global);
    }
    let recorded = args.source.recording.read(global)?;
    let selected = args.source.select(&recorded)?;
    let shape = Shape::of_function(&recorded, direction, function)
        .map_err(anyhow::Error::msg)
        .with_context(|| args.source.recording.input.display().to_string())?;
    let shape = Shape { depth: args.depth, ..shape };
    print(&selected, &shape, args.format)?;
    args.source.tell_notes(&selected, global);
    Ok(FINE)
}

/// Runs `planish report tree`.
pub fn tree(args: &TreeArgs, global: &Global) -> anyhow::Result<u8> {
    let source = &args.source;
    if source.recording.interactive {
        let begin = Begin { view: View::Tree, function: None, by: None };
        return interactive::run(&source.recording, &source.shown, &[], begin, global);
    }
    output::refuse_inputs(args.output.as_deref(), [args.source.recording.input.as_path()])?;
    if (args.emit, args.format) == (None, TreeFormat::Html) {
        return page::tree(&args.source, &args.page, args.output.as_deref(), global);
    }
    let recorded = args.source.recording.read(global)?;
    let selected = args.source.select(&recorded)?;
    let shape = Shape { direction: Direction::Calls, of: Vec::new(), depth: args.depth };
    let text = match (args.emit, args.format) {
        (Some(Stacks::Folded), _) => tell::folded(&selected),
        (None, TreeFormat::Text | TreeFormat::Html) => tell::graph_text(&selected, &shape),
        (None, TreeFormat::Json) => {
            let text = serde_json::to_string_pretty(&tell::graph_json(&selected, &shape))? + "\n";
            report::json(&text).into_owned()
        }
    };
    match &args.output {
        Some(path) => output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?,
        None => output::print(&text)?,
    }
    args.source.tell_notes(&selected, global);
    Ok(FINE)
}

fn print(selected: &Selected<'_>, shape: &Shape, format: Format) -> anyhow::Result<()> {
    match format {
        Format::Text => output::print(&tell::graph_text(selected, shape)),
        Format::Json => output::print_json(&tell::graph_json(selected, shape)),
    }
}
