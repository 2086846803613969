//! What is a typical value, and how far do values lie from it, when some of them are spoilt? Order statistics.

/// Neighbours (the run itself included) of the running median.
pub const WINDOW: usize = 9;
/// Share cut from each end before the mean of runs.
pub const TRIM: f64 = 0.25;

/// The median of each value and its neighbours; at the ends the window is cut.
pub fn running_median(values: &[f64]) -> Vec<f64> {
    let reach = WINDOW / 2;
    let mut window = Vec::with_capacity(WINDOW);
    (0..values.len())
        .map(|at| {
            window.clear();
            window.extend_from_slice(&values[at.saturating_sub(reach)..values.len().min(at + reach + 1)]);
            median(&mut window)
        })
        .collect()
}

/// The median; sorts its input. 0 for nothing.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => values[n / 2],
        _ => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Median absolute deviation × 1.4826: the standard deviation where the values are normal. 0 for nothing.
pub fn spread(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = median(&mut values);
    for value in &mut values {
        *value = (*value - middle).abs();
    }
    1.4826 * median(&mut values)
}

/// The mean without the share `trim` at each end (rounded down to whole values); sorts its input. 0 for nothing.
pub fn trimmed_mean(values: &mut [f64], trim: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let cut = cut(values.len(), trim);
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// How many of `n` values the share `trim` is, never so many that nothing is left.
pub(crate) fn cut(n: usize, trim: f64) -> usize {
    ((n as f64 * trim) as usize).min(n.saturating_sub(1) / 2)
}

/// The arithmetic mean; 0 for nothing.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The sample variance (n − 1); 0 for fewer than two values.
pub fn variance(values: &[f64]) -> f64 {
    let middle = mean(values);
    let n = values.len();
    if n < 2 { 0.0 } else { values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / (n - 1) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trimmed_mean_leaves_out_the_outer_quarters() {
        // scipy.stats.trim_mean([1..8, 1000 for 8], 0.25) cuts two at each end.
        assert_eq!(trimmed_mean(&mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1000.0], TRIM), 4.5);
        assert_eq!(trimmed_mean(&mut [5.0], TRIM), 5.0);
        assert_eq!(trimmed_mean(&mut [], TRIM), 0.0);
        assert_eq!(trimmed_mean(&mut [1.0, 3.0], 0.5), 2.0);
    }

    #[test]
    fn the_running_median_ignores_a_spike_and_shrinks_at_the_ends() {
        let mut values = vec![1.0; 20];
        values[10] = 99.0;
        assert_eq!(running_median(&values), vec![1.0; 20]);
        let ramp: Vec<f64> = (0..10).map(f64::from).collect();
        let medians = running_median(&ramp);
        assert_eq!((medians[0], medians[5], medians[9]), (2.0, 5.0, 7.0));
    }

    #[test]
    fn the_spread_of_a_few_numbers_is_as_scipy_says() {
        // scipy.stats.median_abs_deviation([1, 2, 4, 8, 16]) is 3.
        assert!((spread(&[1.0, 2.0, 4.0, 8.0, 16.0]) - 4.4478).abs() < 1e-12);
        assert_eq!((mean(&[1.0, 2.0, 6.0]), variance(&[1.0, 2.0, 6.0])), (3.0, 7.0));
        assert_eq!((mean(&[]), variance(&[3.0]), spread(&[])), (0.0, 0.0, 0.0));
    }
}
