//! How are shares read from a command line? In per cent, with or without the sign.

/// Reads 0 or more per cent.
pub fn percent(text: &str) -> Result<f64, String> {
    let number =
        text.trim_end_matches('%').parse().ok().filter(|pct: &f64| pct.is_finite() && *pct >= 0.0);
    number.ok_or_else(|| "expected 0 or more per cent".to_owned())
}

/// Reads a percentage from 0 to 100.
pub fn percent_of_all(text: &str) -> Result<f64, String> {
    let number = percent(text).ok().filter(|pct| *pct <= 100.0);
    number.ok_or_else(|| "it is no percentage from 0 to 100".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_number_not_below_zero() {
        assert_eq!((percent("2.5"), percent("250%")), (Ok(2.5), Ok(250.0)));
        assert_eq!((percent_of_all("0"), percent_of_all("100%")), (Ok(0.0), Ok(100.0)));
        for wrong in ["", "-1", "nan", "inf", "ten"] {
            assert!(percent(wrong).is_err() && percent_of_all(wrong).is_err(), "{wrong}");
        }
        assert!(percent_of_all("100.1").is_err());
    }
}
