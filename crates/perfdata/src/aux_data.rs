//! AUX data: the payloads that follow AUXTRACE records, read in blocks.

use crate::error::Error;
use crate::input::{Input, Stream};
use crate::stats::AuxSpan;
use crate::sys;

/// Bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;

/// Who made AUX data: the numbers of AUXTRACE_INFO (`enum auxtrace_type`,
/// tools/perf/util/auxtrace.h).
pub mod tracer {
    /// Intel Processor Trace.
    pub const INTEL_PT: u32 = 1;
    /// Intel Branch Trace Store.
    pub const INTEL_BTS: u32 = 2;
    /// Arm CoreSight.
    pub const CORESIGHT: u32 = 3;
    /// Arm Statistical Profiling Extension.
    pub const ARM_SPE: u32 = 4;
}

/// Flags of AUX records (`PERF_AUX_FLAG_…`, include/uapi/linux/perf_event.h).
pub mod aux_flag {
    /// The buffer was full and data was lost.
    pub const TRUNCATED: u64 = 1;
    /// The buffer may have been written over (snapshots).
    pub const OVERWRITE: u64 = 2;
    /// The data has gaps.
    pub const PARTIAL: u64 = 4;
    /// Samples were lost because one came before the one before it was done.
    pub const COLLISION: u64 = 8;
}

/// Reads one payload from its begin to its end, or to the end of the file where that comes first.
#[derive(Debug)]
pub struct AuxData<'i> {
    stream: Option<&'i Stream>,
    at: u64,
    end: u64,
}

impl Input {
    /// The bytes of a span of AUX data. A span that reaches beyond the file's records ends there.
    pub fn aux_data(&self, span: AuxSpan) -> AuxData<'_> {
        let stream = self.streams.get(span.stream as usize);
        let end = span.offset.saturating_add(span.size_bytes);
        AuxData { stream, at: span.offset, end: stream.map_or(0, |stream| end.min(stream.end)) }
    }
}

impl AuxData<'_> {
    /// Appends the next block to `out`, 1 MiB at most; `false` where nothing is left.
    pub fn next_block(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        let Some(stream) = self.stream else { return Ok(false) };
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(false);
        }
        let got = sys::read_at(&stream.file, self.at, left.min(BLOCK_BYTES), out)
            .map_err(|source| Error::Io { path: stream.path.clone(), action: "read", source })?;
        self.at = self.at.saturating_add(got as u64);
        Ok(got > 0)
    }
}
