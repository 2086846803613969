//! Waits as markers: how long a thread was off its CPU, why, and with which stack it went.

use super::super::Export;
use calltrees::switching::Interval;
use fxprof_processed_profile::{
    CategoryHandle, MarkerFieldFlags, MarkerFieldFormat, MarkerLocations, Profile,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle,
};
use rustc_hash::FxHashMap;

/// Markers that a profile has at most; of more waits the longest are told.
const MOST: usize = 200_000;

/// Texts of a marker.
pub(super) struct WaitMarker {
    pub name: StringHandle,
    pub kind: StringHandle,
    /// The processors that it went off and came back onto.
    pub left: StringHandle,
    pub came: StringHandle,
    pub category: CategoryHandle,
}

const fn field(key: &'static str, label: &'static str) -> StaticSchemaMarkerField {
    let (format, flags) = (MarkerFieldFormat::String, MarkerFieldFlags::SEARCHABLE);
    StaticSchemaMarkerField { key, label, format, flags }
}

impl StaticSchemaMarker for WaitMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "OffCpu";
    const DESCRIPTION: Option<&'static str> = Some("Time that a thread was off its CPU");
    const LOCATIONS: MarkerLocations = MarkerLocations::MARKER_CHART
        .union(MarkerLocations::MARKER_TABLE)
        .union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.kind}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.kind}");
    const FIELDS: &'static [StaticSchemaMarkerField] =
        &[field("kind", "Kind"), field("left", "Left CPU"), field("came", "Came back on CPU")];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, index: u32) -> StringHandle {
        match index {
            0 => self.kind,
            1 => self.left,
            _ => self.came,
        }
    }

    fn number_field_value(&self, _index: u32) -> f64 {
        0.0
    }
}

/// The waits that are told, each with what its sample tells of it once that was met.
pub(super) struct Waits<'e> {
    told: Vec<(&'e Interval, Option<(u32, u32)>)>,
    by_start: FxHashMap<(i32, u64), usize>,
    /// How many there are beside them.
    pub left_out: u64,
}

impl<'e> Waits<'e> {
    pub(super) fn of(export: &Export<'e>) -> Waits<'e> {
        let switching = export.recorded.switching.as_ref();
        let all: Vec<&Interval> = switching.into_iter().flat_map(|s| &s.intervals).collect();
        let length = |one: &Interval| one.wait.end_ns.saturating_sub(one.wait.start_ns);
        let mut chosen = all.clone();
        let left_out = all.len().saturating_sub(MOST);
        if left_out > 0 {
            chosen.sort_by_key(|one| (std::cmp::Reverse(length(one)), one.wait.start_ns));
            chosen.truncate(MOST);
            chosen.sort_by_key(|one| (one.wait.tid, one.wait.start_ns));
        }
        let key = |one: &Interval| (one.wait.tid, one.wait.start_ns);
        let by_start = chosen.iter().enumerate().map(|(at, one)| (key(one), at)).collect();
        let told = chosen.into_iter().map(|one| (one, None)).collect();
        Waits { told, by_start, left_out: left_out as u64 }
    }

    /// The sample of a thread with a stack began a wait.
    pub(super) fn began(&mut self, wait: &Interval, thread: u32, stack: u32) {
        let at = self.by_start.get(&(wait.wait.tid, wait.wait.start_ns));
        if let Some((_, known)) = at.and_then(|at| self.told.get_mut(*at)) {
            *known = Some((thread, stack));
        }
    }

    /// All, with thread and stack where a sample tells them.
    pub(super) fn told(&self) -> impl Iterator<Item = (&'e Interval, Option<(u32, u32)>)> {
        self.told.iter().copied()
    }
}
