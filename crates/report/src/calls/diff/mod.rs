//! What moved between recordings, beyond noise? How it is computed stands in
//! `docs/reference/report-diff.md`.

mod names;
mod subjects;
mod table;
mod tell;

pub use names::lasting;
pub use subjects::Rows;
pub use table::Unit;
pub(crate) use table::{Key, rows_of_functions, shown};
pub use tell::{diff_json, diff_notes, diff_text};
pub(crate) use tell::{noun, what_was_compared, word};

use calltrees::Recorded;
use statistics::many::holm;
use statistics::shifts::{LEAST_BLOCKS, Shift, over_blocks, over_recordings, residuals};
use std::collections::BTreeSet;
use subjects::Plan;
use table::{Weights, spread};

/// Blocks that the time of a recording is cut into; fewer are used where they would be thin.
pub const BLOCKS: u32 = 128;
/// From so many recordings of each side on, they and not their blocks are compared.
pub const ENOUGH_RECORDINGS: usize = 4;
const ALPHA: f64 = 0.05;
/// Samples that a block holds on average.
const PER_BLOCK: u64 = 8;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// What the rows are about.
    pub by: Rows,
    /// Compare what was sampled in a row or in what it called, not in itself alone.
    pub total: bool,
    /// Whether every inlined function is a row of its own; else those are that are called somewhere.
    pub inlined: bool,
    /// Rows with less of the whole on both sides are left out, in per cent.
    pub percent: f64,
    /// Differences within so many per cent of the whole count as none.
    pub margin: f64,
    /// Rows to print at most; 0: all.
    pub limit: usize,
}

/// What is shown of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Moved {
    /// Its share grew.
    More,
    /// Its share shrank.
    Less,
    /// Its share moved because the rest did.
    Shifted,
    /// A difference beyond the margin is excluded.
    Same,
    /// None of these.
    Undecided,
}

/// A row with its difference.
#[derive(Clone, Debug)]
pub struct Difference {
    /// As people read it.
    pub name: String,
    /// As it was matched: the linkage name without what compilers add.
    pub lasting: String,
    /// Share of the whole, from 0 to 1.
    pub old: f64,
    /// Likewise.
    pub new: f64,
    /// New minus old.
    pub shift: Shift,
    /// Corrected for the number of rows.
    pub p_value: f64,
    /// What is shown.
    pub moved: Moved,
    /// The names that were matched, if they are several.
    pub merged: Vec<String>,
    /// Of a row that is a call path: its functions, innermost first.
    pub frames: Vec<String>,
}

/// The result.
#[derive(Clone, Debug)]
pub struct Diff {
    /// Rows: what moved first, then by the size of the difference.
    pub rows: Vec<Difference>,
    /// Rows below the share that was asked for; not tested.
    pub left_out: usize,
    /// Blocks of each recording; none where recordings were compared.
    pub blocks: Option<usize>,
    /// Recordings of each side.
    pub recordings: (usize, usize),
    /// Samples of each side.
    pub samples: (u64, u64),
    /// The part of the old and of the new whole that is in rows which both sides have, from 0 to 1:
    /// hardly anything where the programs are others.
    pub common: (f64, f64),
    /// By how much shares changed typically, as a ratio: what grows makes the rest shrink.
    pub usual: f64,
    /// What was asked for.
    pub asked: Asked,
    /// Name of the event.
    pub event: String,
}

impl Diff {
    /// Whether something has a larger share.
    pub fn is_worse(&self) -> bool {
        self.rows.iter().any(|row| row.moved == Moved::More)
    }
}

/// Whether recordings and not their blocks are compared.
pub fn by_recordings(old: usize, new: usize) -> bool {
    old.min(new) >= ENOUGH_RECORDINGS
}

/// Compares.
///
/// # Errors
/// Where there are too few samples.
pub fn diff(old: &[Unit<'_>], new: &[Unit<'_>], asked: Asked) -> Result<Diff, String> {
    let both = [old, new].concat();
    let wait = asked.by == Rows::Wait;
    if wait && both.iter().any(|unit| !has_waits(unit.recorded)) {
        return Err("a recording has no waits: record with --switch-events".to_owned());
    }
    let clocks = both.iter().filter(|unit| subjects::clock(unit.recorded).is_some()).count();
    if wait && clocks != 0 && clocks != both.len() {
        return Err(
            "some recordings have samples of a clock, which tell the time on the CPU, and \
                    others have not: record all in one way"
                .to_owned(),
        );
    }
    let plan = Plan::new(&both, asked.by, asked.total, asked.inlined, asked.percent);
    let weights = |units: &[Unit<'_>]| -> Vec<Weights> {
        units.iter().map(|unit| Weights::of(*unit, &plan)).collect()
    };
    let event = old.first().and_then(|unit| unit.recorded.events.get(unit.event as usize));
    let event = match wait {
        true => "time of threads".to_owned(),
        false => event.map(|event| event.name.clone()).unwrap_or_default(),
    };
    let mut found = of_weights(&weights(old), &weights(new), asked, event)?;
    found.left_out += plan.left_out;
    Ok(found)
}

fn has_waits(recorded: &Recorded) -> bool {
    let of = |stack: &calltrees::Stack| recorded.events.get(stack.event as usize);
    recorded.stacks.iter().any(|stack| of(stack).is_some_and(|event| event.off_cpu.is_some()))
}

/// A row with its shares in each old and in each new recording.
type SharesOf<'k> = (&'k Key, Vec<f64>, Vec<f64>);
/// A row with its difference and that beside the rest.
type Both<'b> = (&'b SharesOf<'b>, &'b (Shift, Shift));

fn of_weights(
    old: &[Weights],
    new: &[Weights],
    asked: Asked,
    event: String,
) -> Result<Diff, String> {
    let blocks = match by_recordings(old.len(), new.len()) {
        true => None,
        false => Some(blocks(old, new)?),
    };
    let keys: BTreeSet<&Key> = old.iter().chain(new).flat_map(|side| side.rows.keys()).collect();
    let shares = |side: &[Weights], key: &Key| -> Vec<f64> {
        side.iter().map(|weights| weights.share(key)).collect()
    };
    let mut rows: Vec<SharesOf<'_>> =
        keys.iter().map(|key| (*key, shares(old, key), shares(new, key))).collect();
    let all = rows.len();
    let common = common(&rows);
    // The mean of both sides says nothing about their difference, so choosing by it is fair. It
    // takes in each row with the share asked for on one side.
    let mean = statistics::mean;
    rows.retain(|(_, old, new)| 100.0 * (mean(old) + mean(new)) >= asked.percent);
    // Kinds of waits and their call paths are not beside each other, and share one whole.
    let usual = if asked.by == Rows::Wait { 1.0 } else { usual(&rows) };
    let against = |key: &Key, of_old: &[f64], of_new: &[f64], times: f64| match blocks {
        None => {
            let expected: Vec<f64> = of_old.iter().map(|share| times * share).collect();
            over_recordings(&expected, of_new)
        }
        Some(count) => {
            let errors = errors(old, new, key, count, times);
            over_blocks(mean(of_new) - times * mean(of_old), &errors)
        }
    };
    let tested: Vec<(Shift, Shift)> = rows
        .iter()
        .map(|(key, old, new)| (against(key, old, new, 1.0), against(key, old, new, usual)))
        .collect();
    let plain = holm(&tested.iter().map(|(plain, _)| plain.p_value).collect::<Vec<_>>());
    // Where one row grew all others shrank, so that this is a question about as many rows.
    let beside = holm(&tested.iter().map(|(_, beside)| beside.p_value).collect::<Vec<_>>());
    let corrected = plain.into_iter().zip(beside);
    let row = |((row, tested), (p_value, beside)): (Both<'_>, (f64, f64))| {
        let (key, of_old, of_new) = row;
        let merged = merged(old, new, key);
        Difference {
            name: table::shown(key),
            lasting: key.0.clone(),
            old: mean(of_old),
            new: mean(of_new),
            shift: tested.0,
            p_value,
            moved: judge((&tested.0, p_value), (&tested.1, beside), asked.margin / 100.0),
            merged,
            frames: table::frames(key),
        }
    };
    let mut found: Vec<Difference> = rows.iter().zip(&tested).zip(corrected).map(row).collect();
    let size = |row: &Difference| row.shift.estimate.abs();
    let rank = |row: &Difference| match row.moved {
        Moved::More | Moved::Less => 0,
        Moved::Shifted => 1,
        Moved::Same | Moved::Undecided => 2,
    };
    found.sort_by(|one, other| {
        let sizes = size(other).total_cmp(&size(one));
        rank(one).cmp(&rank(other)).then(sizes).then_with(|| one.lasting.cmp(&other.lasting))
    });
    let samples = |side: &[Weights]| side.iter().map(|weights| weights.samples).sum();
    Ok(Diff {
        left_out: all - found.len(),
        rows: found,
        blocks,
        recordings: (old.len(), new.len()),
        samples: (samples(old), samples(new)),
        common,
        usual,
        asked,
        event,
    })
}

/// The verdict on a row by its difference and by that beside the rest, each with its corrected p.
fn judge(
    (plain, p_value): (&Shift, f64),
    (beside_the_rest, beside): (&Shift, f64),
    margin: f64,
) -> Moved {
    let (low, high) = plain.interval(0.9);
    let agree = plain.estimate * beside_the_rest.estimate > 0.0;
    if p_value < ALPHA {
        return match (agree && beside < ALPHA, plain.estimate > 0.0) {
            (false, _) => Moved::Shifted,
            (true, true) => Moved::More,
            (true, false) => Moved::Less,
        };
    }
    if low > -margin && high < margin { Moved::Same } else { Moved::Undecided }
}

/// Which parts of both wholes are in rows that both sides have; where rows overlap, of their sum.
fn common(rows: &[SharesOf<'_>]) -> (f64, f64) {
    let mean = statistics::mean;
    let mut sums = [0.0f64; 4];
    for (old, new) in rows.iter().map(|(_, old, new)| (mean(old), mean(new))) {
        let both = old > 0.0 && new > 0.0;
        let parts = if both { [old, new, old, new] } else { [0.0, 0.0, old, new] };
        sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
    }
    let [in_old, in_new, old, new] = sums;
    let part = |common: f64, all: f64| if all > 0.0 { common / all } else { 1.0 };
    (part(in_old, old), part(in_new, new))
}

/// The median ratio of new to old share, each row counting once.
fn usual(rows: &[SharesOf<'_>]) -> f64 {
    let mean = statistics::mean;
    let both = rows.iter().map(|(_, old, new)| (mean(old), mean(new)));
    let ratio = |(old, new): (f64, f64)| (old > 0.0 && new > 0.0).then(|| (new / old).ln());
    let mut ratios: Vec<f64> = both.filter_map(ratio).collect();
    // Of one row or two, none is usual.
    if ratios.len() < 3 { 1.0 } else { statistics::median(&mut ratios).exp() }
}

/// How many blocks each recording has weight and samples for.
fn blocks(old: &[Weights], new: &[Weights]) -> Result<usize, String> {
    let full = |weights: &Weights, count: usize| {
        let width = BLOCKS as usize / count;
        let filled =
            spread(Some(&weights.whole), count, width).iter().filter(|w| **w > 0.0).count();
        weights.samples >= PER_BLOCK * count as u64 && filled * 4 >= count * 3
    };
    let all = || old.iter().chain(new);
    let count = [BLOCKS as usize, BLOCKS as usize / 2, LEAST_BLOCKS];
    let fits = |count: &usize| all().all(|weights| full(weights, *count));
    count.into_iter().find(fits).ok_or_else(|| {
        let fewest = all().map(|weights| weights.samples).min().unwrap_or(0);
        format!(
            "too little was recorded to tell what moved from noise: the shortest recording has \
             {fewest} samples that count, expected at least {} in {LEAST_BLOCKS} blocks of its \
             time; record for longer or more often (-F), or give at least {ENOUGH_RECORDINGS} \
             recordings of each side (--old, --new)",
            PER_BLOCK * LEAST_BLOCKS as u64,
        )
    })
}

fn errors(old: &[Weights], new: &[Weights], key: &Key, count: usize, times: f64) -> Vec<f64> {
    let width = BLOCKS as usize / count;
    let mut errors = vec![0.0; count];
    let old = old.iter().map(|weights| (weights, -times / old.len() as f64));
    let new_part = 1.0 / new.len() as f64;
    for (weights, part) in old.chain(new.iter().map(|weights| (weights, new_part))) {
        let row = spread(weights.rows.get(key), count, width);
        let whole = spread(Some(&weights.whole), count, width);
        let residuals = residuals(&row, &whole);
        errors.iter_mut().zip(residuals).for_each(|(error, residual)| *error += part * residual);
    }
    errors
}

/// Names that one row stands for, if they are several.
fn merged(old: &[Weights], new: &[Weights], key: &Key) -> Vec<String> {
    let of = |weights: &Weights| weights.names.get(key).cloned().unwrap_or_default();
    let all: BTreeSet<String> = old.iter().chain(new).flat_map(of).collect();
    if all.len() > 1 { all.into_iter().collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests;
