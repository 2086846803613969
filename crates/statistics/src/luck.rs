//! How much of what one pair of binaries shows is the luck of its code layout? As-built effect
//! minus average effect.

use crate::distribution::t_quantile;
use crate::{AsBuilt, Averaged};
use serde::{Deserialize, Serialize};

/// Λ = as-built difference − layout-averaged difference, on the log scale.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Luck {
    /// Λ: what these two binaries owe to their layouts.
    pub estimate: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Standard error: √(SE₀² + SE_τ²).
    pub standard_error: f64,
}

impl Luck {
    /// From the two effects. Degrees of freedom by Welch and Satterthwaite, so that a well-measured
    /// pair against few layouts is judged with the layouts' few degrees. `None` when the
    /// as-built effect has no interval.
    pub fn of(as_built: &AsBuilt, averaged: &Averaged) -> Option<Luck> {
        let (v0, vt) = (as_built.standard_error?.powi(2), averaged.standard_error.powi(2));
        let df0 = (as_built.blocks as f64 - 1.0).max(1.0);
        let spread = v0 * v0 / df0 + vt * vt / averaged.df;
        let df = if spread > 0.0 { (v0 + vt).powi(2) / spread } else { averaged.df };
        let error = (v0 + vt).sqrt();
        let estimate = as_built.estimate - averaged.estimate;
        let half = t_quantile(0.975, df) * error;
        Some(Luck { estimate, low: estimate - half, high: estimate + half, standard_error: error })
    }

    /// Does the interval exclude 0?
    pub fn is_shown(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// Is more than half of `effect` proven to be luck of the same direction?
    pub fn explains(&self, effect: f64) -> bool {
        let proven = if effect > 0.0 { self.low } else { -self.high };
        proven > 0.5 * effect.abs()
    }
}
