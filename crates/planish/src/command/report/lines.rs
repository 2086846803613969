//! `planish report lines`: one function by source line and instruction.

use super::earlier::Earlier;
use super::filter::FilterArgs;
use super::interactive::{self, Begin};
use super::recording::{Detail, Recording, Source, open};
use super::sources::SourceFinder;
use super::symbols::Finder;
use crate::cli::{FINE, Format, Global};
use crate::output::{self, Stream};
use address_spaces::{KernelPart, MappedFile, Side};
use annotate::{Part, Request, annotate, parts};
use anyhow::{Context as _, anyhow};
use calltrees::{FunctionId, Known, LibraryId, Recorded, Site, Wanted, Weight, sites};
use counts::aggregate::{Aggregated, CountOptions, aggregate};
use counts::resolve::Rules;
use image::debug::DebugInfo;
use image::{BuildId, Image, blocks};
use perfdata::{Input, sample_type};
use report::calls::Selected;
use report::calls::lines::{self as tell, FunctionLines};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use viewer::View;

/// Show one function by source line and instruction: the samples of each and, from branch stacks,
/// how often it ran, which way its branches went and how often its loops iterated.
///
/// Percentages are of the function's own samples. A line is left out if it has less than --percent
/// both of those samples and of the function's executed instructions, or if it is not among the
/// --limit heaviest lines. The lines that are shown leave out their cold instructions. --all shows
/// everything. Executions need branch stacks: `planish record` without -e records them if it can.
#[derive(Debug, clap::Args)]
pub struct LinesArgs {
    /// The function: its linkage name, or its name as in the source, with or without arguments; in
    /// a file without symbols, an address as `planish report hot` prints it
    #[arg(value_name = "FUNCTION")]
    function: String,
    #[command(flatten)]
    source: Source,
    /// Look for source files below this directory first, by as much of the end of their recorded
    /// path as fits; repeatable
    #[arg(long = "source", value_name = "DIR")]
    sources: Vec<PathBuf>,
    /// The program or library as it was before its layout, to mark the blocks that the layout moved
    /// (both files need a map of their blocks: clang's -fbasic-block-address-map)
    #[arg(long, value_name = "FILE")]
    before: Option<PathBuf>,
    /// Show all lines and instructions, however cold
    #[arg(long)]
    all: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// Runs `planish report lines`.
pub fn lines(args: &LinesArgs, global: &Global) -> anyhow::Result<u8> {
    if args.source.recording.interactive {
        let begin = Begin { view: View::Lines, function: Some(&args.function), by: None };
        let (recording, shown) = (&args.source.recording, &args.source.shown);
        return interactive::run(recording, shown, &args.sources, begin, global);
    }
    let before = args.before.as_deref().map(Earlier::open).transpose()?;
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
    let file = File::load(&image, recording, &input, &finder, global);
    let lost = lost(&sites, function);
    let asked = (args.all, before.as_ref());
    let mut told = file.told((selected, function), (part, lost), asked, notes, global);
    if args.before.is_some() && told.annotated.moved.is_none() {
        told.notes.push(
            "--before: which blocks were moved is not known: one of the files has no map of this \
             function's blocks"
                .to_owned(),
        );
    }
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

/// A file, and what is known of its code.
struct File<'i> {
    image: &'i Arc<Image>,
    debug: Option<DebugInfo<'i>>,
    blocks: Vec<image::blocks::FunctionBlocks>,
    stacks: Option<Aggregated>,
    recording: PathBuf,
    notes: Vec<String>,
}

impl<'i> File<'i> {
    fn load(
        image: &'i Arc<Image>,
        recording: &Recording,
        input: &Input,
        finder: &Finder,
        global: &Global,
    ) -> File<'i> {
        let mut notes = Vec::new();
        let filter = &recording.part.filter;
        let stacks = stacks((&recording.input, filter), input, image, &mut notes, global);
        let debug = DebugInfo::load(image, finder.debug());
        let debug = debug.map_err(|error| notes.push(format!("debug information: {error}"))).ok();
        let blocks = match blocks::are_there(image).then(|| blocks::read(image)) {
            Some(Ok(blocks)) => blocks,
            Some(Err(error)) => {
                notes.push(format!("map of blocks: {error}"));
                Vec::new()
            }
            None => Vec::new(),
        };
        File { image, debug, blocks, stacks, recording: recording.input.clone(), notes }
    }

    /// A function of it. `lost` are samples of which no address is known.
    fn told<'r>(
        &self,
        (selected, function): (Selected<'r>, FunctionId),
        (part, lost): (Part, Weight),
        (all, before): (bool, Option<&Earlier>),
        mut notes: Vec<String>,
        global: &Global,
    ) -> FunctionLines<'r> {
        notes.extend(self.notes.iter().cloned());
        let stacks = self.stacks.as_ref();
        let name = selected.recorded.names.function(function).map(|function| &*function.name);
        let mut annotated = annotate(&Request {
            image: self.image,
            code: part.code.clone(),
            samples: &part.samples,
            counts: stacks.and_then(|stacks| stacks.of(self.image, &self.recording).ok()),
            debug: self.debug.as_ref(),
            blocks: &self.blocks,
            before: before.map(Earlier::of).zip(name),
            threads: global.threads(),
        });
        // Of a kernel module, only names are known and no addresses in its file.
        annotated.unplaced.add(lost);
        let mut own = part.weight;
        own.add(lost);
        let counts = annotated.instructions.iter().filter_map(|one| one.count);
        FunctionLines {
            selected,
            function,
            code: part.code,
            own,
            executed: counts.map(|count| count as f64).sum(),
            annotated,
            sources: Vec::new(),
            stacks: stacks.map(|stacks| stacks.counts.ledger.clone()),
            all,
            notes,
        }
    }
}

/// The functions that weigh most by themselves and whose files are at hand, at most `count`: for a
/// page, which says nothing of the others.
pub fn heaviest<'r>(
    recording: &Recording,
    input: &Input,
    selected: &Selected<'r>,
    directories: &[PathBuf],
    count: usize,
    global: &Global,
) -> Vec<FunctionLines<'r>> {
    /// What weighs less of the whole is not worth the room.
    const LEAST_PERCENT: f64 = 0.5;
    let recorded = selected.recorded;
    let sites = sites(recorded, selected.event);
    let mut own: BTreeMap<FunctionId, Weight> = BTreeMap::new();
    sites.iter().for_each(|site| own.entry(site.function).or_default().add(site.weight));
    let whole: u64 = own.values().map(|weight| weight.period).fold(0, u64::saturating_add);
    let heavy = |weight: &Weight| 100.0 * weight.period as f64 >= LEAST_PERCENT * whole as f64;
    let named =
        |id: FunctionId| recorded.names.function(id).is_some_and(|f| f.known == Known::Symbol);
    own.retain(|id, weight| heavy(weight) && named(*id));
    let mut order: Vec<(FunctionId, Weight)> = own.into_iter().collect();
    order.sort_by_key(|(id, weight)| (std::cmp::Reverse(weight.period), *id));
    let finder = Finder::new(&recording.part.symbols, &recording.input, input, global.quiet);
    // The recording was read with the same files before.
    let Ok(finder) = finder.map(|finder| finder.wanting_lines(true)) else { return Vec::new() };
    let sources = SourceFinder::new(directories, recording.part.symbols.sysroot.as_deref());
    let library = |function: FunctionId| recorded.names.function(function).map(|f| f.library);
    let mut images: BTreeMap<LibraryId, Option<Arc<Image>>> = BTreeMap::new();
    // Those beyond are there for functions whose code cannot be shown.
    for (function, _) in order.iter().take(2 * count) {
        let Some(of) = library(*function) else { continue };
        images.entry(of).or_insert_with(|| image_of(recorded, *function, &finder).ok());
    }
    let mut files: BTreeMap<LibraryId, File<'_>> = BTreeMap::new();
    let mut all = Vec::new();
    for (function, _) in order {
        if all.len() >= count {
            break;
        }
        let Some(library) = library(function) else { continue };
        let Some(image) = images.get(&library).and_then(Option::as_ref) else { continue };
        let load = || File::load(image, recording, input, &finder, global);
        let file = files.entry(library).or_insert_with(load);
        let mut notes = Vec::new();
        let part = part_of(recorded, image, function, &sites, &mut notes);
        let Ok(part) = part else { continue };
        let lost = lost(&sites, function);
        let mut told = file.told((*selected, function), (part, lost), (true, None), notes, global);
        told.sources = sources.read_all(&told.annotated.files, &told.wanted_by_page());
        all.push(told);
    }
    all
}

/// One function with all its lines.
///
/// # Errors
/// Where its file is not at hand, or has no code of it.
pub fn of_function<'r>(
    (recording, input): (&Recording, &Input),
    (selected, function): (Selected<'r>, FunctionId),
    directories: &[PathBuf],
    global: &Global,
) -> anyhow::Result<FunctionLines<'r>> {
    let finder = Finder::new(&recording.part.symbols, &recording.input, input, global.quiet)?;
    let finder = finder.wanting_lines(true);
    let sites = sites(selected.recorded, selected.event);
    let mut notes = Vec::new();
    let image = image_of(selected.recorded, function, &finder)?;
    let part = part_of(selected.recorded, &image, function, &sites, &mut notes)?;
    let file = File::load(&image, recording, input, &finder, global);
    let lost = lost(&sites, function);
    let mut told = file.told((selected, function), (part, lost), (true, None), notes, global);
    let sources = SourceFinder::new(directories, recording.part.symbols.sysroot.as_deref());
    told.sources = sources.read_all(&told.annotated.files, &told.wanted());
    Ok(told)
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
    let id = library.build_id.as_deref().and_then(BuildId::from_bytes);
    let wanted = Wanted { file: &mapped, id: id.as_ref(), kernel_runs: false };
    let opened = finder.open(wanted).map_err(|why| anyhow!("{path}: {why}"))?;
    Ok(opened.image)
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
    (path, filter): (&Path, &FilterArgs),
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
    match aggregate(path, input, &images, options, &|_| ()) {
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
