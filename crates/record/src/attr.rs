//! The event attribute as perf.data stores it (`struct perf_event_attr`, `include/uapi/linux/perf_event.h`).

/// PERF_SAMPLE_* bits.
pub(crate) mod sample {
    pub const IP: u64 = 1;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const PERIOD: u64 = 1 << 8;
    pub const BRANCH_STACK: u64 = 1 << 11;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// PERF_SAMPLE_BRANCH_* bits.
pub(crate) mod branch {
    pub const USER: u64 = 1;
    pub const KERNEL: u64 = 1 << 1;
    pub const ANY: u64 = 1 << 3;
}

/// Flag bits of the attribute.
pub(crate) mod flag {
    pub const DISABLED: u64 = 1;
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HV: u64 = 1 << 6;
    pub const MMAP: u64 = 1 << 8;
    pub const COMM: u64 = 1 << 9;
    pub const FREQ: u64 = 1 << 10;
    pub const ENABLE_ON_EXEC: u64 = 1 << 12;
    pub const TASK: u64 = 1 << 13;
    pub const WATERMARK: u64 = 1 << 14;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const EXCLUDE_GUEST: u64 = 1 << 20;
    pub const MMAP2: u64 = 1 << 23;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCKID: u64 = 1 << 25;
    pub const BUILD_ID: u64 = 1 << 34;
}

/// PERF_TYPE_HARDWARE and the configs used of it.
pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const CPU_CYCLES: u64 = 0;
pub(crate) const BRANCH_INSTRUCTIONS: u64 = 4;
pub(crate) const CPU_CLOCK: u64 = 0;
pub(crate) const CLOCK_MONOTONIC: u32 = 1;

/// The attribute, version 5 (112 bytes): every kernel since 4.1 knows it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attr {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period_or_freq: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup: u32,
    pub bp_type: u32,
    pub config1: u64,
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: u32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved: u16,
}

/// Bytes of [`Attr`], here and in `attr.size`.
pub(crate) const ATTR_BYTES: u32 = 112;
const _: () = assert!(size_of::<Attr>() == ATTR_BYTES as usize, "the kernel fixes this layout");

impl Attr {
    /// The bytes as they lie in memory and in the file.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(ATTR_BYTES as usize);
        bytes.extend_from_slice(&self.kind.to_ne_bytes());
        bytes.extend_from_slice(&self.size.to_ne_bytes());
        for word in [
            self.config,
            self.sample_period_or_freq,
            self.sample_type,
            self.read_format,
            self.flags,
            u64_of(self.wakeup, self.bp_type),
            self.config1,
            self.config2,
            self.branch_sample_type,
            self.sample_regs_user,
            u64_of(self.sample_stack_user, self.clockid),
            self.sample_regs_intr,
            u64_of(self.aux_watermark, u32::from(self.sample_max_stack)),
        ] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

/// Two 32-bit fields that lie beside each other.
fn u64_of(first: u32, second: u32) -> u64 {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    u64::from_ne_bytes(bytes)
}

/// The attribute of emulated recordings: every so many taken branches, with the branch stack.
pub(crate) fn emulated(period: u64) -> Attr {
    Attr {
        kind: TYPE_HARDWARE,
        size: ATTR_BYTES,
        config: BRANCH_INSTRUCTIONS,
        sample_period_or_freq: period,
        sample_type: planish_qemu_branches::spool::SAMPLE_TYPE,
        flags: flag::INHERIT
            | flag::EXCLUDE_KERNEL
            | flag::EXCLUDE_HV
            | flag::MMAP
            | flag::COMM
            | flag::TASK
            | flag::SAMPLE_ID_ALL
            | flag::MMAP2
            | flag::COMM_EXEC
            | flag::USE_CLOCKID
            | flag::BUILD_ID,
        branch_sample_type: branch::USER | branch::ANY,
        clockid: CLOCK_MONOTONIC,
        ..Attr::default()
    }
}

/// The attribute of emulated kernel recordings.
pub(crate) fn emulated_kernel(period: u64) -> Attr {
    const EXCLUDE_USER: u64 = 1 << 4;
    let program = emulated(period);
    Attr {
        flags: program.flags & !flag::EXCLUDE_KERNEL | EXCLUDE_USER,
        branch_sample_type: branch::KERNEL | branch::ANY,
        ..program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulated_event_asks_for_what_the_plugin_writes() {
        let attr = emulated(1000);
        let wanted = sample::IP
            | sample::TID
            | sample::TIME
            | sample::PERIOD
            | sample::BRANCH_STACK
            | sample::IDENTIFIER;
        assert_eq!(attr.sample_type, wanted);
        let bytes = attr.bytes();
        assert_eq!(bytes.len(), ATTR_BYTES as usize);
        assert_eq!(&bytes[72..80], &9u64.to_ne_bytes(), "branch_sample_type is at offset 72");
        assert_eq!(&bytes[92..96], &1u32.to_ne_bytes(), "clockid is at offset 92");
    }
}
