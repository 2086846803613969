//! Faster, slower, the same, layout luck, or undecided? The rules that turn effects into one word.
//!
//! With layouts the word is about the change, because chance in code layout was averaged out;
//! without, it is about these two binaries only. The size quoted with layouts is τ, never the
//! as-built pair's.
//!
//! | verdict | with layouts | without |
//! |---|---|---|
//! | faster, slower | p_τ < α (against a contradicting pair: p_τ < α/5) | p₀ < α |
//! | layout luck | p₀ < α, as-built beyond ±m, interval of Λ excludes 0; and τ is shown within ±m or over half of the as-built effect is proven luck | never |
//! | same | 90 % interval of τ within ±m | 90 % interval of the pair within ±m |
//! | undecided | else | else |
//!
//! With fewer layouts than [`least_layouts`] everything is undecided.
//!
//! A contradicting pair differs by more than 95 % of the relinks of one code do, in the direction
//! opposite to τ (p₀ < α and beyond ±m too). Then these builds are not what the layouts are drawn
//! from (someone picked them, or the layouts do not vary what matters), and the average must be
//! surer of itself. It is rare where nobody picked, so error rate and power stay as they are; among
//! builds that were picked it keeps false claims under the nominal rate.

use crate::{AsBuilt, Averaged, Luck, least_layouts, power};
use serde::{Deserialize, Serialize};

/// What a comparison shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Takes less than the base.
    Faster,
    /// Takes more than the base.
    Slower,
    /// Any difference larger than the margin is excluded.
    Same,
    /// These two binaries differ, and where their code happened to fall explains it.
    LayoutLuck,
    /// None of these was shown.
    Undecided,
}

/// What the rules go by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Differences within ± this share (0.01 for 1 %) count as none.
    pub margin: f64,
    /// Chance to claim a difference where there is none.
    pub alpha: f64,
    /// Comparisons that share this chance. Only planning asks for it: p-values come corrected.
    pub rows: usize,
}

impl Default for Rule {
    fn default() -> Self {
        Rule { margin: 0.01, alpha: 0.05, rows: 1 }
    }
}

impl Rule {
    /// The margin on the log scale.
    pub fn log_margin(&self) -> f64 {
        self.margin.ln_1p()
    }

    /// What settles a comparison with this estimate: it is shown to differ where it seems to by
    /// more than the margin, else to be the same.
    pub fn goal(&self, estimate: f64) -> power::Goal {
        match estimate.abs() > self.log_margin() {
            true => power::Goal::Difference {
                size: estimate.abs(),
                alpha: self.alpha / self.rows.max(1) as f64,
            },
            false => power::Goal::Equivalence(self.log_margin()),
        }
    }

    /// Is all of this within the margin?
    pub fn within(&self, low: f64, high: f64) -> bool {
        low > -self.log_margin() && high < self.log_margin()
    }
}

/// What would settle an undecided comparison: either of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Needed {
    /// So many layouts per variant in all, with as many rounds as now.
    pub layouts: Option<u32>,
    /// So many rounds in all, with as many layouts as now. Absent where rounds alone cannot settle
    /// it.
    pub rounds: Option<u32>,
}

/// The verdict with what must be said beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The word.
    pub verdict: Verdict,
    /// A difference was shown, and it is shown to be within the margin.
    pub negligible: bool,
    /// By how much the as-built pair is off, ln(as-built ratio) − ln(averaged ratio), where that
    /// is shown: with a faster or slower verdict it over- or understates the change by so
    /// much.
    pub as_built_off: Option<f64>,
    /// Only when undecided.
    pub needed: Option<Needed>,
}

/// Applies the rules. For several comparisons give `as_built` and `averaged` their corrected
/// p-values ([`crate::many::holm`]).
pub fn judge(as_built: &AsBuilt, averaged: Option<&Averaged>, rule: Rule) -> Judgement {
    match averaged {
        Some(averaged) => with_layouts(as_built, averaged, rule),
        None => without_layouts(as_built, rule),
    }
}

fn direction(estimate: f64) -> Verdict {
    if estimate < 0.0 { Verdict::Faster } else { Verdict::Slower }
}

fn without_layouts(as_built: &AsBuilt, rule: Rule) -> Judgement {
    let same =
        as_built.low90.zip(as_built.high90).is_some_and(|(low, high)| rule.within(low, high));
    let shown = as_built.p_value < rule.alpha;
    let verdict = match (shown, same) {
        (true, _) => direction(as_built.estimate),
        (false, true) => Verdict::Same,
        (false, false) => Verdict::Undecided,
    };
    let needed = (verdict == Verdict::Undecided).then(|| {
        let rounds = as_built
            .standard_error
            .and_then(|e| power::rounds(rule.goal(as_built.estimate), e, as_built.rounds));
        Needed { layouts: None, rounds: rounds.filter(|&r| r as usize > as_built.rounds) }
    });
    Judgement { verdict, negligible: shown && same, as_built_off: None, needed }
}

fn with_layouts(as_built: &AsBuilt, averaged: &Averaged, rule: Rule) -> Judgement {
    let luck = Luck::of(as_built, averaged);
    let enough = averaged.layouts >= least_layouts(averaged.matched);
    let same = enough && rule.within(averaged.low90, averaged.high90);
    let pair_shown = as_built.p_value < rule.alpha && as_built.estimate.abs() > rule.log_margin();
    let apart = as_built.estimate.abs() > averaged.relink_band;
    let contradicts = pair_shown && apart && as_built.estimate * averaged.estimate < 0.0;
    let alpha = if contradicts { rule.alpha / 5.0 } else { rule.alpha };
    let shown = enough && averaged.p_value < alpha;
    let lucky = enough
        && pair_shown
        && luck.is_some_and(|l| l.is_shown() && (same || l.explains(as_built.estimate)));
    let verdict = if shown {
        direction(averaged.estimate)
    } else if lucky {
        Verdict::LayoutLuck
    } else if same {
        Verdict::Same
    } else {
        Verdict::Undecided
    };
    Judgement {
        verdict,
        negligible: shown && rule.within(averaged.low, averaged.high),
        as_built_off: luck.filter(Luck::is_shown).map(|l| l.estimate),
        needed: (verdict == Verdict::Undecided).then(|| needed(averaged, rule)),
    }
}

fn needed(averaged: &Averaged, rule: Rule) -> Needed {
    let samples = if averaged.matched { 1.0 } else { 2.0 };
    let deviation = averaged.standard_error * (averaged.layouts as f64 / samples).sqrt();
    let layouts = power::layouts(rule.goal(averaged.estimate), deviation, averaged.matched);
    Needed { layouts: layouts.filter(|&l| l as usize > averaged.layouts), rounds: None }
}
