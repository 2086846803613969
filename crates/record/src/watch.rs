//! What is noticed of fresh records on their way into the file: samples, losses, times, build IDs;
//! and where a sample's stack lies.
//!
//! A record's header and a few of its words are read, its stack never.

use crate::losses::Account;
use crate::seen::{Seen, mmap_build_id};
use crate::span::{Header, Span};
use perfdata::{EventAttr, kind, read_format, sample_type};
use std::collections::{BTreeSet, HashMap};

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

/// What a sample of an event is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    fields: u64,
    format: u64,
    branches: u64,
    user_registers: u32,
}

impl Layout {
    fn of(attr: &EventAttr) -> Layout {
        Layout {
            fields: attr.sample_type,
            format: attr.read_format,
            branches: attr.branch_sample_type,
            user_registers: attr.sample_regs_user.count_ones(),
        }
    }

    fn has(&self, field: u64) -> bool {
        self.fields & field != 0
    }
}

/// The copy of a user stack in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stack {
    /// Where the number of copied bytes stands, counted from the record; the bytes follow, then
    /// how many are valid.
    pub size_at: usize,
    /// Bytes in the record.
    pub bytes: usize,
    /// Bytes that the kernel filled; the rest is whatever lay in the ring before.
    pub valid: usize,
}

/// Counts records as they pass.
pub(crate) struct Watch {
    /// What was seen.
    pub seen: Seen,
    /// Records that the kernel had no room for, by its LOST and LOST_SAMPLES records.
    pub lost: u64,
    /// THROTTLE and UNTHROTTLE records.
    pub throttled: (u64, u64),
    /// Processes that were seen to begin, take a name or map something.
    pub processes: BTreeSet<i32>,
    /// The one layout, where all events have the same.
    only: Option<Layout>,
    layouts: HashMap<u64, Layout>,
}

impl Watch {
    /// For the events of a recording.
    pub(crate) fn new(attrs: &[EventAttr]) -> Watch {
        let layouts: HashMap<u64, Layout> = attrs
            .iter()
            .flat_map(|attr| attr.ids.iter().map(|id| (*id, Layout::of(attr))))
            .collect();
        let first = attrs.first().map(Layout::of);
        let only = first.filter(|first| attrs.iter().all(|attr| Layout::of(attr) == *first));
        Watch {
            seen: Seen::default(),
            lost: 0,
            throttled: (0, 0),
            processes: BTreeSet::new(),
            only,
            layouts,
        }
    }

    fn layout(&self, id: u64) -> Option<&Layout> {
        self.only.as_ref().or_else(|| self.layouts.get(&id))
    }

    /// Takes note of a record that follows `previous` in its ring.
    #[inline]
    pub(crate) fn record(
        &mut self,
        span: &Span<'_>,
        header: Header,
        previous: Option<Header>,
        ring: &mut Account,
    ) {
        if header.kind == kind::SAMPLE {
            self.sample(span, header);
        } else {
            self.event(span, header, previous, ring);
        }
    }

    fn event(
        &mut self,
        span: &Span<'_>,
        header: Header,
        previous: Option<Header>,
        ring: &mut Account,
    ) {
        match header.kind {
            kind::LOST | kind::LOST_SAMPLES => {
                let lost = span.word(header.at + if header.kind == kind::LOST { 16 } else { 8 });
                self.lost += lost;
                let before = previous.and_then(|previous| self.time(span, previous));
                ring.gap(lost, before, self.time(span, header));
            }
            // Place and size in the AUX stream, then the flags.
            kind::AUX => self.seen.aux.note(span.word(header.at + 24)),
            kind::SWITCH | kind::SWITCH_CPU_WIDE => self.seen.switches += 1,
            kind::THROTTLE => self.throttled.0 += 1,
            kind::UNTHROTTLE => self.throttled.1 += 1,
            kind::COMM | kind::FORK | kind::MMAP2 => {
                self.processes.insert(span.word(header.at + 8) as i32);
                if header.kind == kind::MMAP2 {
                    self.seen
                        .build_ids
                        .extend(mmap_build_id(&span.part(header.at, header.bytes).bytes()));
                }
            }
            _ => {}
        }
    }

    fn sample(&mut self, span: &Span<'_>, header: Header) {
        let time = span.word(header.at + TIME_AT);
        let seen = &mut self.seen;
        seen.samples += 1;
        // Rings of several CPUs interleave.
        seen.first_time = if seen.samples == 1 { time } else { seen.first_time.min(time) };
        seen.last_time = seen.last_time.max(time);
        let id = span.word(header.at + IDENTIFIER_AT);
        let Some(layout) =
            self.layout(id).copied().filter(|layout| layout.has(sample_type::BRANCH_STACK))
        else {
            return;
        };
        let record = span.part(header.at, header.bytes);
        self.seen.branch_entries += record.word(branches_at(&record, &layout));
    }

    /// When the record was made: samples say it at a known place, others in their trailer.
    pub(crate) fn time(&self, span: &Span<'_>, header: Header) -> Option<u64> {
        if header.kind == kind::SAMPLE {
            return Some(span.word(header.at + TIME_AT));
        }
        let end = header.at + header.bytes;
        let layout = self.layout(span.word(end.checked_sub(8)?))?;
        // The trailer: thread, time, CPU where there is one, identifier.
        let behind = if layout.has(sample_type::CPU) { 24 } else { 16 };
        (header.bytes >= behind + 16).then(|| span.word(end - behind))
    }

    /// The stack of a sample, where it has one and it can be cut.
    pub(crate) fn stack(&self, record: &Span<'_>) -> Option<Stack> {
        let layout = self
            .layout(record.word(IDENTIFIER_AT))
            .filter(|one| one.has(sample_type::STACK_USER))?;
        let mut at = branches_at(record, layout);
        if layout.has(sample_type::BRANCH_STACK) {
            const HW_INDEX: u64 = perfdata::branch_sample::HW_INDEX;
            let index = if layout.branches & HW_INDEX != 0 { 1 } else { 0 };
            at = words(at, record.word(at).saturating_mul(3).saturating_add(1 + index));
        }
        if layout.has(sample_type::REGS_USER) {
            let registers = if record.word(at) == 0 { 0 } else { u64::from(layout.user_registers) };
            at = words(at, 1 + registers);
        }
        let bytes = usize::try_from(record.word(at)).ok()?;
        let valid_at = at.checked_add(8)?.checked_add(bytes)?;
        if bytes == 0 || valid_at.checked_add(8)? > record.len() {
            return None;
        }
        let valid = usize::try_from(record.word(valid_at)).ok()?;
        (valid <= bytes).then_some(Stack { size_at: at, bytes, valid })
    }
}

/// Whether samples of an event carry stacks that can be cut: all fields before them are understood.
pub(crate) fn has_stack(attr: &EventAttr) -> bool {
    attr.sample_type & sample_type::STACK_USER != 0
        && attr.branch_sample_type & perfdata::branch_sample::COUNTERS == 0
}

fn words(at: usize, count: u64) -> usize {
    at.saturating_add(usize::try_from(count).unwrap_or(usize::MAX).saturating_mul(8))
}

/// Where the number of branch stack entries would stand, behind fields of varying size.
fn branches_at(record: &Span<'_>, layout: &Layout) -> usize {
    let mut at = words(8, u64::from((layout.fields & ONE_WORD).count_ones()));
    if layout.has(sample_type::READ) {
        let format = layout.format;
        let times = format & (read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING);
        let each = 1 + u64::from((format & (read_format::ID | read_format::LOST)).count_ones());
        let group = format & read_format::GROUP != 0;
        let (head, members) = if group { (1, record.word(at)) } else { (0, 1) };
        at = words(at, head + u64::from(times.count_ones()));
        at = words(at, members.saturating_mul(each));
    }
    if layout.has(sample_type::CALLCHAIN) {
        at = words(at, record.word(at).saturating_add(1));
    }
    if layout.has(sample_type::RAW) {
        let size = record.word(at) & 0xffff_ffff;
        at = at.saturating_add(4 + size as usize);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u64]) -> Vec<u8> {
        let header = u64::from(kind::SAMPLE) | ((body.len() as u64 + 1) * 8) << 48;
        [header].iter().chain(body).flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn note(watch: &mut Watch, bytes: &[u8]) {
        let span = Span::of(bytes);
        if let Some(header) = span.header(0) {
            watch.record(&span, header, None, &mut Account::default());
        }
    }

    const BASE: u64 = sample_type::IDENTIFIER
        | sample_type::IP
        | sample_type::TID
        | sample_type::TIME
        | sample_type::PERIOD;

    #[test]
    fn the_branch_stack_is_found_behind_fields_of_varying_size() {
        let fields = BASE
            | sample_type::READ
            | sample_type::CALLCHAIN
            | sample_type::RAW
            | sample_type::BRANCH_STACK;
        let attr = EventAttr {
            sample_type: fields,
            read_format: read_format::GROUP | read_format::ID,
            ids: vec![7],
            ..EventAttr::default()
        };
        let raw = 4 | 0xaaaa_bbbb << 32;
        let body = [7, 0x400, 1, 99, 1000, 2, 11, 7, 12, 8, 3, 1, 2, 3, raw, 1, 0x10, 0x20, 0];
        let mut watch = Watch::new(&[attr]);
        note(&mut watch, &record(&body));
        assert_eq!(
            (watch.seen.samples, watch.seen.branch_entries, watch.seen.first_time),
            (1, 1, 99)
        );
        for end in 0..record(&body).len() {
            note(&mut watch, &record(&body)[..end]);
        }
        note(&mut watch, &record(&[7, 0, 0, 0, 0, u64::MAX, u64::MAX, u64::MAX]));
        assert_eq!(watch.seen.samples, 2);
    }

    #[test]
    fn stacks_are_found_and_damaged_ones_are_none() {
        let fields =
            BASE | sample_type::CALLCHAIN | sample_type::REGS_USER | sample_type::STACK_USER;
        let attr = EventAttr {
            sample_type: fields,
            sample_regs_user: 0b11,
            ids: vec![7],
            ..Default::default()
        };
        assert!(has_stack(&attr));
        let watch = Watch::new(&[attr]);
        let mut body = vec![7, 0x400, 1, 99, 1000, 1, 0x55, 2, 0xa, 0xb, 24, 1, 2, 3, 16, 0];
        let stack = |body: &[u64]| watch.stack(&Span::of(&record(body)));
        assert_eq!(stack(&body), Some(Stack { size_at: 88, bytes: 24, valid: 16 }));
        body[14] = 25;
        assert_eq!(stack(&body), None);
        for (at, wrong) in [(5, u64::MAX), (10, 1 << 40), (10, u64::MAX), (10, 0)] {
            let mut damaged = body.clone();
            damaged[at] = wrong;
            assert_eq!(stack(&damaged), None, "{at}");
        }
    }
}
