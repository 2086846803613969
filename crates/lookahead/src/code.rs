//! Decoded code, block by block, kept from stop to stop where it cannot change.

use crate::control;
use crate::lower::lower;
use crate::memory::{Pages, Source, Text};
use crate::native::Native;
use crate::op::{Extent, MOST_CALLS, Op, run};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use perfdata::RuntimeAddr;
use rustc_hash::FxHashMap;

/// Instructions of a block, at most; where it is cut there, one more op says so.
const MOST_OPS: usize = MOST_CALLS - 1;
/// No block.
pub(crate) const NONE: u32 = u32::MAX;
/// Ops that are kept before all are forgotten: 32 bytes each.
const MOST_KEPT: usize = 4 << 20;
/// Ops of forgotten blocks that may lie about.
const MOST_PASSED: usize = 256 << 10;
const LONGEST: usize = 15;
/// Bytes of a block, at most.
const MOST_BYTES: usize = MOST_OPS * LONGEST;
const _: () = assert!(MOST_BYTES <= Extent::MOST_OFFSET);

/// Straight-line code up to a branch.
pub(crate) struct Block {
    pub start: u64,
    pub first: u32,
    pub count: u32,
    /// The blocks that followed last: not taken, taken; only such as cannot change.
    pub links: [u32; 2],
    /// The bytes it was made of, where they may change; `None` where they last.
    made_of: Option<Box<[u8]>>,
}

impl Block {
    /// Whether memory still holds the code that it was decoded from.
    fn is_current(&self, pages: &mut Pages, source: &mut dyn Source) -> bool {
        let Some(made_of) = &self.made_of else { return true };
        let mut now = [0; MOST_BYTES];
        let Some(now) = now.get_mut(..made_of.len()) else { return false };
        pages.copy_out(source, self.start, now).is_some() && **made_of == *now
    }
}

/// The blocks of a process.
#[derive(Default)]
pub(crate) struct Code {
    pub blocks: Vec<Block>,
    pub ops: Vec<Op>,
    by_start: FxHashMap<u64, u32>,
    /// Starts of blocks that last only for this look-ahead.
    passing: Vec<u64>,
    /// Ops of such blocks, of this and earlier look-aheads.
    passed: usize,
}

impl Code {
    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.ops.clear();
        self.by_start.clear();
        self.passing.clear();
        self.passed = 0;
    }

    /// Forgets blocks that were made from code that may change; they can be reached no more, so
    /// that links to them are checked against [`Block::start`].
    pub(crate) fn begin(&mut self, native: &mut Native) {
        for start in self.passing.drain(..) {
            if let Some(block) =
                self.by_start.remove(&start).and_then(|at| self.blocks.get_mut(at as usize))
            {
                block.start = u64::MAX;
            }
        }
        if self.ops.len() > MOST_KEPT || self.passed > MOST_PASSED || native.full {
            self.clear();
            native.clear();
        }
    }

    /// Notes which block followed another.
    pub(crate) fn link(&mut self, from: u32, taken: bool, to: u32) {
        let lasts = self.blocks.get(to as usize).is_some_and(|block| block.made_of.is_none());
        if let Some(block) = self.blocks.get_mut(from as usize) {
            block.links[usize::from(taken)] = if lasts { to } else { NONE };
        }
    }

    /// The block at an address; decoded when it is new. `None` where no code can be read.
    pub(crate) fn find(
        &mut self,
        start: u64,
        pages: &mut Pages,
        source: &mut dyn Source,
        native: &mut Native,
    ) -> Option<u32> {
        let known = self.by_start.get(&start).copied();
        match known.and_then(|at| Some((at, self.blocks.get_mut(at as usize)?))) {
            Some((at, block)) if block.is_current(pages, source) => return Some(at),
            // The program has written other code there since.
            Some((_, block)) => block.start = u64::MAX,
            None => {}
        }
        self.decode(start, pages, source, native)
    }

    #[cold]
    fn decode(
        &mut self,
        start: u64,
        pages: &mut Pages,
        source: &mut dyn Source,
        native: &mut Native,
    ) -> Option<u32> {
        let first = u32::try_from(self.ops.len()).ok()?;
        let mut text = Window::at(start, pages, source)?;
        let mut instruction = Instruction::default();
        let mut ip = start;
        loop {
            if !text.decode(ip, pages, source, &mut instruction) && ip == start {
                return None;
            }
            if instruction.is_invalid() && ip != start {
                // Reached only if the code goes on there: then it is decoded again, and fails
                // there.
                self.ops.push(
                    Op { run: run!(control::go_on), ..lower(&instruction, native) }
                        .placed(ip.wrapping_sub(start), 0),
                );
                break;
            }
            let op = lower(&instruction, native).placed(ip.wrapping_sub(start), instruction.len());
            self.ops.push(op);
            ip = instruction.next_ip();
            if instruction.flow_control() != FlowControl::Next {
                break;
            }
            if self.ops.len() - first as usize >= MOST_OPS {
                self.ops
                    .push(Op { run: run!(control::go_on), ..op }.placed(ip.wrapping_sub(start), 0));
                break;
            }
        }
        let at = u32::try_from(self.blocks.len()).ok()?;
        let count = self.ops.len() as u32 - first;
        let length = ip.wrapping_sub(start) as usize;
        let mut made_of = None;
        if [start, ip.wrapping_sub(1)]
            .into_iter()
            .any(|end| source.text(RuntimeAddr(end)) == Text::Passing)
        {
            let mut bytes = vec![0; length.min(MOST_BYTES)].into_boxed_slice();
            pages.copy_out(source, start, &mut bytes)?;
            made_of = Some(bytes);
        }
        let passes = made_of.is_some();
        self.blocks.push(Block { start, first, count, links: [NONE; 2], made_of });
        self.by_start.insert(start, at);
        if passes {
            self.passing.push(start);
            self.passed += count as usize;
        }
        Some(at)
    }
}

/// A piece of code being decoded; it moves on with the decoding.
struct Window {
    bytes: [u8; MOST_BYTES],
    start: u64,
    filled: usize,
}

impl Window {
    fn at(start: u64, pages: &mut Pages, source: &mut dyn Source) -> Option<Window> {
        let mut window = Window { bytes: [0; MOST_BYTES], start, filled: 0 };
        window.fill(start, pages, source)?;
        Some(window)
    }

    /// Reads on from an address, as far as there is room or to the end of its page.
    fn fill(&mut self, from: u64, pages: &mut Pages, source: &mut dyn Source) -> Option<()> {
        let found = pages.rest_of_page(source, from)?;
        let room = self.bytes.get_mut(self.filled..)?;
        let count = found.len().min(room.len());
        room.get_mut(..count)?.copy_from_slice(found.get(..count)?);
        self.filled += count;
        Some(())
    }

    /// Decodes the instruction at an address; false where it cannot be read or is none.
    fn decode(
        &mut self,
        ip: u64,
        pages: &mut Pages,
        source: &mut dyn Source,
        into: &mut Instruction,
    ) -> bool {
        let mut at = ip.wrapping_sub(self.start) as usize;
        if at + LONGEST > self.filled {
            self.bytes.copy_within(at.min(self.filled)..self.filled, 0);
            self.filled -= at.min(self.filled);
            (self.start, at) = (ip, 0);
            // Unreadable code after this page matters only if the instruction goes on there.
            let next = ip.wrapping_add(self.filled as u64);
            let _ = self.fill(next, pages, source);
        }
        let bytes = self.bytes.get(at..self.filled).unwrap_or_default();
        let mut decoder = Decoder::with_ip(64, bytes, ip, DecoderOptions::NONE);
        decoder.decode_out(into);
        !into.is_invalid()
    }
}
