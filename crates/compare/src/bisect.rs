//! Which commit made the program slower? A walk through the commits that layout luck does not
//! mislead.
//!
//! Every commit looked at is measured against the good one. It is on the slow side when its whole
//! interval lies above half of the slowdown, on the good side when it lies below; else it is
//! measured again with twice the rounds. The first slow commit is at last compared with its parent.

use crate::Verdict;
use crate::result::{Compared, Direction, Measurement};
use serde::Serialize;

/// What was found, as `planish compare bisect --format json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    schema: &'static str,
    version: u32,
    /// The commit that is known to be good.
    pub good: String,
    /// The last commit.
    pub bad: String,
    /// Slowdown of the whole range.
    pub slowdown: Step,
    /// The commit, when it was found.
    pub culprit: Option<Culprit>,
    /// Commits that could not be told apart, oldest first.
    pub undecided: Vec<String>,
    /// The commits that were looked at, in the order of the walk.
    pub steps: Vec<Step>,
    /// The whole range in words.
    #[serde(skip)]
    pub sentence: String,
}

/// A commit that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// Its hash.
    pub commit: String,
    /// What the comparison says.
    pub verdict: Verdict,
    /// The ratio to the good commit.
    pub effect: f64,
    /// 95 % interval of that.
    pub interval: Option<[f64; 2]>,
    /// Rounds it rests on.
    pub rounds: usize,
    /// Where it stands.
    pub side: Side,
}

/// The first slow commit.
#[derive(Clone, Debug, Serialize)]
pub struct Culprit {
    /// Its hash.
    pub commit: String,
    /// The first line of its message.
    pub subject: String,
    /// Against its parent.
    pub step: Step,
    /// The same in words.
    pub sentence: String,
}

/// On which side of half the slowdown a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// Below.
    Good,
    /// Above.
    Slow,
    /// Its interval holds the half.
    Unknown,
}

/// Times that an unclear commit is measured again, each with twice the rounds.
const AGAIN: u32 = 2;

/// Where measurements and messages of commits come from.
pub trait Commits {
    /// What ends the walk.
    type Error;

    /// Measures a commit against another one, with twice the rounds of the time before where it is
    /// measured `again`; `None` where the user ended it.
    ///
    /// # Errors
    /// Where a commit cannot be built or measured.
    fn measure(
        &mut self,
        base: &str,
        commit: &str,
        again: u32,
    ) -> Result<Option<Measurement>, Self::Error>;

    /// The first line of a commit's message.
    ///
    /// # Errors
    /// Where the repository does not tell.
    fn subject(&mut self, commit: &str) -> Result<String, Self::Error>;
}

/// Looks for the first of `commits`, oldest first, that is slower than `good`; `None` where the
/// user ended it, or there is no commit or no number.
///
/// # Errors
/// Those of the measurements.
pub fn walk<C: Commits>(
    good: &str,
    commits: &[String],
    source: &mut C,
) -> Result<Option<Found>, C::Error> {
    let Some(bad) = commits.last() else { return Ok(None) };
    let mut walk = Walk { source, steps: Vec::new() };
    let Some(whole) = walk.measure(good, bad, 0)? else { return Ok(None) };
    let mut found = Found {
        schema: "planish-bisect",
        version: 1,
        good: good.to_owned(),
        bad: bad.clone(),
        slowdown: whole.step(bad, Side::Slow),
        culprit: None,
        undecided: Vec::new(),
        steps: Vec::new(),
        sentence: whole.row.sentence.clone(),
    };
    if !whole.row.is_slower() {
        return Ok(Some(found));
    }
    let half = whole.slowdown() / 2.0;
    // Those before `low` are good, and so is GOOD; that at `high` is slow.
    let (mut low, mut high) = (0, commits.len() - 1);
    while low < high {
        let middle = (low + high - 1) / 2;
        match walk.side(good, &commits[middle], half)? {
            None => return Ok(None),
            Some(Side::Good) => low = middle + 1,
            Some(Side::Slow) => high = middle,
            Some(Side::Unknown) => break,
        }
    }
    if low < high {
        found.undecided = commits[low..=high].to_vec();
    } else {
        let parent = high.checked_sub(1).map_or(good, |before| &commits[before]);
        let commit = commits[high].clone();
        let Some(alone) = walk.measure(parent, &commit, 0)? else { return Ok(None) };
        let subject = walk.source.subject(&commit)?;
        let step = alone.step(&commit, Side::Slow);
        found.culprit = Some(Culprit { commit, subject, step, sentence: alone.row.sentence });
    }
    found.steps = walk.steps;
    Ok(Some(found))
}

impl Found {
    /// Whether the last commit is shown to be slower than the good one.
    pub fn is_slower(&self) -> bool {
        self.culprit.is_some() || !self.undecided.is_empty()
    }

    /// Whether it is open which commit is slower, or whether one is.
    pub fn is_undecided(&self) -> bool {
        let no_culprit = self.culprit.is_none();
        no_culprit && (!self.undecided.is_empty() || self.slowdown.verdict == Verdict::Undecided)
    }
}

/// A hash as it is shown.
pub fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

/// A commit against another one, in the benchmark that lost most.
struct Against {
    row: Compared,
    /// −1 where a larger number is a better one.
    sign: f64,
}

impl Against {
    fn of(measured: &Measurement, row: Compared) -> Against {
        let benchmark = measured.benchmarks.iter().find(|b| b.name == row.benchmark);
        let metric = benchmark.and_then(|b| b.metrics.iter().find(|m| m.name == row.metric));
        let sign = if metric.is_some_and(|m| m.better == Direction::Higher) { -1.0 } else { 1.0 };
        Against { row, sign }
    }

    fn step(&self, commit: &str, side: Side) -> Step {
        let Compared { verdict, effect, interval, n: rounds, .. } = self.row;
        Step { commit: commit.to_owned(), verdict, effect, interval, rounds, side }
    }

    /// ln of the effect, turned so that more is slower.
    fn slowdown(&self) -> f64 {
        self.sign * self.row.effect.ln()
    }

    /// Ends of its interval.
    fn ends(&self) -> Option<(f64, f64)> {
        let [a, b] = self.row.interval?.map(|end| self.sign * end.ln());
        Some((a.min(b), a.max(b)))
    }
}

struct Walk<'a, C> {
    source: &'a mut C,
    steps: Vec<Step>,
}

impl<C: Commits> Walk<'_, C> {
    /// On which side of half the slowdown is a commit? `None` when the user stopped.
    fn side(&mut self, good: &str, commit: &str, half: f64) -> Result<Option<Side>, C::Error> {
        let mut side = Side::Unknown;
        for again in 0..=AGAIN {
            let Some(c) = self.measure(good, commit, again)? else { return Ok(None) };
            side = match c.ends() {
                Some((low, _)) if low > half => Side::Slow,
                Some((_, high)) if high < half => Side::Good,
                _ => Side::Unknown,
            };
            self.steps.push(c.step(commit, side));
            if side != Side::Unknown {
                break;
            }
        }
        Ok(Some(side))
    }

    fn measure(
        &mut self,
        base: &str,
        commit: &str,
        again: u32,
    ) -> Result<Option<Against>, C::Error> {
        let Some(measured) = self.source.measure(base, commit, again)? else { return Ok(None) };
        if measured.interrupted {
            return Ok(None);
        }
        let rows = measured.comparisons.iter().map(|row| Against::of(&measured, row.clone()));
        Ok(rows.max_by(|a, b| a.slowdown().total_cmp(&b.slowdown())))
    }
}
