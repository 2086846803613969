//! The registers of the look-ahead, and its way to memory.

use crate::flags::Flags;
use crate::memory::{Pages, Source};
use crate::native::Native;
use crate::op::{Op, Reach};
use crate::state::{REGISTERS, RSP, State};
use crate::word::Word;
use crate::{Branch, Stop};
use perfdata::RuntimeAddr;

/// The thread as far as it has been followed.
pub(crate) struct Cpu<'e> {
    pub state: &'e mut State,
    pub flags: Flags,
    /// Where the block begins that is run; after its last instruction, where the next one does.
    pub rip: u64,
    pub pages: &'e mut Pages,
    pub source: &'e mut dyn Source,
    /// Room for the branches that are asked for.
    pub branches: &'e mut [Branch],
    /// How many there are.
    pub found: usize,
    /// Why it does not go on.
    pub stop: Option<Stop>,
    /// The instruction that it ended at.
    pub ended_at: u64,
    pub native: &'e mut Native,
    /// Blocks that end in the last branch are linked to the one that follows.
    pub taken: bool,
    pub patience: u64,
}

impl Cpu<'_> {
    #[inline(always)]
    pub(crate) fn wide(&self, register: u8) -> u64 {
        self.state.gpr[usize::from(register & REGISTERS)]
    }

    #[inline(always)]
    pub(crate) fn set_wide(&mut self, register: u8, value: u64) {
        self.state.gpr[usize::from(register & REGISTERS)] = value;
    }

    /// A register's low part; numbers from 16 on are ah, ch, dh and bh where the width is 8 bits.
    #[inline(always)]
    pub(crate) fn get<W: Word>(&self, register: u8) -> W {
        if W::BYTES == 1 && register & 16 != 0 {
            return W::cut(self.wide(register & 3) >> 8);
        }
        W::cut(self.wide(register))
    }

    #[inline(always)]
    pub(crate) fn set<W: Word>(&mut self, register: u8, value: W) {
        let value = value.wide();
        if W::BYTES >= 4 {
            return self.set_wide(register, value);
        }
        if W::BYTES == 1 && register & 16 != 0 {
            let kept = self.wide(register & 3) & !0xff00;
            return self.set_wide(register & 3, kept | value << 8);
        }
        let mask = if W::BYTES == 1 { 0xff } else { 0xffff };
        let kept = self.wide(register) & !mask;
        self.set_wide(register, kept | value);
    }

    /// The address of an instruction's memory operand.
    #[inline(always)]
    pub(crate) fn address(&self, op: &Op) -> u64 {
        self.wide(op.base)
            .wrapping_add(self.wide(op.index) << op.scaled.shift())
            .wrapping_add(self.wide(op.scaled.segment()))
            .wrapping_add(op.displacement)
    }

    /// The same where it has neither an index nor a segment.
    #[inline(always)]
    pub(crate) fn near_address(&self, op: &Op) -> u64 {
        self.wide(op.base).wrapping_add(op.displacement)
    }

    #[inline(always)]
    pub(crate) fn load<W: Word>(&mut self, address: u64) -> Option<W> {
        match self.pages.at_hand::<W>(address).and_then(|bytes| W::read(bytes)) {
            Some(value) => Some(value),
            None => self.load_slowly(address),
        }
    }

    /// A load from a page that was not used of late, or from two.
    #[cold]
    #[inline(never)]
    fn load_slowly<W: Word>(&mut self, address: u64) -> Option<W> {
        let found = self.pages.load(self.source, address);
        if found.is_none() {
            self.unreadable(address);
        }
        found
    }

    #[inline(always)]
    #[must_use]
    pub(crate) fn store<W: Word>(&mut self, address: u64, value: W) -> bool {
        match self.pages.at_hand::<W>(address) {
            Some(place) => {
                value.write(place);
                true
            }
            None => self.store_slowly(address, value),
        }
    }

    #[cold]
    #[inline(never)]
    fn store_slowly<W: Word>(&mut self, address: u64, value: W) -> bool {
        let done = self.pages.store(self.source, address, value).is_some();
        if !done {
            self.unreadable(address);
        }
        done
    }

    #[cold]
    pub(crate) fn unreadable(&mut self, address: u64) {
        self.stop = Some(Stop::Memory { address: RuntimeAddr(address) });
    }

    /// The stack pointer changes only where the stack is within reach.
    #[inline(always)]
    #[must_use]
    pub(crate) fn push<R: Reach>(&mut self, value: u64) -> Option<()> {
        let at = self.wide(RSP).wrapping_sub(8);
        R::store(self, at, value).then(|| self.set_wide(RSP, at))
    }

    #[inline(always)]
    pub(crate) fn pop<R: Reach>(&mut self) -> Option<u64> {
        let at = self.wide(RSP);
        let value = R::load(self, at)?;
        self.set_wide(RSP, at.wrapping_add(8));
        Some(value)
    }

    /// Notes a taken branch and goes there; false when it was the last.
    #[inline(always)]
    #[must_use]
    pub(crate) fn branch(&mut self, op: &Op, to: u64) -> bool {
        let from = op.ip(self.rip);
        self.rip = to;
        self.taken = true;
        if let Some(place) = self.branches.get_mut(self.found) {
            *place = Branch { from: RuntimeAddr(from), to: RuntimeAddr(to) };
            self.found += 1;
        }
        if self.found >= self.branches.len() {
            self.stop = Some(Stop::Depth);
            return false;
        }
        true
    }

    /// Notes at which instruction the look-ahead ended.
    #[cold]
    #[must_use]
    pub(crate) fn ended(&mut self, op: &Op) -> bool {
        self.ended_at = op.ip(self.rip);
        false
    }

    /// Ends the look-ahead at an instruction.
    #[cold]
    #[must_use]
    pub(crate) fn end(&mut self, stop: Stop) -> bool {
        self.stop = Some(stop);
        false
    }
}
