//! What is a typical value, and how far do values lie from it, when some of them are spoilt? Order
//! statistics.

/// Neighbours (the run itself included) of the running median: four runs before, four after.
pub const WINDOW: usize = 9;

/// The median of each value and its neighbours; at the ends the window is cut.
pub fn running_median(values: &[f64]) -> Vec<f64> {
    (0..values.len()).map(|at| median_around(values, at)).collect()
}

/// One value of the running median.
pub(crate) fn median_around(values: &[f64], at: usize) -> f64 {
    let reach = WINDOW / 2;
    let window = &values[at.saturating_sub(reach)..values.len().min(at + reach + 1)];
    match <[f64; WINDOW]>::try_from(window) {
        Ok(mut nine) => median_of_nine(&mut nine),
        Err(_) => median(&mut window.to_vec()),
    }
}

/// The fifth of nine values by exchanges alone (Paeth, in Graphics Gems, 1990): no branch depends
/// on the values.
fn median_of_nine(v: &mut [f64; WINDOW]) -> f64 {
    const EXCHANGES: [(usize, usize); 19] = [
        (1, 2),
        (4, 5),
        (7, 8),
        (0, 1),
        (3, 4),
        (6, 7),
        (1, 2),
        (4, 5),
        (7, 8),
        (0, 3),
        (5, 8),
        (4, 7),
        (3, 6),
        (1, 4),
        (2, 5),
        (4, 7),
        (4, 2),
        (6, 4),
        (4, 2),
    ];
    for (low, high) in EXCHANGES {
        let (x, y) = (v[low], v[high]);
        v[low] = if x < y { x } else { y };
        v[high] = if x < y { y } else { x };
    }
    v[4]
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

/// Median absolute deviation × 1.4826: the standard deviation where the values are normal. 0 for
/// nothing.
pub fn spread(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = median(&mut values);
    for value in &mut values {
        *value = (*value - middle).abs();
    }
    1.4826 * median(&mut values)
}

/// The mean without the share `trim` at each end (rounded down to whole values); sorts its input. 0
/// for nothing.
pub fn trimmed_mean(values: &mut [f64], trim: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let cut = cut(values.len(), trim);
    let kept = &values[cut..values.len() - cut];
    kept.iter().sum::<f64>() / kept.len().max(1) as f64
}

/// Squared standard error of the trimmed mean and its degrees of freedom (Tukey and McLaughlin
/// 1963): the Winsorised sum of squares over h(h − 1), h being the number of values kept; h − 1.
/// Zero error for fewer than two kept.
pub fn trimmed_mean_error(values: &[f64], trim: f64) -> (f64, f64) {
    let mut v = values.to_vec();
    v.sort_unstable_by(f64::total_cmp);
    let (n, g) = (v.len(), cut(v.len(), trim));
    for at in 0..g {
        v[at] = v[g];
        v[n - 1 - at] = v[n - 1 - g];
    }
    let h = n as f64 - 2.0 * g as f64;
    if h < 2.0 { (0.0, 1.0) } else { (variance(&v) * (n as f64 - 1.0) / (h * (h - 1.0)), h - 1.0) }
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
    if n < 2 {
        0.0
    } else {
        values.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / (n - 1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trimmed_mean_leaves_out_the_outer_quarters() {
        // scipy.stats.trim_mean([1..8, 1000 for 8], 0.25) cuts two at each end.
        assert_eq!(trimmed_mean(&mut [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1000.0], 0.25), 4.5);
        assert_eq!(trimmed_mean(&mut [5.0], 0.25), 5.0);
        assert_eq!(trimmed_mean(&mut [], 0.25), 0.0);
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
    fn nine_exchanged_values_have_the_median_of_nine_sorted_ones() {
        let mut random = random::Random::new(5);
        for _ in 0..2000 {
            let mut nine = [0.0; WINDOW].map(|_: f64| random.below(6) as f64);
            assert_eq!(median_of_nine(&mut nine.clone()), median(&mut nine));
        }
    }

    #[test]
    fn the_spread_of_a_few_numbers_is_as_scipy_says() {
        // scipy.stats.median_abs_deviation([1, 2, 4, 8, 16]) is 3.
        assert!((spread(&[1.0, 2.0, 4.0, 8.0, 16.0]) - 4.4478).abs() < 1e-12);
        assert_eq!((mean(&[1.0, 2.0, 6.0]), variance(&[1.0, 2.0, 6.0])), (3.0, 7.0));
        assert_eq!((mean(&[]), variance(&[3.0]), spread(&[])), (0.0, 0.0, 0.0));
    }
}
