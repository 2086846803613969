//! Ties that no source can prove: what a caller or a callee may rely on without holding any code of
//! the other.
//!
//! gcc lets a caller use registers that the callee leaves alone, drop calls of pure functions, and
//! assume ranges of arguments. Nothing in the files says where it did. So the direct callers and
//! callees in the same unit are named, with the flags that would rule the reliance out.

use crate::analysis::Analysis;
use crate::graph::{Graph, NodeId};
use image::Image;
use image::code::{InstructionKind, instructions};
use std::collections::{BTreeMap, BTreeSet};

/// On which side of the call the other function stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Relation {
    /// It calls the function, and may rely on what the function does.
    Caller,
    /// The function calls it, and it may rely on the arguments.
    Callee,
}

/// What gcc may rely on, by side, with the flag that rules it out.
pub const RELIANCES: [(Relation, &str, &str); 10] = [
    (Relation::Caller, "registers left alone (IPA-RA)", "-fno-ipa-ra"),
    (Relation::Caller, "no side effects (pure, const)", "-fno-ipa-pure-const"),
    (Relation::Caller, "memory left alone (modref)", "-fno-ipa-modref"),
    (Relation::Caller, "static variables left alone (reference)", "-fno-ipa-reference"),
    (Relation::Caller, "stack alignment needed", "-fno-ipa-stack-alignment"),
    (Relation::Caller, "range of the result (VRP)", "-fno-ipa-vrp"),
    (Relation::Callee, "range of arguments (VRP)", "-fno-ipa-vrp"),
    (Relation::Callee, "bits of arguments (bit-cp)", "-fno-ipa-bit-cp"),
    (Relation::Callee, "constant arguments (cp)", "-fno-ipa-cp"),
    (Relation::Callee, "called seldom, once or at start only (profile)", "-fno-ipa-profile"),
];

/// What rules all of it out where there are no flags: clang 22 has none, and even `optnone` on the
/// function called lets callers use the constant that it returns.
pub const CLANG_REMEDY: &str =
    "clang: __attribute__((weak)), or -fPIC -fsemantic-interposition; neither for static functions";

/// A function that may rely on one of a closure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Possible {
    /// The member.
    pub member: NodeId,
    /// The other function.
    pub other: NodeId,
    /// On which side it stands.
    pub relation: Relation,
}

/// Direct callers and callees of the members in their units that are no members themselves. Object
/// files that cannot be read any more give none.
pub fn possible(analysis: &Analysis, members: &[NodeId]) -> Vec<Possible> {
    let graph = &analysis.graph;
    let inside: BTreeSet<NodeId> = members.iter().copied().collect();
    let mut by_unit: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
    for &member in members {
        if let Some(node) = graph.get(member).filter(|node| node.has_code) {
            by_unit.entry(node.unit.0).or_default().push(member);
        }
    }
    let mut found = BTreeSet::new();
    for unit in by_unit.keys() {
        let Some(image) =
            analysis.objects.get(*unit as usize).and_then(|path| Image::open(path).ok())
        else {
            continue;
        };
        for (from, to) in calls(&image, graph, *unit) {
            match (inside.contains(&from), inside.contains(&to)) {
                (true, false) => {
                    found.insert(Possible { member: from, other: to, relation: Relation::Callee })
                }
                (false, true) => {
                    found.insert(Possible { member: to, other: from, relation: Relation::Caller })
                }
                _ => continue,
            };
        }
    }
    found.into_iter().collect()
}

/// Direct calls and tail calls between functions of an object file, each once.
fn calls(image: &Image, graph: &Graph, unit: u32) -> BTreeSet<(NodeId, NodeId)> {
    let functions = image.functions();
    let node = |name: &str| graph.find(crate::UnitId(unit), name);
    let mut found = BTreeSet::new();
    let mut last = None;
    for function in functions.iter() {
        // Aliases have the same code.
        if last == Some(function.address) {
            continue;
        }
        last = Some(function.address);
        let Some(from) = node(function.name) else { continue };
        let own =
            instructions(image, function.address).take_while(|at| at.address < function.end());
        for instruction in own {
            use InstructionKind::{Call, ConditionalBranch, UnconditionalBranch};
            let Some(target) = instruction.target else { continue };
            let leaves = target < function.address || target >= function.end();
            if leaves && matches!(instruction.kind, Call | UnconditionalBranch | ConditionalBranch)
            {
                let callees = functions.at(target).filter_map(|callee| node(callee.name));
                found.extend(callees.map(|to| (from, to)));
            }
        }
    }
    found
}
