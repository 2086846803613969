//! All sources of a build to one graph, and where the sources disagree.

use crate::files::SourceFiles;
use crate::graph::{Graph, NodeId, Place, Reason, Source, UnitId};
use crate::scan::{Build, Dump, DumpKind, Unit, is_bitcode};
use crate::{Error, icf, ipa_clones, remarks, symbols};
use image::debug::{DebugInfo, SourceFunction};
use image::{DebugSearch, Image, ImageAddr};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Two sources that do not agree on an inlined function.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Disagreement {
    /// The function that was inlined.
    pub callee: NodeId,
    /// The function that holds it according to one source.
    pub caller: NodeId,
    /// The source that says so.
    pub says: Source,
    /// The source that should say so too and does not.
    pub silent: Source,
}

/// A file that was not used.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}

/// What a build says.
#[derive(Debug, Clone, Default)]
pub struct Analysis {
    /// Names of the units by [`UnitId`].
    pub units: Vec<String>,
    /// Their object files.
    pub objects: Vec<PathBuf>,
    /// The functions and what ties them.
    pub graph: Graph,
    /// How many units each of [`Source::ALL`] covers.
    pub covered: [usize; Source::ALL.len()],
    /// Where sources disagree, sorted.
    pub disagreements: Vec<Disagreement>,
    /// Files left out.
    pub skipped: Vec<Skipped>,
    /// Dumps that were used, but may be stale.
    pub doubts: Vec<Skipped>,
    /// Units that clang compiled, by [`UnitId`].
    pub is_clang: Vec<bool>,
}

/// An end of a tie as a source names it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    name: String,
    place: Option<Place>,
}

/// What one unit's files say.
#[derive(Debug, Default)]
struct Facts {
    ties: Vec<(End, End, Reason, Source)>,
    /// Functions with code, and whether other units may hold them too.
    functions: Vec<(String, bool)>,
    /// Where functions are declared.
    places: Vec<(String, Place)>,
    sources: Vec<Source>,
    skipped: Vec<Skipped>,
    is_clang: bool,
}

/// Reads all files of a build on `threads` threads. The same files give the same result for any number of them.
/// `done` is called with the size in bytes of each object file that was read.
///
/// # Errors
/// When a file cannot be read, or a dump has a line that is none of its kind.
pub fn analyse(build: &Build, threads: usize, done: &(dyn Fn(u64) + Sync)) -> Result<Analysis, Error> {
    let facts = in_parallel(build, threads, done)?;
    let mut analysis = Analysis {
        units: build.units.iter().map(|unit| unit.name.clone()).collect(),
        objects: build.units.iter().map(|unit| unit.object.clone()).collect(),
        ..Analysis::default()
    };
    let skipped = |(path, reason): &(PathBuf, String)| Skipped { path: path.clone(), reason: reason.clone() };
    analysis.skipped = build.skipped.iter().map(skipped).collect();
    analysis.doubts = build.doubts.iter().map(skipped).collect();
    let mut of_links = Vec::new();
    let mut links = Vec::new();
    let mut weak: FxHashMap<String, Vec<NodeId>> = FxHashMap::default();
    for (index, (unit, facts)) in build.units.iter().zip(facts).enumerate() {
        let id = UnitId(index as u32);
        analysis.is_clang.push(facts.is_clang);
        analysis.skipped.extend(facts.skipped);
        for (covered, source) in analysis.covered.iter_mut().zip(Source::ALL) {
            *covered += usize::from(facts.sources.contains(&source));
        }
        let graph = &mut analysis.graph;
        for (name, is_weak) in &facts.functions {
            let node = graph.node(id, name);
            graph.set_code(node);
            if *is_weak {
                weak.entry(name.clone()).or_default().push(node);
            }
        }
        if unit.is_link {
            links.push(id);
            of_links.extend(facts.ties.into_iter().map(|tie| (id, tie)));
        } else {
            for (from, to, reason, source) in facts.ties {
                let from = end(graph, id, from);
                let to = end(graph, id, to);
                graph.tie(from, to, reason, source);
            }
        }
        for (name, place) in facts.places {
            // Debug information declares many functions of other objects.
            if let Some(node) = graph.find(id, &name) {
                graph.set_place(node, place);
            }
        }
    }
    join_links(&mut analysis.graph, &links, of_links);
    // Of an inline function that several objects hold, the linker keeps one.
    let mut shared: Vec<Vec<NodeId>> = weak.into_values().filter(|nodes| nodes.len() > 1).collect();
    shared.sort();
    for nodes in shared {
        tie_all(&mut analysis.graph, &nodes);
    }
    folded_by_linker(&build.linked, &mut analysis)?;
    analysis.disagreements = disagreements(&analysis.graph);
    analysis.skipped.sort();
    Ok(analysis)
}

fn in_parallel(build: &Build, threads: usize, told: &(dyn Fn(u64) + Sync)) -> Result<Vec<Facts>, Error> {
    let units = &build.units;
    let next = Mutex::new(units.iter().enumerate());
    let done: Mutex<Vec<(usize, Result<Facts, Error>)>> = Mutex::new(Vec::with_capacity(units.len()));
    let work = || {
        loop {
            let taken = next.lock().ok().and_then(|mut next| next.next());
            let Some((index, unit)) = taken else { return };
            let facts = read_unit(unit, &build.root);
            told(unit.bytes);
            if let Ok(mut done) = done.lock() {
                done.push((index, facts));
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, facts)| facts).collect()
}

fn read_unit(unit: &Unit, root: &Path) -> Result<Facts, Error> {
    let mut facts = Facts::default();
    for dump in &unit.dumps {
        read_dump(dump, &mut facts)?;
    }
    if is_bitcode_file(&unit.object) {
        facts.is_clang = true;
    } else {
        match Image::open(&unit.object) {
            Ok(image) => read_image(&image, &mut facts)?,
            Err(error) => {
                facts.skipped.push(Skipped { path: unit.object.clone(), reason: error.to_string() });
            }
        }
    }
    let mut files = SourceFiles::new(root, &unit.object);
    for (from, to, _, _) in &mut facts.ties {
        for place in [&mut from.place, &mut to.place].into_iter().flatten() {
            place.file = files.known_as(&place.file);
        }
    }
    for (_, place) in &mut facts.places {
        place.file = files.known_as(&place.file);
    }
    facts.sources.sort();
    facts.sources.dedup();
    Ok(facts)
}

fn is_bitcode_file(path: &Path) -> bool {
    use std::io::Read as _;
    let mut head = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && is_bitcode(&head)
}

fn read_dump(dump: &Dump, facts: &mut Facts) -> Result<(), Error> {
    let io = |source| Error::Io { path: dump.path.clone(), source };
    let bytes = std::fs::read(&dump.path).map_err(io)?;
    let text = String::from_utf8_lossy(&bytes);
    let bad = |line: usize, expected| Error::Dump {
        path: dump.path.clone(),
        line,
        expected,
        found: text.lines().nth(line.saturating_sub(1)).unwrap_or_default().chars().take(80).collect(),
    };
    let source = match dump.kind {
        DumpKind::IpaClones => {
            for (number, line) in text.lines().enumerate() {
                match ipa_clones::line(line).map_err(|expected| bad(number + 1, expected))? {
                    ipa_clones::Line::Clone { from, to, reason } => {
                        let end = |named: ipa_clones::Named<'_>| End {
                            name: named.name.to_owned(),
                            place: Some(named.place()),
                        };
                        facts.ties.push((end(from), end(to), reason, Source::IpaClones));
                    }
                    ipa_clones::Line::Removal(named) => {
                        facts.places.push((named.name.to_owned(), named.place()));
                    }
                }
            }
            if !bytes.is_empty() && !bytes.ends_with(b"\n") {
                return Err(bad(text.lines().count(), "a line end after the last line"));
            }
            Source::IpaClones
        }
        DumpKind::Icf => {
            for pair in icf::unified(&text) {
                let end = |name: &str| End { name: name.to_owned(), place: None };
                let ends = [(pair.kept, pair.dropped), (pair.dropped, pair.kept)];
                for (from, to) in ends {
                    facts.ties.push((end(from), end(to), Reason::Folded, Source::IcfDump));
                }
            }
            Source::IcfDump
        }
        DumpKind::Remarks => {
            let inlined = remarks::inlined(&text)
                .map_err(|line| bad(line, "YAML documents of optimisations, each from `---` to `...`"))?;
            for call in inlined {
                let callee = End { name: call.callee, place: call.place };
                let caller = End { name: call.caller, place: call.caller_place };
                facts.ties.push((callee, caller, Reason::Inlined, Source::Remarks));
            }
            Source::Remarks
        }
    };
    facts.sources.push(source);
    Ok(())
}

fn read_image(image: &Image, facts: &mut Facts) -> Result<(), Error> {
    let functions = image.functions();
    let plain = |name: &str| End { name: name.to_owned(), place: None };
    let comment = image.section(".comment");
    facts.is_clang = comment.is_some_and(|text| text.windows(5).any(|word| word == b"clang"));
    for function in functions.iter() {
        facts.functions.push((function.name.to_owned(), function.weak));
        if let Some((base, reason)) = symbols::origin(function.name) {
            facts.ties.push((plain(base), plain(function.name), reason, Source::Symbols));
        }
    }
    if !functions.is_empty() {
        facts.sources.push(Source::Symbols);
    }
    for group in symbols::same_bytes(functions) {
        for (a, b) in pairs(&group) {
            facts.ties.push((plain(a), plain(b), Reason::SameAddress, Source::Symbols));
        }
    }
    let debug = DebugInfo::load(image, &DebugSearch::default())?;
    if debug.is_empty() {
        return Ok(());
    }
    let sources = debug.source_functions(1);
    if let Some(first) = &sources.problems.first {
        facts.skipped.push(Skipped { path: image.path().to_owned(), reason: first.clone() });
    }
    facts.sources.push(Source::Debug);
    // Debug information calls a copy like its original; the symbol table knows its own name.
    let own_name = |name: &str, address: Option<ImageAddr>| -> String {
        let at = |address| functions.at(address).map(|function| function.name);
        let names: Vec<&str> = address.into_iter().flat_map(at).collect();
        if names.contains(&name) { name.to_owned() } else { names.first().unwrap_or(&name).to_string() }
    };
    let mut names = Vec::with_capacity(sources.functions.len());
    for function in &sources.functions {
        let name = own_name(&function.name, function.address);
        if let Some(file) = &function.file {
            let place = Place { file: file.clone(), line: function.line };
            facts.places.push((function.name.clone(), place.clone()));
            // clang writes `f.avx2` as the linkage name of a copy.
            if let Some((base, _)) = symbols::origin(&function.name) {
                facts.places.push((base.to_owned(), place.clone()));
            }
            facts.places.push((name.clone(), place));
        }
        if name != function.name
            && let Some((_, reason)) = symbols::origin(&name)
        {
            facts.ties.push((plain(&function.name), plain(&name), reason, Source::Debug));
        }
        names.push(name);
    }
    outlined_by_place(&sources.functions, &names, facts);
    for call in &sources.inlined {
        if let (Some(callee), Some(caller)) =
            (names.get(call.callee as usize), names.get(call.caller as usize))
        {
            facts.ties.push((plain(callee), plain(caller), Reason::Inlined, Source::Debug));
        }
    }
    Ok(())
}

/// clang names the tasks of OpenMP without a word of the function that they stand in (`.omp_task_entry.`): it is the
/// one that begins last before them.
fn outlined_by_place(functions: &[SourceFunction], names: &[String], facts: &mut Facts) {
    let plain = |name: &str| End { name: name.to_owned(), place: None };
    let is_outlined = |name: &str| name.starts_with(".omp") || name.starts_with("__omp");
    let all = || functions.iter().zip(names);
    for (inner, name) in all().filter(|(function, name)| is_outlined(name) && function.address.is_some()) {
        let around = all().filter(|(function, name)| {
            function.file == inner.file && function.line <= inner.line && !is_outlined(name)
        });
        if let Some((_, around)) = around.max_by_key(|(function, _)| function.line) {
            facts.ties.push((plain(around), plain(name), Reason::Outlined, Source::Debug));
        }
    }
}

/// All ordered pairs next to each other, both ways: enough for a closure, and few.
fn pairs<'t>(group: &[&'t str]) -> Vec<(&'t str, &'t str)> {
    let next = group.iter().zip(group.iter().skip(1));
    next.flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect()
}

fn end(graph: &mut Graph, unit: UnitId, end: End) -> NodeId {
    let node = graph.node(unit, &end.name);
    if let Some(place) = end.place {
        graph.set_place(node, place);
    }
    node
}

/// Dumps of a link name functions of all units: the ends are found again by name and place. The functions of the linked
/// program stand for those of the objects it was made of.
fn join_links(graph: &mut Graph, links: &[UnitId], ties: Vec<(UnitId, (End, End, Reason, Source))>) {
    for (unit, (from, to, reason, source)) in ties {
        let (from, to) = (end(graph, unit, from), end(graph, unit, to));
        graph.tie(from, to, reason, source);
    }
    let linked: Vec<NodeId> =
        graph.nodes().filter(|(_, node)| links.contains(&node.unit)).map(|(id, _)| id).collect();
    for own in linked {
        let Some(node) = graph.get(own) else { continue };
        // Static functions of one name in several files: where the place is not known, it may be any.
        let same = |other: &NodeId| {
            graph.get(*other).is_some_and(|other| {
                let apart = other.place.is_some() && node.place.is_some() && other.place != node.place;
                !links.contains(&other.unit) && !apart
            })
        };
        let others: Vec<NodeId> = graph.named(&node.name).iter().copied().filter(same).collect();
        for other in others {
            graph.tie(other, own, Reason::LinkTime, Source::Symbols);
            graph.tie(own, other, Reason::LinkTime, Source::Symbols);
        }
    }
}

fn tie_all(graph: &mut Graph, nodes: &[NodeId]) {
    for (a, b) in nodes.iter().zip(nodes.iter().skip(1)) {
        graph.tie(*a, *b, Reason::SameAddress, Source::Symbols);
        graph.tie(*b, *a, Reason::SameAddress, Source::Symbols);
    }
}

/// Linkers fold identical functions of different objects (`--icf`); the object files know nothing of it.
fn folded_by_linker(linked: &[PathBuf], analysis: &mut Analysis) -> Result<(), Error> {
    for path in linked {
        let image = match Image::open(path) {
            Ok(image) => image,
            Err(error) => {
                analysis.skipped.push(Skipped { path: path.clone(), reason: error.to_string() });
                continue;
            }
        };
        for group in symbols::same_bytes(image.functions()) {
            let nodes: Vec<NodeId> =
                group.iter().flat_map(|name| analysis.graph.named(name)).copied().collect();
            tie_all(&mut analysis.graph, &nodes);
        }
    }
    Ok(())
}

/// Inlined calls that debug information shows and the compiler's own dump does not, and the other way round.
fn disagreements(graph: &Graph) -> Vec<Disagreement> {
    let mut covered: FxHashMap<UnitId, [bool; Source::ALL.len()]> = FxHashMap::default();
    for edge in graph.edges() {
        let Some(unit) = graph.get(edge.to).map(|node| node.unit) else { continue };
        let seen = covered.entry(unit).or_default();
        seen.iter_mut().zip(edge.seen).for_each(|(seen, count)| *seen |= count != 0);
    }
    let mut found = Vec::new();
    for edge in graph.edges().iter().filter(|edge| edge.reason == Reason::Inlined) {
        let Some((unit, has_code)) = graph.get(edge.to).map(|node| (node.unit, node.has_code)) else {
            continue;
        };
        let covered = covered.get(&unit).copied().unwrap_or_default();
        let is_covered =
            |source| Source::ALL.iter().zip(covered).any(|(known, seen)| *known == source && seen);
        for dump in [Source::IpaClones, Source::Remarks] {
            let ends = match (edge.is_seen_by(Source::Debug), edge.is_seen_by(dump)) {
                (true, false) if is_covered(dump) => (Source::Debug, dump),
                // Debug information knows only callers that have code.
                (false, true) if is_covered(Source::Debug) && has_code => (dump, Source::Debug),
                _ => continue,
            };
            // A way over copies or over functions in between says the same.
            if !reaches(graph, edge.from, edge.to, ends.1) {
                found.push(Disagreement { callee: edge.from, caller: edge.to, says: ends.0, silent: ends.1 });
            }
        }
    }
    found.sort();
    found
}

/// Whether one source (and the names of symbols) leads from one function to another.
fn reaches(graph: &Graph, from: NodeId, to: NodeId, by: Source) -> bool {
    let mut seen = rustc_hash::FxHashSet::default();
    let mut waiting = VecDeque::from([from]);
    // Debug information calls an inlined copy like its original.
    if let Some(node) = graph.get(from) {
        let origins = std::iter::successors(symbols::origin(&node.name), |(base, _)| symbols::origin(base));
        waiting.extend(origins.filter_map(|(base, _)| graph.find(node.unit, base)));
    }
    while let Some(node) = waiting.pop_front() {
        if node == to {
            return true;
        }
        let stated = |edge: &&crate::Edge| edge.is_seen_by(by) || edge.is_seen_by(Source::Symbols);
        waiting.extend(graph.leaving(node).filter(stated).map(|edge| edge.to).filter(|to| seen.insert(*to)));
    }
    false
}
