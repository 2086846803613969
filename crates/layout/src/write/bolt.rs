//! Counts for BOLT: the branch profile (fdata) that perf2bolt would write, and the text that
//! perf2bolt reads (`-pa`).
//!
//! A line of fdata is one branch or one fall-through of a block into the next, ends as (kind,
//! function, offset in hex):
//!
//! ```text
//! 1 main 54 1 work 0 0 101        from main+0x54 to the entry of work, 0 mispredicted, 101 taken
//! 0 [unknown] 0 1 cmp/1 0 0 331   a call from outside into the static function cmp
//! ```
//! Static functions are numbered among those of their name, by address. Blocks are found by
//! decoding: a block begins at the target of a direct branch, after a branch (but not at a jump
//! right after a conditional one), and where a branch of the recording went. Returns are left out,
//! except that a return to the first instruction of a block counts as falling into it from the call
//! before it. Cost: one decoding of every function that was counted. Source: LLVM 22,
//! `bolt/docs/profiles.md`, and perf2bolt-22's output from the same recordings.

use super::Error;
use counts::{Branch, FallThrough, ImageCounts};
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::ops::Bound;

/// What became of the counts on the way to fdata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FdataReport {
    /// Taken branches that entered, as executions.
    pub branches: u64,
    /// Of them written.
    pub branches_written: u64,
    /// Of them returns, which BOLT has no use for.
    pub returns: u64,
    /// Of them with an end that no function covers, or that leave the image.
    pub outside: u64,
    /// Fall-through ranges that entered, as executions.
    pub ranges: u64,
    /// Of them whose blocks were all found.
    pub ranges_used: u64,
    /// Of them that leave their function, or whose ends are no instructions of it.
    pub ranges_unused: u64,
    /// Functions that lines are about.
    pub functions: usize,
}

/// The pre-aggregated text: `B from to count mispredicted`, `F first last count`, or `E`, `S
/// address count` where the counts hold no branches.
///
/// Ranges that were entered by a return are `r first last count`, so that BOLT knows the block of
/// the call before them to go on into them; a branch from elsewhere into the middle of a function
/// is taken for a return.
pub fn preaggregated(image: &Image, counts: &ImageCounts) -> String {
    let mut out = String::new();
    let end = |end: Option<ImageAddr>| {
        end.map_or_else(|| "X:0".to_owned(), |address| format!("{:x}", address.0))
    };
    let functions = image.functions();
    let start = |address: ImageAddr| functions.find(address).map(|function| function.address);
    let mut returns: FxHashMap<ImageAddr, u64> = FxHashMap::default();
    for branch in &counts.branches {
        let (from, to) = (end(branch.from), end(branch.to));
        let _ = writeln!(out, "B {from} {to} {} {}", branch.count, branch.mispredicted);
        if let Some(to) = branch.to
            && let Some(function) = start(to)
            && to != function
            && branch.from.and_then(start) != Some(function)
        {
            let sum = returns.entry(to).or_default();
            *sum = sum.saturating_add(branch.count);
        }
    }
    for range in &counts.fall_throughs {
        let left = returns.entry(range.first).or_default();
        let returned = range.count.min(*left);
        *left -= returned;
        for (kind, count) in [('r', returned), ('F', range.count - returned)] {
            if count > 0 {
                let _ = writeln!(out, "{kind} {:x} {:x} {count}", range.first.0, range.last.0);
            }
        }
    }
    if !counts.has_branches() {
        out.push_str("E cycles\n");
        for sample in &counts.samples {
            let _ = writeln!(out, "S {:x} {}", sample.address.0, sample.count);
        }
    }
    out
}

/// The branch profile, lines sorted by function and offset.
///
/// # Errors
/// Where nothing of the image can be decoded.
pub fn fdata(image: &Image, counts: &ImageCounts) -> Result<(String, FdataReport), Error> {
    Ok(written(image, counts)?.finish(None))
}

/// What BOLT needs to place the functions that no address map covers, in a program that was linked
/// again and whose other functions look different now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// The branch profile of these functions alone: an end in any other function is unknown.
    pub fdata: String,
    /// Their names as BOLT has them, one a line, by address (`-funcs-file-no-regex`).
    pub functions: String,
    /// What became of the counts.
    pub report: FdataReport,
}

/// The branch profile of the functions that were counted and whose blocks the address map does not
/// know: `mapped` are the addresses of those that it knows. Empty texts where there are none.
///
/// # Errors
/// Where nothing of the image can be decoded.
pub fn rest(
    image: &Image,
    counts: &ImageCounts,
    mapped: &BTreeSet<ImageAddr>,
) -> Result<Rest, Error> {
    let writer = written(image, counts)?;
    let unmapped = writer.functions.keys().filter(|&&start| !mapped.contains(&ImageAddr(start)));
    let unmapped: BTreeSet<u64> = unmapped.copied().collect();
    let names = unmapped.iter().filter_map(|start| writer.names.get(start));
    let functions = names.map(|name| format!("{name}\n")).collect();
    let (fdata, report) = writer.finish(Some(&unmapped));
    Ok(Rest { fdata, functions, report })
}

/// All lines of the branch profile.
fn written<'i>(image: &'i Image, counts: &ImageCounts) -> Result<Writer<'i>, Error> {
    if !counts.has_branches() {
        return Err(Error::NoBranches);
    }
    let mut writer = Writer {
        image,
        names: names(image),
        functions: BTreeMap::new(),
        targets: counts.branches.iter().filter_map(|branch| branch.to).collect(),
        lines: BTreeMap::new(),
        report: FdataReport::default(),
    };
    for branch in &counts.branches {
        writer.branch(branch);
    }
    for range in &counts.fall_throughs {
        writer.range(range);
    }
    let first = counts.fall_throughs.first().map(|range| range.first);
    let first =
        first.or_else(|| counts.branches.iter().find_map(|branch| branch.from.or(branch.to)));
    if let (Some(address), true) = (first, writer.functions.values().all(|f| f.code.is_empty())) {
        return Err(Error::NoCode { address });
    }
    Ok(writer)
}

/// The name of each function as BOLT has it, by address.
fn names(image: &Image) -> FxHashMap<u64, String> {
    let mut seen: FxHashMap<&str, u32> = FxHashMap::default();
    let mut names: FxHashMap<u64, String> = FxHashMap::default();
    for function in image.functions().iter() {
        // A blank would end the field.
        let escaped = function.name.replace('\\', "\\\\").replace(' ', "\\ ");
        let name = if function.global {
            escaped
        } else {
            let number = seen.entry(function.name).or_default();
            *number += 1;
            format!("{escaped}/{number}")
        };
        names.entry(function.address.0).or_insert(name);
    }
    names
}

/// The instructions of a function and where its blocks begin.
#[derive(Default)]
struct Code {
    start: u64,
    end: u64,
    /// Address and kind.
    code: Vec<(u64, InstructionKind)>,
    leaders: BTreeSet<u64>,
}

/// An end of a line: the function's address and the offset in it; `None` for the unknown.
type End = Option<(u64, u64)>;

struct Writer<'i> {
    image: &'i Image,
    names: FxHashMap<u64, String>,
    functions: BTreeMap<u64, Code>,
    targets: BTreeSet<ImageAddr>,
    /// Mispredicted and taken, by ends.
    lines: BTreeMap<(End, End), (u64, u64)>,
    report: FdataReport,
}

impl Writer<'_> {
    /// The start of the function around an address, decoded when first met.
    fn function(&mut self, address: ImageAddr) -> Option<u64> {
        let function = self.image.functions().find(address)?;
        let start = function.address.0;
        if !self.functions.contains_key(&start) {
            let code = self.decode(function.address, function.end());
            self.functions.insert(start, code);
        }
        Some(start)
    }

    fn decode(&self, start: ImageAddr, end: ImageAddr) -> Code {
        let mut found = Code { start: start.0, end: end.0, ..Code::default() };
        found.leaders.insert(start.0);
        let mut after_conditional = None;
        for instruction in instructions(self.image, start) {
            if instruction.address >= end || instruction.kind == InstructionKind::Invalid {
                break;
            }
            let next = instruction.address.0.saturating_add(u64::from(instruction.len));
            found.code.push((instruction.address.0, instruction.kind));
            let conditional = instruction.kind == InstructionKind::ConditionalBranch;
            if conditional || instruction.kind == InstructionKind::UnconditionalBranch {
                found
                    .leaders
                    .extend(instruction.target.filter(|t| (start..end).contains(t)).map(|t| t.0));
            }
            // A jump that follows a conditional one ends the same block: it is the other way out of
            // it.
            if after_conditional == Some(instruction.address)
                && instruction.kind != InstructionKind::UnconditionalBranch
            {
                found.leaders.insert(instruction.address.0);
            }
            after_conditional = conditional.then_some(ImageAddr(next));
            if !conditional && instruction.kind.ends_straight_line() {
                found.leaders.insert(next);
            }
        }
        // Entries of jump tables are known by who went there; returns go into blocks, not to them.
        for &target in self.targets.range(start..end) {
            let after_call = found.before(target).is_some_and(|(_, kind)| is_call(kind));
            if !after_call && found.kind_at(target).is_some() {
                found.leaders.insert(target.0);
            }
        }
        found
    }

    fn kind_at(&self, function: u64, address: ImageAddr) -> Option<InstructionKind> {
        self.functions.get(&function)?.kind_at(address)
    }

    fn branch(&mut self, branch: &Branch) {
        self.report.branches = self.report.branches.saturating_add(branch.count);
        let from = branch.from.and_then(|from| Some((self.function(from)?, from)));
        let to = branch.to.and_then(|to| Some((self.function(to)?, to)));
        let is_return = from
            .and_then(|(function, address)| self.kind_at(function, address))
            .is_some_and(|kind| kind == InstructionKind::Return);
        let Some((to_function, to)) = to else {
            let sum = if is_return { &mut self.report.returns } else { &mut self.report.outside };
            *sum = sum.saturating_add(branch.count);
            return;
        };
        let other_function = from.is_none_or(|(function, _)| function != to_function);
        if (is_return || other_function) && to.0 != to_function {
            self.continue_after_call(to_function, to, branch.count);
        }
        if is_return {
            self.report.returns = self.report.returns.saturating_add(branch.count);
            return;
        }
        self.report.branches_written = self.report.branches_written.saturating_add(branch.count);
        let end =
            |(function, address): (u64, ImageAddr)| (function, address.0.saturating_sub(function));
        self.line(from.map(end), Some(end((to_function, to))), branch.mispredicted, branch.count);
    }

    /// Who comes back to the start of a block has fallen into it from the call before.
    fn continue_after_call(&mut self, function: u64, to: ImageAddr, count: u64) {
        let Some(code) = self.functions.get(&function) else { return };
        if !code.leaders.contains(&to.0) {
            return;
        }
        if let Some((call, kind)) = code.before(to)
            && is_call(kind)
        {
            self.line(
                Some((function, call - function)),
                Some((function, to.0 - function)),
                0,
                count,
            );
        }
    }

    fn range(&mut self, range: &FallThrough) {
        self.report.ranges = self.report.ranges.saturating_add(range.count);
        let function = self.function(range.first);
        let found = function.and_then(|function| self.functions.get(&function));
        let inside = found.filter(|code| {
            range.first <= range.last
                && range.last.0 < code.end
                && code.kind_at(range.first).is_some()
                && code.kind_at(range.last).is_some()
        });
        let Some(code) = inside else {
            self.report.ranges_unused = self.report.ranges_unused.saturating_add(range.count);
            return;
        };
        let start = code.start;
        let passed: Vec<(u64, u64)> = code
            .leaders
            .range((Bound::Excluded(range.first.0), Bound::Included(range.last.0)))
            .filter_map(|&leader| Some((code.before(ImageAddr(leader))?.0, leader)))
            .collect();
        for (last, leader) in passed {
            self.line(Some((start, last - start)), Some((start, leader - start)), 0, range.count);
        }
        self.report.ranges_used = self.report.ranges_used.saturating_add(range.count);
    }

    fn line(&mut self, from: End, to: End, mispredicted: u64, count: u64) {
        let sum = self.lines.entry((from, to)).or_default();
        *sum = (sum.0.saturating_add(mispredicted), sum.1.saturating_add(count));
    }

    /// The text: of all functions, or of `only` these.
    fn finish(mut self, only: Option<&BTreeSet<u64>>) -> (String, FdataReport) {
        let mut out = String::new();
        let mut functions = BTreeSet::new();
        let wanted = |(start, _): &(u64, u64)| only.is_none_or(|only| only.contains(start));
        // Ends that are made unknown may make lines equal.
        let mut lines: BTreeMap<(End, End), (u64, u64)> = BTreeMap::new();
        for ((from, to), (mispredicted, count)) in std::mem::take(&mut self.lines) {
            let ends = (from.filter(wanted), to.filter(wanted));
            if only.is_none() || ends != (None, None) {
                let sum = lines.entry(ends).or_default();
                *sum = (sum.0.saturating_add(mispredicted), sum.1.saturating_add(count));
            }
        }
        for ((from, to), (mispredicted, count)) in lines {
            let end = |end: End| match end
                .and_then(|(function, offset)| Some((self.names.get(&function)?, offset)))
            {
                Some((name, offset)) => format!("1 {name} {offset:x}"),
                None => "0 [unknown] 0".to_owned(),
            };
            functions.extend([from, to].into_iter().flatten().map(|(function, _)| function));
            let _ = writeln!(out, "{} {} {mispredicted} {count}", end(from), end(to));
        }
        self.report.functions = functions.len();
        (out, self.report)
    }
}

impl Code {
    fn position(&self, address: ImageAddr) -> usize {
        self.code.partition_point(|&(start, _)| start < address.0)
    }

    fn kind_at(&self, address: ImageAddr) -> Option<InstructionKind> {
        self.code
            .get(self.position(address))
            .filter(|&&(start, _)| start == address.0)
            .map(|&(_, kind)| kind)
    }

    /// The instruction before an address.
    fn before(&self, address: ImageAddr) -> Option<(u64, InstructionKind)> {
        self.code.get(self.position(address).checked_sub(1)?).copied()
    }
}

fn is_call(kind: InstructionKind) -> bool {
    matches!(kind, InstructionKind::Call | InstructionKind::IndirectCall)
}
