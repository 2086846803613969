//! How many samples has each place of the code that matters? The density of a profile, by which `llvm-profgen` judges whether
//! there are enough samples.
//!
//! Input: a profile. Output: samples for each location of a function (with those of what is inlined into it), and the smallest
//! of these numbers among the densest functions that hold 99 % of all samples. `llvm-profgen` warns below 50
//! ([`PROFGEN_LEAST`]). Source: `calculateDensity` of llvm-profgen, LLVM pull request 92144. Cost: a walk over the profile.

use crate::{FunctionProfile, SampleProfile};

/// Below this, `llvm-profgen` says that more samples would make the program faster.
pub const PROFGEN_LEAST: f64 = 50.0;
/// Samples, in percent, that lie in functions which are looked at.
const HOLDING: u128 = 99;

/// The density of a profile; `None` where it has no samples.
pub fn density(profile: &SampleProfile) -> Option<f64> {
    let all = profile.functions.values().map(samples_and_places);
    let mut dense: Vec<(f64, u128)> = all
        .filter(|(_, places)| *places > 0)
        .map(|(samples, places)| (samples as f64 / places as f64, samples))
        .collect();
    let whole: u128 = dense.iter().map(|(_, samples)| samples).sum();
    dense.sort_by(|one, other| other.0.total_cmp(&one.0));
    let mut held = 0u128;
    dense.into_iter().find_map(|(density, samples)| {
        held += samples;
        (whole > 0 && held * 100 >= whole * HOLDING).then_some(density)
    })
}

/// The samples of a function's body with all that is inlined into it, and the locations that have some.
fn samples_and_places(function: &FunctionProfile) -> (u128, u64) {
    let own = function.body.values().map(|sample| (u128::from(sample.count), 1));
    let inlined = function.callsites.values().flat_map(|names| names.values());
    own.chain(inlined.map(samples_and_places))
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}
