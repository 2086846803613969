//! `planish report lines`: one function by source line and instruction.

use super::recording::{Detail, Source, open};
use super::sources::SourceFinder;
use super::symbols::Finder;
use crate::cli::{FINE, Format, Global};
use crate::output::{self, Stream};
use address_spaces::{KernelPart, MappedFile, Side};
use annotate::{Part, Request, annotate, parts};
use anyhow::{Context as _, anyhow};
use calltrees::{FunctionId, Recorded, Site, Wanted, Weight, sites};
use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::resolve::Rules;
use image::debug::DebugInfo;
use image::{Image, blocks};
use perfdata::{Input, sample_type};
use report::calls::Selected;
use report::calls::lines::{self as tell, FunctionLines};
use std::path::PathBuf;
use std::sync::Arc;

/// Show one function by source line and instruction: what was sampled at each and, from branch
/// stacks, how often it ran, which way its branches went and how often its loops iterated.
///
/// Percentages are of the function's own samples. A line is left out if it has less than --percent of
/// them and of the function's executed instructions, or beyond the --limit that have most; and so
/// are cold instructions of the lines that are shown. --all shows everything. For executions, record branch stacks: `planish record`
/// without -e does where it can.
#[derive(Debug, clap::Args)]
pub struct LinesArgs {
    /// The function: its linkage name, or its name as in the source, with or without arguments; in
    /// a file without symbols, an address as `planish report hot` prints it
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[command(flatten)]
    source: Source,
    /// Look here first for source files: below this directory, by as much of the end of their
    /// recorded path as fits; repeatable
    #[arg(long = "source", value_name = "DIR")]
    sources: Vec<PathBuf>,
    /// Show all lines and instructions, however cold
    #[arg(long)]
    all: bool,
    /// How to print the result
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs `planish report lines`.
pub fn lines(args: &LinesArgs, global: &Global) -> anyhow::Result<u8> {
    let input = open(&args.source.recording.input)?;
    let recording = &args.source.recording;
    let detail = Detail { addresses: true, ..Detail::default() };
    let recorded = recording.part.read(&recording.input, &input, detail, global)?;
    let selected = args.source.select(&recorded)?;
    let finder = Finder::new(&recording.part.symbols, &recording.input, &input, global.quiet)?;
    let finder = finder.wanting_lines(true);
    let named = || recording.input.display().to_string();
    let sites = sites(&recorded, selected.event);
    let found = tell::candidates(&selected, &sites, &args.function);
    let found = found.map_err(anyhow::Error::msg).with_context(named)?;
    let mut notes = others(&selected, &found);
    let (function, _) = found.first().copied().ok_or_else(|| anyhow!("no function"))?;
    let image = image_of(&recorded, function, &finder).with_context(named)?;
    let part = part_of(&recorded, &image, function, &sites, &mut notes).with_context(named)?;
    let stacks = stacks(args, &input, &image, &mut notes, global);
    let debug = DebugInfo::load(&image, finder.debug());
    if let Err(error) = &debug {
        notes.push(format!("debug information: {error}"));
    }
    let blocks = match blocks::are_there(&image).then(|| blocks::read(&image)) {
        Some(Ok(blocks)) => blocks,
        Some(Err(error)) => {
            notes.push(format!("map of blocks: {error}"));
            Vec::new()
        }
        None => Vec::new(),
    };
    let counted =
        stacks.as_ref().and_then(|stacks| stacks.of(&image, &args.source.recording.input).ok());
    let mut annotated = annotate(&Request {
        image: &image,
        code: part.code.clone(),
        samples: &part.samples,
        counts: counted,
        debug: debug.as_ref().ok(),
        blocks: &blocks,
        threads: global.threads(),
    });
    // Of a kernel module, only names are known and no addresses in its file.
    let lost = lost(&sites, function);
    annotated.unplaced.add(lost);
    let mut own = part.weight;
    own.add(lost);
    let mut told = FunctionLines {
        selected,
        function,
        code: part.code,
        own,
        executed: annotated.instructions.iter().filter_map(|one| one.count).map(|n| n as f64).sum(),
        annotated,
        sources: Vec::new(),
        stacks: stacks.map(|stacks| stacks.counts.ledger),
        all: args.all,
        notes,
    };
    let sources =
        SourceFinder::new(&args.sources, args.source.recording.part.symbols.sysroot.as_deref());
    told.sources = sources.read_all(&told.annotated.files, &told.wanted());
    match args.format {
        Format::Text => output::print(&tell::lines_text(&told, Stream::Output.style()))?,
        Format::Json => output::print_json(&tell::lines_json(&told))?,
    }
    args.source.tell_notes(&told.selected, global);
    if !global.quiet {
        tell::lines_notes(&told).iter().for_each(|note| eprintln!("note: {note}"));
    }
    Ok(FINE)
}

/// Functions of the same name that are not shown.
fn others(selected: &Selected<'_>, found: &[(FunctionId, Weight)]) -> Vec<String> {
    let names = &selected.recorded.names;
    let other = |(id, weight): &(FunctionId, Weight)| {
        let name = names.function(*id).map(|f| report::calls::demangled(&f.name));
        let library = names.library(*id).map(|library| library.path.as_str());
        format!(
            "not shown: {} in {}, {}",
            report::visible(&name.unwrap_or_default()),
            report::visible(library.unwrap_or_default()),
            report::counted(weight.samples, "sample", "samples"),
        )
    };
    found.iter().skip(1).map(other).collect()
}

/// The file that a function lies in.
fn image_of(
    recorded: &Recorded,
    function: FunctionId,
    finder: &Finder,
) -> anyhow::Result<Arc<Image>> {
    let library = recorded.names.library(function).ok_or_else(|| anyhow!("no library"))?;
    let path = report::visible(&library.path).into_owned();
    let special = ["[JIT", "[unknown]", "[elsewhere]", "[none]", "[anon", "[heap]", "[stack"];
    if special.iter().any(|begin| path.starts_with(begin)) {
        return Err(anyhow!(
            "the function lies in {path}, of which there is no file to show; lines are shown of \
             programs, shared libraries, the kernel and its modules"
        ));
    }
    let of_kernel =
        path != "[vdso]" && (path.starts_with('[') || KernelPart::of(&path) == KernelPart::Module);
    let mapped = MappedFile {
        path: library.path.clone(),
        build_id: library.build_id.clone(),
        side: if of_kernel { Side::Kernel } else { Side::Process },
    };
    let wanted = Wanted { file: &mapped, kernel_runs: false };
    finder.open(wanted).map(Arc::new).map_err(|why| anyhow!("{path}: {why}"))
}

/// The code of the function that weighs most.
fn part_of(
    recorded: &Recorded,
    image: &Image,
    function: FunctionId,
    sites: &[Site],
    notes: &mut Vec<String>,
) -> anyhow::Result<Part> {
    let names = &recorded.names;
    let known = names.function(function).ok_or_else(|| anyhow!("no function"))?;
    let own: Vec<Site> = sites.iter().filter(|site| site.function == function).copied().collect();
    let around = calltrees::of_library(recorded, sites, known.library);
    let around: Vec<Site> = around.copied().collect();
    let mut all = parts(image, known, &own, &around).into_iter();
    let first = all.next().ok_or_else(|| {
        let (name, path) = (report::visible(&known.name), image.path().display());
        anyhow!("{path}: it has no code of {name}; the recorded file was another one")
    })?;
    let (sampled, others): (Vec<Part>, Vec<Part>) = all.partition(|part| part.weight.samples > 0);
    for other in sampled {
        let (at, samples) = (other.code.start.0, other.weight.samples);
        let samples = report::counted(samples, "sample", "samples");
        notes.push(format!("not shown: another function of that name at {at:#x}, {samples}"));
    }
    if !others.is_empty() {
        let others = report::counted(others.len() as u64, "other function", "other functions");
        notes.push(format!("{others} of that name in the file without samples"));
    }
    Ok(first)
}

/// The samples of a function whose addresses in its file are not known.
fn lost(sites: &[Site], function: FunctionId) -> Weight {
    let mut lost = Weight::default();
    let of = sites.iter().filter(|site| site.function == function && site.at.is_none());
    of.for_each(|site| lost.add(site.weight));
    lost
}

/// What branch stacks say of an image; none where the recording has none.
fn stacks(
    args: &LinesArgs,
    input: &Input,
    image: &Arc<Image>,
    notes: &mut Vec<String>,
    global: &Global,
) -> Option<Aggregated> {
    let has = input.attrs().iter().any(|attr| attr.sample_type & sample_type::BRANCH_STACK != 0);
    if !has {
        notes.push(
            "no executions: the recording has no branch stacks (`planish record --branches=…`)"
                .to_owned(),
        );
        return None;
    }
    let filter = &args.source.recording.part.filter;
    let narrow = filter.tid.is_some()
        || filter.comm.is_some()
        || filter.cgroup.is_some()
        || filter.through.is_some()
        || filter.time.is_some();
    if narrow {
        notes.push(
            "no executions: branch stacks are counted of a whole recording or of a process \
             (--pid), not with --tid, --comm, --cgroup, --through or --time"
                .to_owned(),
        );
        return None;
    }
    let options = CountOptions {
        rules: Rules::default(),
        threads: global.threads(),
        pid: filter.pid,
        paths: true,
    };
    let images = [Arc::clone(image)];
    match aggregate(&args.source.recording.input, input, &images, options, &|_| ()) {
        Ok(found) => {
            notes.extend(found.notes.iter().map(|note| format!("branch stacks: {note}")));
            Some(found)
        }
        Err(error) => {
            notes.push(format!("no executions: {error}"));
            None
        }
    }
}
