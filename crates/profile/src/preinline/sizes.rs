//! How many bytes of code a function takes in a context, from the recorded program.
//!
//! Input: the inline stack of each instruction of the functions that ran, and the probes. Output:
//! sizes by function and the calls around it, innermost first. A context that the program does not
//! have takes the size of the longest part of it that it has, else that of the first other one. A
//! copy that has probes and no instructions was optimised away: its size is 0.
//!
//! Cost: decoding and resolving the functions that ran.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use counts::contexts::ContextCounts;
use image::code::{InstructionKind, instructions};
use image::debug::discriminator::probe_index;
use image::debug::{DebugInfo, DwarfFunction};
use image::probes::{CopyId, Guid, Probes};
use image::{Error, Image, ImageAddr};
use rustc_hash::FxHashMap;

use super::trie::{NodeId, ROOT, Trie, call_hash};
use crate::attribute::canonical_name;
use crate::{Location, name_hash};

/// A function, or what it is inlined into.
#[derive(Debug, Default)]
struct Node {
    children: BTreeMap<u64, usize>,
    size: Option<u32>,
}

/// Sizes of functions by context.
#[derive(Debug)]
pub struct CodeSizes {
    nodes: Vec<Node>,
}

impl CodeSizes {
    /// Measures the functions that were counted.
    ///
    /// # Errors
    /// Where debug information is damaged.
    pub fn of(
        image: &Image,
        debug: &DebugInfo<'_>,
        probes: &Probes,
        counts: &ContextCounts,
        threads: usize,
    ) -> Result<CodeSizes, Error> {
        let (functions, _) = debug.all_functions(threads);
        let ran = functions_that_ran(&functions, counts);
        let mut code: Vec<(ImageAddr, u8)> = Vec::new();
        for range in ran.values().flatten() {
            let all = instructions(image, range.start);
            let known = all.take_while(|next| {
                next.address < range.end && next.kind != InstructionKind::Invalid
            });
            code.extend(known.map(|instruction| (instruction.address, instruction.len)));
        }
        code.sort_unstable();
        code.dedup();
        let mut sizes = CodeSizes { nodes: vec![Node::default()] };
        sizes.add_code(debug, &code, threads)?;
        sizes.add_optimised_away(probes, &ran.into_keys().collect());
        Ok(sizes)
    }

    fn add_code(
        &mut self,
        debug: &DebugInfo<'_>,
        code: &[(ImageAddr, u8)],
        threads: usize,
    ) -> Result<(), Error> {
        let addresses: Vec<ImageAddr> = code.iter().map(|(address, _)| *address).collect();
        let resolved = debug.resolve(&addresses, threads)?;
        let mut bytes = vec![0u32; resolved.stack_count()];
        for (stack, (_, len)) in resolved.stacks.iter().zip(code) {
            if let Some(sum) = bytes.get_mut(image::debug::Resolved::stack_index(*stack)) {
                *sum = sum.saturating_add(u32::from(*len));
            }
        }
        let hashes: Vec<Option<u64>> = resolved
            .names
            .iter()
            .map(|name| (!name.is_empty()).then(|| name_hash(canonical_name(name))))
            .collect();
        for (number, bytes) in bytes.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0) {
            let frames = resolved.stack_at(number);
            let hash =
                |frame: &image::debug::Frame| hashes.get(frame.function.index()).copied().flatten();
            // A function without a name ends the stack: what is inlined into it has no context.
            let inside = frames.iter().rposition(|frame| hash(frame).is_none());
            let named = frames.get(inside.map_or(0, |at| at + 1)..).unwrap_or_default();
            let mut node = ROOT;
            for (depth, frame) in named.iter().enumerate() {
                let probe = if depth == 0 { 0 } else { probe_index(frame.discriminator) };
                node = self.child_or_new(node, hash(frame).unwrap_or(0), probe);
            }
            self.add(node, if named.is_empty() { None } else { Some(bytes) });
        }
        Ok(())
    }

    /// Makes the size of every inlined copy known that has a probe in one of these functions.
    fn add_optimised_away(&mut self, probes: &Probes, functions: &BTreeSet<&str>) {
        let mut last: FxHashMap<Guid, CopyId> = FxHashMap::default();
        for (copy, id) in probes.copies().iter().zip(probes.copy_ids()) {
            if copy.caller.is_none() {
                last.insert(copy.guid, id);
            }
        }
        let with_probes: BTreeSet<CopyId> = probes.iter().map(|probe| probe.copy).collect();
        for id in with_probes {
            let mut path: Vec<(u64, u32)> = Vec::new();
            let mut next = Some((id, 0));
            let mut outermost = id;
            while let Some((at, probe)) = next {
                let Some(copy) = probes.copy(at) else { break };
                path.push((hash_of(probes, copy.guid), probe));
                outermost = at;
                next = copy.caller;
            }
            let top = probes.copy(outermost).filter(|top| last.get(&top.guid) == Some(&outermost));
            let name = top.and_then(|top| probes.descriptor(top.guid));
            if name.is_none_or(|descriptor| !functions.contains(descriptor.name.as_str())) {
                continue;
            }
            let node = path
                .into_iter()
                .fold(ROOT, |node, (hash, probe)| self.child_or_new(node, hash, probe));
            self.add(node, Some(0));
        }
    }

    fn add(&mut self, node: usize, bytes: Option<u32>) {
        if let (Some(node), Some(bytes)) = (self.nodes.get_mut(node), bytes) {
            node.size = Some(node.size.unwrap_or(0).saturating_add(bytes));
        }
    }

    fn child_or_new(&mut self, parent: usize, guid: u64, probe: u32) -> usize {
        let next = self.nodes.len();
        let Some(node) = self.nodes.get_mut(parent) else { return ROOT };
        let key = call_hash(guid, Location::new(probe, 0));
        let id = *node.children.entry(key).or_insert(next);
        if id == next {
            self.nodes.push(Node::default());
        }
        id
    }

    /// The size of the function at a node of the contexts.
    pub(super) fn of_context(&self, trie: &Trie, node: NodeId) -> u32 {
        let (mut here, mut size) = (ROOT, None);
        let (mut next, mut at) = (node, Location::default());
        while next != ROOT {
            let Some(frame) = trie.node(next) else { break };
            let below = self
                .nodes
                .get(here)
                .and_then(|node| node.children.get(&call_hash(frame.guid, at)).copied());
            let Some(below) = below else { break };
            here = below;
            size = self.nodes.get(here).and_then(|node| node.size).or(size);
            (at, next) = (frame.callsite, frame.parent);
        }
        while size.is_none() {
            let node = self.nodes.get(here);
            let Some(first) = node.and_then(|node| node.children.values().next()) else { break };
            here = *first;
            size = self.nodes.get(here).and_then(|node| node.size);
        }
        size.unwrap_or(0)
    }
}

fn hash_of(probes: &Probes, guid: Guid) -> u64 {
    probes.descriptor(guid).map_or(guid.0, |found| name_hash(canonical_name(&found.name)))
}

/// The code of the functions that a count or a call of a context lies in, by name.
fn functions_that_ran<'f>(
    functions: &'f [DwarfFunction],
    counts: &ContextCounts,
) -> BTreeMap<&'f str, Vec<Range<ImageAddr>>> {
    let mut code: BTreeMap<ImageAddr, (ImageAddr, &DwarfFunction)> = BTreeMap::new();
    let mut of_name: BTreeMap<&str, Vec<Range<ImageAddr>>> = BTreeMap::new();
    for function in functions.iter().filter(|function| !function.name.is_empty()) {
        for range in function.ranges.iter().filter(|range| range.start < range.end) {
            code.entry(range.start).or_insert((range.end, function));
            of_name.entry(&function.name).or_default().push(range.clone());
        }
    }
    let mut ran: BTreeSet<&str> = BTreeSet::new();
    let mut add = |address: ImageAddr| {
        let found = code.range(..=address).next_back().filter(|(_, (end, _))| address < *end);
        ran.extend(found.map(|(_, (_, function))| function.name.as_str()));
    };
    for context in counts.contexts() {
        context.calls.iter().for_each(|call| add(*call));
        context.ranges.keys().for_each(|(first, _)| add(*first));
        context.branches.keys().for_each(|(from, to)| {
            add(*from);
            add(*to);
        });
    }
    of_name.retain(|name, _| ran.contains(name));
    of_name
}
