//! Callers out of the copy of the stack that a sample carries (`--call-graph dwarf`), by
//! `.eh_frame`.
//!
//! Where the chain along frame pointers was recorded too, unwinding fills the gap at its begin:
//! such a chain starts with the sampled address and goes on with the first function that has a
//! frame pointer, and its callers before that are missing.

use crate::files::{Files, Place};
use crate::marks::Owner;
use crate::stack_copy::{self, CallerOf, End, Walk};
use address_spaces::{FileId, SpaceRef};
use image::{ImageAddr, UnwindRegisters, UnwindRules};
use perfdata::{RuntimeAddr, Sample};
use rustc_hash::FxHashMap;

/// What became of call chains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    /// Callers found by unwinding.
    pub unwound: u64,
    /// Samples that lack callers between the first of their user part and the others, since a
    /// function has no frame pointer and could not be unwound: `[a caller is missing]` stands there.
    pub missing: u64,
    /// Samples of whose user part the outermost callers are missing: the copy of the stack ends
    /// before, or nothing is known of a function.
    pub cut: u64,
    /// Of those cut: where the copy ends before.
    pub short: u64,
    /// Of those cut: where the branch stack that told the callers ends before.
    pub short_branches: u64,
    /// Callers found without rules: by the frame pointer, or as what looks like a return address.
    pub guessed: u64,
}

impl Frames {
    pub(crate) fn add(&mut self, other: Frames) {
        self.unwound += other.unwound;
        self.missing += other.missing;
        self.cut += other.cut;
        self.short += other.short;
        self.short_branches += other.short_branches;
        self.guessed += other.guessed;
    }
}

/// What is kept of the code at an address.
#[derive(Clone, Copy)]
enum Known {
    /// There a program begins to run.
    Start,
    /// No image lies there, or one without rules for the code.
    Unknown,
    /// Number of the rules.
    Rules(u32),
}

/// Unwinds samples with the images that ran. A worker has its own: it keeps the rules of the
/// addresses that it met, since programs have few and samples many.
pub(crate) struct Unwinder<'f> {
    files: &'f Files<'f>,
    /// By process, version of its address space, and address.
    known: FxHashMap<(i32, u32, u64), Known>,
    /// By place in an image: processes share them.
    numbers: FxHashMap<(FileId, ImageAddr), Known>,
    rules: Vec<UnwindRules>,
    /// Whether a call returns to an address.
    returns: FxHashMap<(i32, u32, u64), bool>,
}

/// DWARF's numbers of registers on x86-64.
const FRAME_POINTER: u16 = 6;
const STACK_POINTER: u16 = 7;
const RETURN_ADDRESS: u16 = 16;
/// Words above the stack pointer among which a return address is looked for, in code without rules
/// and without a frame pointer: what is made at run time to call one function has hardly any.
const SEARCHED_WORDS: u64 = 8;
/// Addresses that are kept (some 100 MB): beyond, they are met anew.
const MOST_KNOWN: usize = 1 << 20;

impl<'f> Unwinder<'f> {
    pub(crate) fn new(files: &'f Files<'f>) -> Unwinder<'f> {
        let (known, numbers, rules, returns) = Default::default();
        Unwinder { files, known, numbers, rules, returns }
    }

    /// Makes sure that the code at an address is known.
    fn learn(&mut self, pid: i32, space: SpaceRef<'_>, address: RuntimeAddr) -> Known {
        let key = (pid, space.same, address.0);
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        if self.known.len() >= MOST_KNOWN || self.numbers.len() >= MOST_KNOWN {
            (self.known, self.numbers, self.rules) = Default::default();
        }
        let found = match self.files.place(space, address) {
            Place::In(file, at) => self.rules_at(file, at),
            _ => Known::Unknown,
        };
        self.known.insert(key, found);
        found
    }

    fn rules_at(&mut self, file: FileId, at: ImageAddr) -> Known {
        if let Some(known) = self.numbers.get(&(file, at)) {
            return *known;
        }
        let image = self.files.image(file);
        let known = match image.and_then(|image| image.unwind_rules(at)) {
            None if image.is_some_and(|image| image.is_start(at)) => Known::Start,
            None => Known::Unknown,
            Some(rules) => {
                self.rules.push(rules);
                Known::Rules(self.rules.len() as u32 - 1)
            }
        };
        self.numbers.insert((file, at), known);
        known
    }

    /// Completes the user part of a chain, which is the last one.
    pub(crate) fn complete(
        &mut self,
        words: &mut Vec<u64>,
        sample: &Sample<'_>,
        (pid, space): (i32, SpaceRef<'_>),
    ) -> Frames {
        let user = Owner::Process.mark();
        let walk = self.walk(sample, pid, space);
        let begin = words.iter().rposition(|&word| word == user).map(|mark| mark + 1);
        let recorded = begin.map(|begin| words.split_off(begin)).unwrap_or_default();
        if walk.addresses.is_empty() {
            words.extend(&recorded);
            // A thread of the kernel has no user part at all.
            let has_user = !recorded.is_empty() || sample.regs_user.is_some_and(|r| r.abi != 0);
            return Frames { cut: u64::from(has_user), ..Frames::default() };
        }
        if begin.is_none() {
            words.push(user);
        }
        let callers = recorded.get(1..).unwrap_or_default();
        let joined = walk.addresses.iter().skip(1).position(|one| callers.first() == Some(one));
        let is_cut = walk.end != End::Start;
        let taken = match joined {
            Some(between) if is_cut => between + 1,
            _ => walk.addresses.len(),
        };
        words.extend(walk.addresses.iter().take(taken));
        let whole = !is_cut || joined.is_some();
        let missing = !whole && !callers.is_empty() && !self.has_frame_pointer(words, pid, space);
        if missing {
            words.push(Owner::Missing.mark());
        }
        if is_cut {
            words.extend(callers);
        }
        Frames {
            unwound: taken.saturating_sub(1) as u64,
            missing: u64::from(missing),
            // A chain along frame pointers goes on where the copy ends.
            cut: u64::from(!whole && callers.is_empty()),
            short: u64::from(!whole && callers.is_empty() && walk.end == End::Copy),
            guessed: walk.guessed,
            ..Frames::default()
        }
    }

    /// Marks where a chain along frame pointers alone lacks a caller: behind a sampled function
    /// that has none.
    pub(crate) fn mark_missing(
        &mut self,
        words: &mut Vec<u64>,
        (pid, space): (i32, SpaceRef<'_>),
    ) -> Frames {
        let user = Owner::Process.mark();
        let begin = words.iter().rposition(|&word| word == user).map(|mark| mark + 1);
        let Some(begin) = begin.filter(|begin| words.len() > begin + 1) else {
            return Frames::default();
        };
        let innermost = words.get(..=begin).unwrap_or_default();
        if self.has_frame_pointer(innermost, pid, space) {
            return Frames::default();
        }
        words.insert(begin + 1, Owner::Missing.mark());
        Frames { missing: 1, ..Frames::default() }
    }

    /// Whether the last of these frames of the user's has a frame pointer, or nothing is known of
    /// it.
    fn has_frame_pointer(&mut self, words: &[u64], pid: i32, space: SpaceRef<'_>) -> bool {
        let mut last = words.iter().rev().copied();
        let (Some(last), Some(before)) = (last.next(), last.next()) else { return true };
        let innermost = before == Owner::Process.mark();
        let code = if innermost { last } else { last.saturating_sub(1) };
        match self.learn(pid, space, RuntimeAddr(code)) {
            Known::Rules(number) => {
                let rules = self.rules.get(number as usize);
                rules.is_none_or(UnwindRules::has_frame_pointer)
            }
            Known::Start | Known::Unknown => true,
        }
    }

    /// Whether a thread begins in the function at an address: it has no caller.
    pub(crate) fn begins_thread(
        &mut self,
        (pid, space): (i32, SpaceRef<'_>),
        address: RuntimeAddr,
    ) -> bool {
        match self.learn(pid, space, address) {
            Known::Start => true,
            Known::Unknown => false,
            Known::Rules(number) => {
                self.rules.get(number as usize).is_some_and(|rules| !rules.has_caller())
            }
        }
    }

    /// The user's frames, as far as the copy of the stack reaches.
    fn walk(&mut self, sample: &Sample<'_>, pid: i32, space: SpaceRef<'_>) -> Walk {
        stack_copy::walk(sample, |address, registers, read| {
            let number = match self.learn(pid, space, address) {
                Known::Unknown => {
                    let guess = self.guess((pid, space), registers, read);
                    return guess.map_or(CallerOf::Unknown, |caller| CallerOf::Known {
                        caller,
                        interrupted: false,
                        guessed: true,
                    });
                }
                Known::Start => return CallerOf::Nobody,
                Known::Rules(number) => number,
            };
            let Some(rules) = self.rules.get(number as usize) else { return CallerOf::Unknown };
            match rules.caller(registers, read) {
                Some(caller) => {
                    CallerOf::Known { caller, interrupted: rules.is_signal(), guessed: false }
                }
                None if !rules.has_caller() => CallerOf::Nobody,
                None => CallerOf::Unknown,
            }
        })
    }

    /// The caller of code that no rules tell of: as the frame pointer says, or the first word of the
    /// stack that a call returns to and whose own caller can be told.
    fn guess(
        &mut self,
        code: (i32, SpaceRef<'_>),
        registers: &UnwindRegisters,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> Option<UnwindRegisters> {
        let bottom = registers.stack_pointer()?;
        let caller = |at: u64, frame_pointer: Option<u64>, address: u64| {
            let mut caller = *registers;
            caller.set(STACK_POINTER, at.saturating_add(8));
            caller.set(RETURN_ADDRESS, address);
            frame_pointer.into_iter().for_each(|value| caller.set(FRAME_POINTER, value));
            caller
        };
        let pointed = registers.get(FRAME_POINTER).filter(|at| *at >= bottom && at % 8 == 0);
        let pointed = pointed.and_then(|at| {
            let above = at.checked_add(8)?;
            let (saved, address) = (read(at)?, read(above)?);
            self.is_return(code, address).then(|| (above, caller(above, Some(saved), address)))
        });
        let end = pointed.map_or(u64::MAX, |(above, _)| above);
        for word in 0..SEARCHED_WORDS {
            let at = bottom.saturating_add(8 * word);
            if at >= end {
                break;
            }
            let Some(address) = read(at) else { break };
            let found = caller(at, None, address);
            if self.is_return(code, address) && self.goes_on(code, address, &found, read) {
                return Some(found);
            }
        }
        pointed.map(|(_, caller)| caller)
    }

    /// Whether a call returns to an address: an instruction that calls stands before it. Of code
    /// that is not at hand, any address may be one.
    fn is_return(&mut self, (pid, space): (i32, SpaceRef<'_>), address: u64) -> bool {
        let key = (pid, space.same, address);
        if let Some(known) = self.returns.get(&key) {
            return *known;
        }
        if self.returns.len() >= MOST_KNOWN {
            self.returns.clear();
        }
        let before = RuntimeAddr(address.saturating_sub(1));
        let found = match self.files.place(space, before) {
            Place::In(file, at) => {
                let image = self.files.image(file);
                image.is_some_and(|image| image.follows_call(ImageAddr(at.0.saturating_add(1))))
            }
            Place::At(..) => true,
            Place::Nowhere => false,
        };
        self.returns.insert(key, found);
        found
    }

    /// Whether the caller of a caller can be told: what only looks like a return address has none.
    fn goes_on(
        &mut self,
        (pid, space): (i32, SpaceRef<'_>),
        address: u64,
        registers: &UnwindRegisters,
        read: &dyn Fn(u64) -> Option<u64>,
    ) -> bool {
        match self.learn(pid, space, RuntimeAddr(address.saturating_sub(1))) {
            Known::Start => true,
            Known::Unknown => false,
            Known::Rules(number) => {
                let Some(rules) = self.rules.get(number as usize) else { return false };
                match rules.caller(registers, read).and_then(|next| next.instruction_pointer()) {
                    Some(next) => next == 0 || self.is_return((pid, space), next),
                    None => !rules.has_caller(),
                }
            }
        }
    }
}
