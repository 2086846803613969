//! What is a jump worth at a distance? The Ext-TSP score.
//!
//! A fall-through costs no taken branch; a short jump costs one but stays in the cache. With the
//! distance d in bytes from the end of the source to the start of the target, and the weight w of
//! the jump:
//!
//! ```text
//! d = 0       w · fall_through
//! d > 0       w · forward  · (1 - d / forward_window)    0 beyond the window
//! d < 0       w · backward · (1 - |d| / backward_window)  0 beyond the window
//! ```
//!
//! A call leaves from the middle of its block and a return comes back to the middle of one, because
//! where in the block is not known. Source: Newell and Pupyrev, "Improved Basic Block Reordering"
//! (arXiv 1809.04676), section 3.

use crate::successors::LARGEST_PADDING_BYTES;

/// How control goes along a jump: decides from where the distance counts and whether it can be a
/// fall-through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JumpKind {
    /// A direct branch or a fall-through between blocks of a function.
    Branch,
    /// A branch through a register or memory: taken even where its target is the next block.
    Indirect,
    /// A jump to another function: taken wherever that lies.
    TailCall,
    /// A call, from the middle of its block.
    Call,
    /// A return, to the middle of its block.
    Return,
}

/// The constants of the score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scoring {
    /// Worth of one execution of a fall-through.
    pub fall_through: f64,
    /// Worth of one execution of a forward jump of distance 0, falling to 0 at the end of the
    /// window.
    pub forward: f64,
    /// The same for backward jumps.
    pub backward: f64,
    /// Bytes beyond which a forward jump is worth nothing.
    pub forward_window: u32,
    /// Bytes beyond which a backward jump is worth nothing.
    pub backward_window: u32,
    /// Whether an indirect branch to the next block counts as a fall-through, as Propeller has it.
    pub indirect_falls_through: bool,
    /// Bytes that may lie between a block and the next one of its function in the recorded image
    /// and still be padding, which control falls through.
    pub padding: u32,
}

impl Default for Scoring {
    /// The constants of LLVM's block placement (`CodeLayout.cpp`, LLVM 16 to 22), which were tuned
    /// on large programs, and indirect branches counted as the taken branches that they are.
    fn default() -> Self {
        Scoring {
            fall_through: 10.0,
            forward: 1.0,
            backward: 1.0,
            forward_window: 1024,
            backward_window: 640,
            indirect_falls_through: false,
            padding: LARGEST_PADDING_BYTES,
        }
    }
}

impl Scoring {
    /// The constants of Google's Propeller tools; scores compare with theirs to the last digit.
    pub fn propeller() -> Self {
        Scoring {
            backward_window: 680,
            indirect_falls_through: true,
            padding: 0,
            ..Scoring::default()
        }
    }

    /// What a jump is worth whose target begins `distance` bytes after the end of its source (see
    /// [`Scoring::skew`]).
    pub fn value(&self, kind: JumpKind, weight: f64, distance: i64) -> f64 {
        let length = distance.unsigned_abs() as f64;
        if distance > 0 {
            weight * self.forward * (1.0 - length / f64::from(self.forward_window)).max(0.0)
        } else if distance < 0 {
            weight * self.backward * (1.0 - length / f64::from(self.backward_window)).max(0.0)
        } else {
            match kind {
                JumpKind::Branch => weight * self.fall_through,
                JumpKind::Indirect if self.indirect_falls_through => weight * self.fall_through,
                JumpKind::Indirect | JumpKind::TailCall => weight * self.forward,
                // Propeller gives such calls nothing; they cannot be but from blocks of one byte.
                JumpKind::Call | JumpKind::Return => 0.0,
            }
        }
    }

    /// What to add to the difference of the start addresses (target minus source) to get the
    /// distance in bytes.
    pub fn skew(kind: JumpKind, from_size: u32, to_size: u32) -> i64 {
        let from_size = i64::from(from_size);
        match kind {
            JumpKind::Branch | JumpKind::Indirect | JumpKind::TailCall => -from_size,
            JumpKind::Call => from_size / 2 - from_size,
            JumpKind::Return => i64::from(to_size) / 2 - from_size,
        }
    }
}
