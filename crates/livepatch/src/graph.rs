//! Functions, and what ties them together.

use rustc_hash::FxHashMap;
use std::sync::Arc;

/// An object file (or what link-time optimisation made of several).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u32);

/// A function of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// Where a function stands in the source.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Source file as the compiler names it.
    pub file: Arc<str>,
    /// Line of its declaration.
    pub line: u32,
}

/// A function of a unit, with or without code of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The object file.
    pub unit: UnitId,
    /// Its name for the assembler.
    pub name: Arc<str>,
    /// Where it is declared, as far as a source tells.
    pub place: Option<Place>,
    /// Whether the object file has code under this name.
    pub has_code: bool,
}

/// Why a function changes when another one does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its body was copied into the other one.
    Inlined,
    /// The other is a copy for constant arguments (`.constprop`).
    ConstantPropagation,
    /// The other is a copy with other parameters (`.isra`).
    ScalarReplacement,
    /// The other is a part split off (`.part`).
    Part,
    /// The other is its rarely executed part (`.cold`).
    Cold,
    /// The other is a copy for certain processors (`target_clones`).
    TargetClone,
    /// The two were found to be identical and share one body (identical code folding).
    Folded,
    /// The two names stand for the same bytes: an alias, or folded by compiler or linker.
    SameAddress,
    /// The other is the body of a parallel region or task (OpenMP, OpenACC).
    Outlined,
    /// The other is the same function under the name that link-time optimisation gave it.
    LinkTime,
    /// Another copy; the word is the compiler's.
    Copy(String),
}

impl Reason {
    /// The word for people, JSON and graphs.
    pub fn word(&self) -> &str {
        match self {
            Reason::Inlined => "inlined into",
            Reason::ConstantPropagation => "constprop",
            Reason::ScalarReplacement => "isra",
            Reason::Part => "part",
            Reason::Cold => "cold",
            Reason::TargetClone => "target clone",
            Reason::Folded => "folded (ICF)",
            Reason::SameAddress => "same address",
            Reason::Outlined => "outlined",
            Reason::LinkTime => "link-time",
            Reason::Copy(word) => word,
        }
    }
}

/// Where knowledge of an edge comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// gcc `-fdump-ipa-clones`.
    IpaClones,
    /// gcc `-fdump-ipa-icf-details`.
    IcfDump,
    /// The symbol table.
    Symbols,
    /// Debug information.
    Debug,
    /// clang `-fsave-optimization-record`.
    Remarks,
}

impl Source {
    /// All sources, in the order of [`Edge::seen`].
    pub const ALL: [Source; 5] =
        [Source::IpaClones, Source::IcfDump, Source::Symbols, Source::Debug, Source::Remarks];

    /// The word for people and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Source::IpaClones => "ipa-clones",
            Source::IcfDump => "icf dump",
            Source::Symbols => "symbols",
            Source::Debug => "debug info",
            Source::Remarks => "remarks",
        }
    }
}

/// A change of `from` changes `to`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The function that is changed.
    pub from: NodeId,
    /// The function that changes with it.
    pub to: NodeId,
    /// Why.
    pub reason: Reason,
    /// How often each of [`Source::ALL`] states it.
    pub seen: [u32; Source::ALL.len()],
}

impl Edge {
    /// The sources that state the edge, each with how often.
    pub fn evidence(&self) -> impl Iterator<Item = (Source, u32)> + '_ {
        Source::ALL.into_iter().zip(self.seen).filter(|(_, count)| *count != 0)
    }

    /// Whether a source states the edge.
    pub fn is_seen_by(&self, source: Source) -> bool {
        self.evidence().any(|(seen, _)| seen == source)
    }
}

/// Functions of a build and what ties them together.
#[derive(Debug, Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    known: FxHashMap<(NodeId, NodeId, Reason), u32>,
    /// The edges that leave each node.
    leaving: Vec<Chain>,
    /// For each edge the next one that leaves the same node.
    next: Vec<u32>,
    by_name: FxHashMap<Arc<str>, Vec<NodeId>>,
}

/// No edge.
const NONE: u32 = u32::MAX;

/// The first and the last edge that leaves a node.
#[derive(Debug, Clone, Copy)]
struct Chain {
    first: u32,
    last: u32,
}

impl Graph {
    /// Makes the node of a function, which the unit must not have yet.
    pub(crate) fn add(&mut self, unit: UnitId, name: &Arc<str>) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { unit, name: name.clone(), place: None, has_code: false });
        self.leaving.push(Chain { first: NONE, last: NONE });
        self.by_name.entry(name.clone()).or_default().push(id);
        id
    }

    /// The node of a function where it is known.
    pub fn find(&self, unit: UnitId, name: &str) -> Option<NodeId> {
        self.named(name)
            .iter()
            .copied()
            .find(|id| self.get(*id).is_some_and(|node| node.unit == unit))
    }

    /// The functions of this name, one per unit that has it.
    pub fn named(&self, name: &str) -> &[NodeId] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// A node; `None` for the identity of another graph's.
    pub fn get(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// All nodes.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(index, node)| (NodeId(index as u32), node))
    }

    /// All edges.
    pub fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// The edges that leave a node.
    pub fn leaving(&self, id: NodeId) -> impl Iterator<Item = &Edge> {
        let first = self.leaving.get(id.0 as usize).map(|chain| chain.first);
        let numbers = std::iter::successors(first, |edge| self.next.get(*edge as usize).copied());
        numbers.map_while(|edge| self.edges.get(edge as usize))
    }

    /// States that a function is declared at a place; the first statement stays.
    pub fn set_place(&mut self, id: NodeId, place: Place) {
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.place.get_or_insert(place);
        }
    }

    /// States that the object file has code under the node's name.
    pub fn set_code(&mut self, id: NodeId) {
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.has_code = true;
        }
    }

    /// Adds an edge, or one more place where a source states it. A function is not tied to itself.
    pub fn tie(&mut self, from: NodeId, to: NodeId, reason: &Reason, source: Source) {
        if from == to {
            return;
        }
        // What the compiler said it folded shows in the symbol table too.
        let folded = *reason == Reason::SameAddress && self.is_tied(from, to, &Reason::Folded);
        let reason = if folded { &Reason::Folded } else { reason };
        let next = self.edges.len() as u32;
        let position = *self.known.entry((from, to, reason.clone())).or_insert(next);
        if position == next {
            self.edges.push(Edge { from, to, reason: reason.clone(), seen: Default::default() });
            self.next.push(NONE);
            if let Some(chain) = self.leaving.get_mut(from.0 as usize) {
                match self.next.get_mut(chain.last as usize) {
                    Some(last) => *last = position,
                    None => chain.first = position,
                }
                chain.last = position;
            }
        }
        let edge = self.edges.get_mut(position as usize);
        let at = Source::ALL.iter().position(|known| *known == source);
        if let Some(count) = edge.zip(at).and_then(|(edge, at)| edge.seen.get_mut(at)) {
            *count = count.saturating_add(1);
        }
    }

    /// Whether `to` is known to change with `from` for this reason.
    pub fn is_tied(&self, from: NodeId, to: NodeId, reason: &Reason) -> bool {
        self.known.contains_key(&(from, to, reason.clone()))
    }
}
