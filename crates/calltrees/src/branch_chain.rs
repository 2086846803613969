//! Callers out of a branch stack: the calls in it that have not returned.
//!
//! In the call stack mode of Intel's branch records, the hardware takes out the calls that returned.
//! Of all branches, as planish's software and emulated stacks have them, calls are matched with
//! returns here: from the newest branch back, a return hides everything up to the call that it
//! belongs to, and a call that nothing hides is a caller. Source for the call stack mode:
//! `resolve_lbr_callchain_sample` in Linux's `tools/perf/util/machine.c`.

use crate::files::{Files, Place};
use crate::marks::Owner;
use address_spaces::SpaceRef;
use image::code::{InstructionKind, instructions};
use perfdata::{BranchEntry, BranchStack, RuntimeAddr};
use rustc_hash::FxHashMap;

/// A call returns so many bytes behind where it began, at most.
const LONGEST_CALL: u64 = 15;
/// Addresses whose instructions are kept.
const MOST_KNOWN: usize = 1 << 20;

/// What a branch does to the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Call,
    Return,
    Other,
}

impl Kind {
    /// What the entry says itself (`PERF_BR_…` in `include/uapi/linux/perf_event.h`).
    fn stated(entry: &BranchEntry) -> Option<Kind> {
        match entry.flags.branch_type() {
            0 => None,
            4 | 5 | 9 => Some(Kind::Call),
            6 | 10 => Some(Kind::Return),
            _ => Some(Kind::Other),
        }
    }

    fn of(instruction: InstructionKind) -> Kind {
        match instruction {
            InstructionKind::Call | InstructionKind::IndirectCall => Kind::Call,
            InstructionKind::Return => Kind::Return,
            _ => Kind::Other,
        }
    }
}

/// Tells calls and returns apart; a worker has its own, which keeps what it decoded.
pub(crate) struct BranchKinds<'f> {
    files: &'f Files<'f>,
    known: FxHashMap<(i32, u32, u64), Kind>,
}

impl<'f> BranchKinds<'f> {
    pub(crate) fn new(files: &'f Files<'f>) -> BranchKinds<'f> {
        BranchKinds { files, known: FxHashMap::default() }
    }

    fn kind(&mut self, (pid, space): (i32, SpaceRef<'_>), entry: &BranchEntry) -> Kind {
        if let Some(kind) = Kind::stated(entry) {
            return kind;
        }
        let key = (pid, space.same, entry.from.0);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.known.len() >= MOST_KNOWN {
            self.known.clear();
        }
        let kind = match self.files.place(space, entry.from) {
            Place::In(file, at) => {
                let image = self.files.image(file);
                let found = image.and_then(|image| instructions(image, at).next());
                found.map_or(Kind::Other, |instruction| Kind::of(instruction.kind))
            }
            _ => Kind::Other,
        };
        self.known.insert(key, kind);
        kind
    }

    /// Where the calls of a stack of all branches stand that have not returned, newest first.
    pub(crate) fn callers(
        &mut self,
        code: (i32, SpaceRef<'_>),
        branches: &BranchStack<'_>,
    ) -> Vec<RuntimeAddr> {
        let kinds = branches.iter().map(|entry| (self.kind(code, &entry), entry));
        outstanding(kinds)
    }
}

/// Matches calls with returns, from the newest branch on.
fn outstanding(branches: impl Iterator<Item = (Kind, BranchEntry)>) -> Vec<RuntimeAddr> {
    let mut callers = Vec::new();
    // Where returns went whose calls are still to come.
    let mut returned: Vec<u64> = Vec::new();
    for (kind, entry) in branches {
        match kind {
            Kind::Return => returned.push(entry.to.0),
            Kind::Call => {
                let behind = |to: &u64| {
                    let bytes = to.checked_sub(entry.from.0);
                    bytes.is_some_and(|bytes| (1..=LONGEST_CALL).contains(&bytes))
                };
                match returned.iter().rposition(behind) {
                    Some(at) => returned.truncate(at),
                    None if returned.is_empty() => callers.push(entry.from),
                    // It was left by other ways than a return, within a call that returned.
                    None => {}
                }
            }
            Kind::Other => {}
        }
    }
    callers
}

/// Where the calls of a stack of unreturned calls stand, newest first.
pub(crate) fn call_stack(branches: &BranchStack<'_>) -> Vec<RuntimeAddr> {
    branches.iter().map(|entry| entry.from).collect()
}

/// Puts callers in place of those of a chain's user part, which is the last one; its innermost
/// address stays, and where it has none, the newest branch tells where the program was.
pub(crate) fn replace_callers(
    words: &mut Vec<u64>,
    callers: &[RuntimeAddr],
    newest: Option<BranchEntry>,
) {
    let user = Owner::Process.mark();
    let begin = words.iter().rposition(|&word| word == user).map(|mark| mark + 1);
    match begin.filter(|begin| *begin < words.len()) {
        Some(begin) => words.truncate(begin + 1),
        None => {
            if begin.is_none() {
                words.push(user);
            }
            words.extend(newest.map(|entry| entry.to.0));
        }
    }
    // Of a caller, chains have the address behind the call.
    words.extend(callers.iter().map(|from| from.0.saturating_add(1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(from: u64, to: u64) -> BranchEntry {
        BranchEntry { from: RuntimeAddr(from), to: RuntimeAddr(to), ..BranchEntry::default() }
    }

    fn callers(newest_first: &[(Kind, u64, u64)]) -> Vec<u64> {
        let branches = newest_first.iter().map(|(kind, from, to)| (*kind, entry(*from, *to)));
        outstanding(branches).into_iter().map(|from| from.0).collect()
    }

    #[test]
    fn calls_that_no_return_hides_are_callers() {
        use Kind::{Call, Other, Return};
        let newest_first = [
            (Other, 0x300, 0x310),
            // A call of a call, both back.
            (Return, 0x480, 0x2f5),
            (Return, 0x580, 0x425),
            (Call, 0x420, 0x500),
            (Call, 0x2f0, 0x400),
            (Call, 0x210, 0x2c0),
            // One whose call lies before the stack: what it called is hidden, too.
            (Return, 0x690, 0x205),
            (Call, 0x650, 0x700),
            (Return, 0x790, 0x655),
        ];
        assert_eq!(callers(&newest_first), [0x210]);
        assert_eq!(callers(&newest_first[..5]), [0u64; 0]);
        // A call that was left by a jump, within one that returned.
        let left = [
            (Return, 0x190, 0x105),
            (Call, 0x150, 0x180),
            (Call, 0x100, 0x140),
            (Call, 0x50, 0xf0),
        ];
        assert_eq!(callers(&left), [0x50]);
    }

    proptest::proptest! {
        /// A program that calls and returns at random, of which a stack sees the last branches.
        #[test]
        fn callers_are_those_of_the_program_as_far_as_the_stack_reaches(
            steps in proptest::collection::vec(0u8..3, 0..200), depth in 1usize..64,
        ) {
            let (mut stack, mut all) = (Vec::new(), Vec::new());
            for (step, at) in steps.iter().zip((0x1000u64..).step_by(0x20)) {
                match (step, stack.pop()) {
                    (0, Some((from, begun))) => {
                        all.push((Kind::Return, entry(at, from + 5)));
                        let _: usize = begun;
                    }
                    (1, last) => {
                        stack.extend(last);
                        stack.push((at, all.len()));
                        all.push((Kind::Call, entry(at, at + 0x10)));
                    }
                    (_, last) => {
                        stack.extend(last);
                        all.push((Kind::Other, entry(at, at + 0x10)));
                    }
                }
            }
            let seen = all.len().saturating_sub(depth);
            let newest_first = all.get(seen..).unwrap().iter().rev().copied();
            let wanted: Vec<u64> = stack
                .iter()
                .rev()
                .filter(|(_, begun)| *begun >= seen)
                .map(|(from, _)| *from)
                .collect();
            let found: Vec<u64> = outstanding(newest_first).into_iter().map(|from| from.0).collect();
            proptest::prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn the_innermost_address_stays() {
        let (kernel, user) = (Owner::Kernel.mark(), Owner::Process.mark());
        let replaced = |words: &[u64], newest: Option<BranchEntry>| {
            let mut words = words.to_vec();
            replace_callers(&mut words, &[RuntimeAddr(0x20), RuntimeAddr(0x30)], newest);
            words
        };
        let newest = Some(entry(0x20, 0x15));
        assert_eq!(replaced(&[user, 0x10, 0x99], newest), [user, 0x10, 0x21, 0x31]);
        assert_eq!(replaced(&[kernel, 7, user, 0x10], newest), [kernel, 7, user, 0x10, 0x21, 0x31]);
        assert_eq!(replaced(&[kernel, 7], newest), [kernel, 7, user, 0x15, 0x21, 0x31]);
    }
}
