//! The values that feature sections hold (tools/perf/Documentation/perf.data-file-format.txt).

/// Numbers of the features (`HEADER_…`).
pub mod feature {
    #![allow(missing_docs, reason = "the names are perf's HEADER_ names")]
    pub const TRACING_DATA: u32 = 1;
    pub const BUILD_ID: u32 = 2;
    pub const HOSTNAME: u32 = 3;
    pub const OSRELEASE: u32 = 4;
    pub const VERSION: u32 = 5;
    pub const ARCH: u32 = 6;
    pub const NRCPUS: u32 = 7;
    pub const CPUDESC: u32 = 8;
    pub const CPUID: u32 = 9;
    pub const TOTAL_MEM: u32 = 10;
    pub const CMDLINE: u32 = 11;
    pub const EVENT_DESC: u32 = 12;
    pub const CPU_TOPOLOGY: u32 = 13;
    pub const NUMA_TOPOLOGY: u32 = 14;
    pub const BRANCH_STACK: u32 = 15;
    pub const PMU_MAPPINGS: u32 = 16;
    pub const GROUP_DESC: u32 = 17;
    pub const AUXTRACE: u32 = 18;
    pub const STAT: u32 = 19;
    pub const CACHE: u32 = 20;
    pub const SAMPLE_TIME: u32 = 21;
    pub const MEM_TOPOLOGY: u32 = 22;
    pub const CLOCKID: u32 = 23;
    pub const DIR_FORMAT: u32 = 24;
    pub const BPF_PROG_INFO: u32 = 25;
    pub const BPF_BTF: u32 = 26;
    pub const COMPRESSED: u32 = 27;
    pub const CPU_PMU_CAPS: u32 = 28;
    pub const CLOCK_DATA: u32 = 29;
    pub const HYBRID_TOPOLOGY: u32 = 30;
    pub const PMU_CAPS: u32 = 31;
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
