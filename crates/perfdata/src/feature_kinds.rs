//! The values that feature sections hold (tools/perf/Documentation/perf.data-file-format.txt).

/// Numbers of the features (`HEADER_…`).
pub mod feature {
    #![allow(missing_docs, reason = "the names are perf's HEADER_ names")]
    /// Formats of tracepoints.
    pub const TRACING_DATA: u32 = 1;
    /// Build IDs by file name.
    pub const BUILD_ID: u32 = 2;
    /// The machine's name.
    pub const HOSTNAME: u32 = 3;
    /// The kernel's release.
    pub const OSRELEASE: u32 = 4;
    /// perf's version.
    pub const VERSION: u32 = 5;
    /// The architecture.
    pub const ARCH: u32 = 6;
    /// How many CPUs there are, and how many are online.
    pub const NRCPUS: u32 = 7;
    /// The processor's name.
    pub const CPUDESC: u32 = 8;
    /// Its number.
    pub const CPUID: u32 = 9;
    /// Memory in kB.
    pub const TOTAL_MEM: u32 = 10;
    /// The command line of the recorder.
    pub const CMDLINE: u32 = 11;
    /// The events, with their names and numbers.
    pub const EVENT_DESC: u32 = 12;
    /// Cores and threads.
    pub const CPU_TOPOLOGY: u32 = 13;
    /// NUMA nodes with their memory and CPUs.
    pub const NUMA_TOPOLOGY: u32 = 14;
    /// There are branch stacks; the section is empty.
    pub const BRANCH_STACK: u32 = 15;
    /// Types of PMUs by name.
    pub const PMU_MAPPINGS: u32 = 16;
    /// Groups of events.
    pub const GROUP_DESC: u32 = 17;
    /// Where AUX data lies.
    pub const AUXTRACE: u32 = 18;
    /// The file is of `perf stat`.
    pub const STAT: u32 = 19;
    /// Caches of the CPUs.
    pub const CACHE: u32 = 20;
    /// Time of the first and the last sample.
    pub const SAMPLE_TIME: u32 = 21;
    /// Blocks of memory by node.
    pub const MEM_TOPOLOGY: u32 = 22;
    /// Resolution of the clock.
    pub const CLOCKID: u32 = 23;
    /// The recording is a directory.
    pub const DIR_FORMAT: u32 = 24;
    /// Programs of BPF.
    pub const BPF_PROG_INFO: u32 = 25;
    /// Types of those.
    pub const BPF_BTF: u32 = 26;
    /// How records are compressed.
    pub const COMPRESSED: u32 = 27;
    /// What the CPU's PMU can.
    pub const CPU_PMU_CAPS: u32 = 28;
    /// The clock's time beside the wall clock's.
    pub const CLOCK_DATA: u32 = 29;
    /// PMUs of a hybrid processor and their CPUs.
    pub const HYBRID_TOPOLOGY: u32 = 30;
    /// What each PMU can.
    pub const PMU_CAPS: u32 = 31;
    /// Scheduling domains of each CPU.
    pub const CPU_DOMAIN_INFO: u32 = 32;
}

/// Feature bits that the header has room for.
pub const ID_BITS: u32 = 256;

/// Which build ID a file had when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct BuildIdEntry {
    /// Process; −1 for the kernel of the host.
    pub pid: i32,
    /// The header's flag bits; the low three say kernel or user as in [`crate::CpuMode::of`].
    pub misc: u16,
    /// The ID: 20 bytes, or fewer where the recording states the size.
    pub build_id: Vec<u8>,
    /// Path of the file, or a name in brackets.
    pub path: String,
}

/// An event with its name (feature EVENT_DESC).
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct EventDescription {
    /// The event's name.
    pub name: String,
    /// Ids of its counters.
    pub ids: Vec<u64>,
}

/// First and last time of the samples, in ns (feature SAMPLE_TIME).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SampleTime {
    /// First.
    pub first_ns: u64,
    /// Last.
    pub last_ns: u64,
}

/// How the data is compressed (feature COMPRESSED).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CompressedInfo {
    /// Version of the description; perf writes 0.
    pub version: u32,
    /// 1 for zstd.
    pub algorithm: u32,
    /// Compression level.
    pub level: u32,
    /// Achieved ratio, rounded.
    pub ratio: u32,
    /// Size of the ring buffers, in bytes.
    pub mmap_len: u32,
}

/// A feature this crate does not interpret, with its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFeature {
    /// Its number.
    pub number: u32,
    /// Where its section lies in the file (0 in pipe form).
    pub offset: u64,
    /// Its size in the file, in bytes.
    pub size_bytes: u64,
    /// Its bytes, up to 1 MiB of them.
    pub bytes: Vec<u8>,
}
