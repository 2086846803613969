//! What may be said? Sentences that claim no more than was shown.

use super::cell::Row;
use crate::Metric;
use crate::result::{Compared, Confirmation, Verdict};
use statistics::{Answer, least_layouts, power};

/// What a claim about programs that were linked once is about.
pub const ABOUT_TWO_FILES: &str = "without layouts this is about the two files: where the linker \
                                   happened to put the code may explain it";

/// What warnings of rows without layouts advise, at their end. It is for programs: of other things
/// there are no layouts.
pub const LAYOUTS_ADVICE: &str =
    " (planish compare --layouts 8 finds out, on builds that keep their objects)";

fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    let digits = if change.abs() < 0.095 { 2 } else { 1 };
    format!("{:.digits$} %", change.abs())
}

/// `0.8 % less CPU time`-like: which way the number went, and whether that is good.
fn change(ratio: f64, sign: f64) -> String {
    let good = sign * (ratio - 1.0) < 0.0;
    let word = match (sign > 0.0, good) {
        (true, true) => "less",
        (true, false) => "more",
        (false, true) => "higher",
        (false, false) => "lower",
    };
    format!("{} {word}", percent(ratio))
}

/// What a row is told from.
pub(super) struct Told<'a> {
    pub(super) answer: &'a Answer,
    pub(super) metric: &'a Metric,
    /// Differences within ± this share count as none.
    pub(super) margin: f64,
    /// Rows that the claims are corrected for.
    pub(super) among: usize,
}

impl Told<'_> {
    /// The verdict in a sentence.
    pub(super) fn sentence(&self, c: &Compared) -> String {
        let limit = if c.negligible { ", but by a negligible amount" } else { "" };
        let sign = self.metric.sign();
        if let Some(second) = &c.confirmation {
            return self.confirmed(c, second);
        }
        let Some(layouts) = &c.layouts else {
            return match c.verdict {
                Verdict::Faster | Verdict::Slower => {
                    format!(
                        "{} ({}){limit}",
                        self.claim("this binary", c.verdict),
                        self.size(c.effect)
                    )
                }
                Verdict::Same => {
                    format!("the two are the same within the margin{}", self.narrower(c))
                }
                Verdict::LayoutLuck | Verdict::Undecided => {
                    self.open(c, "the runs show no difference")
                }
            };
        };
        let over = format!(
            "averaged over {} {}layouts",
            layouts.count,
            if layouts.matched { "matched " } else { "" }
        );
        let as_built = percent(c.as_built.ratio);
        match c.verdict {
            Verdict::Faster | Verdict::Slower => {
                let (claim, off) = (self.claim("the change", c.verdict), self.off(c));
                format!("{claim}: {} {over}{limit}{off}", change(c.effect, sign))
            }
            Verdict::Same => format!("the same within the margin{}, {over}", self.narrower(c)),
            Verdict::LayoutLuck => format!(
                "layout luck: the programs as built differ by {as_built}, {over} the change makes \
                 {}",
                percent(c.effect)
            ),
            Verdict::Undecided => self.open(c, &format!("{over}, no difference is shown")),
        }
    }

    /// Which interval lies within the margin, where the one that is shown does not.
    fn narrower(&self, c: &Compared) -> &'static str {
        let margin = 1.0 + self.margin;
        match c.interval {
            Some([low, high]) if low < 1.0 / margin || high > margin => " by the 90 % interval",
            _ => "",
        }
    }

    /// `the change is slower`, `this binary takes more memory`.
    fn claim(&self, subject: &str, verdict: Verdict) -> String {
        let worse = verdict == Verdict::Slower;
        match self.metric.is_speed() {
            true => format!("{subject} is {}", if worse { "slower" } else { "faster" }),
            false => format!(
                "{subject} has {} {}",
                if worse { "more" } else { "less" },
                self.metric.noun()
            )
            .replace("has more memory", "takes more memory")
            .replace("has less memory", "takes less memory"),
        }
    }

    fn size(&self, ratio: f64) -> String {
        if self.metric.is_speed() { change(ratio, self.metric.sign()) } else { percent(ratio) }
    }

    /// How far the pair as built is off the average, where that is shown.
    fn off(&self, c: &Compared) -> String {
        let sign = self.metric.sign();
        let Some(off) = self.answer.judgement.as_built_off else { return String::new() };
        let mean = self.answer.averaged.as_ref().map_or(0.0, |a| a.estimate);
        let by = percent((sign * off).exp());
        match self.answer.as_built.estimate * mean < 0.0 {
            true => format!(
                "; the pair as built says the opposite ({})",
                change(c.as_built.ratio, sign)
            ),
            false if off * mean > 0.0 => format!("; the pair as built overstates it by {by}"),
            false => format!("; the pair as built understates it by {by}"),
        }
    }

    /// Nothing was shown: what is known all the same, and what would decide.
    fn open(&self, c: &Compared, nothing: &str) -> String {
        let needed = needed(c).map_or(String::new(), |needed| format!("; {needed}"));
        match c.interval {
            // A row alone whose interval leaves 1 out has been looked at more than once.
            Some([low, high]) if low > 1.0 || high < 1.0 => {
                let p = format!("p = {:.3} alone, {:.3} corrected", c.p_value, c.p_corrected);
                let beyond = match c.is_beyond(self.margin) {
                    true => format!("lies beyond ±{} %", self.margin * 100.0),
                    false => "excludes 1".to_owned(),
                };
                let corrected = match self.among {
                    0 | 1 => "for looking more than once".to_owned(),
                    several => format!("for {several} rows"),
                };
                format!(
                    "the interval {low:.3} to {high:.3} {beyond}, but corrected {corrected} that is \
                     not significant ({p}){needed}"
                )
            }
            _ => format!("{nothing} and none is ruled out{needed}"),
        }
    }

    /// What two blocks of rounds say together of a variant that the first shows to be slower.
    fn confirmed(&self, c: &Compared, second: &Confirmation) -> String {
        let claim = self
            .claim(if c.layouts.is_some() { "the change" } else { "this binary" }, Verdict::Slower);
        let first = format!("{claim} in the first {} rounds ({})", c.n, self.size(c.effect));
        match second.effect {
            Some(effect) if second.confirmed => {
                format!(
                    "{claim} ({}); {} rounds more say so too ({})",
                    self.size(c.effect),
                    second.rounds,
                    self.size(effect.ratio)
                )
            }
            Some(effect) => {
                format!(
                    "{first}, which {} rounds more did not confirm ({})",
                    second.rounds,
                    self.size(effect.ratio)
                )
            }
            None => format!("{first}, which no second block of rounds has confirmed yet"),
        }
    }

    /// What a reader of the row must know.
    pub(super) fn warnings(&self, c: &Compared) -> Vec<String> {
        let mut warnings = Vec::new();
        let margin = self.margin * 100.0;
        if c.negligible {
            warnings.push(format!("the difference is shown but negligible: within ±{margin} %"));
        }
        match &c.layouts {
            None => warnings.extend(self.without_layouts(c)),
            Some(layouts) if layouts.count < least_layouts(layouts.matched) => {
                warnings.push(format!(
                    "{} layouts cannot show a difference at 5 %; {} are the least, 8 or more are \
                     usual",
                    layouts.count,
                    least_layouts(layouts.matched)
                ))
            }
            Some(layouts) if layouts.matched && layouts.correlation.is_some_and(|r| r < 0.3) => {
                warnings.push(
                    "the layouts are matched, but the variants do not follow them together; the \
                     gain of matching is lost"
                        .into(),
                )
            }
            _ => {}
        }
        warnings
    }

    fn without_layouts(&self, c: &Compared) -> Option<String> {
        // Programs that are built run twice in each round where others have layouts.
        let copies = (self.answer.as_built.blocks / c.n.max(1)).max(1);
        let least = (power::least_rounds(self.among as f64) as usize).div_ceil(copies);
        if c.n < least {
            let least = if least == 6 { "six".to_owned() } else { least.to_string() };
            let among =
                if self.among > 1 { format!(" among {} rows", self.among) } else { String::new() };
            return Some(format!(
                "{} rounds cannot show a difference at 5 %{among}; {least} are the least",
                c.n
            ));
        }
        // Where code lies moves times, not what a program does.
        let about_place =
            matches!(c.verdict, Verdict::Faster | Verdict::Slower) && self.metric.is_speed();
        about_place.then(|| ABOUT_TWO_FILES.to_owned() + LAYOUTS_ADVICE)
    }
}

fn needed(c: &Compared) -> Option<String> {
    let needed = c.needed?;
    let of = |number: Option<usize>, what: &str| number.map(|n| format!("{n} {what}"));
    let ways: Vec<String> = [of(needed.layouts, "layouts"), of(needed.rounds, "rounds")]
        .into_iter()
        .flatten()
        .collect();
    (!ways.is_empty()).then(|| format!("about {} in all would decide", ways.join(" or ")))
}

/// Which claims rest on t because relabelling so few layouts could not have made them among so many
/// rows, and what t takes for granted.
pub(super) fn below_the_floor(rows: &[Row], corrected: &[f64], among: usize) -> Option<String> {
    let floor = |row: &Row| row.answer.averaged.as_ref().map_or(0.0, |a| a.least_p_value);
    let rests = |(row, p): &(&Row, &f64)| **p < 0.05 && floor(row) * among as f64 >= 0.05;
    let found = rows.iter().zip(corrected).filter(rests).count();
    let first = rows.iter().zip(corrected).find(rests)?.0;
    let layouts = first.answer.averaged.as_ref().map_or(0, |a| a.layouts);
    Some(format!(
        "{found} of {among} rows are decided by Student's t over the layouts: relabelling \
         {layouts} layouts cannot go below p = {:.4}; t takes for granted that layouts move base \
         and variant alike",
        floor(first)
    ))
}
