//! Puts counts of instructions and calls into the functions of a profile.

use std::sync::Arc;

use image::ImageAddr;
use image::debug::{Frame, Resolved, discriminator};
use rustc_hash::FxHashMap;

use super::AttributeReport;
use super::code::Executed;
use super::names::{canonical_name, is_ambiguous};
use crate::{FunctionProfile, Location, Name, SampleProfile};

const TOP: u32 = u32::MAX;

/// A function, or an inlined copy of one, that is being filled.
struct Node {
    name: u32,
    /// The function it is inlined into, or [`TOP`].
    parent: u32,
    callsite: Location,
    total: u64,
    head: u64,
}

/// What the instructions of one inline stack add up to.
#[derive(Clone, Copy, Default)]
struct StackCount {
    /// Count × bytes.
    total: u128,
    largest: u64,
    seen: bool,
}

/// A profile in the making.
pub(super) struct Builder<'r> {
    resolved: &'r Resolved,
    fs_discriminators: bool,
    names: Vec<Name>,
    name_numbers: FxHashMap<&'r str, u32>,
    /// Number in `names` of each name of `resolved`, without suffixes.
    canonical: Vec<u32>,
    nodes: Vec<Node>,
    node_numbers: FxHashMap<(u32, Location, u32), u32>,
    bodies: FxHashMap<(u32, Location), u64>,
    targets: FxHashMap<(u32, Location, u32), u64>,
}

impl<'r> Builder<'r> {
    pub(super) fn new(resolved: &'r Resolved, fs_discriminators: bool) -> Builder<'r> {
        let mut builder = Builder {
            resolved,
            fs_discriminators,
            names: Vec::new(),
            name_numbers: FxHashMap::default(),
            canonical: Vec::new(),
            nodes: Vec::new(),
            node_numbers: FxHashMap::default(),
            bodies: FxHashMap::default(),
            targets: FxHashMap::default(),
        };
        builder.canonical =
            resolved.names.iter().map(|name| builder.name(canonical_name(name))).collect();
        builder
    }

    fn name(&mut self, name: &'r str) -> u32 {
        let next = self.names.len() as u32;
        let number = *self.name_numbers.entry(name).or_insert(next);
        if number == next {
            self.names.push(Name::Text(Arc::from(name)));
        }
        number
    }

    /// Adds the instructions; `addresses` are those that were resolved.
    pub(super) fn add_instructions(
        &mut self,
        addresses: &[ImageAddr],
        executed: &Executed,
        report: &mut AttributeReport,
    ) {
        let mut stacks = vec![StackCount::default(); self.resolved.stack_count()];
        let mut order: Vec<usize> = Vec::new();
        let mut at = 0;
        for instruction in &executed.instructions {
            // Both lists are sorted, and every instruction was resolved.
            while addresses.get(at).is_some_and(|address| *address < instruction.address) {
                at += 1;
            }
            let frames = self.resolved.frames(at);
            report.instructions += u128::from(instruction.count);
            if frames.first().is_none_or(|frame| frame.line == 0) {
                report.without_line += u128::from(instruction.count);
            }
            let Some(&id) = self.resolved.stacks.get(at) else { continue };
            let number = Resolved::stack_index(id);
            let Some(stack) = stacks.get_mut(number) else { continue };
            if !stack.seen {
                stack.seen = true;
                order.push(number);
            }
            stack.total += u128::from(instruction.count) * u128::from(instruction.bytes);
            stack.largest = stack.largest.max(instruction.count);
        }
        for number in order {
            if let Some(count) = stacks.get(number) {
                self.add_stack(self.resolved.stack_at(number), *count);
            }
        }
    }

    fn add_stack(&mut self, frames: &[Frame], count: StackCount) {
        let total = u64::try_from(count.total).unwrap_or(u64::MAX);
        let Some((node, leaf)) = self.leaf(frames, total) else { return };
        let body = count.largest.saturating_mul(self.duplication(leaf.discriminator));
        let slot = self.bodies.entry((node, self.location(leaf))).or_default();
        *slot = body.max(*slot);
    }

    /// Adds executions of a branch that entered `callee`; `source` is its position among the
    /// resolved addresses.
    pub(super) fn add_call<'s: 'r>(&mut self, source: Option<usize>, callee: &'s str, count: u64) {
        let callee = self.name(callee);
        let resolved = self.resolved;
        if let Some((node, leaf)) = source.and_then(|at| self.leaf(resolved.frames(at), 0)) {
            let slot = self.targets.entry((node, self.location(leaf), callee)).or_default();
            *slot = slot.saturating_add(count);
        }
        let node = self.node(TOP, Location::default(), callee);
        if let Some(function) = self.nodes.get_mut(node as usize) {
            function.head = function.head.saturating_add(count);
        }
    }

    /// Adds to the total of every function of a stack; returns the innermost one and its frame.
    ///
    /// A function without a name ends the stack: what is inlined into it has no place in a profile.
    fn leaf<'f>(&mut self, frames: &'f [Frame], total: u64) -> Option<(u32, &'f Frame)> {
        let mut found: Option<(u32, &Frame)> = None;
        for frame in frames.iter().rev() {
            let name = *self.canonical.get(frame.function.index())?;
            if self.names.get(name as usize).and_then(Name::as_text).is_none_or(str::is_empty) {
                break;
            }
            let (parent, callsite) = found
                .map_or((TOP, Location::default()), |(parent, caller)| {
                    (parent, self.location(caller))
                });
            let node = self.node(parent, callsite, name);
            if let Some(function) = self.nodes.get_mut(node as usize) {
                function.total = function.total.saturating_add(total);
            }
            found = Some((node, frame));
        }
        found
    }

    fn node(&mut self, parent: u32, callsite: Location, name: u32) -> u32 {
        let next = self.nodes.len() as u32;
        let number = *self.node_numbers.entry((parent, callsite, name)).or_insert(next);
        if number == next {
            self.nodes.push(Node { name, parent, callsite, total: 0, head: 0 });
        }
        number
    }

    fn location(&self, frame: &Frame) -> Location {
        location(frame, self.fs_discriminators)
    }

    fn duplication(&self, discriminator: u32) -> u64 {
        if self.fs_discriminators {
            1
        } else {
            discriminator::parts(discriminator).duplication.into()
        }
    }

    /// The profile, and how many functions were left out because many share their name.
    pub(super) fn finish(self) -> (SampleProfile, u64) {
        let name = |number: u32| self.names.get(number as usize).cloned().unwrap_or_default();
        let mut functions: Vec<FunctionProfile> = Vec::with_capacity(self.nodes.len());
        functions.extend(self.nodes.iter().map(|node| FunctionProfile {
            total: node.total,
            head: node.head,
            ..FunctionProfile::new(name(node.name))
        }));
        for ((node, at), count) in self.bodies {
            if let Some(function) = functions.get_mut(node as usize) {
                function.body.entry(at).or_default().count = count;
            }
        }
        for ((node, at, callee), count) in self.targets {
            if let Some(function) = functions.get_mut(node as usize) {
                function.body.entry(at).or_default().targets.insert(name(callee), count);
            }
        }
        let mut profile = SampleProfile::default();
        let mut left_out = 0;
        // A node comes after the one it is inlined into, so from the back every node is complete.
        for node in self.nodes.iter().rev() {
            let Some(mut function) = functions.pop() else { break };
            if function.name.as_text().is_some_and(is_ambiguous) {
                left_out += 1;
            } else if let Some(around) = functions.get_mut(node.parent as usize) {
                around
                    .callsites
                    .entry(node.callsite)
                    .or_default()
                    .insert(function.name.clone(), function);
            } else {
                raise_to_calls(&mut function);
                profile.functions.insert(function.name.clone(), function);
            }
        }
        (profile, left_out)
    }
}

/// Where a frame stands in its function. Lines are relative to the function's first line and kept
/// in 16 bits, as the compiler does it.
pub(crate) fn location(frame: &Frame, fs_discriminators: bool) -> Location {
    let discriminator = match fs_discriminators {
        true => frame.discriminator,
        false => discriminator::parts(frame.discriminator).base,
    };
    Location::new(frame.line.wrapping_sub(frame.start_line) & 0xffff, discriminator)
}

/// Some calls may be seen in branch stacks whose ranges were lost: a location ran at least as often
/// as it called.
pub(super) fn raise_to_calls(function: &mut FunctionProfile) {
    for sample in function.body.values_mut() {
        let calls = sample.targets.values().fold(0u64, |sum, count| sum.saturating_add(*count));
        sample.count = sample.count.max(calls);
    }
}
