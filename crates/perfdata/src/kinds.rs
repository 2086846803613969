//! The numbers in record headers: kinds (1 to 22 the kernel's, from 64 perf's own) and flag bits.

/// Record types (`PERF_RECORD_…`; from 64 on those of tools/perf/util/event.h).
pub mod kind {
    #![allow(missing_docs, reason = "the names are the kernel's and perf's PERF_RECORD_ names")]
    pub const MMAP: u32 = 1;
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const EXIT: u32 = 4;
    pub const THROTTLE: u32 = 5;
    pub const UNTHROTTLE: u32 = 6;
    pub const FORK: u32 = 7;
    pub const READ: u32 = 8;
    pub const SAMPLE: u32 = 9;
    pub const MMAP2: u32 = 10;
    pub const AUX: u32 = 11;
    pub const ITRACE_START: u32 = 12;
    pub const LOST_SAMPLES: u32 = 13;
    pub const SWITCH: u32 = 14;
    pub const SWITCH_CPU_WIDE: u32 = 15;
    pub const NAMESPACES: u32 = 16;
    pub const KSYMBOL: u32 = 17;
    pub const BPF_EVENT: u32 = 18;
    pub const CGROUP: u32 = 19;
    pub const TEXT_POKE: u32 = 20;
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    /// The first kind that perf writes itself; these have no sample id trailer.
    pub const USER: u32 = 64;
    pub const HEADER_ATTR: u32 = 64;
    pub const HEADER_EVENT_TYPE: u32 = 65;
    pub const HEADER_TRACING_DATA: u32 = 66;
    pub const HEADER_BUILD_ID: u32 = 67;
    pub const FINISHED_ROUND: u32 = 68;
    pub const ID_INDEX: u32 = 69;
    pub const AUXTRACE_INFO: u32 = 70;
    pub const AUXTRACE: u32 = 71;
    pub const AUXTRACE_ERROR: u32 = 72;
    pub const THREAD_MAP: u32 = 73;
    pub const CPU_MAP: u32 = 74;
    pub const STAT_CONFIG: u32 = 75;
    pub const STAT: u32 = 76;
    pub const STAT_ROUND: u32 = 77;
    pub const EVENT_UPDATE: u32 = 78;
    pub const TIME_CONV: u32 = 79;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const FINISHED_INIT: u32 = 82;
    pub const COMPRESSED2: u32 = 83;
    pub const BPF_METADATA: u32 = 84;
    pub const SCHEDSTAT_CPU: u32 = 85;
    pub const SCHEDSTAT_DOMAIN: u32 = 86;
}

/// Bits of a record header's `misc` (`PERF_RECORD_MISC_…`).
pub mod misc {
    #![allow(missing_docs, reason = "the names are the kernel's PERF_RECORD_MISC_ names")]
    pub const CPUMODE_MASK: u16 = 7;
    pub const KERNEL: u16 = 1;
    pub const USER: u16 = 2;
    pub const HYPERVISOR: u16 = 3;
    pub const GUEST_KERNEL: u16 = 4;
    pub const GUEST_USER: u16 = 5;
    pub const MMAP_DATA: u16 = 1 << 13;
    pub const COMM_EXEC: u16 = 1 << 13;
    pub const FORK_EXEC: u16 = 1 << 13;
    pub const SWITCH_OUT: u16 = 1 << 13;
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    pub const EXACT_IP: u16 = 1 << 14;
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// In entries of feature BUILD_ID: the size byte after the 20 bytes of build ID is valid.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}
