//! Which names does the code have that processes made while they ran? The maps that they wrote,
//! each opened once.

use crate::perf_map::{MapOpener, PerfMap};
use perfdata::RuntimeAddr;
use rustc_hash::FxHashMap;

/// The maps of processes.
pub(crate) struct Made<'o> {
    open: &'o MapOpener<'o>,
    maps: FxHashMap<i32, Option<Result<PerfMap, String>>>,
}

impl<'o> Made<'o> {
    pub(crate) fn new(open: &'o MapOpener<'o>) -> Made<'o> {
        Made { open, maps: FxHashMap::default() }
    }

    /// Whether a process wrote a map, usable or not.
    pub(crate) fn has_map(&mut self, pid: i32) -> bool {
        let open = self.open;
        self.maps.entry(pid).or_insert_with(|| open(pid)).is_some()
    }

    /// Whether its map names an address.
    pub(crate) fn has_name(&mut self, pid: i32, address: RuntimeAddr) -> bool {
        self.has_map(pid) && self.map(pid).is_some_and(|map| map.find(address).is_some())
    }

    fn map(&self, pid: i32) -> Option<&PerfMap> {
        self.maps.get(&pid)?.as_ref()?.as_ref().ok()
    }

    /// The name of what a process has at an address.
    pub(crate) fn name(&self, pid: i32, address: RuntimeAddr) -> Option<String> {
        self.map(pid)?.find(address).map(std::borrow::Cow::into_owned)
    }

    /// Why the map of a process is not used.
    pub(crate) fn problem(&self, pid: i32) -> Option<String> {
        self.maps.get(&pid)?.as_ref()?.as_ref().err().cloned()
    }

    /// What of the maps was not used.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let usable = |(pid, map): (&i32, &Option<Result<PerfMap, String>>)| match map {
            Some(Ok(map)) => Some((*pid, map.damaged_lines(), map.lines_left_out())),
            _ => None,
        };
        let mut maps: Vec<(i32, u64, u64)> = self.maps.iter().filter_map(usable).collect();
        maps.sort_unstable();
        let mut remarks = Vec::new();
        for (pid, damaged, left_out) in maps {
            let file = format!("perf-{pid}.map");
            if damaged > 0 {
                remarks.push(format!("{file}: not of the form START SIZE NAME: lines: {damaged}"));
            }
            if left_out > 0 {
                remarks.push(format!("{file}: too many functions; lines not used: {left_out}"));
            }
        }
        remarks
    }
}
