//! What does it cost to have looked before, and what does a second block of rounds say?

use super::cell::{Runs, effect};
use crate::result::Confirmation;
use statistics::{AsBuilt, LayoutMeans, Rule, sequential};

/// Label swaps drawn for the second block: p-values in steps of a ten-thousandth.
const DRAWS: usize = 9999;

/// The p-value after looks that nobody planned: a measurement that goes on after its result was
/// seen has had more than one chance. Says so.
pub(super) fn after_looks(runs: &Runs, p_value: f64, warnings: &mut Vec<String>) -> f64 {
    let rounds = runs.rounds() as u32;
    let looked: Vec<u32> =
        runs.design.looked.iter().copied().filter(|&look| look < rounds).collect();
    if looked.is_empty() {
        return p_value;
    }
    let shares: Vec<f64> =
        looked.iter().chain(&[rounds]).map(|&n| f64::from(n) / f64::from(rounds)).collect();
    let corrected = sequential::after_looks(p_value, &shares);
    let looks: Vec<String> = looked.iter().map(u32::to_string).collect();
    warnings.push(format!(
        "the result was told after {} rounds before the measurement went on: p = {p_value:.3} \
         counts as {corrected:.3}",
        looks.join(" and ")
    ));
    corrected
}

/// The effect in the second block and whether it is slower there too, at 5 % of its own: the first
/// block has made the claim among all rows, this one repeats it for one.
pub(super) fn of(runs: &Runs, variant: usize, rule: Rule) -> Option<Confirmation> {
    let (seed, sign) = (runs.design.seed, runs.metric.sign());
    let matched = runs.design.is_matched(variant);
    let found = LayoutMeans::new(&runs.observations).compare(0, variant, matched, DRAWS, seed);
    let (estimate, told, p_value) = match found {
        Some(t) => {
            (t.estimate, effect(sign, t.estimate, Some(t.low), Some(t.high), t.p_value), t.p_value)
        }
        None => {
            let pair = AsBuilt::of(&runs.observations, 0, variant, DRAWS, seed)?;
            (
                pair.estimate,
                effect(sign, pair.estimate, pair.low, pair.high, pair.p_value),
                pair.p_value,
            )
        }
    };
    let rounds = runs.rounds();
    let confirmed =
        rounds >= runs.design.second_rounds() as usize && p_value < rule.alpha && estimate > 0.0;
    Some(Confirmation { rounds, effect: Some(told), confirmed })
}
