//! By how much the lines between two calls move whose places are known.
//!
//! Input: the two calls, the lines between them in order, and what each is worth at a shift.
//! Output: a shift per line, or none where it was removed. Cost: lines times shifts between those
//! of the two calls, with a bound.

use super::places::Fixed;
use super::shifts::CHANGE;

/// With more shifts than this between two calls, only those of the calls are tried.
const MOST_SHIFTS: u64 = 512;

/// The lines between two whose places are known.
pub(super) struct Gap {
    /// The line above.
    pub(super) upper: Fixed,
    /// The line below.
    pub(super) lower: Fixed,
    /// Whether `lower` is only the end of the function.
    pub(super) is_last: bool,
}

impl Gap {
    /// By how much each line moves; `None` for a line that was removed. The shifts go from the
    /// upper one to the lower one, so that the sum of the values, less what changes cost, is
    /// largest; of equal sums the one with changes near the middle.
    pub(super) fn shifts(
        &self,
        lines: &[i64],
        value: impl Fn(i64, i64) -> i64,
    ) -> Vec<Option<i64>> {
        let (from, to) = (self.upper.shift(), self.lower.shift());
        let tried: Vec<i64> = match from.abs_diff(to) {
            0 => vec![from],
            MOST_SHIFTS.. => vec![from, to],
            _ if from < to => (from..=to).collect(),
            _ => (to..=from).rev().collect(),
        };
        let count = i64::try_from(lines.len()).unwrap_or(i64::MAX);
        // Distances from the middle are below one unit of value.
        let unit = count.saturating_add(1);
        let middle = (count + 1) / 2;
        let change = |number: usize| {
            let number = i64::try_from(number).unwrap_or(i64::MAX);
            CHANGE
                .saturating_mul(unit)
                .saturating_add(number.abs_diff(middle).min(unit.unsigned_abs()) as i64)
        };
        // For each line and shift: the best sum up to there, and the shift of the line before.
        // First no line, upper shift.
        let mut sums: Vec<i64> =
            tried.iter().enumerate().map(|(k, _)| if k == 0 { 0 } else { i64::MIN / 2 }).collect();
        let mut chosen: Vec<Vec<usize>> = Vec::with_capacity(lines.len());
        let mut before = self.upper.old;
        for (number, line) in lines.iter().enumerate() {
            let mut best = (i64::MIN / 2, 0);
            let (mut next, mut origin) =
                (Vec::with_capacity(tried.len()), Vec::with_capacity(tried.len()));
            for (k, (shift, sum)) in tried.iter().zip(&sums).enumerate() {
                let stay = (*sum, k);
                let changed = (best.0 - change(number), best.1);
                let taken = if changed.0 > stay.0 { changed } else { stay };
                let last = tried.get(taken.1).map_or(from, |shift| before + shift);
                let fits = line + shift > last && self.is_inside(line + shift);
                next.push(
                    taken.0 + if fits { value(*line, *shift).saturating_mul(unit) } else { 0 },
                );
                origin.push(taken.1);
                best = if *sum > best.0 { (*sum, k) } else { best };
            }
            sums = next;
            chosen.push(origin);
            before = *line;
        }
        let last = tried.len().saturating_sub(1);
        let end = |k: usize| if self.is_last || k == last { 0 } else { change(lines.len()) };
        let best =
            sums.iter().enumerate().max_by_key(|(k, sum)| (**sum - end(*k), std::cmp::Reverse(*k)));
        let mut k = best.map_or(0, |(k, _)| k);
        let mut shifts = Vec::with_capacity(lines.len());
        for origin in chosen.iter().rev() {
            shifts.push(tried.get(k).copied().unwrap_or(from));
            k = origin.get(k).copied().unwrap_or(0);
        }
        shifts.reverse();
        let mut last = self.upper.new;
        let place = |(line, shift): (&i64, i64)| {
            let to = line + shift;
            let has_place = to > last && self.is_inside(to);
            last = if has_place { to } else { last };
            has_place.then_some(shift)
        };
        lines.iter().zip(shifts).map(place).collect()
    }

    fn is_inside(&self, line: i64) -> bool {
        line > self.upper.new && (line < self.lower.new || self.is_last)
    }
}
