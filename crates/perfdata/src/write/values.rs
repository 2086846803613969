//! The values of a sample that is to be written, in plain slices.

use crate::branch::BranchEntry;
use crate::raw::{CpuMode, SampleId};

/// Call chain, branches and the other parts of a sample that have a length of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct StackValues<'a> {
    /// Call chain with context marks, innermost first.
    pub callchain: &'a [u64],
    /// Branches, newest first.
    pub branches: &'a [BranchEntry],
    /// Position of the newest branch in the hardware's ring.
    pub hw_idx: u64,
    /// Event counts, one word for each branch (0 where there are fewer words than branches).
    pub counters: &'a [u64],
    /// The event's own data.
    pub raw: &'a [u8],
    /// Words of field READ, as the event's read format orders them.
    pub read: &'a [u64],
    /// ABI of the user registers (0: none follow) and their values, lowest bit of the mask first.
    pub regs_user: (u64, &'a [u64]),
    /// ABI of the registers at the interrupt and their values.
    pub regs_intr: (u64, &'a [u64]),
    /// Bytes of the user stack.
    pub stack_user: &'a [u8],
    /// Room that the record gives the user stack, in bytes; at least the stack's length.
    pub stack_room_bytes: u64,
    /// AUX data.
    pub aux: &'a [u8],
}

/// The values of a sample that is to be written. Which of them the record has is up to the event's
/// `sample_type`.
#[derive(Clone, Copy, Debug, Default)]
#[allow(
    missing_docs,
    reason = "plain fields are named as in include/uapi/linux/perf_event.h, PERF_RECORD_SAMPLE"
)]
pub struct SampleValues<'a> {
    /// Kernel or user.
    pub cpumode: CpuMode,
    /// The address is that of the instruction that caused the event.
    pub exact_ip: bool,
    /// Who, when and where (0 where `None`).
    pub id: SampleId,
    pub ip: u64,
    pub addr: u64,
    pub period: u64,
    pub weight: u64,
    pub data_src: u64,
    pub transaction: u64,
    pub phys_addr: u64,
    pub cgroup: u64,
    pub data_page_size: u64,
    pub code_page_size: u64,
    /// Call chain, branches and so on.
    pub stacks: StackValues<'a>,
}
