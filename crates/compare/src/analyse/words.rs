//! What may be said? Sentences that claim no more than was shown.

use crate::result::{Compared, Verdict};
use statistics::{Answer, least_layouts};

/// What warnings of rows without layouts advise, at their end. It is for programs: of other things there are no layouts.
pub const LAYOUTS_ADVICE: &str = " (--layouts 8 finds out)";

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

/// The verdict in a sentence. `sign` is −1 where more is better.
pub(super) fn sentence(c: &Compared, answer: &Answer, sign: f64) -> String {
    let limit = if c.negligible { ", but by a negligible amount" } else { "" };
    let Some(layouts) = &c.layouts else {
        return match c.verdict {
            Verdict::Faster => format!("this binary is faster ({}){limit}", change(c.effect, sign)),
            Verdict::Slower => format!("this binary is slower ({}){limit}", change(c.effect, sign)),
            Verdict::Same => "the two are the same within the margin".to_owned(),
            Verdict::LayoutLuck | Verdict::Undecided => {
                format!("undecided: the runs show no difference and do not rule one out{}", needed(c))
            }
        };
    };
    let over =
        format!("averaged over {} {}layouts", layouts.count, if layouts.matched { "matched " } else { "" });
    let as_built = percent(c.as_built.ratio);
    let off = match answer.judgement.as_built_off {
        None => String::new(),
        Some(off) => {
            let (built, mean) =
                (answer.as_built.estimate, answer.averaged.as_ref().map_or(0.0, |a| a.estimate));
            let by = percent((sign * off).exp());
            match built * mean < 0.0 {
                true => format!("; the pair as built says the opposite ({})", change(c.as_built.ratio, sign)),
                false if off * mean > 0.0 => format!("; the pair as built overstates it by {by}"),
                false => format!("; the pair as built understates it by {by}"),
            }
        }
    };
    match c.verdict {
        Verdict::Faster => format!("the change is faster: {} {over}{limit}{off}", change(c.effect, sign)),
        Verdict::Slower => format!("the change is slower: {} {over}{limit}{off}", change(c.effect, sign)),
        Verdict::Same => format!("the same within the margin, {over}"),
        Verdict::LayoutLuck => format!(
            "layout luck: the programs as built differ by {as_built}, {over} the change makes {}",
            percent(c.effect)
        ),
        Verdict::Undecided => {
            format!("undecided: {over}, no difference is shown and none is ruled out{}", needed(c))
        }
    }
}

fn needed(c: &Compared) -> String {
    let Some(needed) = &c.needed else { return String::new() };
    match (needed.layouts, needed.rounds) {
        (Some(layouts), Some(rounds)) => {
            format!("; about {layouts} layouts or {rounds} rounds in all would decide")
        }
        (Some(layouts), None) => format!("; about {layouts} layouts in all would decide"),
        (None, Some(rounds)) => format!("; about {rounds} rounds in all would decide"),
        (None, None) => String::new(),
    }
}

/// What a reader of the row must know.
pub(super) fn warnings(c: &Compared, margin: f64, several: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let margin = margin * 100.0;
    if c.negligible {
        warnings.push(format!("the difference is shown but negligible: within ±{margin} %"));
    }
    if c.verdict == Verdict::Undecided {
        let text = needed(c);
        if let Some(text) = text.strip_prefix("; ") {
            warnings.push(format!("undecided; {text} differences of {margin} %"));
        }
        let lost = c.p_value < 0.05 && several;
        if lost {
            let p =
                format!("p = {:.3} alone, {:.3} corrected for the number of rows", c.p_value, c.p_corrected);
            warnings.push(format!("not shown among so many comparisons: {p}"));
        }
    }
    match &c.layouts {
        None if matches!(c.verdict, Verdict::Faster | Verdict::Slower) => warnings.push(
            "without layouts this is about the two files: where the linker happened to put the code may explain it"
                .to_owned()
                + LAYOUTS_ADVICE,
        ),
        Some(layouts) if layouts.count < least_layouts(layouts.matched) => warnings.push(format!(
            "{} layouts cannot show a difference at 5 %; {} are the least, 8 or more are usual",
            layouts.count,
            least_layouts(layouts.matched)
        )),
        Some(layouts) if layouts.matched && layouts.correlation.is_some_and(|r| r < 0.3) => warnings.push(
            "the layouts are matched, but the variants do not follow them together; the gain of matching is lost"
                .into(),
        ),
        _ => {}
    }
    warnings
}
