//! What an event was asked to record: `struct perf_event_attr` (include/uapi/linux/perf_event.h),
//! read and written.

use crate::bytes::{Endian, eight, four};

/// Bits of `sample_type`: which fields a sample has.
pub mod sample_type {
    #![allow(missing_docs, reason = "the names are the kernel's PERF_SAMPLE_ names")]
    /// The instruction pointer.
    pub const IP: u64 = 1 << 0;
    /// Process and thread.
    pub const TID: u64 = 1 << 1;
    /// When, in nanoseconds of the event's clock.
    pub const TIME: u64 = 1 << 2;
    /// The data address, where the event has one.
    pub const ADDR: u64 = 1 << 3;
    /// The count, or those of the group.
    pub const READ: u64 = 1 << 4;
    /// The call chain.
    pub const CALLCHAIN: u64 = 1 << 5;
    /// The number of the event that leads the group.
    pub const ID: u64 = 1 << 6;
    /// The CPU.
    pub const CPU: u64 = 1 << 7;
    /// How many events the sample stands for.
    pub const PERIOD: u64 = 1 << 8;
    /// The number of the event itself.
    pub const STREAM_ID: u64 = 1 << 9;
    /// What the event hands over besides.
    pub const RAW: u64 = 1 << 10;
    /// The branch stack.
    pub const BRANCH_STACK: u64 = 1 << 11;
    /// Registers of user mode.
    pub const REGS_USER: u64 = 1 << 12;
    /// A copy of the top of the user stack.
    pub const STACK_USER: u64 = 1 << 13;
    /// A cost in cycles, as of a load.
    pub const WEIGHT: u64 = 1 << 14;
    /// Where data came from.
    pub const DATA_SRC: u64 = 1 << 15;
    /// The number of the event, at a fixed place.
    pub const IDENTIFIER: u64 = 1 << 16;
    /// Why a transaction was aborted.
    pub const TRANSACTION: u64 = 1 << 17;
    /// Registers at the interrupt.
    pub const REGS_INTR: u64 = 1 << 18;
    /// The physical data address.
    pub const PHYS_ADDR: u64 = 1 << 19;
    /// A piece of the AUX area.
    pub const AUX: u64 = 1 << 20;
    /// The control group.
    pub const CGROUP: u64 = 1 << 21;
    /// The size of the data's page, in bytes.
    pub const DATA_PAGE_SIZE: u64 = 1 << 22;
    /// The size of the code's page, in bytes.
    pub const CODE_PAGE_SIZE: u64 = 1 << 23;
    /// Three costs in place of one.
    pub const WEIGHT_STRUCT: u64 = 1 << 24;
    /// All bits this crate knows how to skip and read.
    pub const KNOWN: u64 = (1 << 25) - 1;
}

/// Bits of `read_format`: which fields a counter value has.
pub mod read_format {
    #![allow(missing_docs, reason = "the names are the kernel's PERF_FORMAT_ names")]
    /// How long the event was enabled, in nanoseconds.
    pub const TOTAL_TIME_ENABLED: u64 = 1 << 0;
    /// How long it was counted, in nanoseconds.
    pub const TOTAL_TIME_RUNNING: u64 = 1 << 1;
    /// The number of the event that leads the group.
    pub const ID: u64 = 1 << 2;
    /// The counts of the whole group.
    pub const GROUP: u64 = 1 << 3;
    /// How many samples were lost.
    pub const LOST: u64 = 1 << 4;
}

/// Bits of `branch_sample_type` that change the layout or meaning of a branch stack.
pub mod branch_sample {
    #![allow(missing_docs, reason = "the names are the kernel's PERF_SAMPLE_BRANCH_ names")]
    /// Branches of user mode.
    pub const USER: u64 = 1 << 0;
    /// Branches of the kernel.
    pub const KERNEL: u64 = 1 << 1;
    /// Branches of the hypervisor.
    pub const HV: u64 = 1 << 2;
    /// Branches of any kind.
    pub const ANY: u64 = 1 << 3;
    /// Calls of any kind.
    pub const ANY_CALL: u64 = 1 << 4;
    /// Returns of any kind.
    pub const ANY_RETURN: u64 = 1 << 5;
    /// Indirect calls.
    pub const IND_CALL: u64 = 1 << 6;
    /// Aborts of transactions.
    pub const ABORT_TX: u64 = 1 << 7;
    /// Branches within transactions.
    pub const IN_TX: u64 = 1 << 8;
    /// Branches outside of transactions.
    pub const NO_TX: u64 = 1 << 9;
    /// Conditional branches.
    pub const COND: u64 = 1 << 10;
    /// The calls that have not returned.
    pub const CALL_STACK: u64 = 1 << 11;
    /// Indirect jumps.
    pub const IND_JUMP: u64 = 1 << 12;
    /// Direct calls.
    pub const CALL: u64 = 1 << 13;
    /// Leave the flags of entries out.
    pub const NO_FLAGS: u64 = 1 << 14;
    /// Leave their cycles out.
    pub const NO_CYCLES: u64 = 1 << 15;
    /// Say of which kind each entry is.
    pub const TYPE_SAVE: u64 = 1 << 16;
    /// Say where the newest entry lies in the hardware.
    pub const HW_INDEX: u64 = 1 << 17;
    /// Say in which mode each branch was taken.
    pub const PRIV_SAVE: u64 = 1 << 18;
    /// Counts of events between entries.
    pub const COUNTERS: u64 = 1 << 19;
}

/// Bits of [`EventAttr::flags`], the attribute's bit field, numbered as on a little-endian machine.
pub mod attr_flag {
    #![allow(missing_docs, reason = "the names are the kernel's bit field names")]
    /// Off until enabled.
    pub const DISABLED: u64 = 1 << 0;
    /// Children are recorded too.
    pub const INHERIT: u64 = 1 << 1;
    /// Nothing of user mode.
    pub const EXCLUDE_USER: u64 = 1 << 4;
    /// Nothing of the kernel.
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    /// Nothing of the hypervisor.
    pub const EXCLUDE_HV: u64 = 1 << 6;
    /// Records of executable mappings.
    pub const MMAP: u64 = 1 << 8;
    /// Records of names.
    pub const COMM: u64 = 1 << 9;
    /// The period is a frequency, in samples a second.
    pub const FREQ: u64 = 1 << 10;
    /// On with the next exec.
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    /// Records of forks and exits.
    pub const TASK: u64 = 1 << 13;
    /// Wake the reader after bytes, not after samples.
    pub const WATERMARK: u64 = 1 << 14;
    /// Every record says who and when.
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    /// Nothing of guests.
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    /// Records of mappings with inode or build ID.
    pub const MMAP2: u64 = 1 << 23;
    /// Records of names say whether an exec gave them.
    pub const COMM_EXEC: u64 = 1 << 24;
    /// Times are of the clock that `clockid` names.
    pub const USE_CLOCKID: u64 = 1 << 25;
    /// Records of context switches.
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
    /// Records of mappings have the build ID in place of the inode.
    pub const BUILD_ID: u64 = 1 << 34;
    /// The user's call chain comes in a record of its own.
    pub const DEFER_CALLCHAIN: u64 = 1 << 38;
    /// Records of deferred call chains are written.
    pub const DEFER_OUTPUT: u64 = 1 << 39;
}

/// One event of the recording: its `perf_event_attr`, its ids, and its name where the file knows
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventAttr {
    /// `PERF_TYPE_…`: hardware 0, software 1, tracepoint 2, cache 3, raw 4, breakpoint 5, or a
    /// PMU's number.
    pub kind: u32,
    /// Size of the structure in the file, in bytes. The writer always writes
    /// [`EventAttr::WRITTEN_BYTES`].
    pub size_bytes: u32,
    /// Which event of its kind.
    pub config: u64,
    /// Period in events, or frequency in Hz when [`attr_flag::FREQ`] is set.
    pub period_or_freq: u64,
    /// Bits of [`sample_type`].
    pub sample_type: u64,
    /// Bits of [`read_format`].
    pub read_format: u64,
    /// The bit field, numbered as on a little-endian machine whatever the recording's byte order
    /// ([`attr_flag`]).
    pub flags: u64,
    /// Wake-up events or watermark.
    pub wakeup: u32,
    /// Breakpoint type.
    pub bp_type: u32,
    /// Extension of `config` (or breakpoint address).
    pub config1: u64,
    /// Extension of `config1` (or breakpoint length).
    pub config2: u64,
    /// Bits of [`branch_sample`].
    pub branch_sample_type: u64,
    /// Mask of user registers in each sample.
    pub sample_regs_user: u64,
    /// Size of user stack in each sample, in bytes.
    pub sample_stack_user: u32,
    /// Clock of the time fields, when [`attr_flag::USE_CLOCKID`] is set.
    pub clockid: i32,
    /// Mask of registers at the interrupt in each sample.
    pub sample_regs_intr: u64,
    /// Watermark for the AUX area, in bytes.
    pub aux_watermark: u32,
    /// Deepest call chain.
    pub sample_max_stack: u16,
    /// Size of AUX data in each sample, in bytes.
    pub aux_sample_size: u32,
    /// User data of sigtrap events.
    pub sig_data: u64,
    /// Extension of `config2` (since Linux 6.3).
    pub config3: u64,
    /// Ids of the event's counters, one per CPU or thread.
    pub ids: Vec<u64>,
    /// The event's name, from feature EVENT_DESC or an event update.
    pub name: Option<String>,
}

impl EventAttr {
    /// `PERF_ATTR_SIZE_VER0`: the smallest attribute ever written, in bytes.
    pub const SMALLEST_BYTES: u32 = 64;
    /// `PERF_ATTR_SIZE_VER7`: the size we write, in bytes. Linux 6.1 knows no longer one.
    pub const WRITTEN_BYTES: u32 = 128;

    /// Whether every record that is not a sample ends in a sample id trailer.
    pub fn sample_id_all(&self) -> bool {
        self.flags & attr_flag::SAMPLE_ID_ALL != 0
    }

    /// Whether samples carry branch stacks.
    pub fn has_branch_stack(&self) -> bool {
        self.sample_type & sample_type::BRANCH_STACK != 0
    }

    /// Reads the attribute at the start of `bytes`, which may be shorter (older) or longer (newer)
    /// than what we know. Fields that are not there are 0, as the kernel defines. `None` when
    /// it is shorter than the oldest one.
    pub(crate) fn read(bytes: &[u8], endian: Endian) -> Option<EventAttr> {
        let size = match endian.u32(four(bytes, 4)?) {
            0 => EventAttr::SMALLEST_BYTES,
            size => size,
        };
        let bytes = bytes.get(..size as usize)?;
        if size < EventAttr::SMALLEST_BYTES {
            return None;
        }
        let word = |at: usize| eight(bytes, at).map_or(0, |b| endian.u64(b));
        let half = |at: usize| four(bytes, at).map_or(0, |b| endian.u32(b));
        Some(EventAttr {
            kind: half(0),
            size_bytes: size,
            config: word(8),
            period_or_freq: word(16),
            sample_type: word(24),
            read_format: word(32),
            flags: eight(bytes, 40).map_or(0, |b| read_bit_field(b, endian)),
            wakeup: half(48),
            bp_type: half(52),
            config1: word(56),
            config2: word(64),
            branch_sample_type: word(72),
            sample_regs_user: word(80),
            sample_stack_user: half(88),
            clockid: half(92) as i32,
            sample_regs_intr: word(96),
            aux_watermark: half(104),
            sample_max_stack: bytes.get(108..110).map_or(0, |b| endian.u16([b[0], b[1]])),
            aux_sample_size: half(112),
            sig_data: word(120),
            config3: word(128),
            ids: Vec::new(),
            name: None,
        })
    }

    /// The attribute as `perf_event_open(2)` reads it on this machine: `struct perf_event_attr`,
    /// [`EventAttr::WRITTEN_BYTES`] long, its size field set. Kernels that know a shorter one
    /// accept it as long as the rest is 0.
    pub fn to_kernel_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(EventAttr::WRITTEN_BYTES as usize);
        self.write(&mut bytes, Endian::NATIVE);
        bytes
    }

    /// Appends the attribute as [`EventAttr::WRITTEN_BYTES`] bytes; ids and name are not part of
    /// it.
    pub(crate) fn write(&self, out: &mut Vec<u8>, endian: Endian) {
        let mut word = |value: u64| out.extend_from_slice(&endian.put_u64(value));
        let halves = |a: u32, b: u32| {
            let mut both = [0; 8];
            both[..4].copy_from_slice(&endian.put_u32(a));
            both[4..].copy_from_slice(&endian.put_u32(b));
            endian.u64(both)
        };
        word(halves(self.kind, EventAttr::WRITTEN_BYTES));
        word(self.config);
        word(self.period_or_freq);
        word(self.sample_type);
        word(self.read_format);
        word(endian.u64(write_bit_field(self.flags, endian)));
        word(halves(self.wakeup, self.bp_type));
        word(self.config1);
        word(self.config2);
        word(self.branch_sample_type);
        word(self.sample_regs_user);
        word(halves(self.sample_stack_user, self.clockid as u32));
        word(self.sample_regs_intr);
        let max_stack = endian.put_u16(self.sample_max_stack);
        word(halves(self.aux_watermark, endian.u32([max_stack[0], max_stack[1], 0, 0])));
        word(halves(self.aux_sample_size, 0));
        word(self.sig_data);
    }
}

/// C allocates bit fields from the low bit on little-endian machines and from the high bit on
/// big-endian ones, so the first flag is always in the first byte; only the order of bits within
/// each byte differs.
fn read_bit_field(bytes: [u8; 8], endian: Endian) -> u64 {
    match endian {
        Endian::Little => u64::from_le_bytes(bytes),
        Endian::Big => u64::from_le_bytes(bytes.map(u8::reverse_bits)),
    }
}

fn write_bit_field(flags: u64, endian: Endian) -> [u8; 8] {
    match endian {
        Endian::Little => flags.to_le_bytes(),
        Endian::Big => flags.to_le_bytes().map(u8::reverse_bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> EventAttr {
        EventAttr {
            kind: 4,
            size_bytes: EventAttr::WRITTEN_BYTES,
            config: 0x0123_4567_89ab_cdef,
            period_or_freq: 1009,
            sample_type: 0x1ff,
            read_format: 0x15,
            flags: attr_flag::SAMPLE_ID_ALL | attr_flag::MMAP2 | attr_flag::DISABLED | (2 << 15),
            wakeup: 7,
            bp_type: 8,
            config1: 9,
            config2: 10,
            branch_sample_type: 11,
            sample_regs_user: 12,
            sample_stack_user: 13,
            clockid: -14,
            sample_regs_intr: 15,
            aux_watermark: 16,
            sample_max_stack: 17,
            aux_sample_size: 18,
            sig_data: 19,
            ..EventAttr::default()
        }
    }

    #[test]
    fn an_attribute_written_is_the_attribute_read_in_both_byte_orders() {
        for endian in [Endian::Little, Endian::Big] {
            let mut bytes = Vec::new();
            full().write(&mut bytes, endian);
            assert_eq!(bytes.len(), EventAttr::WRITTEN_BYTES as usize);
            assert_eq!(EventAttr::read(&bytes, endian), Some(full()));
        }
    }

    #[test]
    fn the_first_flag_is_the_high_bit_of_the_first_byte_on_a_big_endian_machine() {
        assert_eq!(write_bit_field(attr_flag::DISABLED, Endian::Big)[0], 0x80);
        assert_eq!(
            read_bit_field([0, 0, 0b0010_0000, 0, 0, 0, 0, 0], Endian::Big),
            attr_flag::SAMPLE_ID_ALL
        );
    }

    #[test]
    fn an_attribute_of_an_old_perf_reads_with_zeros_and_a_shorter_one_is_refused() {
        let mut bytes = Vec::new();
        full().write(&mut bytes, Endian::Little);
        bytes[4..8].copy_from_slice(&96u32.to_le_bytes());
        let old = EventAttr::read(&bytes[..96], Endian::Little).unwrap();
        assert_eq!((old.sample_stack_user, old.sample_regs_intr), (13, 0));
        bytes[4..8].copy_from_slice(&63u32.to_le_bytes());
        assert_eq!(EventAttr::read(&bytes, Endian::Little), None);
        bytes[4..8].copy_from_slice(&0xffff_ff00u32.to_le_bytes());
        assert_eq!(EventAttr::read(&bytes, Endian::Little), None);
    }
}
