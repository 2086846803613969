//! Stacks with the time on and off the CPU.

use super::{Reason, Times, Waits};
use crate::analysis::{Recorded, Stack};
use crate::names::{FunctionId, Known};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// A stack of any thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackRow<'r> {
    /// Its functions, innermost first; none: waits without a sample.
    pub functions: Option<&'r [FunctionId]>,
    /// Where its time went.
    pub times: Times,
}

/// The stacks of a recording by the time that they waited, longest first.
pub fn stack_rows(recorded: &Recorded) -> Vec<StackRow<'_>> {
    let mut sums: FxHashMap<&[FunctionId], Times> = FxHashMap::default();
    for stack in &recorded.stacks {
        let Some(event) = recorded.events.get(stack.event as usize) else { continue };
        let waits = waits_of(stack);
        match event.off_cpu {
            Some(reason) => sums.entry(&stack.functions).or_default().of(reason).add(waits),
            None if event.is_clock => {
                let times = sums.entry(&stack.functions).or_default();
                times.cpu_ns = times.cpu_ns.saturating_add(stack.weight.period);
            }
            None => {}
        }
    }
    let is_sampled = |functions: &[FunctionId]| {
        let first = functions.first().and_then(|id| recorded.names.function(*id));
        first.is_none_or(|function| function.known != Known::NoSample)
    };
    let row = |(functions, times): (_, Times)| StackRow {
        functions: is_sampled(functions).then_some(functions),
        times,
    };
    let mut rows: Vec<StackRow<'_>> = sums.into_iter().map(row).collect();
    let key = |row: &StackRow<'_>| (Reverse(row.times.waited_ns()), Reverse(row.times.cpu_ns));
    rows.sort_by(|one, other| {
        key(one).cmp(&key(other)).then_with(|| one.functions.cmp(&other.functions))
    });
    rows
}

fn waits_of(stack: &Stack) -> Waits {
    Waits {
        count: stack.weight.samples,
        total_ns: stack.weight.period,
        longest_ns: stack.weight.heaviest,
    }
}

impl Reason {
    /// All, in the order in which their waits are events; the last one's only where wake-ups are
    /// recorded.
    pub const ALL: [Reason; 3] = [Reason::Synchronization, Reason::Preemption, Reason::RunQueue];

    /// The name of the event that its waits are.
    pub fn event(self) -> &'static str {
        match self {
            Reason::Synchronization => "wait",
            Reason::Preemption => "preempted",
            Reason::RunQueue => "runqueue",
        }
    }
}
