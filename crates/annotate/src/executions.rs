//! How often did each instruction run, and which way did each branch go, by branch stacks?
//!
//! A stack of n entries has n branches and n − 1 stretches of code between them. Executions, taken
//! and not taken are counted in stretches alone, so that they fit each other: a branch was taken
//! where a stretch ends at it, and not taken where one goes on behind it. Where branches went and
//! how many were mispredicted comes from the entries.

use crate::{Instruction, position};
use counts::ImageCounts;
use image::ImageAddr;
use image::code::InstructionKind;
use rustc_hash::FxHashMap;

/// A place that a branch went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Where; none outside the image.
    pub to: Option<ImageAddr>,
    /// Entries of branch stacks.
    pub count: u64,
}

/// A branch, call or return that branch stacks saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its address.
    pub address: ImageAddr,
    /// What it is.
    pub kind: InstructionKind,
    /// Stretches that end at it.
    pub taken: u64,
    /// Stretches that go on behind it.
    pub not_taken: u64,
    /// Entries of branch stacks.
    pub entries: u64,
    /// Those of them that were mispredicted; 0 where the recording does not tell.
    pub mispredicted: u64,
    /// Where it went, most often first.
    pub targets: Vec<Target>,
}

impl Branch {
    /// How much of its executions was taken, in per cent.
    pub fn taken_percent(&self) -> Option<f64> {
        let all = self.taken.saturating_add(self.not_taken);
        (all > 0).then(|| 100.0 * self.taken as f64 / all as f64)
    }

    /// How much of its entries was mispredicted, in per cent.
    pub fn mispredicted_percent(&self) -> f64 {
        100.0 * self.mispredicted as f64 / self.entries.max(1) as f64
    }
}

/// Counts the executions of each instruction: one pass over the ranges, one over the instructions.
pub(crate) fn count(instructions: &mut [Instruction], counts: &ImageCounts) {
    let mut steps = vec![0i128; instructions.len() + 1];
    for range in &counts.fall_throughs {
        let from = instructions.partition_point(|one| one.address < range.first);
        let to = instructions.partition_point(|one| one.address <= range.last);
        if from < to {
            for (at, step) in [(from, 1), (to, -1)] {
                if let Some(slot) = steps.get_mut(at) {
                    *slot += step * i128::from(range.count);
                }
            }
        }
    }
    let mut running = 0i128;
    for (instruction, step) in instructions.iter_mut().zip(steps) {
        running += step;
        instruction.count = Some(u64::try_from(running.max(0)).unwrap_or(u64::MAX));
    }
}

/// The branches, by address.
pub(crate) fn branches(instructions: &[Instruction], counts: &ImageCounts) -> Vec<Branch> {
    let mut ends: FxHashMap<ImageAddr, u64> = FxHashMap::default();
    for range in &counts.fall_throughs {
        let sum = ends.entry(range.last).or_default();
        *sum = sum.saturating_add(range.count);
    }
    let mut found: Vec<Branch> = Vec::new();
    for instruction in instructions.iter().filter(|one| one.kind.is_transfer()) {
        let address = instruction.address;
        let taken = ends.get(&address).copied().unwrap_or(0);
        let not_taken = match instruction.kind {
            InstructionKind::ConditionalBranch => {
                instruction.count.unwrap_or(0).saturating_sub(taken)
            }
            _ => 0,
        };
        let begin = counts.branches.partition_point(|branch| branch.from < Some(address));
        let own = counts.branches.get(begin..).unwrap_or_default().iter();
        let own = own.take_while(|branch| branch.from == Some(address));
        let (mut entries, mut mispredicted, mut targets) = (0u64, 0u64, Vec::new());
        for branch in own {
            entries = entries.saturating_add(branch.count);
            mispredicted = mispredicted.saturating_add(branch.mispredicted);
            targets.push(Target { to: branch.to, count: branch.count });
        }
        targets.sort_unstable_by_key(|target| (std::cmp::Reverse(target.count), target.to));
        if taken > 0 || not_taken > 0 || entries > 0 {
            let kind = instruction.kind;
            found.push(Branch { address, kind, taken, not_taken, entries, mispredicted, targets });
        }
    }
    found
}

/// Whether an address lies right behind a call, so that a return leads there.
pub(crate) fn is_behind_call(instructions: &[Instruction], at: ImageAddr) -> bool {
    use InstructionKind::{Call, IndirectCall, Syscall};
    let before = position(instructions, at).and_then(|index| index.checked_sub(1));
    let before = before.and_then(|index| instructions.get(index));
    before.is_some_and(|before| matches!(before.kind, Call | IndirectCall | Syscall))
}
