//! By how much each line of a function most probably moved, all lines and calls taken together.
//!
//! Calls of one function stand in runs, and where one more was inserted every alignment of the
//! calls is as long as any other. What tells them apart is the whole function: a path from its
//! first to its last line, on which each line has a shift. A call that finds a call of the same
//! function weighs most, then lines that find code, then the function's last line that stays the
//! last. A line that ran without calling, and would come to lie on a call that the function is
//! known for, speaks against a shift. A change of the shift costs. Of equal sums the path that
//! changes in wider gaps between lines is taken, and then the one with the smaller shifts.
//!
//! Input: what the profile knows of the function, and where the program has code. Output: a shift
//! per line that the profile knows. Invariant: lines and code that are the same have shift 0
//! throughout. Cost: lines times shifts that any two equal calls are apart, with a bound.

use std::collections::{BTreeMap, BTreeSet};

use super::places::{ABOVE, CanCall, Fit, Fixed, Seen, at_line, end, fit, has_code};
use super::shape::FunctionShape;
use crate::Location;

/// What a change of the shift costs: more than one line that fits better, so that two must.
pub(super) const CHANGE: i64 = 8;
/// What it is worth when the last line stays the last: less than a change, so that it never moves
/// alone.
const LAST: i64 = 6;
/// What a line that ran without calling loses on a call of a function that is called elsewhere.
const ON_KNOWN_CALL: i64 = 4;
/// A call that finds one of the same function, and an indirect one: more than any number of changes
/// around it.
const SAME: i64 = 64;
const POSSIBLE: i64 = 24;
/// Where all else is equal, a shift changes where the source has the most lines without code, up to
/// this many.
const WIDE: i64 = 16;
/// The largest product of lines and shifts (each a word).
const MOST_CELLS: usize = 1 << 21;

/// What lines are worth at a shift.
pub(super) struct Values<'s> {
    seen: &'s Seen,
    shape: &'s FunctionShape,
    can_call: &'s BTreeMap<Location, CanCall>,
    /// The functions that the profile saw called, by number.
    called: BTreeSet<u32>,
    end: Option<Fixed>,
}

impl<'s> Values<'s> {
    /// Prepares a function.
    pub(super) fn new(
        seen: &'s Seen,
        shape: &'s FunctionShape,
        can_call: &'s BTreeMap<Location, CanCall>,
    ) -> Values<'s> {
        let called =
            seen.calls.values().flat_map(|called| called.callees.iter().copied()).collect();
        Values { seen, shape, can_call, called, end: end(seen, shape) }
    }

    /// What locations of one line are worth `by` lines below: up to 4 for the share that finds code
    /// there, 1 more where there is no other code; less where lines that called nothing come to
    /// calls; more where the last line stays last.
    pub(super) fn of_lines(&self, locations: &[Location], line: i64, by: i64) -> i64 {
        let to = line + by;
        let there = |at: &&Location| at_line(to, **at).is_some_and(|at| has_code(self.shape, at));
        let found = locations.iter().filter(there).count();
        let Some(number) = u32::try_from(to).ok().filter(|_| found > 0) else { return 0 };
        let code = Location::new(number, 0)..=Location::new(number, u32::MAX);
        let all = self.shape.lines.range(code).count();
        let share = (found * 4).checked_div(locations.len()).unwrap_or(0);
        let alone = i64::from(all == locations.len());
        let on_call = locations.iter().map(|at| self.on_call(to, *at)).max().unwrap_or(0);
        let last = self.end.is_some_and(|end| (end.old, end.new) == (line + 1, to + 1));
        i64::try_from(share).unwrap_or(0) + alone - on_call + i64::from(last) * LAST
    }

    /// What a location loses that ran and called nothing, and would lie on a call.
    fn on_call(&self, line: i64, at: Location) -> i64 {
        if !self.seen.executed.contains(&at) || self.seen.calls.contains_key(&at) {
            return 0;
        }
        match at_line(line, at).and_then(|to| self.can_call.get(&to)) {
            Some(can) if can.callees.iter().any(|callee| self.called.contains(callee)) => {
                ON_KNOWN_CALL
            }
            Some(can) if !can.callees.is_empty() => 1,
            _ => 0,
        }
    }

    /// What the calls of a line are worth `by` lines below.
    fn of_calls(&self, line: u32, by: i64) -> i64 {
        let on = |line: u32| Location::new(line, 0)..=Location::new(line, u32::MAX);
        let Some(to) = u32::try_from(i64::from(line) + by).ok().filter(|to| *to < ABOVE) else {
            return 0;
        };
        let mut free: Vec<(&Location, &CanCall)> = self.can_call.range(on(to)).collect();
        let mut sum = 0;
        for (at, called) in self.seen.calls.range(on(line)) {
            let rank = |(to, can): &(&Location, &CanCall)| match fit(called, can) {
                Fit::Same => SAME + i64::from(to.discriminator == at.discriminator),
                Fit::Possible => POSSIBLE + i64::from(to.discriminator == at.discriminator),
                Fit::Hardly | Fit::Not => 0,
            };
            let best = free
                .iter()
                .map(rank)
                .enumerate()
                .max_by_key(|(place, rank)| (*rank, usize::MAX - place));
            if let Some((place, rank)) = best.filter(|(_, rank)| *rank > 0) {
                free.remove(place);
                sum += rank;
            }
        }
        sum
    }

    /// The shift of each line that the profile knows, below the function's begin; `None` where that
    /// is too much work.
    pub(super) fn shifts(&self) -> Option<BTreeMap<i64, i64>> {
        let mut lines: BTreeMap<u32, Vec<Location>> = BTreeMap::new();
        for at in self.seen.lines.iter().chain(self.seen.calls.keys()) {
            if at.line_offset < ABOVE {
                lines.entry(at.line_offset).or_default().push(*at);
            }
        }
        for locations in lines.values_mut() {
            locations.sort_unstable();
            locations.dedup();
        }
        let tried: Vec<i64> =
            self.tried(MOST_CELLS.checked_div(lines.len())?)?.into_iter().collect();
        // For each shift the best sum so far, the smaller shifts first; and for each line, where
        // that sum came from. Sums are in parts: all shifts together are less than one
        // `fine`, and that is a part of the unit of values.
        let farthest =
            tried.iter().map(|shift| shift.unsigned_abs()).max().unwrap_or(0).saturating_add(1);
        let fine = i64::try_from(farthest.saturating_mul(lines.len() as u64 + 1)).ok()?;
        let unit = fine.saturating_mul(4 * WIDE);
        let none = i64::MIN / 2;
        let mut sums: Vec<i64> =
            tried.iter().map(|shift| if *shift == 0 { 0 } else { none }).collect();
        let mut origins: Vec<Vec<u32>> = Vec::with_capacity(lines.len());
        let mut before = -1;
        for (line, locations) in &lines {
            let at = i64::from(*line);
            let mut best = (0, none);
            for (place, sum) in sums.iter().enumerate() {
                let nearer =
                    |place: usize| tried.get(place).map_or(u64::MAX, |shift| shift.unsigned_abs());
                if *sum > best.1 || (*sum == best.1 && nearer(place) < nearer(best.0)) {
                    best = (place, *sum);
                }
            }
            let gap = (at - before).clamp(0, WIDE).saturating_mul(fine);
            let changed =
                (best.0, best.1.saturating_sub(CHANGE.saturating_mul(unit)).saturating_add(gap));
            let mut next = Vec::with_capacity(tried.len());
            let mut origin = Vec::with_capacity(tried.len());
            for (place, (shift, sum)) in tried.iter().zip(&sums).enumerate() {
                let taken = if changed.1 > *sum { changed } else { (place, *sum) };
                let above = tried.get(taken.0).map_or(-1, |shift| before + shift);
                let value = if at + shift > above.max(-1) {
                    self.of_calls(*line, *shift) + self.of_lines(locations, at, *shift)
                } else {
                    0
                };
                let moved = i64::try_from(shift.unsigned_abs()).unwrap_or(i64::MAX);
                next.push(taken.1.saturating_add(value.saturating_mul(unit)).saturating_sub(moved));
                origin.push(u32::try_from(taken.0).ok()?);
            }
            sums = next;
            origins.push(origin);
            before = at;
        }
        let last = sums.iter().enumerate().max_by_key(|(place, sum)| {
            (**sum, std::cmp::Reverse(tried.get(*place).map(|shift| shift.unsigned_abs())))
        });
        let mut place = last.map_or(0, |(place, _)| place);
        let mut shifts = BTreeMap::new();
        for (line, origin) in lines.keys().zip(&origins).rev() {
            shifts.insert(i64::from(*line), tried.get(place).copied().unwrap_or(0));
            place = origin.get(place).map_or(0, |origin| *origin as usize);
        }
        Some(shifts)
    }

    /// The shifts by which a call would find one that fits, that of the last line, and none.
    fn tried(&self, most: usize) -> Option<BTreeSet<i64>> {
        let mut by_callee: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        let mut indirect: BTreeSet<u32> = BTreeSet::new();
        for (at, can) in self.can_call.iter().filter(|(at, _)| at.line_offset < ABOVE) {
            for callee in &can.callees {
                by_callee.entry(*callee).or_default().insert(at.line_offset);
            }
            if can.indirect {
                indirect.insert(at.line_offset);
            }
        }
        let mut tried: BTreeSet<i64> = [0].into();
        tried.extend(self.end.map(|end| end.shift()));
        for (at, called) in self.seen.calls.iter().filter(|(at, _)| at.line_offset < ABOVE) {
            let of_callee =
                called.callees.iter().filter_map(|callee| by_callee.get(callee)).flatten();
            for to in of_callee.chain(&indirect) {
                tried.insert(i64::from(*to) - i64::from(at.line_offset));
                if tried.len() > most {
                    return None;
                }
            }
        }
        Some(tried)
    }
}
