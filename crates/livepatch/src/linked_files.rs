//! What programs and libraries say beyond the objects they were linked from: linkers fold identical
//! functions of different objects (`--icf`), of which the objects know nothing.
//!
//! A group of names at one address that one object has itself was made by the compiler, or by an
//! alias in the source; it ties that object's functions already. Without this rule, two static
//! functions of a header that gcc folds in each of a hundred objects would tie all hundred.

use crate::analysis::{Analysis, Skipped};
use crate::graph::{Graph, NodeId, Reason, Source, UnitId};
use crate::symbols;
use image::Image;
use std::path::Path;

/// What a linked file says.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    /// Groups of names for the same bytes.
    groups: Vec<Vec<String>>,
    /// Names that several functions at one address have.
    repeated: Vec<String>,
}

/// Reads a linked file.
pub(crate) fn read(path: &Path) -> Result<Linked, Skipped> {
    let image = Image::open(path)
        .map_err(|error| Skipped { path: path.to_owned(), reason: error.to_string() })?;
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    let groups = symbols::same_bytes(image.functions()).into_iter().map(owned).collect();
    Ok(Linked { groups, repeated: owned(symbols::repeated(&image)) })
}

/// Ties what linkers folded.
pub(crate) fn join(files: Vec<Result<Linked, Skipped>>, analysis: &mut Analysis) {
    for file in files {
        let Linked { groups, repeated } = match file {
            Ok(linked) => linked,
            Err(skipped) => {
                analysis.skipped.push(skipped);
                continue;
            }
        };
        let graph = &mut analysis.graph;
        let is_repeated = |name: &String| repeated.binary_search(name).is_ok();
        for group in groups {
            if group.iter().any(is_repeated) || !is_of_one_unit(graph, &group) {
                tie_named(graph, &group);
            }
        }
        for name in repeated {
            tie_named(graph, &[name]);
        }
    }
}

/// Ties functions that share their bytes.
pub(crate) fn tie_all(graph: &mut Graph, nodes: &[NodeId]) {
    for (from, to) in symbols::both_ways(nodes) {
        graph.tie(from, to, &Reason::SameAddress, Source::Symbols);
    }
}

fn tie_named(graph: &mut Graph, names: &[String]) {
    let nodes: Vec<NodeId> = names.iter().flat_map(|name| graph.named(name)).copied().collect();
    tie_all(graph, &nodes);
}

/// Whether one unit has all the names and knows that they share their bytes.
fn is_of_one_unit(graph: &Graph, names: &[String]) -> bool {
    let Some((first, others)) = names.split_first() else { return false };
    graph.named(first).iter().any(|&first| {
        let Some(unit) = graph.get(first).map(|node| node.unit) else { return false };
        let shared = sharing(graph, first, unit);
        others.iter().all(|name| graph.find(unit, name).is_some_and(|node| shared.contains(&node)))
    })
}

/// The functions of the unit that share their bytes with one of it.
fn sharing(graph: &Graph, first: NodeId, unit: UnitId) -> Vec<NodeId> {
    let mut found = vec![first];
    let mut next = 0;
    while let Some(&node) = found.get(next) {
        next += 1;
        for edge in graph.leaving(node) {
            let is_own = graph.get(edge.to).is_some_and(|node| node.unit == unit);
            let is_shared = matches!(edge.reason, Reason::SameAddress | Reason::Folded);
            if is_own && is_shared && edge.is_seen_by(Source::Symbols) && !found.contains(&edge.to)
            {
                found.push(edge.to);
            }
        }
    }
    found
}
