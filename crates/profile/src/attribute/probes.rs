//! How counts per address become counts per pseudo probe.
//!
//! Input: counts from branch stacks, the image's probes. Output: a profile whose locations are
//! probe numbers, with the checksum of each function, so that the compiler can tell whether the
//! numbers still mean the same blocks. The rules are those of llvm-profgen:
//! 1. Each fall-through range adds its count to every probe that stands at an instruction in it.
//!    All other probes of a function that a range begins in are recorded with 0.
//! 2. Copies of a probe (unrolled, cloned, duplicated tails) add up: each of them saw a part of the
//!    block's executions. Where lines are counted the largest stands instead, because several
//!    instructions of one line run together.
//! 3. A probe adds its count once to the total of its function and of every function that this was
//!    inlined into. What was inlined at a call without a probe counts as a function that exists on
//!    its own: its place is unknown.
//! 4. The entry probe of a function that exists on its own gives its head count.
//! 5. A branch to the first instruction of a function is a call. If its instruction has a call
//!    probe, it adds to the call target there.
//! 6. A probe of a function that exists on its own is raised to the sum of its call targets.
//!
//! Neither lines nor debug information are looked at: where a function begins and ends say its
//! symbols. Plain samples give no profile of probes, since a probe stands at one instruction of its
//! block and most samples fall on others.

use std::collections::btree_map::Entry;
use std::ops::Range;

use counts::ImageCounts;
use image::probes::{CopyId, Guid, Probe, Probes};
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;

use super::build::raise_to_calls;
use super::code::{self, Executed, KnownFunctions};
use super::names::{canonical_name, is_ambiguous};
use super::{AttributeError, AttributeOptions, AttributeReport, CountSource};
use crate::operations::add_function;
use crate::{FunctionProfile, Location, Name, SampleProfile};

/// Makes the probe profile of one image.
///
/// # Errors
/// When the image has no probes, the counts have no branch stacks, or less than
/// [`AttributeOptions::least_matched_pct`] of them falls into functions with probes: with the
/// numbers and the next step.
pub fn attribute_probes(
    image: &Image,
    probes: &Probes,
    counts: &ImageCounts,
    options: &AttributeOptions,
) -> Result<(SampleProfile, AttributeReport), AttributeError> {
    let mut report = begin(image, probes)?;
    if options.source == CountSource::Samples || !counts.has_branches() {
        let samples = counts.sample_total();
        return Err(if samples == 0 {
            AttributeError::no_counts(counts, true)
        } else {
            AttributeError::ProbesNeedBranches { path: counts.path.clone(), samples }
        });
    }
    let functions = Functions::of(probes);
    let executed = code::of_ranges(image, counts, &functions, options, &mut report);
    ensure_enough(image, &report, options)?;
    let mut builder = Builder::new(probes);
    builder.add_probes(&executed, &mut report);
    for branch in &counts.branches {
        let Some(callee) = branch.to.and_then(|to| entered(image, probes, to)) else {
            report.branches_elsewhere += u128::from(branch.count);
            continue;
        };
        report.calls += u128::from(branch.count);
        if !builder.add_call(branch.from, callee, branch.count) {
            report.calls_without_probe += u128::from(branch.count);
        }
    }
    let mut profile = complete(image, builder.finish(), &mut report)?;
    if options.symbol_list {
        let names = probes
            .descriptors()
            .iter()
            .map(|descriptor| canonical_name(&descriptor.name).to_owned());
        profile.symbol_list = names.collect();
        profile.symbol_list.sort_unstable();
        profile.symbol_list.dedup();
    }
    Ok((profile, report))
}

/// Begins the report on an image with probes.
///
/// # Errors
/// When it has none.
pub(super) fn begin(image: &Image, probes: &Probes) -> Result<AttributeReport, AttributeError> {
    if probes.is_empty() {
        return Err(AttributeError::NoProbes { path: image.path().to_owned() });
    }
    Ok(AttributeReport {
        from_branches: true,
        from_probes: true,
        unplaced_functions: probes.unplaced_functions(),
        conflicting_descriptors: probes.conflicting_descriptors(),
        ..AttributeReport::default()
    })
}

/// # Errors
/// When too little of the counts falls into functions with probes.
pub(super) fn ensure_enough(
    image: &Image,
    report: &AttributeReport,
    options: &AttributeOptions,
) -> Result<(), AttributeError> {
    let enough = report.matched.saturating_mul(100)
        >= report.counted * u128::from(options.least_matched_pct);
    if enough && report.matched > 0 {
        Ok(())
    } else {
        Err(AttributeError::few_probed(image, report))
    }
}

/// Completes a profile of probes; `initializers` is what had to be left out of it.
///
/// # Errors
/// When no function is left.
pub(super) fn complete(
    image: &Image,
    (mut profile, initializers): (SampleProfile, u64),
    report: &mut AttributeReport,
) -> Result<SampleProfile, AttributeError> {
    report.initializers = initializers;
    report.functions = profile.functions.len() as u64;
    if profile.functions.is_empty() {
        return Err(AttributeError::few_probed(image, report));
    }
    profile.fs_discriminators = image.kernel_symbol("__llvm_fs_discriminator__").is_some();
    Ok(profile)
}

/// All code of each function with probes, split-off parts included.
struct Functions<'p> {
    probes: &'p Probes,
    ranges: FxHashMap<Guid, Vec<Range<ImageAddr>>>,
}

impl<'p> Functions<'p> {
    fn of(probes: &'p Probes) -> Functions<'p> {
        let mut ranges: FxHashMap<Guid, Vec<Range<ImageAddr>>> = FxHashMap::default();
        for code in probes.code() {
            ranges.entry(code.guid).or_default().push(code.range.clone());
        }
        Functions { probes, ranges }
    }
}

impl KnownFunctions for Functions<'_> {
    fn ranges(&self, at: ImageAddr) -> Option<&[Range<ImageAddr>]> {
        self.ranges.get(&self.probes.code_at(at)?.guid).map(Vec::as_slice)
    }
}

/// The name of the function that begins at an address, also of one without probes.
pub(super) fn entered<'p>(image: &'p Image, probes: &'p Probes, at: ImageAddr) -> Option<&'p str> {
    if let Some(code) = probes.code_at(at)
        && code.range.start == at
    {
        let descriptor = probes.descriptor(code.guid).filter(|_| code.is_entry);
        return descriptor.map(|descriptor| canonical_name(&descriptor.name));
    }
    let symbol = image.functions().at(at).next()?;
    let is_part = symbol.name.ends_with(".cold") || symbol.name.contains(".part.");
    (!is_part && symbol.global).then(|| canonical_name(symbol.name))
}

/// A function, or an inlined copy of one, that is being filled.
struct Node<'p> {
    name: &'p str,
    checksum: u64,
    /// What it is inlined into, and at which call probe.
    parent: Option<(u32, u32)>,
    total: u64,
    head: u64,
}

/// A probe profile in the making.
struct Builder<'p> {
    probes: &'p Probes,
    nodes: Vec<Node<'p>>,
    /// By parent, call probe and function; several copies in the image may be one in the profile.
    node_numbers: FxHashMap<(Option<(u32, u32)>, Guid), u32>,
    /// The node of each copy of the image: not looked for yet, without a name, or known.
    node_of_copy: Vec<Option<Option<u32>>>,
    bodies: FxHashMap<(u32, Location), u64>,
    targets: FxHashMap<(u32, Location, &'p str), u64>,
}

impl<'p> Builder<'p> {
    fn new(probes: &'p Probes) -> Builder<'p> {
        Builder {
            probes,
            nodes: Vec::new(),
            node_numbers: FxHashMap::default(),
            node_of_copy: vec![None; probes.copies().len()],
            bodies: FxHashMap::default(),
            targets: FxHashMap::default(),
        }
    }

    /// The node of the function or inlined copy that a probe belongs to; `None` where that, or one
    /// around it, has no descriptor.
    fn node(&mut self, probe: &Probe) -> Option<u32> {
        let mut path = Vec::new();
        let mut next = Some(probe.copy);
        let mut around: Option<u32> = None;
        // Up to a copy whose node is known, then down again.
        while let Some(id) = next {
            match self.node_of_copy.get(id.index()).copied()? {
                Some(known) => {
                    around = Some(known?);
                    break;
                }
                None => path.push(id),
            }
            next = self.caller(id).map(|(caller, _)| caller);
        }
        let mut node = around;
        for id in path.into_iter().rev() {
            let guid = self.probes.copy(id)?.guid;
            node = match (self.caller(id), node) {
                (None, _) => self.node_under(None, guid),
                (Some((_, callsite)), Some(parent)) => {
                    self.node_under(Some((parent, callsite)), guid)
                }
                (Some(_), None) => None,
            };
            if let Some(slot) = self.node_of_copy.get_mut(id.index()) {
                *slot = Some(node);
            }
        }
        node
    }

    /// What a copy was inlined into, and where; `None` for code of its own and where the call had
    /// no probe.
    fn caller(&self, id: CopyId) -> Option<(CopyId, u32)> {
        self.probes.copy(id)?.caller.filter(|(_, callsite)| *callsite != NO_PROBE)
    }

    fn node_under(&mut self, parent: Option<(u32, u32)>, guid: Guid) -> Option<u32> {
        let descriptor = self.probes.descriptor(guid)?;
        let next = self.nodes.len() as u32;
        let number = *self.node_numbers.entry((parent, guid)).or_insert(next);
        if number == next {
            let (name, checksum) = (canonical_name(&descriptor.name), descriptor.checksum);
            self.nodes.push(Node { name, checksum, parent, total: 0, head: 0 });
        }
        Some(number)
    }

    /// Adds the probes at all instructions that ran, and at those of touched functions that did
    /// not.
    fn add_probes(&mut self, executed: &Executed, report: &mut AttributeReport) {
        let mut probes = self.probes.iter().peekable();
        for instruction in &executed.instructions {
            report.instructions += u128::from(instruction.count);
            while probes.next_if(|probe| probe.address < instruction.address).is_some() {}
            while let Some(probe) = probes.next_if(|probe| probe.address == instruction.address) {
                report.probes += u128::from(instruction.count);
                if !self.add_probe(probe, instruction.count) {
                    report.without_descriptor += u128::from(instruction.count);
                }
            }
        }
    }

    fn add_probe(&mut self, probe: &Probe, count: u64) -> bool {
        let Some(node) = self.node(probe) else { return false };
        let body = self.bodies.entry((node, location(probe))).or_default();
        *body = body.saturating_add(count);
        let mut inside = Some(node);
        while let Some(function) = inside.and_then(|number| self.nodes.get_mut(number as usize)) {
            function.total = function.total.saturating_add(count);
            if function.parent.is_none() && inside == Some(node) && probe.index == ENTRY {
                function.head = function.head.saturating_add(count);
            }
            inside = function.parent.map(|(parent, _)| parent);
        }
        true
    }

    /// Adds executions of a branch that entered `callee`; false where its instruction has no call
    /// probe.
    fn add_call(&mut self, source: Option<ImageAddr>, callee: &'p str, count: u64) -> bool {
        let at = source.map(|source| self.probes.at(source)).unwrap_or_default();
        let Some(probe) = at.iter().find(|probe| probe.kind.is_call()) else { return false };
        let Some(node) = self.node(probe) else { return false };
        let target = self.targets.entry((node, location(probe), callee)).or_default();
        *target = target.saturating_add(count);
        true
    }

    /// The profile, and how many functions were left out because many share their name.
    fn finish(self) -> (SampleProfile, u64) {
        let mut functions: Vec<FunctionProfile> = self
            .nodes
            .iter()
            .map(|node| FunctionProfile {
                total: node.total,
                head: node.head,
                checksum: Some(node.checksum),
                ..FunctionProfile::new(Name::text(node.name))
            })
            .collect();
        for ((node, at), count) in self.bodies {
            if let Some(function) = functions.get_mut(node as usize) {
                function.body.entry(at).or_default().count = count;
            }
        }
        for ((node, at, callee), count) in self.targets {
            if let Some(function) = functions.get_mut(node as usize) {
                function.body.entry(at).or_default().targets.insert(Name::text(callee), count);
            }
        }
        let mut profile = SampleProfile::default();
        let mut left_out = 0;
        // A node comes after the one it is inlined into, so from the back every node is complete.
        for node in self.nodes.iter().rev() {
            let Some(mut function) = functions.pop() else { break };
            if is_ambiguous(node.name) {
                left_out += 1;
                continue;
            }
            let siblings = match node
                .parent
                .and_then(|(parent, at)| Some((functions.get_mut(parent as usize)?, at)))
            {
                Some((around, callsite)) => {
                    around.callsites.entry(Location::new(callsite, 0)).or_default()
                }
                None => {
                    raise_to_calls(&mut function);
                    &mut profile.functions
                }
            };
            // Two names may differ in a suffix only that the profile does not keep.
            match siblings.entry(function.name.clone()) {
                Entry::Vacant(free) => drop(free.insert(function)),
                Entry::Occupied(mut same) => add_function(same.get_mut(), &function, 1),
            }
        }
        (profile, left_out)
    }
}

/// The number of a function's entry probe.
pub(super) const ENTRY: u32 = 1;

/// Stands for the call probe of a call that has none: calls while an exception is passed on.
pub(super) const NO_PROBE: u32 = 0;

/// A probe's place in a profile: its number stands where otherwise the line does.
pub(super) fn location(probe: &Probe) -> Location {
    Location::new(probe.index, probe.discriminator)
}
