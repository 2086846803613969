//! How counts by calling context become a context-sensitive profile of pseudo probes.
//!
//! Input: counts by path of calls, the image's probes. Output: one function profile for each
//! context, which is the path of functions and call probes, inlined calls included. The rules are
//! those of llvm-profgen:
//! 1. A call on the path stands for its call probe and for what that is inlined into. Where it has
//!    no probe, the context begins behind it. Repeated sequences of frames become one.
//! 2. A range adds its count to each block probe in it, under the context of the range and of the
//!    calls around the probe. The other probes of the same copy are recorded with 0.
//! 3. An entry probe gives the head count. Where its function is inlined, it counts as a call at
//!    the call's probe, too: there is no branch that would.
//! 4. A branch whose instruction has a call probe adds to that probe, and where it enters a
//!    function to the call target.

use std::collections::BTreeMap;

use counts::contexts::{ContextCounts, InContext, compress_recursion};
use image::probes::{CopyId, Guid, Probe, ProbeKind, Probes};
use image::{Image, ImageAddr};
use rustc_hash::{FxHashMap, FxHashSet};

use super::names::{canonical_name, is_ambiguous};
use super::probes::{ENTRY, NO_PROBE, begin, complete, ensure_enough, entered, location};
use super::{AttributeError, AttributeOptions, AttributeReport};
use crate::context::{Context, Frame};
use crate::operations::add_function;
use crate::preinline::WAS_INLINED;
use crate::{FunctionProfile, Location, Name, SampleProfile};

/// Makes the context-sensitive probe profile of one image. No context is merged or left out yet:
/// [`leave_out_initializers`] is still to be called.
///
/// # Errors
/// When the image has no probes, or less than [`AttributeOptions::least_matched_pct`] of the counts
/// falls into functions with probes.
pub fn attribute_contexts(
    image: &Image,
    probes: &Probes,
    counts: &ContextCounts,
    options: &AttributeOptions,
) -> Result<(SampleProfile, AttributeReport), AttributeError> {
    let mut report = begin(image, probes)?;
    let mut builder = Builder::new(image, probes);
    for context in counts.contexts() {
        builder.add(context, &mut report);
    }
    ensure_enough(image, &report, options)?;
    let profile = complete(image, (builder.finish(), 0), &mut report)?;
    Ok((profile, report))
}

/// Leaves out the contexts of functions that share their name with many others; how many that were.
pub fn leave_out_initializers(profile: &mut SampleProfile) -> u64 {
    let before = profile.functions.len();
    profile
        .functions
        .retain(|name, _| !Context::of(name).function().as_text().is_some_and(is_ambiguous));
    (before - profile.functions.len()) as u64
}

/// Number of a context in the profile in the making.
type Number = usize;

/// A context that is being filled.
struct Node {
    context: Context,
    profile: FunctionProfile,
}

struct Builder<'p> {
    image: &'p Image,
    probes: &'p Probes,
    nodes: Vec<Node>,
    numbers: FxHashMap<Context, Number>,
    /// Probes of each function or inlined copy, which may stand in several places of the section.
    of_copy: FxHashMap<CopyId, Vec<u32>>,
    /// The first of all copies that are the same function inlined along the same path.
    same: Vec<CopyId>,
}

/// The way to a function from the path that was recorded, by first copy.
type Known = FxHashMap<CopyId, Option<Number>>;

impl<'p> Builder<'p> {
    fn new(image: &'p Image, probes: &'p Probes) -> Builder<'p> {
        let mut first: FxHashMap<(Option<(CopyId, u32)>, Guid), CopyId> = FxHashMap::default();
        let mut same: Vec<CopyId> = Vec::with_capacity(probes.copies().len());
        for (copy, id) in probes.copies().iter().zip(probes.copy_ids()) {
            // A copy comes after the one it is inlined into.
            let caller = copy
                .caller
                .map(|(caller, at)| (same.get(caller.index()).copied().unwrap_or(caller), at));
            same.push(*first.entry((caller, copy.guid)).or_insert(id));
        }
        let mut of_copy: FxHashMap<CopyId, Vec<u32>> = FxHashMap::default();
        for (probe, number) in probes.iter().zip(0u32..) {
            let id = same.get(probe.copy.index()).copied().unwrap_or(probe.copy);
            of_copy.entry(id).or_default().push(number);
        }
        Builder { image, probes, nodes: Vec::new(), numbers: FxHashMap::default(), of_copy, same }
    }

    /// Adds all counts of one path of calls.
    fn add(&mut self, counts: &InContext, report: &mut AttributeReport) {
        let prefix = self.prefix(&counts.calls);
        let mut known = Known::default();
        let mut executed: BTreeMap<u32, u64> = BTreeMap::new();
        let all = self.probes.iter().as_slice();
        for (&(first, last), &count) in &counts.ranges {
            report.counted += u128::from(count);
            match self.probes.code_at(first) {
                Some(_) => report.matched += u128::from(count),
                None if self.image.is_executable_address(first) => {
                    report.add_outside(self.image, first, u128::from(count))
                }
                None => report.outside_code += u128::from(count),
            }
            let begin = all.partition_point(|probe| probe.address < first);
            let in_range = all.get(begin..).unwrap_or_default().iter().zip(begin as u32..);
            for (_, number) in in_range.take_while(|(probe, _)| probe.address <= last) {
                let sum = executed.entry(number).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let mut touched: FxHashSet<(CopyId, Number)> = FxHashSet::default();
        for (number, count) in executed {
            let Some(probe) =
                all.get(number as usize).filter(|probe| probe.kind == ProbeKind::Block)
            else {
                continue;
            };
            report.probes += u128::from(count);
            match self.node(&prefix, probe, &mut known) {
                Some(node) => {
                    touched.insert((self.same_as(probe.copy), node));
                    self.add_block(node, probe, count);
                }
                None => report.without_descriptor += u128::from(count),
            }
        }
        for (copy, node) in touched {
            let probes = self.of_copy.get(&copy).map(Vec::as_slice).unwrap_or_default();
            let Some(node) = self.nodes.get_mut(node) else { continue };
            for probe in probes.iter().filter_map(|number| all.get(*number as usize)) {
                node.profile.body.entry(location(probe)).or_default();
            }
        }
        for (&(from, to), &count) in &counts.branches {
            self.add_branch(&prefix, (from, to), count, &mut known, report);
        }
    }

    fn add_block(&mut self, number: Number, probe: &Probe, count: u64) {
        let Some(node) = self.nodes.get_mut(number) else { return };
        let profile = &mut node.profile;
        let sample = profile.body.entry(location(probe)).or_default();
        sample.count = sample.count.saturating_add(count);
        profile.total = profile.total.saturating_add(count);
        if probe.index != ENTRY {
            return;
        }
        profile.head = profile.head.saturating_add(count);
        let name = profile.name.clone();
        let inlined_into = self.probes.copy(probe.copy).and_then(|copy| copy.caller);
        let Some((caller, at)) = node.context.caller() else { return };
        let Some((copy, _)) = inlined_into else { return };
        let Some(caller) = self.probes.copy(copy).and_then(|copy| self.context(caller, copy.guid))
        else {
            return;
        };
        self.add_call(caller, at, at, Some(&name), count);
    }

    fn add_branch(
        &mut self,
        prefix: &[Frame],
        (from, to): (ImageAddr, ImageAddr),
        count: u64,
        known: &mut Known,
        report: &mut AttributeReport,
    ) {
        let callee = entered(self.image, self.probes, to);
        *(if callee.is_some() { &mut report.calls } else { &mut report.branches_elsewhere }) +=
            u128::from(count);
        let call = self.probes.at(from).iter().find(|probe| probe.kind.is_call());
        let node = call.and_then(|probe| Some((probe, self.node(prefix, probe, known)?)));
        let Some((probe, node)) = node else {
            report.calls_without_probe += if callee.is_some() { u128::from(count) } else { 0 };
            return;
        };
        let callee = callee.map(Name::text);
        self.add_call(node, Location::new(probe.index, 0), location(probe), callee.as_ref(), count);
    }

    /// Adds to a call probe and, where it is known, to its target.
    fn add_call(
        &mut self,
        node: Number,
        at: Location,
        target_at: Location,
        callee: Option<&Name>,
        count: u64,
    ) {
        let Some(node) = self.nodes.get_mut(node) else { return };
        let profile = &mut node.profile;
        profile.total = profile.total.saturating_add(count);
        let sample = profile.body.entry(at).or_default();
        sample.count = sample.count.saturating_add(count);
        if let Some(callee) = callee {
            let targets = &mut profile.body.entry(target_at).or_default().targets;
            let target = targets.entry(callee.clone()).or_default();
            *target = target.saturating_add(count);
        }
    }

    /// The frames that the calls on a path stand for, outermost first; they begin behind a call
    /// without a probe.
    fn prefix(&self, calls: &[ImageAddr]) -> Vec<Frame> {
        let call_probe =
            |call: &ImageAddr| self.probes.at(*call).iter().find(|probe| probe.kind.is_call());
        let mut on_path: Vec<&Probe> = calls.iter().rev().map_while(call_probe).collect();
        on_path.reverse();
        let mut frames = Vec::new();
        for probe in on_path {
            self.push_inlined(&mut frames, probe);
        }
        frames
    }

    /// Appends the calls around a probe, outermost first, and the probe itself. What lies outside a
    /// call without a probe, or in a function without a name, is unknown.
    fn push_inlined(&self, frames: &mut Vec<Frame>, probe: &Probe) {
        let own = (self.probes.guid(probe), probe.index);
        let stack: Vec<(Guid, u32)> =
            std::iter::once(own).chain(self.probes.inline_stack(probe)).collect();
        for (at, (guid, index)) in stack.into_iter().enumerate().rev() {
            match self.name(guid) {
                Some(function) if at == 0 || index != NO_PROBE => {
                    frames.push(Frame { function, location: Location::new(index, 0) });
                }
                _ => frames.clear(),
            }
        }
    }

    fn name(&self, guid: Guid) -> Option<Name> {
        self.probes.descriptor(guid).map(|descriptor| Name::text(canonical_name(&descriptor.name)))
    }

    fn same_as(&self, copy: CopyId) -> CopyId {
        self.same.get(copy.index()).copied().unwrap_or(copy)
    }

    /// The context of the function or copy that a probe belongs to, under a path of calls.
    fn node(&mut self, prefix: &[Frame], probe: &Probe, known: &mut Known) -> Option<Number> {
        let copy = self.same_as(probe.copy);
        if let Some(node) = known.get(&copy) {
            return *node;
        }
        let mut frames = prefix.to_vec();
        self.push_inlined(&mut frames, probe);
        let node = frames.pop().and_then(|leaf| {
            compress_recursion(&mut frames);
            self.context(Context::new(frames, leaf.function), self.probes.guid(probe))
        });
        if let (Some(node), Some(_)) = (
            node.and_then(|n| self.nodes.get_mut(n)),
            self.probes.copy(probe.copy).and_then(|c| c.caller),
        ) {
            node.profile.attributes |= WAS_INLINED;
        }
        known.insert(copy, node);
        node
    }

    /// The number of a context of a function.
    fn context(&mut self, context: Context, function: Guid) -> Option<Number> {
        if let Some(number) = self.numbers.get(&context) {
            return Some(*number);
        }
        let checksum = Some(self.probes.descriptor(function)?.checksum);
        let profile = FunctionProfile { checksum, ..FunctionProfile::new(context.function()) };
        self.numbers.insert(context.clone(), self.nodes.len());
        self.nodes.push(Node { context, profile });
        Some(self.nodes.len() - 1)
    }

    fn finish(self) -> SampleProfile {
        let mut profile = SampleProfile { context_sensitive: true, ..SampleProfile::default() };
        for node in self.nodes {
            let attributes = node.profile.attributes;
            let own = profile.function(&node.context.name());
            add_function(own, &node.profile, 1);
            own.attributes |= attributes;
        }
        profile
    }
}
