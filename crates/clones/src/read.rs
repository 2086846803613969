//! All sources of a build to one graph.

use crate::disagreements::{Disagreement, disagreements};
use crate::files::SourceFiles;
use crate::graph::{Graph, NodeId, Place, Reason, Source, UnitId};
use crate::scan::{Build, Unit};
use crate::{Error, dumps, objects, symbols};
use image::Image;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

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
pub(crate) struct End {
    pub(crate) name: String,
    pub(crate) place: Option<Place>,
}

impl End {
    /// A function whose place the source does not tell.
    pub(crate) fn named(name: &str) -> End {
        End { name: name.to_owned(), place: None }
    }
}

/// What one unit's files say.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) ties: Vec<(End, End, Reason, Source)>,
    /// Functions with code, and whether other units may hold them too.
    pub(crate) functions: Vec<(String, bool)>,
    /// Where functions are declared.
    pub(crate) places: Vec<(String, Place)>,
    pub(crate) sources: Vec<Source>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) is_clang: bool,
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
        dumps::read(dump, &mut facts)?;
    }
    if unit.is_bitcode {
        facts.is_clang = true;
    } else {
        match Image::open(&unit.object) {
            Ok(image) => objects::read(&image, &mut facts)?,
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
