//! Virtual unwinding: the call chain at each branch of a sample, from the one chain that was
//! recorded with it.
//!
//! Input: a call chain, taken when the newest branch had just been taken, and the branches, newest
//! first. Going back in time, a call takes the frame of its caller off the chain, a return puts the
//! frame of the function that it left on it, and any other branch moves within the innermost frame.
//! What ran between two branches belongs to the chain at that time. The rules are llvm-profgen's
//! (<https://github.com/llvm/llvm-project/blob/main/llvm/tools/llvm-profgen/PerfReader.cpp>):
//! 1. The innermost frame is the one that the newest branch went to; the sampled address itself may
//!    be far behind it.
//! 2. Frames are known by the address of their call. A chain ends at a frame that no call returns
//!    to.
//! 3. A call that does not match the frame below it leaves that frame alone: the chain lacked it
//!    (function prologues).
//! 4. What lies outside the image is one frame; a context begins behind the last such frame.
//! 5. After a range that cannot have run, or one with a single end outside, the chain is not known
//!    any more. The rest of the branches counts without a context.
//!
//! One rule is our own: a return to where no call stands before (a context switched by hand, a
//! signal's end) ends the chain as in 5; llvm-profgen makes a frame without a place of it.
//!
//! Samples at the start and end of functions are left out, as llvm-profgen does, where the kernel
//! followed frame pointers: a caller is missing there. An emulator that follows each call misses
//! none.
//!
//! Frames of tail calls are missing in chains and stay missing; llvm-profgen guesses them
//! (`--infer-missing-frames`).

use super::code::Code;
use super::{ContextCounts, MAX_DEPTH};
use image::ImageAddr;

/// One branch; an end outside the image is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub from: Option<ImageAddr>,
    pub to: Option<ImageAddr>,
}

/// The chain at some time, without its innermost frame: outermost call first, `None` is code
/// outside the image.
struct State {
    callers: Vec<Option<ImageAddr>>,
    /// Whether the chain is known.
    valid: bool,
    /// Number of the context of the innermost frame, where it is known.
    context: Option<usize>,
}

impl State {
    fn forget_chain(&mut self) {
        self.valid = false;
        self.callers.clear();
        self.context = None;
    }
}

/// Unwinds one sample: `chain` has addresses as recorded (the sampled one, then where calls return
/// to), innermost first; `entries` is newest first. An `exact` chain is whole at the start and end
/// of functions, too; others lack a caller there.
pub(super) fn sample(
    code: &mut Code<'_>,
    counts: &mut ContextCounts,
    chain: &[Option<ImageAddr>],
    entries: &mut Vec<Entry>,
    exact: bool,
) {
    let mut inside = |address: Option<ImageAddr>| address.filter(|address| code.at(*address).code);
    for entry in entries.iter_mut() {
        *entry = Entry { from: inside(entry.from), to: inside(entry.to) };
    }
    entries.retain(|entry| entry.from.is_some() || entry.to.is_some());
    if entries.is_empty() {
        counts.ledger.outside += 1;
        return;
    }
    if !exact && chain.first().copied().flatten().is_some_and(|leaf| code.at(leaf).frame_incomplete)
    {
        counts.ledger.incomplete_frame += 1;
        return;
    }
    counts.ledger.unwound += 1;
    counts.ledger.foreign_chains += u64::from(chain.iter().all(Option::is_none));
    counts.ledger.branches += entries.len() as u64;
    let callers = callers(code, counts, chain);
    let mut state = State { callers, valid: true, context: None };
    let mut end: Option<Option<ImageAddr>> = None;
    for entry in entries.iter() {
        if let Some(end) = end {
            range(code, counts, &mut state, entry.to, end);
        }
        step(code, counts, &mut state, *entry);
        end = Some(entry.from);
        if let (Some(from), Some(to)) = (entry.from, entry.to) {
            let context = context(counts, &mut state);
            counts.add_branch(context, from, to);
        }
    }
}

/// The calls of a chain, outermost first.
fn callers(
    code: &mut Code<'_>,
    counts: &mut ContextCounts,
    chain: &[Option<ImageAddr>],
) -> Vec<Option<ImageAddr>> {
    let mut calls: Vec<Option<ImageAddr>> = Vec::with_capacity(chain.len());
    let leaf = chain.first().copied().flatten().filter(|leaf| code.at(*leaf).code);
    let mut last = leaf;
    for frame in chain.iter().skip(1) {
        let call = match frame.filter(|frame| code.at(*frame).code) {
            None if last.is_none() => continue,
            None => None,
            Some(frame) => match code.at(frame).call_before {
                Some(call) => Some(call),
                None => {
                    counts.ledger.broken_chains += 1;
                    break;
                }
            },
        };
        calls.push(call);
        last = call;
    }
    if calls.last() == Some(&None) {
        calls.pop();
    }
    calls.reverse();
    calls
}

/// Counts what ran between two branches.
fn range(
    code: &mut Code<'_>,
    counts: &mut ContextCounts,
    state: &mut State,
    first: Option<ImageAddr>,
    last: Option<ImageAddr>,
) {
    match (first, last) {
        // Out of the image and back: the frames stay what they were.
        (None, None) => {}
        (Some(first), Some(last)) if code.is_straight(first, last) => {
            let context = context(counts, state);
            counts.add_range(context, first, last);
        }
        (Some(_), Some(_)) => {
            counts.ledger.impossible_ranges += u64::from(state.valid);
            state.valid = false;
        }
        _ => {
            counts.ledger.unpaired_outside += u64::from(state.valid);
            state.valid = false;
        }
    }
}

/// Goes back over one branch.
fn step(code: &mut Code<'_>, counts: &mut ContextCounts, state: &mut State, entry: Entry) {
    let from = entry.from.map(|from| code.at(from)).unwrap_or_default();
    let call_before = entry.to.and_then(|to| code.at(to).call_before);
    if !state.valid {
        state.forget_chain();
    } else if from.call || entry.from.is_none() && call_before.is_none() {
        match state.callers.last() {
            Some(caller) if *caller == entry.from => {
                state.callers.pop();
                state.context = None;
            }
            Some(_) => counts.ledger.unmatched_calls += 1,
            None => {}
        }
    } else if from.returns || entry.from.is_none() {
        if entry.to.is_some() && call_before.is_none() {
            counts.ledger.unmatched_returns += 1;
            state.forget_chain();
        } else {
            state.callers.push(call_before);
            state.context = None;
        }
    }
}

/// The number of the context that the innermost frame is in.
fn context(counts: &mut ContextCounts, state: &mut State) -> usize {
    if let Some(known) = state.context {
        return known;
    }
    let behind = state.callers.iter().rposition(Option::is_none).map_or(0, |at| at + 1);
    let calls = state.callers.iter().skip(behind).copied().flatten();
    let deeper = state.callers.len().saturating_sub(behind).saturating_sub(MAX_DEPTH);
    counts.ledger.cut_frames += deeper as u64;
    let mut calls: Vec<ImageAddr> = calls.skip(deeper).collect();
    compress_recursion(&mut calls);
    let number = counts.context(calls);
    state.context = Some(number);
    number
}

/// Replaces every sequence that is repeated at once by one of it, short sequences first: recursion
/// of any depth is one context. As llvm-profgen does by default.
pub fn compress_recursion<T: PartialEq + Clone>(calls: &mut Vec<T>) {
    let mut length = 1;
    while length <= calls.len() / 2 {
        let mut kept: Vec<T> = Vec::with_capacity(calls.len());
        let mut at = 0;
        while let Some(call) = calls.get(at) {
            let next = calls.get(at..at + length);
            let before = kept.len().checked_sub(length).and_then(|from| kept.get(from..));
            if next.is_some() && next == before {
                at += length;
            } else {
                kept.push(call.clone());
                at += 1;
            }
        }
        *calls = kept;
        length += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::compress_recursion;

    #[test]
    fn repeated_sequences_become_one() {
        let compressed = |text: &str| {
            let mut calls: Vec<char> = text.chars().collect();
            compress_recursion(&mut calls);
            calls.into_iter().collect::<String>()
        };
        for (before, after) in [
            ("", ""),
            ("a", "a"),
            ("aab", "ab"),
            ("abab", "ab"),
            ("mabababc", "mabc"),
            ("aabaab", "ab"),
            ("abcabcd", "abcd"),
            ("abcacb", "abcacb"),
            ("abababa", "aba"),
        ] {
            assert_eq!(compressed(before), after, "{before}");
        }
    }
}
