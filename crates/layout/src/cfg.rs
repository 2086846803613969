//! The control flow graph of a program, weighted by counts: what a layout is computed from.

use image::ImageAddr;
use image::blocks::{BlockFlags, BlockId};

/// Position of a function in [`Cfg::functions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionIndex(pub u32);

/// Position of a block in [`Function::blocks`]: its rank by address, which need not be its
/// [`BlockId`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockIndex(pub u32);

/// A block of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The function.
    pub function: FunctionIndex,
    /// The block in it.
    pub block: BlockIndex,
}

/// A basic block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// The number that the compiler gave it; lists for the compiler name blocks by it.
    pub id: BlockId,
    /// Address in the image that was recorded.
    pub address: ImageAddr,
    /// Bytes; 0 is possible.
    pub size: u32,
    /// How it ends and is entered.
    pub flags: BlockFlags,
    /// Executions.
    pub frequency: u64,
    /// Hash of its content, where the image has one.
    pub hash: Option<u64>,
}

impl Block {
    /// A block of the address map with its executions.
    pub fn of(block: &image::blocks::Block, frequency: u64) -> Block {
        Block {
            id: block.id,
            address: block.address,
            size: block.size,
            flags: block.flags,
            frequency,
            hash: block.hash(),
        }
    }

    /// The first address after the block.
    pub fn end(&self) -> ImageAddr {
        ImageAddr(self.address.0.saturating_add(u64::from(self.size)))
    }
}

/// A branch or a fall-through between two blocks of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// The block that is left.
    pub from: BlockIndex,
    /// The block that is entered at its begin.
    pub to: BlockIndex,
    /// Executions, taken or not.
    pub weight: u64,
}

/// What an edge between functions (or of a function to itself by a call) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// A call; from somewhere in the block to the entry block of a function.
    Call,
    /// A tail call or another branch to a block of another function, from the end of the block.
    TailCall,
    /// A return; from the end of the block to somewhere in the calling block, after its call.
    Return,
}

/// Control that goes from one function to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallEdge {
    /// The block that is left.
    pub from: Place,
    /// The block that is entered.
    pub to: Place,
    /// How.
    pub kind: CallKind,
    /// Executions.
    pub weight: u64,
}

/// A function with its blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// All names at its address as the symbol table has them, the one to use first. Never empty.
    pub names: Vec<String>,
    /// Name of the section it lies in (`.text`, `.text.hot.main`, `.init.text`).
    pub section: String,
    /// Source file of its compilation unit, where it is asked for: tells functions of the same
    /// name apart.
    pub module: Option<String>,
    /// Its blocks by address, the entry block first; blocks of basic block sections (cold parts)
    /// after it.
    pub blocks: Vec<Block>,
    /// Its edges, sorted by (from, to), each pair once, none with weight 0.
    pub edges: Vec<Edge>,
}

impl Function {
    /// Sum of the sizes of its blocks in bytes.
    pub fn size(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.size)).sum()
    }

    /// Whether anything in it was executed.
    pub fn is_hot(&self) -> bool {
        self.blocks.iter().any(|block| block.frequency != 0)
    }

    /// Executions of its entry block.
    pub fn entry_frequency(&self) -> u64 {
        self.blocks.first().map_or(0, |block| block.frequency)
    }
}

/// The functions of a program that were executed, and the calls between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cfg {
    /// Hot functions by address.
    pub functions: Vec<Function>,
    /// Calls and returns, sorted by (from, to, kind), each once, none with weight 0.
    pub calls: Vec<CallEdge>,
}

impl Cfg {
    /// A function; `None` for an index of another graph.
    pub fn function(&self, index: FunctionIndex) -> Option<&Function> {
        self.functions.get(index.0 as usize)
    }

    /// A block; `None` for a place of another graph.
    pub fn block(&self, place: Place) -> Option<&Block> {
        self.function(place.function)?.blocks.get(place.block.0 as usize)
    }
}
