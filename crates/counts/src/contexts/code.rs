//! What unwinding asks about an address: is it an instruction, a call, a return, and which call
//! returns to it.
//!
//! Code is decoded when it is first asked for, from one function's symbol to the next one's, and
//! the answers are kept by address. So memory follows what ran, not the size of the image. Linkage
//! tables count as outside, as for llvm-profgen: nothing in them has a probe, and control that
//! passes through them comes back.

use crate::straight_line::{self, Unrecorded};
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What is known about one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// An instruction begins here.
    pub code: bool,
    pub call: bool,
    pub returns: bool,
    /// Within two instructions of a function's begin or of a return: frame pointers do not show
    /// all callers here.
    pub frame_incomplete: bool,
    /// The call that the instruction before is; where it returns to is this address.
    pub call_before: Option<ImageAddr>,
}

/// One decoded stretch of code.
struct Stretch {
    /// The first address behind the last instruction.
    end: u64,
    /// Address and kind, by address.
    instructions: Vec<(u64, InstructionKind)>,
}

/// The code of an image.
pub(super) struct Code<'i> {
    image: &'i Image,
    /// Where functions begin, ascending.
    starts: Vec<u64>,
    left_out: Vec<Range<ImageAddr>>,
    stretches: FxHashMap<u64, Stretch>,
    facts: FxHashMap<u64, Facts>,
    straight: FxHashMap<(u64, u64), bool>,
}

impl<'i> Code<'i> {
    pub fn new(image: &'i Image) -> Code<'i> {
        let mut starts: Vec<u64> =
            image.functions().iter().map(|function| function.address.0).collect();
        starts.dedup();
        let left_out = crate::resolve::linkage_tables(image);
        Code {
            image,
            starts,
            left_out,
            stretches: FxHashMap::default(),
            facts: FxHashMap::default(),
            straight: FxHashMap::default(),
        }
    }

    /// What is known about `address`.
    pub fn at(&mut self, address: ImageAddr) -> Facts {
        if let Some(known) = self.facts.get(&address.0) {
            return *known;
        }
        let facts = self.look(address);
        self.facts.insert(address.0, facts);
        facts
    }

    /// Whether code can run straight from `first` to `last`.
    pub fn is_straight(&mut self, first: ImageAddr, last: ImageAddr) -> bool {
        let image = self.image;
        *self.straight.entry((first.0, last.0)).or_insert_with(|| {
            straight_line::check(image, first, &[last], Unrecorded::default()).first()
                == Some(&Ok(()))
        })
    }

    fn look(&mut self, address: ImageAddr) -> Facts {
        let mut facts = Facts { call_before: self.call_before(address), ..Facts::default() };
        let Some((start, stretch)) = self.stretch(address) else { return facts };
        let Ok(at) = stretch.instructions.binary_search_by_key(&address.0, |(address, _)| *address)
        else {
            return facts;
        };
        let kind = |at: usize| stretch.instructions.get(at).map(|(_, kind)| *kind);
        facts.code = kind(at) != Some(InstructionKind::Invalid);
        facts.call = kind(at).is_some_and(is_call);
        facts.returns = kind(at) == Some(InstructionKind::Return);
        let begins = address.0 == start || at == 1;
        facts.frame_incomplete =
            begins || facts.returns || kind(at + 1) == Some(InstructionKind::Return);
        facts
    }

    /// The last instruction that begins before `address`, where it is a call.
    fn call_before(&mut self, address: ImageAddr) -> Option<ImageAddr> {
        let ImageAddr(address) = address;
        let (_, stretch) = self.stretch(ImageAddr(address.checked_sub(1)?))?;
        let after = stretch.instructions.partition_point(|(begin, _)| *begin < address);
        let (before, kind) = stretch.instructions.get(after.checked_sub(1)?)?;
        // Behind bytes that are no instructions nothing returns.
        let reaches = after < stretch.instructions.len() || address <= stretch.end;
        (reaches && is_call(*kind)).then_some(ImageAddr(*before))
    }

    /// The stretch that holds `address`, with its begin.
    fn stretch(&mut self, address: ImageAddr) -> Option<(u64, &Stretch)> {
        if self.left_out.iter().any(|range| range.contains(&address)) {
            return None;
        }
        let after = self.starts.partition_point(|start| *start <= address.0);
        let start = *self.starts.get(after.checked_sub(1)?)?;
        let end = self.starts.get(after).copied().unwrap_or(u64::MAX);
        let image = self.image;
        let stretch = self.stretches.entry(start).or_insert_with(|| {
            let mut stretch = Stretch { end: start, instructions: Vec::new() };
            for instruction in
                instructions(image, ImageAddr(start)).take_while(|one| one.address.0 < end)
            {
                stretch.end = instruction.address.0.saturating_add(u64::from(instruction.len));
                stretch.instructions.push((instruction.address.0, instruction.kind));
            }
            stretch
        });
        Some((start, stretch))
    }
}

fn is_call(kind: InstructionKind) -> bool {
    matches!(kind, InstructionKind::Call | InstructionKind::IndirectCall)
}
