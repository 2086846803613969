//! Does a difference stay when all functions are aligned? Compares a measurement with one of the
//! same variants built with `-falign-functions`.

use crate::Verdict;
use crate::result::{Alignment, Compared, Effect, Measurement, Sizes};
use statistics::Rule;

/// What remains, with functions aligned to `align` bytes, of each difference that was measured
/// before. `sizes` are those of the aligned programs.
pub fn remaining(
    before: &Measurement,
    aligned: &Measurement,
    sizes: &[Sizes],
    align: u32,
) -> Vec<Alignment> {
    let one = |c: &Compared| {
        let as_built = before
            .comparisons
            .iter()
            .find(|b| b.variant == c.variant && b.benchmark == c.benchmark);
        let index = aligned.variants.iter().position(|v| v.name == c.variant).unwrap_or(0);
        let size = |at: usize| sizes.get(at).copied().unwrap_or_default();
        Alignment {
            align,
            benchmark: c.benchmark.clone(),
            variant: c.variant.clone(),
            effect: c.as_built,
            sentence: as_built.map_or_else(String::new, |b| {
                remains(&b.as_built, &c.as_built, c.verdict, before.margin)
            }),
            sizes: [size(0), size(index)],
        }
    };
    aligned.comparisons.iter().map(one).collect()
}

/// What is known of a difference.
#[derive(Clone, Copy, PartialEq)]
enum Known {
    There,
    Absent,
    Unclear,
}

fn remains(before: &Effect, aligned: &Effect, verdict: Verdict, margin: f64) -> String {
    let pct = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let (from, to) = (pct(before.ratio), pct(aligned.ratio));
    let rule = Rule { margin, ..Rule::default() };
    let was = match before.interval {
        _ if before.p_value < rule.alpha => Known::There,
        Some([low, high]) if rule.within(low.ln(), high.ln()) => Known::Absent,
        _ => Known::Unclear,
    };
    let is = match verdict {
        Verdict::Faster | Verdict::Slower => Known::There,
        Verdict::Same => Known::Absent,
        Verdict::LayoutLuck | Verdict::Undecided => Known::Unclear,
    };
    match (was, is) {
        (Known::There, Known::There) => {
            format!("the difference as built ({from}) stays when functions are aligned ({to})")
        }
        (Known::There, Known::Absent) => {
            format!("the difference as built ({from}) vanishes when functions are aligned ({to})")
        }
        (Known::There, Known::Unclear) => {
            format!(
                "undecided whether the difference as built ({from}) stays when functions are \
                 aligned ({to})"
            )
        }
        (_, Known::There) => {
            format!(
                "aligned functions show a difference ({to}) that is not shown as built ({from})"
            )
        }
        (Known::Absent, Known::Absent) => {
            format!("no difference as built ({from}), none with aligned functions ({to})")
        }
        _ => format!(
            "undecided: neither as built ({from}) nor with aligned functions ({to}) is a \
             difference shown, nor ruled out in both"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_absent_when_it_is_within_the_margin_of_the_measurement() {
        let effect = |interval| Effect { ratio: 1.0, interval: Some(interval), p_value: 0.5 };
        let (before, aligned) = (effect([0.98, 1.02]), effect([0.99, 1.01]));
        let by = |margin| remains(&before, &aligned, Verdict::Same, margin);
        assert!(by(0.05).starts_with("no difference as built"), "{}", by(0.05));
        assert!(by(0.01).starts_with("undecided"), "{}", by(0.01));
    }
}
