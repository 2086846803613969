//! What is noticed of fresh records on their way into the file: samples, losses, times, build IDs.

use crate::merge::{Merged, SAMPLE, mmap_build_id};
use perfdata::{EventAttr, read_format, sample_type};
use std::collections::BTreeMap;

const LOST: u32 = 2;
const LOST_SAMPLES: u32 = 13;
const MIN_BYTES: usize = 8;
const IDENTIFIER_AT: usize = 8;
const TIME_AT: usize = 32;
const ONE_WORD: u64 = sample_type::IDENTIFIER
    | sample_type::IP
    | sample_type::TID
    | sample_type::TIME
    | sample_type::ADDR
    | sample_type::ID
    | sample_type::STREAM_ID
    | sample_type::CPU
    | sample_type::PERIOD;

/// Counts records as they pass.
pub(crate) struct Watch {
    /// What was seen.
    pub seen: Merged,
    /// Records and samples that the kernel had no room for.
    pub lost: u64,
    /// Sample type and read format of the events that have branch stacks, by id.
    stacks: BTreeMap<u64, (u64, u64)>,
}

impl Watch {
    /// For the events of a recording.
    pub(crate) fn new(attrs: &[EventAttr]) -> Watch {
        let with_stacks = attrs.iter().filter(|attr| attr.has_branch_stack());
        let stacks = with_stacks
            .flat_map(|attr| attr.ids.iter().map(|id| (*id, (attr.sample_type, attr.read_format))))
            .collect();
        Watch { seen: Merged::default(), lost: 0, stacks }
    }

    /// Takes note of whole records.
    pub(crate) fn note(&mut self, mut records: &[u8]) {
        while let Some(record) = whole_record(records).filter(|record| record.len() >= MIN_BYTES) {
            match word(record, 0) as u32 {
                SAMPLE => self.sample(record),
                LOST => self.lost += word(record, 16),
                LOST_SAMPLES => self.lost += word(record, 8),
                _ => self.seen.build_ids.extend(mmap_build_id(record)),
            }
            records = &records[record.len()..];
        }
    }

    fn sample(&mut self, record: &[u8]) {
        let time = word(record, TIME_AT);
        let seen = &mut self.seen;
        seen.samples += 1;
        // Rings of several CPUs interleave.
        seen.first_time = if seen.samples == 1 { time } else { seen.first_time.min(time) };
        seen.last_time = seen.last_time.max(time);
        if let Some((fields, format)) = self.stacks.get(&word(record, IDENTIFIER_AT)) {
            seen.branch_entries += branch_entries(record, *fields, *format);
        }
    }
}

/// The number of entries in a sample's branch stack, which stands behind fields of varying size.
fn branch_entries(record: &[u8], fields: u64, format: u64) -> u64 {
    let has = |field| fields & field != 0;
    let words = |at: usize, count: u64| {
        at.saturating_add(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(8))
    };
    let mut at = words(8, u64::from((fields & ONE_WORD).count_ones()));
    if has(sample_type::READ) {
        let times = format & (read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING);
        let each = 1 + u64::from((format & (read_format::ID | read_format::LOST)).count_ones());
        let group = format & read_format::GROUP != 0;
        let (head, members) = if group { (1, word(record, at)) } else { (0, 1) };
        at = words(at, head + u64::from(times.count_ones()));
        at = words(at, members.saturating_mul(each));
    }
    if has(sample_type::CALLCHAIN) {
        at = words(at, word(record, at).saturating_add(1));
    }
    if has(sample_type::RAW) {
        let size = word(record, at) & 0xffff_ffff;
        at = at.saturating_add(4 + size as usize);
    }
    word(record, at)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let end = at.saturating_add(8);
    bytes.get(at..end).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_ne_bytes)
}

/// The first record, as its header states its size.
fn whole_record(bytes: &[u8]) -> Option<&[u8]> {
    let size = u16::from_ne_bytes(bytes.get(6..8)?.try_into().ok()?);
    bytes.get(..usize::from(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u64]) -> Vec<u8> {
        let header = u64::from(SAMPLE) | ((body.len() as u64 + 1) * 8) << 48;
        [header].iter().chain(body).flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn the_branch_stack_is_found_behind_fields_of_varying_size() {
        let base = sample_type::IDENTIFIER
            | sample_type::IP
            | sample_type::TID
            | sample_type::TIME
            | sample_type::PERIOD;
        let fields =
            base | sample_type::READ | sample_type::CALLCHAIN | sample_type::RAW | sample_type::BRANCH_STACK;
        let attr = EventAttr {
            sample_type: fields,
            read_format: read_format::GROUP | read_format::ID,
            ids: vec![7],
            ..EventAttr::default()
        };
        let raw = 4 | 0xaaaa_bbbb << 32;
        let body = [7, 0x400, 1, 99, 1000, 2, 11, 7, 12, 8, 3, 1, 2, 3, raw, 1, 0x10, 0x20, 0];
        let mut watch = Watch::new(&[attr]);
        watch.note(&record(&body));
        assert_eq!((watch.seen.samples, watch.seen.branch_entries, watch.seen.first_time), (1, 1, 99));
        for end in 0..record(&body).len() {
            watch.note(&record(&body)[..end]);
        }
        watch.note(&record(&[7, 0, 0, 0, 0, u64::MAX, u64::MAX, u64::MAX]));
        assert_eq!(watch.seen.samples, 2);
    }
}
