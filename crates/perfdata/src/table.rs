//! Which layout a record has: one event needs no lookup, several are told apart by the counter id
//! in the record.

use crate::attr::EventAttr;
use crate::bytes::{Endian, eight};
use crate::error::RecordError;
use crate::layout::SampleLayout;
use rustc_hash::FxHashMap;

/// The layouts of all events of a recording.
#[derive(Clone, Debug)]
pub struct LayoutTable {
    layouts: Vec<SampleLayout>,
    by_id: FxHashMap<u64, u32>,
    endian: Endian,
    /// Bytes from the start of a sample's body to the id; `None`: the first layout serves all.
    id_at: Option<usize>,
    /// Bytes from the end of any other record to the id.
    id_from_end: Option<usize>,
}

impl LayoutTable {
    /// The table for these events. perf makes sure that the id stands at the same place in all of
    /// them; where it does not (or is not recorded), the first event's layout serves for all,
    /// as in perf.
    pub fn new(attrs: &[EventAttr], endian: Endian) -> LayoutTable {
        let layouts: Vec<SampleLayout> = attrs
            .iter()
            .zip(0u32..)
            .map(|(attr, index)| SampleLayout::new(attr, index, endian))
            .collect();
        let mut by_id = FxHashMap::default();
        for (attr, index) in attrs.iter().zip(0u32..) {
            for &id in &attr.ids {
                by_id.entry(id).or_insert(index);
            }
        }
        let lookup = layouts.len() > 1;
        let id_at = common(&layouts, SampleLayout::id_position).filter(|_| lookup);
        let id_from_end = common(&layouts, SampleLayout::id_position_from_end).filter(|_| lookup);
        LayoutTable { layouts, by_id, endian, id_at, id_from_end }
    }

    /// Byte order of the recording.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// All layouts, in the order of the events.
    pub fn layouts(&self) -> &[SampleLayout] {
        &self.layouts
    }

    /// The layout of a sample.
    #[inline]
    pub fn for_sample(&self, body: &[u8]) -> Result<&SampleLayout, RecordError> {
        let first = self.layouts.first().ok_or(RecordError::NoAttr)?;
        let Some(at) = self.id_at else { return Ok(first) };
        let id = eight(body, at).ok_or(RecordError::Short {
            field: "id",
            need_bytes: 8,
            left_bytes: body.len().saturating_sub(at) as u64,
        })?;
        self.of_id(self.endian.u64(id), first)
    }

    /// The layout of the trailer of a record that is not a sample (and has a kind below 64).
    pub fn for_trailer(&self, body: &[u8]) -> Result<&SampleLayout, RecordError> {
        let first = self.layouts.first().ok_or(RecordError::NoAttr)?;
        let Some(from_end) = self.id_from_end else { return Ok(first) };
        let id = body.len().checked_sub(from_end).and_then(|at| eight(body, at));
        let id = id.ok_or(RecordError::Short {
            field: "id of the trailer",
            need_bytes: from_end as u64,
            left_bytes: body.len() as u64,
        })?;
        self.of_id(self.endian.u64(id), first)
    }

    /// perf itself writes the id 0 into records that it synthesises; they have the first event's
    /// layout.
    #[inline]
    fn of_id<'t>(
        &'t self,
        id: u64,
        first: &'t SampleLayout,
    ) -> Result<&'t SampleLayout, RecordError> {
        match self.by_id.get(&id) {
            Some(&index) => self.layouts.get(index as usize).ok_or(RecordError::NoAttr),
            None if id == 0 => Ok(first),
            None => Err(RecordError::UnknownId { id }),
        }
    }
}

/// The value that all layouts share, if they do.
fn common(layouts: &[SampleLayout], of: impl Fn(&SampleLayout) -> Option<usize>) -> Option<usize> {
    let first = of(layouts.first()?)?;
    layouts.iter().all(|layout| of(layout) == Some(first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::sample_type as st;

    fn attr(sample_type: u64, ids: &[u64]) -> EventAttr {
        EventAttr { sample_type, ids: ids.to_vec(), ..EventAttr::default() }
    }

    #[test]
    fn two_events_are_told_apart_by_the_id_at_the_common_place() {
        let attrs = [
            attr(st::IDENTIFIER | st::IP, &[7, 8]),
            attr(st::IDENTIFIER | st::IP | st::BRANCH_STACK, &[9]),
        ];
        let table = LayoutTable::new(&attrs, Endian::Little);
        let index = |id: u64| table.for_sample(&id.to_le_bytes()).map(|l| l.attr_index());
        assert_eq!((index(8), index(9), index(0)), (Ok(0), Ok(1), Ok(0)));
        assert_eq!(index(10), Err(RecordError::UnknownId { id: 10 }));
        assert!(table.for_sample(&[1, 2]).is_err());
    }

    #[test]
    fn one_event_needs_no_id_and_none_is_an_error() {
        let table = LayoutTable::new(&[attr(st::IP, &[])], Endian::Little);
        assert!(table.for_sample(&[]).is_ok());
        assert_eq!(
            LayoutTable::new(&[], Endian::Little).for_sample(&[]).map(|_| ()),
            Err(RecordError::NoAttr)
        );
    }
}
