//! What a recording lost: records that found a ring full, for how long the ring was full, and
//! throttled sampling.
//!
//! Two sources. The kernel writes a LOST record as soon as there is room again, with the time of
//! that moment; so a ring was full *at most* from the record before it to the LOST record (the
//! paused time). What was lost after a ring's last record has no LOST record; each event's own
//! count (`PERF_FORMAT_LOST`) has it, and the rest of the recording is then paused time too.

use perf_events::Event;
use perfdata::{EventAttr, read_format, sample_type};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is known of one ring.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    pub cpu: i32,
    /// Room for records.
    pub bytes: u64,
    /// By the LOST records in it.
    pub lost: u64,
    pub paused_ns: u64,
    /// Time of the last record, as far as it was needed.
    pub last: Option<u64>,
}

impl Account {
    /// Records were lost between the times of two others; without the former's, since the last one
    /// seen.
    pub(crate) fn gap(&mut self, lost: u64, before: Option<u64>, after: Option<u64>) {
        self.lost += lost;
        if let (Some(before), Some(after)) = (before.or(self.last), after) {
            self.paused_ns += after.saturating_sub(before);
        }
    }
}

/// A ring's part in the losses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingLosses {
    /// The CPU that wrote into it.
    pub cpu: i32,
    /// Its size.
    pub bytes: u64,
    /// Records that found it full.
    pub lost: u64,
    /// How long it was full at most: between the last record before and the first after each loss.
    pub paused: Duration,
    /// How long it was recorded into.
    pub elapsed: Duration,
}

/// What a recording lost.
#[derive(Clone, Debug, Default)]
pub struct Losses {
    /// Records that found a ring full.
    pub records: u64,
    /// How often the kernel stopped an event for being too frequent, and let it go on.
    pub throttled: (u64, u64),
    /// Each ring.
    pub rings: Vec<RingLosses>,
}

impl Losses {
    /// The paused part of the time of the ring that was paused longest.
    pub fn worst_paused(&self) -> f64 {
        let part = |ring: &RingLosses| {
            let elapsed = ring.elapsed.as_secs_f64();
            if elapsed > 0.0 { ring.paused.as_secs_f64() / elapsed } else { 0.0 }
        };
        self.rings.iter().map(part).fold(0.0, f64::max)
    }
}

/// What each event lost by its own count, by id. Kernels before 6.0 do not count.
pub(crate) fn counted<'e>(
    events: impl Iterator<Item = &'e Event>,
    attrs: &[EventAttr],
) -> BTreeMap<u64, u64> {
    let mut lost = BTreeMap::new();
    let Some(format) = attrs.first().map(|attr| attr.read_format) else { return lost };
    if format & read_format::LOST == 0 {
        return lost;
    }
    let group = attrs.iter().any(|attr| attr.read_format & read_format::GROUP != 0);
    for event in events {
        // An event that cannot be read lost nothing that can be known.
        let Ok(words) = event.read() else { continue };
        for (id, count) in by_id(&words, group, attrs) {
            lost.insert(id, count);
        }
    }
    lost
}

/// The ids and lost counts in what a read gave. Whether it was a group's read shows in where a
/// known id stands.
fn by_id(words: &[u64], may_be_group: bool, attrs: &[EventAttr]) -> Vec<(u64, u64)> {
    let known = |id: u64| attrs.iter().find(|attr| attr.ids.contains(&id));
    let times = |attr: &EventAttr| {
        let both = read_format::TOTAL_TIME_ENABLED | read_format::TOTAL_TIME_RUNNING;
        (attr.read_format & both).count_ones() as usize
    };
    let Some(times) = attrs.first().map(times) else { return Vec::new() };
    let single = || match words.get(1 + times..) {
        Some([id, lost]) => known(*id).map(|_| vec![(*id, *lost)]),
        _ => None,
    };
    if let Some(found) = single() {
        return found;
    }
    if !may_be_group {
        return Vec::new();
    }
    let members = words.get(1 + times..).unwrap_or_default().chunks_exact(3);
    members.filter_map(|member| Some((*member.get(1)?, *member.get(2)?))).collect()
}

/// LOST_SAMPLES records, as perf writes them at the end: what each event lost by its own count.
pub(crate) fn records(lost: &BTreeMap<u64, u64>, attrs: &[EventAttr], now_ns: u64) -> Vec<u8> {
    const LOST_SAMPLES: u64 = 13;
    let mut bytes = Vec::new();
    for (id, count) in lost.iter().filter(|(_, count)| **count > 0) {
        let Some(attr) = attrs.iter().find(|attr| attr.ids.contains(id)) else { continue };
        // Count; then the trailer: thread, time, CPU where the event has one, identifier.
        let mut words = vec![*count, u64::MAX, now_ns];
        if attr.sample_type & sample_type::CPU != 0 {
            words.push(u64::from(u32::MAX));
        }
        words.push(*id);
        let size = (words.len() as u64 + 1) * 8;
        bytes.extend((LOST_SAMPLES | size << 48).to_ne_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_lasts_from_the_record_before_to_the_one_after() {
        let mut account = Account { last: Some(100), ..Account::default() };
        account.gap(3, None, Some(130));
        account.gap(4, Some(200), Some(205));
        account.gap(1, Some(300), None);
        account.gap(1, Some(300), Some(299));
        assert_eq!((account.lost, account.paused_ns), (9, 35));
    }

    #[test]
    fn what_a_read_says_is_found_alone_and_in_groups() {
        let both = read_format::ID | read_format::LOST;
        let attr =
            |id, format| EventAttr { ids: vec![id], read_format: format, ..EventAttr::default() };
        let attrs = [attr(7, both), attr(8, both)];
        assert_eq!(by_id(&[55, 8, 2], false, &attrs), [(8, 2)]);
        assert_eq!(by_id(&[55, 9, 2], false, &attrs), []);
        let attrs = attrs.map(|one| EventAttr { read_format: both | read_format::GROUP, ..one });
        assert_eq!(by_id(&[2, 55, 7, 1, 66, 8, 0], true, &attrs), [(7, 1), (8, 0)]);
        assert_eq!(by_id(&[], true, &attrs), []);
        let records = records(&BTreeMap::from([(7, 3), (8, 0)]), &attrs, 99);
        assert_eq!(records.len(), 40);
        assert_eq!(records[8..16], 3u64.to_ne_bytes());
    }
}
