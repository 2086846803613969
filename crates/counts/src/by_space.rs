//! Tables by version of address space, while samples or records come in.
//!
//! Neighbours mostly share their space, so the tables of one are kept at hand and the others are
//! parked.

use crate::resolve::Spaces;
use address_spaces::Timeline;
use rustc_hash::FxHashMap;

/// Tables are to be translated and emptied when they hold more slots than this, so that memory
/// stays bounded.
const MOST_SLOTS: usize = 1 << 20;

/// Which address space tables belong to: process, its version, the kernel's version.
type Key = (i32, u32, u32);

/// Tables of one version of one address space.
pub(crate) trait Tables: Default {
    /// Slots that they hold, used or not.
    fn slots(&self) -> usize;
}

/// The tables of all of them.
pub(crate) struct BySpace<'t, T> {
    parked: FxHashMap<Key, (Spaces<'t>, T)>,
    current: Option<(i32, Spaces<'t>, T)>,
    slots: usize,
}

impl<'t, T: Tables> BySpace<'t, T> {
    pub fn new() -> Self {
        BySpace { parked: FxHashMap::default(), current: None, slots: 0 }
    }

    /// Counts in the tables of the process at that time.
    #[inline(always)]
    pub fn count<R: Default>(
        &mut self,
        timeline: &'t Timeline,
        (pid, time): (i32, u64),
        count: impl FnOnce(&mut T) -> R,
    ) -> R {
        match &self.current {
            Some((current, spaces, _)) if *current == pid && spaces.holds_at(time) => {}
            _ => self.switch(timeline, pid, time),
        }
        let Some((_, _, tables)) = &mut self.current else { return R::default() };
        let before = tables.slots();
        let counted = count(tables);
        self.slots += tables.slots() - before;
        counted
    }

    /// Whether they hold as much as they should.
    pub fn is_full(&self) -> bool {
        self.slots > MOST_SLOTS
    }

    /// Takes all tables out, each with the spaces that it was counted in.
    pub fn drain(&mut self) -> impl Iterator<Item = (Spaces<'t>, T)> + '_ {
        self.park();
        self.slots = 0;
        self.parked.drain().map(|(_, counted)| counted)
    }

    #[cold]
    fn switch(&mut self, timeline: &'t Timeline, pid: i32, time: u64) {
        self.park();
        let spaces = Spaces::at(timeline, pid, time);
        let tables = self.parked.remove(&key(pid, &spaces)).map(|(_, tables)| tables);
        let tables = tables.unwrap_or_else(|| {
            let tables = T::default();
            self.slots += tables.slots();
            tables
        });
        self.current = Some((pid, spaces, tables));
    }

    fn park(&mut self) {
        if let Some((pid, spaces, tables)) = self.current.take() {
            self.parked.insert(key(pid, &spaces), (spaces, tables));
        }
    }
}

fn key(pid: i32, spaces: &Spaces<'_>) -> Key {
    (pid, spaces.user.version, spaces.kernel.version)
}
