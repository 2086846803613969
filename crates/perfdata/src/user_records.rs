//! The records that perf adds to a recording itself (kinds from 64 on, tools/perf/util/event.h).

use crate::attr::EventAttr;
use crate::bytes::{Cursor, Endian, Words, until_nul};
use crate::error::RecordError;
use crate::feature_kinds::BuildIdEntry;
use crate::features::read_build_id;
use crate::kinds::kind;
use crate::raw::RawRecord;
use crate::record::Record;

/// A record that perf adds itself.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum UserRecord<'a> {
    /// An event's attribute and ids (pipe form).
    Attr(Box<EventAttr>),
    /// Numbers and names of event types (perf before 3.3's successor; of no use today).
    EventType {
        /// The event's config value.
        config: u64,
        /// Its name.
        name: &'a [u8],
    },
    /// Trace event formats; their payload follows the record and is skipped.
    TracingData {
        /// Size of the payload, in bytes.
        size_bytes: u32,
    },
    /// Build ID of a file (pipe form).
    BuildId(BuildIdEntry),
    /// No record after the next one of this kind is older than those before this one.
    FinishedRound,
    /// The synthesised records end here.
    FinishedInit,
    /// Which counter id counts which event on which processor and thread: words id, index, cpu,
    /// tid.
    IdIndex {
        /// Number of entries.
        entries: u64,
        /// Their words, 4 for each entry.
        words: Words<'a>,
    },
    /// What made the AUX data (`PERF_AUXTRACE_…`), with its private words.
    AuxtraceInfo {
        /// The tracer.
        tracer: u32,
        /// Private data.
        private: &'a [u8],
    },
    /// AUX data; the payload follows the record and is kept as a span
    /// ([`crate::ReadStats::aux_spans`]).
    Auxtrace {
        /// Size of the payload, in bytes.
        size_bytes: u64,
        /// Offset in the AUX stream.
        aux_offset: u64,
        /// Joins it with snapshots and samples.
        reference: u64,
        /// Index of the buffer.
        index: u32,
        /// Thread, or −1.
        tid: i32,
        /// Processor, or −1 as u32.
        cpu: u32,
    },
    /// The decoder lost part of the trace.
    AuxtraceError {
        /// The whole body.
        body: &'a [u8],
    },
    /// The threads that were recorded.
    ThreadMap {
        /// Number of threads.
        threads: u64,
        /// Entries of 8 bytes thread id and 16 bytes name.
        entries: &'a [u8],
    },
    /// The processors that were recorded.
    CpuMap {
        /// The whole body.
        body: &'a [u8],
    },
    /// Unit, scale, name or processors of an event.
    EventUpdate {
        /// `PERF_EVENT_UPDATE__…`: unit 0, scale 1, name 2, cpus 3.
        update: u64,
        /// Id of the event.
        id: u64,
        /// The new value; text for unit and name.
        value: &'a [u8],
    },
    /// How cycles of the time stamp counter become ns.
    TimeConv {
        /// Shift.
        shift: u64,
        /// Multiplier.
        mult: u64,
        /// Offset.
        zero: u64,
        /// Where the counter has fewer than 64 bits (Linux 5.8): a value that it had, and the mask
        /// of its bits; of times that lie less than a turn of the counter from there only
        /// these bits count.
        short: Option<(u64, u64)>,
    },
    /// A feature section (pipe form).
    Feature {
        /// Number of the feature ([`crate::feature`]).
        feature: u64,
        /// The section's bytes.
        bytes: &'a [u8],
    },
    /// Any other record of perf, with its kind: statistics, BPF metadata, scheduler statistics.
    Other {
        /// Its kind.
        kind: u32,
        /// Its bytes.
        body: &'a [u8],
    },
}

pub(crate) fn parse<'a>(raw: &RawRecord<'a>, endian: Endian) -> Result<Record<'a>, RecordError> {
    let mut cursor = Cursor::new(raw.body, endian);
    let c = &mut cursor;
    let record = match raw.kind {
        kind::HEADER_ATTR => UserRecord::Attr(Box::new(attr(raw.body, endian)?)),
        kind::HEADER_EVENT_TYPE => {
            UserRecord::EventType { config: c.u64("event_id")?, name: until_nul(c.rest()) }
        }
        kind::HEADER_TRACING_DATA => UserRecord::TracingData { size_bytes: c.u32("size")? },
        kind::HEADER_BUILD_ID => UserRecord::BuildId(read_build_id(raw.misc, raw.body, endian)?),
        kind::FINISHED_ROUND => UserRecord::FinishedRound,
        kind::FINISHED_INIT => UserRecord::FinishedInit,
        kind::ID_INDEX => {
            let entries = c.u64("nr")?;
            UserRecord::IdIndex { entries, words: c.words(entries.saturating_mul(4), "entries")? }
        }
        kind::AUXTRACE_INFO => {
            let tracer = c.u32("type")?;
            c.u32("reserved")?;
            UserRecord::AuxtraceInfo { tracer, private: c.rest() }
        }
        kind::AUXTRACE => UserRecord::Auxtrace {
            size_bytes: c.u64("size")?,
            aux_offset: c.u64("offset")?,
            reference: c.u64("reference")?,
            index: c.u32("idx")?,
            tid: c.i32("tid")?,
            cpu: c.u32("cpu")?,
        },
        kind::AUXTRACE_ERROR => UserRecord::AuxtraceError { body: raw.body },
        kind::THREAD_MAP => {
            let threads = c.u64("nr")?;
            UserRecord::ThreadMap {
                threads,
                entries: c.take(threads.saturating_mul(24), "entries")?,
            }
        }
        kind::CPU_MAP => UserRecord::CpuMap { body: raw.body },
        kind::EVENT_UPDATE => {
            let (update, id) = (c.u64("type")?, c.u64("id")?);
            let value = if update == 0 || update == 2 { until_nul(c.rest()) } else { c.rest() };
            UserRecord::EventUpdate { update, id, value }
        }
        kind::TIME_CONV => UserRecord::TimeConv {
            shift: c.u64("time_shift")?,
            mult: c.u64("time_mult")?,
            zero: c.u64("time_zero")?,
            short: short_counter(c),
        },
        kind::HEADER_FEATURE => UserRecord::Feature { feature: c.u64("feat_id")?, bytes: c.rest() },
        kind::STAT_CONFIG
        | kind::STAT
        | kind::STAT_ROUND
        | kind::COMPRESSED
        | kind::COMPRESSED2
        | kind::BPF_METADATA
        | kind::SCHEDSTAT_CPU
        | kind::SCHEDSTAT_DOMAIN => UserRecord::Other { kind: raw.kind, body: raw.body },
        other => return Ok(Record::Unknown { kind: other, body: raw.body }),
    };
    Ok(Record::User(record))
}

/// time_cycles, time_mask, cap_user_time_zero and cap_user_time_short of newer TIME_CONV records.
fn short_counter(c: &mut Cursor<'_>) -> Option<(u64, u64)> {
    let (cycles, mask) = (c.u64("time_cycles").ok()?, c.u64("time_mask").ok()?);
    let (_, is_short) = (c.u8("cap_user_time_zero").ok()?, c.u8("cap_user_time_short").ok()?);
    (is_short != 0).then_some((cycles, mask))
}

/// The attribute of a HEADER_ATTR record, and the ids after it.
pub(crate) fn attr(body: &[u8], endian: Endian) -> Result<EventAttr, RecordError> {
    let mut attr = EventAttr::read(body, endian).ok_or(RecordError::Short {
        field: "attr",
        need_bytes: u64::from(EventAttr::SMALLEST_BYTES),
        left_bytes: body.len() as u64,
    })?;
    let ids = body.get(attr.size_bytes as usize..).unwrap_or_default();
    attr.ids = Words::new(ids, endian).iter().collect();
    Ok(attr)
}
