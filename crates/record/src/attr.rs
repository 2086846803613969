//! Which events are recorded: the attributes of emulated recordings, and what all live ones share.

use perfdata::{EventAttr, attr_flag as flag, branch_sample, sample_type};

/// PERF_TYPE_HARDWARE and PERF_TYPE_SOFTWARE, and the configs used of them
/// (`include/uapi/linux/perf_event.h`).
pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const BRANCH_INSTRUCTIONS: u64 = 4;
pub(crate) const CPU_CLOCK: u64 = 0;
pub(crate) const CLOCK_MONOTONIC: i32 = 1;

/// Bits of the attribute's bit field that the reader of perf.data has no use for.
pub(crate) mod bit {
    pub(crate) const PINNED: u64 = 1 << 2;
    pub(crate) const EXCLUSIVE: u64 = 1 << 3;
    pub(crate) const EXCLUDE_IDLE: u64 = 1 << 7;
    pub(crate) const INHERIT_STAT: u64 = 1 << 11;
    /// Two bits.
    pub(crate) const PRECISE_AT: u32 = 15;
    pub(crate) const MMAP_DATA: u64 = 1 << 17;
    pub(crate) const EXCLUDE_HOST: u64 = 1 << 19;
    pub(crate) const EXCLUDE_CALLCHAIN_USER: u64 = 1 << 22;
    pub(crate) const WRITE_BACKWARD: u64 = 1 << 27;
    pub(crate) const NAMESPACES: u64 = 1 << 28;
    pub(crate) const KSYMBOL: u64 = 1 << 29;
    pub(crate) const BPF_EVENT: u64 = 1 << 30;
    pub(crate) const CGROUP: u64 = 1 << 32;
}

/// What an event that writes AUX data needs beside its config words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Who makes the data ([`perfdata::tracer`]).
    pub tracer: u32,
    /// The period where none is asked for.
    pub usual_period: u64,
    /// Fields that its attribute announces for what decoders make of the data.
    pub sample_type: u64,
}

/// The fields that every sample has; the readers of fresh records in this crate rely on their
/// places.
pub(crate) const SAMPLE_FIELDS: u64 = sample_type::IP
    | sample_type::TID
    | sample_type::TIME
    | sample_type::PERIOD
    | sample_type::IDENTIFIER;

/// The attribute of emulated recordings: every so many taken branches, with the branch stack and,
/// asked for, the call chain.
pub(crate) fn emulated(period: u64, name: &str, call_chains: bool) -> EventAttr {
    use qemu_branches::spool::{CALL_CHAIN, SAMPLE_TYPE};
    EventAttr {
        kind: TYPE_HARDWARE,
        size_bytes: EventAttr::WRITTEN_BYTES,
        config: BRANCH_INSTRUCTIONS,
        period_or_freq: period,
        sample_type: SAMPLE_TYPE | if call_chains { CALL_CHAIN } else { 0 },
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
        branch_sample_type: branch_sample::USER | branch_sample::ANY,
        clockid: CLOCK_MONOTONIC,
        ids: vec![qemu_branches::spool::EVENT_ID],
        name: Some(name.to_owned()),
        ..EventAttr::default()
    }
}

#[cfg(target_arch = "x86_64")]
/// The attribute of software branch stacks: the threads' CPU clock or a counter, with what they do
/// next.
pub(crate) fn looked_ahead(id: u64, name: &str, trigger: stops::Trigger) -> EventAttr {
    let (kind, config) = match trigger {
        stops::Trigger::Counter { kind, config } => (kind, config),
        stops::Trigger::CpuClock => (TYPE_SOFTWARE, CPU_CLOCK),
    };
    EventAttr {
        kind,
        size_bytes: EventAttr::WRITTEN_BYTES,
        config,
        sample_type: SAMPLE_FIELDS | sample_type::BRANCH_STACK,
        read_format: perfdata::read_format::ID | perfdata::read_format::LOST,
        flags: flag::INHERIT
            | flag::EXCLUDE_KERNEL
            | flag::EXCLUDE_HV
            | flag::SAMPLE_ID_ALL
            | flag::USE_CLOCKID,
        branch_sample_type: branch_sample::USER | branch_sample::ANY,
        clockid: CLOCK_MONOTONIC,
        ids: vec![id],
        name: Some(name.to_owned()),
        ..EventAttr::default()
    }
}

/// The attribute of emulated kernel recordings, whose times are taken branches and no clock's.
pub(crate) fn emulated_kernel(period: u64, name: &str) -> EventAttr {
    let program = emulated(period, name, false);
    EventAttr {
        flags: program.flags & !(flag::EXCLUDE_KERNEL | flag::USE_CLOCKID) | flag::EXCLUDE_USER,
        clockid: 0,
        branch_sample_type: branch_sample::KERNEL | branch_sample::ANY,
        ..program
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulated_event_asks_for_what_the_plugin_writes() {
        let attr = emulated(1000, "taken-branches:u", false);
        assert_eq!(attr.sample_type, SAMPLE_FIELDS | sample_type::BRANCH_STACK);
        let with_chain = emulated(1000, "taken-branches:u", true).sample_type;
        assert_eq!(with_chain, attr.sample_type | sample_type::CALLCHAIN);
        let bytes = attr.to_kernel_bytes();
        assert_eq!(bytes.len(), EventAttr::WRITTEN_BYTES as usize);
        assert_eq!(&bytes[72..80], &9u64.to_ne_bytes(), "branch_sample_type is at offset 72");
        assert_eq!(&bytes[92..96], &1u32.to_ne_bytes(), "clockid is at offset 92");
    }
}
