//! What the reading of the data met beside records: counts of kinds, cut bytes, AUX spans, broken
//! promises of order.

use std::collections::BTreeMap;

/// AUX data in the file; only its place is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxSpan {
    /// Stream (see [`crate::Chunk::stream`]).
    pub stream: u32,
    /// Where the payload starts in that stream's file, in bytes.
    pub offset: u64,
    /// Its size, in bytes.
    pub size_bytes: u64,
}

/// What one pass over the data met. Complete once the pass has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Bytes of records handed out, uncompressed.
    pub record_bytes: u64,
    /// Bytes read from the file.
    pub file_bytes: u64,
    /// Number of COMPRESSED and COMPRESSED2 records.
    pub compressed_records: u64,
    /// Their payload, in bytes.
    pub compressed_bytes: u64,
    /// COMPRESSED2 records whose 16-bit size was wrong (perf 6.16; right again by 7.3) and was
    /// taken from the data size.
    pub repaired_sizes: u64,
    /// Bytes at the end that are missing (the header promises them) or form no whole record.
    pub truncated_bytes: u64,
    /// The header states a data size of 0: the recorder did not end properly, and the data was
    /// read to the end of the file.
    pub unfinished: bool,
    /// AUX data.
    pub aux_spans: Vec<AuxSpan>,
    /// AUX spans beyond the first million, counted only.
    pub aux_spans_dropped: u64,
    /// Records of kinds this crate does not know: kind → number (up to 1,000 kinds; then under
    /// `u32::MAX`).
    pub unknown_kinds: BTreeMap<u32, u64>,
    /// Ordered reading: records that came later than their round allows, so that their order is
    /// not guaranteed.
    pub out_of_order: u64,
    /// Ordered reading: times the window was full before a round was finished.
    pub window_overflows: u64,
    /// Ordered reading: records that could not be understood.
    pub bad_records: u64,
}

const MOST_SPANS: usize = 1_000_000;
const MOST_KINDS: usize = 1_000;

impl ReadStats {
    /// Whether the recording ended before its end.
    pub fn truncated(&self) -> bool {
        self.truncated_bytes > 0 || self.unfinished
    }

    /// Adds what another pass over another stream of the same recording met.
    pub fn absorb(&mut self, other: &ReadStats) {
        self.record_bytes += other.record_bytes;
        self.file_bytes += other.file_bytes;
        self.compressed_records += other.compressed_records;
        self.compressed_bytes += other.compressed_bytes;
        self.repaired_sizes += other.repaired_sizes;
        self.truncated_bytes = self.truncated_bytes.saturating_add(other.truncated_bytes);
        self.unfinished |= other.unfinished;
        for span in &other.aux_spans {
            self.add_span(*span);
        }
        self.aux_spans_dropped += other.aux_spans_dropped;
        for (&kind, &count) in &other.unknown_kinds {
            *self.unknown_kinds.entry(kind).or_insert(0) += count;
        }
        self.out_of_order += other.out_of_order;
        self.window_overflows += other.window_overflows;
        self.bad_records += other.bad_records;
    }

    pub(crate) fn add_span(&mut self, span: AuxSpan) {
        if self.aux_spans.len() < MOST_SPANS {
            self.aux_spans.push(span);
        } else {
            self.aux_spans_dropped += 1;
        }
    }

    pub(crate) fn add_unknown(&mut self, kind: u32) {
        let known = self.unknown_kinds.contains_key(&kind) || self.unknown_kinds.len() < MOST_KINDS;
        *self.unknown_kinds.entry(if known { kind } else { u32::MAX }).or_insert(0) += 1;
    }
}
