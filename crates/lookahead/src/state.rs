//! The registers as they lie in memory, and their numbers.

/// Number of the register that is always 0: what an address without base or index has there.
pub(crate) const ZERO: u8 = 16;
pub(crate) const FS_BASE: u8 = 17;
pub(crate) const GS_BASE: u8 = 18;
pub(crate) const RAX: u8 = 0;
pub(crate) const RCX: u8 = 1;
pub(crate) const RDX: u8 = 2;
pub(crate) const RSP: u8 = 4;
pub(crate) const RBP: u8 = 5;
pub(crate) const RSI: u8 = 6;
pub(crate) const RDI: u8 = 7;
/// Registers have five bits.
pub(crate) const REGISTERS: u8 = 31;

/// A vector register of 64 bytes.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Vector(pub [u8; 64]);

/// The registers, laid out for stubs, which load and store them by offset.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct State {
    pub vectors: [Vector; 32],
    /// By their number in the encoding; from 16 on: 0, the bases of fs and gs.
    pub gpr: [u64; 32],
    pub masks: [u64; 8],
    /// Flags on their way into and out of a stub.
    pub flags_image: u64,
}

impl State {
    pub(crate) fn new() -> State {
        State { vectors: [Vector([0; 64]); 32], gpr: [0; 32], masks: [0; 8], flags_image: 0 }
    }
}

/// The vector registers that were put away for an area of memory.
pub(crate) struct Saved {
    pub area: u64,
    pub vectors: Box<[Vector; 32]>,
    pub masks: [u64; 8],
}
