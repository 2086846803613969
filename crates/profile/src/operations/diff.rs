//! How two profiles differ: whose share of the samples grew, whose shrank.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::{Name, SampleProfile};

/// One function in two profiles.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionDifference {
    /// The function.
    pub name: String,
    /// Its body counts (inlined copies included) in the first profile; `None` when it is not
    /// there.
    pub base_samples: Option<u64>,
    /// The same in the second profile.
    pub test_samples: Option<u64>,
    /// Its share of the first profile, in percent.
    pub base_share_pct: f64,
    /// Its share of the second profile, in percent.
    pub test_share_pct: f64,
}

impl FunctionDifference {
    /// Change of the share in percentage points; positive when the second profile has more.
    pub fn change_points(&self) -> f64 {
        self.test_share_pct - self.base_share_pct
    }
}

/// Two profiles, function by function.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// Sum of the body counts of the first profile (saturating).
    pub base_samples: u64,
    /// Sum of the body counts of the second profile (saturating).
    pub test_samples: u64,
    /// All functions of both, those whose share changed most in front, then by name.
    pub functions: Vec<FunctionDifference>,
}

/// Compares two profiles by the share of the samples that each function has.
pub fn diff(base: &SampleProfile, test: &SampleProfile) -> Difference {
    let sum = |profile: &SampleProfile| {
        profile
            .functions
            .values()
            .fold(0u64, |sum, function| sum.saturating_add(function.body_sum()))
    };
    let (base_sum, test_sum) = (sum(base), sum(test));
    let samples =
        |profile: &SampleProfile, name| profile.functions.get(name).map(|found| found.body_sum());
    let share = |samples: Option<u64>, sum: u64| match (samples, sum) {
        (Some(samples), 1..) => samples as f64 / sum as f64 * 100.0,
        _ => 0.0,
    };
    let names: BTreeSet<&Name> = base.functions.keys().chain(test.functions.keys()).collect();
    let mut functions: Vec<FunctionDifference> = names
        .into_iter()
        .map(|name| {
            let (base_samples, test_samples) = (samples(base, name), samples(test, name));
            FunctionDifference {
                name: name.to_string(),
                base_samples,
                test_samples,
                base_share_pct: share(base_samples, base_sum),
                test_share_pct: share(test_samples, test_sum),
            }
        })
        .collect();
    functions.sort_by(|a, b| {
        let (a_change, b_change) = (a.change_points().abs(), b.change_points().abs());
        b_change.total_cmp(&a_change).then_with(|| a.name.cmp(&b.name))
    });
    Difference { base_samples: base_sum, test_samples: test_sum, functions }
}
