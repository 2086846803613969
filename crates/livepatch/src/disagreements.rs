//! Where sources disagree on what was inlined.

use crate::analysis::Analysis;
use crate::graph::{Graph, NodeId, Reason, Source, UnitId};
use crate::symbols;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

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

impl Analysis {
    /// Inlined calls that debug information shows and the compiler's own dump does not, and the
    /// other way round; sorted.
    pub fn disagreements(&self) -> Vec<Disagreement> {
        disagreements(&self.graph)
    }
}

fn disagreements(graph: &Graph) -> Vec<Disagreement> {
    let mut covered: FxHashMap<UnitId, [bool; Source::ALL.len()]> = FxHashMap::default();
    for edge in graph.edges() {
        let Some(unit) = graph.get(edge.to).map(|node| node.unit) else { continue };
        let seen = covered.entry(unit).or_default();
        seen.iter_mut().zip(edge.seen).for_each(|(seen, count)| *seen |= count != 0);
    }
    let mut found = Vec::new();
    for edge in graph.edges().iter().filter(|edge| edge.reason == Reason::Inlined) {
        let Some((unit, has_code)) = graph.get(edge.to).map(|node| (node.unit, node.has_code))
        else {
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
                found.push(Disagreement {
                    callee: edge.from,
                    caller: edge.to,
                    says: ends.0,
                    silent: ends.1,
                });
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
        let origins =
            std::iter::successors(symbols::origin(&node.name), |(base, _)| symbols::origin(base));
        waiting.extend(origins.filter_map(|(base, _)| graph.find(node.unit, base)));
    }
    while let Some(node) = waiting.pop_front() {
        if node == to {
            return true;
        }
        let stated = |edge: &&crate::Edge| edge.is_seen_by(by) || edge.is_seen_by(Source::Symbols);
        waiting.extend(
            graph.leaving(node).filter(stated).map(|edge| edge.to).filter(|to| seen.insert(*to)),
        );
    }
    false
}
