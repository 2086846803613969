//! Where does a value stand in a picture, and which values are written on its axis?

/// From values to positions, linear or logarithmic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    log: bool,
}

impl Scale {
    /// From `low..high` to `from..to`; a range without extent is widened, one that is no number
    /// becomes 0 to 1.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let (low, high) = match (low.is_finite() && high.is_finite(), high > low) {
            (false, _) => (0.0, 1.0),
            (true, true) => (low, high),
            (true, false) => {
                let half = (low.abs() * 0.01).max(1e-9);
                (low - half, low + half)
            }
        };
        Scale { low, high, from, to, log: false }
    }

    /// For ratios: linear as long as they are near each other, logarithmic when the largest is more
    /// than three times the smallest.
    pub(super) fn ratios(low: f64, high: f64, from: f64, to: f64) -> Scale {
        let mut scale = Scale::linear(low, high, from, to);
        scale.log = scale.low > 0.0 && scale.high > 3.0 * scale.low;
        scale
    }

    /// The position of a value; what lies outside is put on the border.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = if value.is_nan() { self.low } else { value.clamp(self.low, self.high) };
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share * (self.to - self.from)
    }

    /// Is it inside?
    pub(super) fn holds(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }

    /// True for a logarithmic scale.
    pub(super) fn is_log(&self) -> bool {
        self.log
    }

    /// The ends.
    pub(super) fn range(&self) -> [f64; 2] {
        [self.low, self.high]
    }

    /// Round values for the axis, about `wanted` of them.
    pub(super) fn ticks(&self, wanted: usize) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        let step = step(self.high - self.low, wanted);
        let first = (self.low / step).ceil();
        // Multiples instead of sums, so that rounding errors do not add up.
        let multiples = (0..64).map(|i| (first + f64::from(i)) * step);
        multiples.take_while(|tick| *tick <= self.high + step * 1e-9).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let first = self.low.log10().floor() as i32;
        let decades = (first..first.saturating_add(40)).map(|e| 10f64.powi(e));
        let ticks = decades.flat_map(|d| [d, 2.0 * d, 5.0 * d]).skip_while(|t| *t < self.low);
        ticks.take_while(|t| *t <= self.high).collect()
    }
}

/// 1, 2 or 5 times a power of ten, so that `span` holds about `wanted` steps.
pub(super) fn step(span: f64, wanted: usize) -> f64 {
    let raw = span / wanted.max(1) as f64;
    if !(raw.is_finite() && raw > 0.0) {
        return 1.0;
    }
    let power = 10f64.powf(raw.log10().floor());
    match raw / power {
        r if r < 1.5 => power,
        r if r < 3.5 => 2.0 * power,
        r if r < 7.5 => 5.0 * power,
        _ => 10.0 * power,
    }
}

/// Labels of linear ticks with just the digits their distance needs.
pub(super) fn labels(ticks: &[f64], divisor: f64) -> Vec<String> {
    let distance = ticks.windows(2).map(|w| (w[1] - w[0]) / divisor).next().unwrap_or(1.0);
    let digits =
        if distance > 0.0 { (-(distance * 1.0001).log10().floor()).clamp(0.0, 9.0) } else { 0.0 };
    ticks.iter().map(|t| tidy_zero(format!("{:.*}", digits as usize, t / divisor))).collect()
}

/// Labels of ratio ticks: the change in per cent, on a logarithmic scale the factor.
pub(super) fn ratio_labels(scale: &Scale, ticks: &[f64]) -> Vec<String> {
    if scale.is_log() {
        return ticks.iter().map(|t| format!("×{t}")).collect();
    }
    let changes: Vec<f64> = ticks.iter().map(|t| (t - 1.0) * 100.0).collect();
    let plain = labels(&changes, 1.0);
    let sign = |(text, change): (&String, &f64)| match text.strip_prefix('-') {
        Some(rest) => format!("−{rest} %"),
        None if *change > 0.0 && !text.trim_matches(['0', '.']).is_empty() => format!("+{text} %"),
        None => "0 %".into(),
    };
    plain.iter().zip(&changes).map(sign).collect()
}

fn tidy_zero(text: String) -> String {
    match text.strip_prefix('-') {
        Some(rest) if rest.trim_matches(['0', '.']).is_empty() => rest.to_owned(),
        _ => text,
    }
}

/// Lowest and highest of the finite values, widened by a share of their distance.
pub(super) fn around(values: impl Iterator<Item = f64>, share: f64) -> [f64; 2] {
    let finite = values.filter(|v| v.is_finite());
    let ends = finite.fold([f64::INFINITY, f64::NEG_INFINITY], |[l, h], v| [l.min(v), h.max(v)]);
    let pad = (ends[1] - ends[0]) * share;
    if pad.is_finite() { [ends[0] - pad, ends[1] + pad] } else { [0.0, 1.0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(Scale::linear(0.0, 10.0, 0.0, 1.0).ticks(5), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let ticks = Scale::linear(0.947, 1.021, 0.0, 1.0).ticks(4);
        assert_eq!(labels(&ticks, 1.0), ["0.96", "0.98", "1.00", "1.02"]);
        assert_eq!(Scale::ratios(0.5, 4.0, 0.0, 1.0).ticks(4), [0.5, 1.0, 2.0]);
    }

    #[test]
    fn ratio_labels_are_changes() {
        let scale = Scale::ratios(0.955, 1.025, 0.0, 1.0);
        assert_eq!(ratio_labels(&scale, &scale.ticks(4)), ["−4 %", "−2 %", "0 %", "+2 %"]);
    }

    #[test]
    fn positions_stay_inside_for_any_value() {
        let scale = Scale::linear(2.0, 4.0, 100.0, 200.0);
        assert_eq!([3.0, -9.0, 99.0, f64::NAN].map(|v| scale.at(v)), [150.0, 100.0, 200.0, 100.0]);
        let point = Scale::linear(5.0, 5.0, 0.0, 10.0);
        assert!((point.at(5.0) - 5.0).abs() < 1e-6 && !point.ticks(4).is_empty());
        assert_eq!(Scale::linear(f64::NAN, 1.0, 0.0, 1.0).range(), [0.0, 1.0]);
    }

    #[test]
    fn a_range_is_widened_on_both_sides() {
        assert_eq!(around([1.0, 3.0, f64::NAN].into_iter(), 0.5), [0.0, 4.0]);
        assert_eq!(around(std::iter::empty(), 0.5), [0.0, 1.0]);
    }
}
