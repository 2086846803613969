//! All sources of a build to one graph.

use crate::analysis::{Analysis, Skipped};
use crate::facts::{End, FactPlace, Facts, Tie};
use crate::files::{KnownFiles, SourceFiles};
use crate::graph::{Graph, NodeId, Place, Reason, Source, UnitId};
use crate::linked_files::{self, Linked, tie_all};
use crate::scan::{Build, Unit};
use crate::{Error, dumps, objects};
use image::Image;
use rustc_hash::FxHashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads all files of a build on `threads` threads. The same files give the same result for any
/// number of them. `done` is called with the size in bytes of each object file that was read.
///
/// # Errors
/// When a file cannot be read, or a dump has a line that is none of its kind.
pub fn analyse(
    build: &Build,
    threads: usize,
    done: &(dyn Fn(u64) + Sync),
) -> Result<Analysis, Error> {
    let (linked, units) = read_all(build, threads, done);
    let mut analysis = Analysis {
        units: build.units.iter().map(|unit| unit.name.clone()).collect(),
        objects: build.units.iter().map(|unit| unit.object.clone()).collect(),
        ..Analysis::default()
    };
    let skipped =
        |(path, reason): &(PathBuf, String)| Skipped { path: path.clone(), reason: reason.clone() };
    analysis.skipped = build.skipped.iter().map(skipped).collect();
    analysis.doubts = build.doubts.iter().map(skipped).collect();
    let mut joining = Joining::default();
    for (index, (unit, facts)) in build.units.iter().zip(units).enumerate() {
        joining.add(&mut analysis, UnitId(index as u32), unit.is_link, facts?);
    }
    joining.finish(&mut analysis.graph);
    linked_files::join(linked, &mut analysis);
    analysis.skipped.sort();
    Ok(analysis)
}

/// What a thread keeps from file to file.
#[derive(Default)]
struct Reader {
    buffer: Vec<u8>,
    files: KnownFiles,
}

/// What a linked file says, or why it says nothing.
type LinkedRead = Result<Linked, Skipped>;

/// What the linked files say, and what the units say.
fn read_all(
    build: &Build,
    threads: usize,
    told: &(dyn Fn(u64) + Sync),
) -> (Vec<LinkedRead>, Vec<Result<Facts, Error>>) {
    enum Read {
        Linked(LinkedRead),
        Unit(Box<Result<Facts, Error>>),
    }
    // Linked files first: they may be large, and the last job should be a short one.
    let before = build.linked.len();
    let read = jobs::run_with(before + build.units.len(), threads, |reader: &mut Reader, job| {
        if let Some(path) = build.linked.get(job) {
            return Some(Read::Linked(linked_files::read(path)));
        }
        let unit = build.units.get(job - before)?;
        let facts = read_unit(unit, &build.root, reader);
        told(unit.bytes);
        Some(Read::Unit(Box::new(facts)))
    });
    let (mut linked, mut units) = (Vec::new(), Vec::new());
    for read in read.into_iter().flatten() {
        match read {
            Read::Linked(groups) => linked.push(groups),
            Read::Unit(facts) => units.push(*facts),
        }
    }
    (linked, units)
}

fn read_unit(unit: &Unit, root: &Path, reader: &mut Reader) -> Result<Facts, Error> {
    let mut facts = Facts::default();
    for dump in &unit.dumps {
        dumps::read(dump, &mut facts, &mut reader.buffer)?;
    }
    if unit.is_bitcode {
        facts.is_clang = true;
        facts.is_link_time = true;
    } else {
        match Image::open(&unit.object) {
            Ok(image) => objects::read(&image, &mut facts)?,
            Err(error) => {
                facts
                    .skipped
                    .push(Skipped { path: unit.object.clone(), reason: error.to_string() });
            }
        }
    }
    let mut files = SourceFiles::new(root, &unit.object, &mut reader.files);
    facts.files.list.iter_mut().for_each(|file| *file = files.known_as(file));
    facts.sources.sort();
    facts.sources.dedup();
    Ok(facts)
}

/// The nodes of one unit's names, made when they are first needed.
struct Own {
    unit: UnitId,
    nodes: Vec<Option<NodeId>>,
}

impl Own {
    fn known(&self, name: u32) -> Option<NodeId> {
        self.nodes.get(name as usize).copied().flatten()
    }

    fn node(&mut self, graph: &mut Graph, facts: &Facts, name: u32) -> Option<NodeId> {
        let slot = self.nodes.get_mut(name as usize)?;
        if slot.is_none() {
            *slot = Some(graph.add(self.unit, facts.names.get(name)?));
        }
        *slot
    }

    fn end(&mut self, graph: &mut Graph, facts: &Facts, end: End) -> Option<NodeId> {
        let node = self.node(graph, facts, end.name)?;
        if let Some(place) = end.place {
            set_place(graph, facts, node, place);
        }
        Some(node)
    }

    fn tie(&mut self, graph: &mut Graph, facts: &Facts, tie: &Tie) {
        let ends = (self.end(graph, facts, tie.from), self.end(graph, facts, tie.to));
        if let (Some(from), Some(to)) = ends {
            graph.tie(from, to, &tie.reason, tie.source);
        }
    }
}

fn set_place(graph: &mut Graph, facts: &Facts, node: NodeId, (file, line): FactPlace) {
    if let Some(file) = facts.files.get(file) {
        graph.set_place(node, Place { file: file.clone(), line });
    }
}

/// What waits until all units are read.
#[derive(Default)]
struct Joining {
    links: Vec<(Own, Facts)>,
    weak: FxHashMap<Arc<str>, Vec<NodeId>>,
}

impl Joining {
    fn add(&mut self, analysis: &mut Analysis, unit: UnitId, is_link: bool, mut facts: Facts) {
        analysis.is_clang.push(facts.is_clang);
        analysis.link_time += usize::from(facts.is_link_time);
        analysis.skipped.append(&mut facts.skipped);
        for (covered, source) in analysis.covered.iter_mut().zip(Source::ALL) {
            *covered += usize::from(facts.sources.contains(&source));
        }
        let graph = &mut analysis.graph;
        let mut own = Own { unit, nodes: vec![None; facts.names.list.len()] };
        for &(name, is_weak) in &facts.functions {
            let Some(node) = own.node(graph, &facts, name) else { continue };
            graph.set_code(node);
            if let Some(text) = facts.names.get(name).filter(|_| is_weak) {
                self.weak.entry(text.clone()).or_default().push(node);
            }
        }
        if !is_link {
            facts.ties.iter().for_each(|tie| own.tie(graph, &facts, tie));
        }
        for &(name, place) in &facts.places {
            // Debug information declares many functions of other objects.
            if let Some(node) = own.known(name) {
                set_place(graph, &facts, node, place);
            }
        }
        if is_link {
            self.links.push((own, facts));
        }
    }

    fn finish(mut self, graph: &mut Graph) {
        join_links(graph, &mut self.links);
        // Of an inline function that several objects hold, the linker keeps one.
        let mut shared: Vec<Vec<NodeId>> =
            self.weak.into_values().filter(|nodes| nodes.len() > 1).collect();
        shared.sort();
        for nodes in shared {
            tie_all(graph, &nodes);
        }
    }
}

/// Dumps of a link name functions of all units: the ends are found again by name and place. The
/// functions of the linked program stand for those of the objects it was made of.
fn join_links(graph: &mut Graph, links: &mut [(Own, Facts)]) {
    for (own, facts) in links.iter_mut() {
        facts.ties.iter().for_each(|tie| own.tie(graph, facts, tie));
    }
    let is_link = |unit: UnitId| links.iter().any(|(own, _)| own.unit == unit);
    let linked: Vec<NodeId> =
        graph.nodes().filter(|(_, node)| is_link(node.unit)).map(|(id, _)| id).collect();
    for own in linked {
        let Some(node) = graph.get(own) else { continue };
        // Static functions of one name in several files: where the place is not known, it may be
        // any.
        let same = |other: &NodeId| {
            graph.get(*other).is_some_and(|other| {
                let apart =
                    other.place.is_some() && node.place.is_some() && other.place != node.place;
                !is_link(other.unit) && !apart
            })
        };
        let others: Vec<NodeId> = graph.named(&node.name).iter().copied().filter(same).collect();
        for other in others {
            graph.tie(other, own, &Reason::LinkTime, Source::Symbols);
            graph.tie(own, other, &Reason::LinkTime, Source::Symbols);
        }
    }
}
