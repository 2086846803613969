//! Callers out of the copy of the stack that a sample carries (`--call-graph dwarf`), by
//! `.eh_frame`.
//!
//! Where the chain along frame pointers was recorded too, unwinding fills the gap at its begin:
//! such a chain starts with the sampled address and goes on with the first function that has a
//! frame pointer, and its callers before that are missing.

use crate::files::{Files, Place};
use crate::marks::Owner;
use crate::stack_copy::{self, CallerOf, Walk};
use address_spaces::SpaceRef;
use perfdata::{RuntimeAddr, Sample};

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
}

impl Frames {
    pub(crate) fn add(&mut self, other: Frames) {
        self.unwound += other.unwound;
        self.missing += other.missing;
        self.cut += other.cut;
    }
}

/// Unwinds samples with the images that ran.
pub(crate) struct Unwinder<'f> {
    pub files: &'f Files<'f>,
}

impl Unwinder<'_> {
    /// Completes the user part of a chain, which is the last one.
    pub(crate) fn complete(
        &self,
        words: &mut Vec<u64>,
        sample: &Sample<'_>,
        space: SpaceRef<'_>,
    ) -> Frames {
        let user = Owner::Process.mark();
        let walk = self.walk(sample, space);
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
        let taken = match joined {
            Some(between) if walk.cut => between + 1,
            _ => walk.addresses.len(),
        };
        words.extend(walk.addresses.iter().take(taken));
        let whole = !walk.cut || joined.is_some();
        let missing = !whole && !callers.is_empty() && !self.has_frame_pointer(words, space);
        if missing {
            words.push(Owner::Missing.mark());
        }
        if walk.cut {
            words.extend(callers);
        }
        Frames {
            unwound: taken.saturating_sub(1) as u64,
            missing: u64::from(missing),
            cut: u64::from(!whole),
        }
    }

    /// Marks where a chain along frame pointers alone lacks a caller: behind a sampled function
    /// that has none.
    pub(crate) fn mark_missing(&self, words: &mut Vec<u64>, space: SpaceRef<'_>) -> Frames {
        let user = Owner::Process.mark();
        let begin = words.iter().rposition(|&word| word == user).map(|mark| mark + 1);
        let Some(begin) = begin.filter(|begin| words.len() > begin + 1) else {
            return Frames::default();
        };
        let innermost = words.get(..=begin).unwrap_or_default();
        if self.has_frame_pointer(innermost, space) {
            return Frames::default();
        }
        words.insert(begin + 1, Owner::Missing.mark());
        Frames { missing: 1, ..Frames::default() }
    }

    /// Whether the last of these frames of the user's has a frame pointer, or nothing is known of
    /// it.
    fn has_frame_pointer(&self, words: &[u64], space: SpaceRef<'_>) -> bool {
        let mut last = words.iter().rev().copied();
        let (Some(last), Some(before)) = (last.next(), last.next()) else { return true };
        let innermost = before == Owner::Process.mark();
        let code = if innermost { last } else { last.saturating_sub(1) };
        let Place::In(file, at) = self.files.place(space, RuntimeAddr(code)) else { return true };
        let image = self.files.image(file);
        image.and_then(|image| image.has_frame_pointer_at(at)).unwrap_or(true)
    }

    /// The user's frames, as far as the copy of the stack reaches.
    fn walk(&self, sample: &Sample<'_>, space: SpaceRef<'_>) -> Walk {
        stack_copy::walk(sample, |address, registers, read| {
            let Place::In(file, at) = self.files.place(space, address) else {
                return CallerOf::NoCode;
            };
            match self.files.image(file) {
                Some(image) => CallerOf::in_image(image, at, registers, read),
                None => CallerOf::NoCode,
            }
        })
    }
}
