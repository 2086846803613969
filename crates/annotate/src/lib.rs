//! The instructions and source lines of one function, with what a recording says of each: the
//! weight of the samples taken there and, from branch stacks, how often it ran, which way its
//! branches went, and how often its loops turned.
//!
//! [`annotate`] takes values and returns values. Weights are those of [`calltrees::sites`],
//! executions those of [`counts::ImageCounts`].

mod code;
mod executions;
mod flow;
mod lines;
mod loops;
mod moved;
mod parts;

pub use code::MOST_CODE_BYTES;
pub use executions::{Branch, Target};
pub use lines::{Line, Place};
pub use loops::Loop;
pub use moved::{Before, Moved};
pub use parts::{Part, parts};

use calltrees::Weight;
use counts::ImageCounts;
use image::blocks::{BlockId, FunctionBlocks};
use image::code::InstructionKind;
use image::debug::DebugInfo;
use image::{Image, ImageAddr};
use std::ops::Range;

/// Of which function, and from what.
pub struct Request<'r> {
    /// The file that it lies in.
    pub image: &'r Image,
    /// Its code.
    pub code: Range<ImageAddr>,
    /// The samples taken in it, by address.
    pub samples: &'r [(ImageAddr, Weight)],
    /// What branch stacks say of the image, with paths.
    pub counts: Option<&'r ImageCounts>,
    /// Where its lines and inlined calls stand.
    pub debug: Option<&'r DebugInfo<'r>>,
    /// The image's blocks.
    pub blocks: &'r [FunctionBlocks],
    /// The file that a layout began with, and the function's linkage name, to tell which blocks it
    /// moved.
    pub before: Option<(Before<'r>, &'r str)>,
    /// Worker threads.
    pub threads: usize,
}

/// An instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Its first byte.
    pub address: ImageAddr,
    /// Its length in bytes.
    pub size: u8,
    /// What it does to the flow of control.
    pub kind: InstructionKind,
    /// How it is written, where that is known of the processor.
    pub text: Option<String>,
    /// Where it goes, if it is a direct branch or call.
    pub target: Option<ImageAddr>,
    /// What lies there (linkage name), and how far into it, if it is not this function.
    pub target_function: Option<(String, u64)>,
    /// What was sampled at it.
    pub weight: Weight,
    /// How often it ran in the recorded stretches of branch stacks.
    pub count: Option<u64>,
    /// Its line: position in [`Annotated::lines`].
    pub line: usize,
    /// Its block by the file's map of blocks.
    pub block: Option<BlockId>,
}

/// A function told by instruction and by line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Annotated {
    /// In the order of addresses.
    pub instructions: Vec<Instruction>,
    /// The function's own lines first, each file in its order; then those of inlined functions.
    pub lines: Vec<Line>,
    /// Paths of source files.
    pub files: Vec<String>,
    /// Branches that branch stacks saw, by address.
    pub branches: Vec<Branch>,
    /// Loops that branch stacks saw, by address.
    pub loops: Vec<Loop>,
    /// Whether the function has more loops than could be told.
    pub more_loops: bool,
    /// Of samples at no instruction that could be told.
    pub unplaced: Weight,
    /// Bytes at the end that are not told, since the function is too large.
    pub left_out_bytes: u64,
    /// Blocks that lie behind another block than before, by block; none where it is not known.
    pub moved: Option<Vec<Moved>>,
    /// What could not be read of the debug information, in words.
    pub problem: Option<String>,
}

/// Tells of one function.
pub fn annotate(request: &Request<'_>) -> Annotated {
    let (mut instructions, left_out_bytes) = code::instructions(request);
    let unplaced = code::weigh(&mut instructions, request.samples);
    code::number_blocks(&mut instructions, request.blocks);
    let (mut branches, mut loops) = (Vec::new(), (Vec::new(), false));
    if let Some(counts) = request.counts.filter(|counts| counts.has_branches()) {
        executions::count(&mut instructions, counts);
        branches = executions::branches(&instructions, counts);
        loops = loops::loops(&instructions, &branches, counts);
    }
    let of_layout =
        |(before, name)| moved::moved((name, request.code.start), request.blocks, &before);
    let moved = request.before.and_then(of_layout);
    let told = lines::lines(&mut instructions, request);
    let (lines, files, problem) = (told.lines, told.files, told.problem);
    let (loops, more_loops) = loops;
    Annotated {
        instructions,
        lines,
        files,
        branches,
        loops,
        more_loops,
        unplaced,
        left_out_bytes,
        moved,
        problem,
    }
}

/// The position of the instruction at an address.
fn position(instructions: &[Instruction], at: ImageAddr) -> Option<usize> {
    instructions.binary_search_by_key(&at, |instruction| instruction.address).ok()
}
