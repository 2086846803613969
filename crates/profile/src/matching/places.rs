//! Where each location of a function went, told from its calls.
//!
//! 1. Where every call that the profile knows is where it was, and nine tenths of the lines find
//!    code, nothing has moved.
//! 2. Else the calls of both sources are aligned in source order. Calls of the same function fit;
//!    between several of them decide the shifts of all lines (`shifts`), and how many of the
//!    locations around would find code when moved alike. An indirect call fits a call of anything,
//!    but less well.
//! 3. A call that was aligned goes where it is now. What is on its line goes along.
//! 4. Between two of them, the first lines move with the upper and the others with the lower one.
//!    Where the shift changes, and whether it does in several steps, is chosen so that most
//!    locations find code; where that leaves a choice, it changes once, in the middle. The start of
//!    the function counts as a call that stayed. Below the last call everything moves with it,
//!    except where more locations find code when a lower part moves with the function's last line.
//! 5. What would come to lie beyond the next call stood in lines that were removed: it has no place
//!    any more.

use std::collections::{BTreeMap, BTreeSet};

use super::align::{Sequence, align};
use super::gaps::Gap;
use super::shape::FunctionShape;
use super::shifts::Values;
use crate::Location;

/// Offsets from here on are of lines above the function's first one: a macro, or line 0 for code
/// without a line. They say nothing about the order of calls.
pub(super) const ABOVE: u32 = 0x8000;
/// Lines around a call that tell which of several equal calls it is.
const NEAR: u32 = 8;

/// What a profile knows of a function, all copies taken together.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The functions called from a location, by number, and how often.
    pub(super) calls: BTreeMap<Location, Called>,
    /// All locations with a count, also 0.
    pub(super) lines: BTreeSet<Location>,
    /// Those of them with a count above 0.
    pub(super) executed: BTreeSet<Location>,
}

/// Calls from one location of the profile.
#[derive(Clone, Debug, Default)]
pub(super) struct Called {
    /// The functions, by number.
    pub(super) callees: BTreeSet<u32>,
    /// Executions.
    pub(super) count: u64,
}

/// Calls from one location of the program.
#[derive(Clone, Debug, Default)]
pub(super) struct CanCall {
    /// The functions, by number.
    pub(super) callees: BTreeSet<u32>,
    /// Whether an indirect call can go anywhere.
    pub(super) indirect: bool,
    /// Whether an indirect jump can, which is that of a `switch` in most cases.
    pub(super) jump: bool,
}

/// What is known about the locations of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Every call is where it was.
    InPlace,
    /// The profile knows no call, so nothing can be said.
    WithoutCalls,
    /// No call was found again, yet every location has code.
    Unconfirmed,
    /// No call was found again.
    Lost,
    /// Calls have moved. What is missing in the map has no place any more.
    Moved(BTreeMap<Location, Location>),
}

/// The result for one function.
#[derive(Clone, Debug)]
pub(super) struct Places {
    pub(super) verdict: Verdict,
    /// Calls that were found again, and executions of these.
    pub(super) matched: (u64, u64),
    /// Calls that were not compared, since there are too many.
    pub(super) skipped: u64,
    /// An offset above the function's first line, and what it is now.
    above: Option<(u32, u32)>,
}

impl Places {
    /// Where a location is now; `None` where it has no place any more.
    pub(super) fn of(&self, at: Location) -> Option<Location> {
        match (&self.verdict, self.above) {
            (Verdict::Lost, _) => None,
            (_, Some((from, to))) if at.line_offset == from => {
                Some(Location::new(to, at.discriminator))
            }
            (Verdict::Moved(map), _) if at.line_offset < ABOVE => map.get(&at).copied(),
            _ => Some(at),
        }
    }
}

/// Finds the places of a function's locations. `can_call` are the calls of `shape` by number.
pub(super) fn places(
    seen: &Seen,
    shape: &FunctionShape,
    can_call: &BTreeMap<Location, CanCall>,
) -> Places {
    let (verdict, skipped) = verdict(seen, shape, can_call);
    let mut places = Places { verdict, matched: (0, 0), skipped, above: above(seen, shape) };
    for (at, called) in &seen.calls {
        let there = places.of(*at).and_then(|to| can_call.get(&to));
        if there.is_some_and(|can| fit(called, can) != Fit::Not) {
            places.matched = (places.matched.0 + 1, places.matched.1.saturating_add(called.count));
        }
    }
    places
}

/// What the calls say, and how many of them were not compared.
fn verdict(
    seen: &Seen,
    shape: &FunctionShape,
    can_call: &BTreeMap<Location, CanCall>,
) -> (Verdict, u64) {
    let below = |at: &Location| at.line_offset < ABOVE;
    let old: Vec<(Location, &Called)> =
        seen.calls.iter().filter(|(at, _)| below(at)).map(|(at, called)| (*at, called)).collect();
    let new: Vec<(Location, &CanCall)> =
        can_call.iter().filter(|(at, _)| below(at)).map(|(at, callees)| (*at, callees)).collect();
    if old.is_empty() {
        return (Verdict::WithoutCalls, 0);
    }
    let in_place = |at: &Location, called: &Called| {
        can_call.get(at).is_some_and(|can| fit(called, can) != Fit::Not)
    };
    let values = Values::new(seen, shape, can_call);
    let mut shifts = None;
    // A new call of the same function may stand just where the old one was; then the other lines
    // speak for a shift.
    if old.iter().all(|(at, called)| in_place(at, called)) {
        let ends_alike = || end(seen, shape).is_none_or(|end| end.shift() == 0);
        if part_of_lines_with_code(seen, shape, 10) && ends_alike() {
            return (Verdict::InPlace, 0);
        }
        shifts = values.shifts();
        let stays = match &shifts {
            Some(shifts) => shifts.values().all(|shift| *shift == 0),
            None => true,
        };
        if stays && part_of_lines_with_code(seen, shape, 9) {
            return (Verdict::InPlace, 0);
        }
    }
    let shifts = shifts.or_else(|| values.shifts());
    let score = |o: usize, n: usize| match (old.get(o), new.get(n)) {
        (Some(old), Some(new)) => score(seen, shape, shifts.as_ref(), *old, *new),
        _ => 0,
    };
    let only = |callees: &BTreeSet<u32>| callees.first().copied().filter(|_| callees.len() == 1);
    let old_keys: Vec<Option<u32>> = old.iter().map(|(_, called)| only(&called.callees)).collect();
    let new_keys: Vec<Option<u32>> = new.iter().map(|(_, can)| only(&can.callees)).collect();
    let aligned = align(&Sequence { keys: &old_keys }, &Sequence { keys: &new_keys }, &score, None);
    let pairs: Vec<(Location, Location)> =
        aligned.pairs.iter().filter_map(|(o, n)| Some((old.get(*o)?.0, new.get(*n)?.0))).collect();
    let verdict = if !pairs.is_empty() {
        Verdict::Moved(moved(seen, shape, &values, &pairs))
    } else if seen
        .lines
        .iter()
        .chain(seen.calls.keys())
        .filter(|at| below(at))
        .all(|at| has_code(shape, *at))
    {
        Verdict::Unconfirmed
    } else {
        Verdict::Lost
    };
    (verdict, aligned.skipped as u64)
}

/// How a call of the profile fits one of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    Not,
    /// An indirect call can be of anything.
    Possible,
    /// An indirect jump can be one to a function, which is not enough to find a call by.
    Hardly,
    Same,
}

/// Whether a call of the profile can be one of the program.
pub(super) fn fit(old: &Called, new: &CanCall) -> Fit {
    if old.callees.iter().any(|callee| new.callees.contains(callee)) {
        Fit::Same
    } else if new.indirect {
        Fit::Possible
    } else if new.jump {
        Fit::Hardly
    } else {
        Fit::Not
    }
}

/// Whether so many tenths of a function's locations find code where they are.
fn part_of_lines_with_code(seen: &Seen, shape: &FunctionShape, tenths: usize) -> bool {
    let lines = || seen.lines.iter().filter(|at| at.line_offset < ABOVE);
    lines().filter(|at| has_code(shape, **at)).count() * 10 >= lines().count() * tenths
}

/// Whether the program has code at a location, or a call that was inlined.
pub(super) fn has_code(shape: &FunctionShape, at: Location) -> bool {
    shape.lines.contains(&at) || shape.calls.contains_key(&at)
}

/// How well two calls fit: 1024 for the same callee, 384 for an indirect call, 8 where the shifts
/// of all lines say so, up to 4 for what is around, 1 for the same place. So the same callee found
/// once more outweighs all that can be said about which of several equal calls it is, for over a
/// hundred calls.
fn score(
    seen: &Seen,
    shape: &FunctionShape,
    shifts: Option<&BTreeMap<i64, i64>>,
    old: (Location, &Called),
    new: (Location, &CanCall),
) -> u32 {
    let base = match fit(old.1, new.1) {
        Fit::Not | Fit::Hardly => return 0,
        Fit::Possible => 384,
        Fit::Same => 1024,
    };
    let (from, to) = (old.0.line_offset, new.0.line_offset);
    let first = Location::new(from.saturating_sub(NEAR), 0);
    let last = Location::new(from.saturating_add(NEAR), u32::MAX);
    let (mut around, mut with_code) = (0, 0);
    for near in seen.lines.range(first..=last) {
        around += 1;
        let line = i64::from(near.line_offset) + i64::from(to) - i64::from(from);
        with_code += u32::from(at_line(line, *near).is_some_and(|at| has_code(shape, at)));
    }
    let surroundings = (with_code * 4u32).checked_div(around).unwrap_or(0);
    let expected =
        shifts.and_then(|shifts| shifts.get(&from.into())).map(|shift| i64::from(from) + shift);
    let expected = u32::from(expected == Some(i64::from(to))) * 8;
    base + expected + surroundings + u32::from(old.0 == new.0)
}

/// A location on another line; `None` where that is no line of a function.
pub(super) fn at_line(line: i64, at: Location) -> Option<Location> {
    let line = u32::try_from(line).ok().filter(|line| *line < ABOVE)?;
    Some(Location::new(line, at.discriminator))
}

/// A line of the older source and where it is in the newer one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fixed {
    pub(super) old: i64,
    pub(super) new: i64,
}

impl Fixed {
    /// How many lines it moved down.
    pub(super) fn shift(self) -> i64 {
        self.new - self.old
    }
}

fn moved(
    seen: &Seen,
    shape: &FunctionShape,
    values: &Values<'_>,
    pairs: &[(Location, Location)],
) -> BTreeMap<Location, Location> {
    let mut map: BTreeMap<Location, Location> = pairs.iter().copied().collect();
    // By line, the locations that are no aligned call.
    let mut lines: BTreeMap<i64, Vec<Location>> = BTreeMap::new();
    for at in seen.lines.iter().chain(seen.calls.keys()).filter(|at| at.line_offset < ABOVE) {
        if !map.contains_key(at) {
            lines.entry(i64::from(at.line_offset)).or_default().push(*at);
        }
    }
    lines.values_mut().for_each(Vec::dedup);
    let mut fixed: Vec<Fixed> = Vec::with_capacity(pairs.len() + 2);
    let lines_of = |pair: &(Location, Location)| Fixed {
        old: pair.0.line_offset.into(),
        new: pair.1.line_offset.into(),
    };
    fixed.extend(pairs.iter().map(lines_of));
    fixed.dedup_by_key(|line| line.old);
    if fixed.first().is_some_and(|first| first.old > 0) {
        fixed.insert(0, Fixed { old: 0, new: 0 });
    }
    for (number, upper) in fixed.iter().enumerate() {
        let shift = |map: &mut BTreeMap<_, _>, line: i64, by: i64| {
            for at in lines.get(&line).into_iter().flatten() {
                if let Some(to) = at_line(line + by, *at) {
                    map.insert(*at, to);
                }
            }
        };
        shift(&mut map, upper.old, upper.shift());
        let next = fixed.get(number + 1).copied();
        let lower = next
            .or_else(|| end(seen, shape).filter(|end| end.old > upper.old && end.new > upper.new));
        let between: Vec<i64> = match lower {
            Some(lower) => lines.range(upper.old + 1..lower.old).map(|(line, _)| *line).collect(),
            None => lines.range(upper.old + 1..).map(|(line, _)| *line).collect(),
        };
        let Some(lower) = lower else {
            between.iter().for_each(|line| shift(&mut map, *line, upper.shift()));
            continue;
        };
        let value = |line: i64, by: i64| {
            let locations = lines.get(&line).map_or(&[][..], Vec::as_slice);
            values.of_lines(locations, line, by)
        };
        let gap = Gap { upper: *upper, lower, is_last: next.is_none() };
        for (line, by) in between.iter().zip(gap.shifts(&between, value)) {
            if let Some(by) = by {
                shift(&mut map, *line, by);
            }
        }
    }
    map
}

/// The line after the last one of each source, as far as both are known.
pub(super) fn end(seen: &Seen, shape: &FunctionShape) -> Option<Fixed> {
    let last = |lines: &mut dyn Iterator<Item = &Location>| {
        lines
            .map(|at| at.line_offset)
            .filter(|line| *line < ABOVE)
            .max()
            .map(|line| i64::from(line) + 1)
    };
    let old = last(&mut seen.lines.iter().chain(seen.calls.keys()))?;
    let new = last(&mut shape.lines.iter().chain(shape.calls.keys()))?;
    Some(Fixed { old, new })
}

/// Where locations above the function's first line went: the offset of line 0 changes with the
/// function's first line. One offset that has no code any more and one that is new are the same
/// then.
fn above(seen: &Seen, shape: &FunctionShape) -> Option<(u32, u32)> {
    let offsets = |lines: &mut dyn Iterator<Item = &Location>| -> BTreeSet<u32> {
        lines.map(|at| at.line_offset).filter(|line| *line >= ABOVE).collect()
    };
    let old = offsets(&mut seen.lines.iter().chain(seen.calls.keys()));
    let new = offsets(&mut shape.lines.iter().chain(shape.calls.keys()));
    let mut gone = old.difference(&new);
    let mut come = new.difference(&old);
    match (gone.next(), gone.next(), come.next(), come.next()) {
        (Some(from), None, Some(to), None) => Some((*from, *to)),
        _ => None,
    }
}
