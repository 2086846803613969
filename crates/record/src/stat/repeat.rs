//! Mean and spread of repeated runs.

/// Mean of some numbers, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Of all runs.
    pub mean: f64,
    /// Standard error of the mean: the standard deviation by the square root of the number of
    /// runs.
    pub error: f64,
}

impl Spread {
    /// The standard error in percent of the mean; 0 when the mean is 0.
    pub fn percent(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { 100.0 * self.error / self.mean.abs() }
    }
}

/// Mean and its standard error; none of no numbers, and an error of 0 of a single one.
pub fn spread(numbers: &[f64]) -> Option<Spread> {
    let count = numbers.len() as f64;
    if numbers.is_empty() {
        return None;
    }
    let mean = numbers.iter().sum::<f64>() / count;
    let squares: f64 = numbers.iter().map(|number| (number - mean).powi(2)).sum();
    let variance = if numbers.len() > 1 { squares / (count - 1.0) } else { 0.0 };
    Some(Spread { mean, error: (variance / count).sqrt() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_that_of_the_mean() {
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { mean: 3.0, error: 0.0 }));
        let of_three = spread(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(of_three.mean, 2.0);
        assert!((of_three.error - (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((of_three.percent() - 28.8675).abs() < 1e-3);
    }
}
