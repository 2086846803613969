//! The numbers in record headers: kinds (1 to 22 the kernel's, from 64 perf's own) and flag bits.

/// Record types (`PERF_RECORD_…`; from 64 on those of tools/perf/util/event.h).
pub mod kind {
    #![allow(missing_docs, reason = "the names are the kernel's and perf's PERF_RECORD_ names")]
    /// A mapping, by name alone.
    pub const MMAP: u32 = 1;
    /// Records were lost.
    pub const LOST: u32 = 2;
    /// A thread has a name.
    pub const COMM: u32 = 3;
    /// A thread has ended.
    pub const EXIT: u32 = 4;
    /// Sampling was stopped for being too frequent.
    pub const THROTTLE: u32 = 5;
    /// It goes on.
    pub const UNTHROTTLE: u32 = 6;
    /// A thread has begun.
    pub const FORK: u32 = 7;
    /// Counts of an event that was inherited.
    pub const READ: u32 = 8;
    /// A sample.
    pub const SAMPLE: u32 = 9;
    /// A mapping, with inode or build ID.
    pub const MMAP2: u32 = 10;
    /// Data has come into the AUX area.
    pub const AUX: u32 = 11;
    /// A trace of instructions begins.
    pub const ITRACE_START: u32 = 12;
    /// Samples were lost in hardware.
    pub const LOST_SAMPLES: u32 = 13;
    /// A context switch of this thread.
    pub const SWITCH: u32 = 14;
    /// A context switch of a CPU, with the other thread.
    pub const SWITCH_CPU_WIDE: u32 = 15;
    /// Namespaces of a process.
    pub const NAMESPACES: u32 = 16;
    /// The kernel has a new symbol, or lost one.
    pub const KSYMBOL: u32 = 17;
    /// A program of BPF was loaded or unloaded.
    pub const BPF_EVENT: u32 = 18;
    /// Number and path of a control group.
    pub const CGROUP: u32 = 19;
    /// The kernel has changed its own code.
    pub const TEXT_POKE: u32 = 20;
    /// Which counter writes into the AUX area.
    pub const AUX_OUTPUT_HW_ID: u32 = 21;
    /// The user part of an earlier sample's call chain.
    pub const CALLCHAIN_DEFERRED: u32 = 22;
    /// The first kind that perf writes itself; these have no sample id trailer.
    pub const USER: u32 = 64;
    /// The attribute of an event, in pipes.
    pub const HEADER_ATTR: u32 = 64;
    /// The name of an event, in old files.
    pub const HEADER_EVENT_TYPE: u32 = 65;
    /// Formats of tracepoints, in pipes.
    pub const HEADER_TRACING_DATA: u32 = 66;
    /// A build ID, in pipes.
    pub const HEADER_BUILD_ID: u32 = 67;
    /// What was written before is older than what comes two rounds later.
    pub const FINISHED_ROUND: u32 = 68;
    /// CPU and thread of each event's number.
    pub const ID_INDEX: u32 = 69;
    /// What made the AUX data.
    pub const AUXTRACE_INFO: u32 = 70;
    /// AUX data follows.
    pub const AUXTRACE: u32 = 71;
    /// AUX data could not be decoded.
    pub const AUXTRACE_ERROR: u32 = 72;
    /// The recorded threads.
    pub const THREAD_MAP: u32 = 73;
    /// The recorded CPUs.
    pub const CPU_MAP: u32 = 74;
    /// Settings of `perf stat`.
    pub const STAT_CONFIG: u32 = 75;
    /// A count of `perf stat`.
    pub const STAT: u32 = 76;
    /// An interval of `perf stat` ends.
    pub const STAT_ROUND: u32 = 77;
    /// Name, unit or scale of an event.
    pub const EVENT_UPDATE: u32 = 78;
    /// How cycles of the clock become time.
    pub const TIME_CONV: u32 = 79;
    /// A feature section, in pipes.
    pub const HEADER_FEATURE: u32 = 80;
    /// Compressed records.
    pub const COMPRESSED: u32 = 81;
    /// What was there before the recording has been written.
    pub const FINISHED_INIT: u32 = 82;
    /// Compressed records, padded to eight bytes.
    pub const COMPRESSED2: u32 = 83;
    /// What a program of BPF says of itself.
    pub const BPF_METADATA: u32 = 84;
    /// Statistics of the scheduler, by CPU.
    pub const SCHEDSTAT_CPU: u32 = 85;
    /// The same by domain.
    pub const SCHEDSTAT_DOMAIN: u32 = 86;
}

/// Bits of a record header's `misc` (`PERF_RECORD_MISC_…`).
pub mod misc {
    #![allow(missing_docs, reason = "the names are the kernel's PERF_RECORD_MISC_ names")]
    /// The bits that hold the mode.
    pub const CPUMODE_MASK: u16 = 7;
    /// In the kernel.
    pub const KERNEL: u16 = 1;
    /// In user mode.
    pub const USER: u16 = 2;
    /// In the hypervisor.
    pub const HYPERVISOR: u16 = 3;
    /// In a guest's kernel.
    pub const GUEST_KERNEL: u16 = 4;
    /// In a guest's user mode.
    pub const GUEST_USER: u16 = 5;
    /// The mapping is of data.
    pub const MMAP_DATA: u16 = 1 << 13;
    /// The name is of an exec.
    pub const COMM_EXEC: u16 = 1 << 13;
    /// The fork is of an exec (perf's own records).
    pub const FORK_EXEC: u16 = 1 << 13;
    /// The thread leaves the CPU.
    pub const SWITCH_OUT: u16 = 1 << 13;
    /// It could have run on.
    pub const SWITCH_OUT_PREEMPT: u16 = 1 << 14;
    /// The instruction pointer is exact.
    pub const EXACT_IP: u16 = 1 << 14;
    /// The mapping has a build ID in place of the inode.
    pub const MMAP_BUILD_ID: u16 = 1 << 14;
    /// In entries of feature BUILD_ID: the size byte after the 20 bytes of build ID is valid.
    pub const BUILD_ID_SIZE: u16 = 1 << 15;
}
