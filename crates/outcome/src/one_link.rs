//! Is a difference between two single links more than another link would make?

use compare::result::{Compared, Measurement, Verdict};

/// A pair as built, in a measurement over layouts: undecided where links of one program differ as
/// much.
pub(crate) fn judged(mut pair: Compared, measurement: &Measurement) -> Compared {
    let is_claim = matches!(pair.verdict, Verdict::Faster | Verdict::Slower);
    let mut rows = measurement.comparisons.iter();
    let result = rows.find(|row| row.variant == pair.variant);
    if is_claim && result.is_some_and(|result| pair.is_within_links_of(result)) {
        pair.verdict = Verdict::Undecided;
        pair.negligible = false;
    }
    pair
}

#[cfg(test)]
mod tests {
    use super::*;
    use compare::result::Averaged;

    #[test]
    fn what_another_link_could_have_made_is_no_claim() {
        let variant = || "app.opt".to_owned();
        let links = |one_relink| Compared {
            variant: variant(),
            layouts: Some(Averaged { one_relink, ..Averaged::default() }),
            ..Compared::default()
        };
        let pair = |effect, verdict| Compared {
            variant: variant(),
            effect,
            verdict,
            ..Compared::default()
        };
        for (effect, verdict, one_relink, expected) in [
            (0.894, Verdict::Faster, 0.15, Verdict::Undecided),
            (1.1, Verdict::Slower, 0.15, Verdict::Undecided),
            (0.894, Verdict::Faster, 0.02, Verdict::Faster),
            (1.1, Verdict::Slower, 0.02, Verdict::Slower),
            (1.0, Verdict::Same, 0.15, Verdict::Same),
        ] {
            let measurement =
                Measurement { comparisons: vec![links(one_relink)], ..Measurement::default() };
            assert_eq!(judged(pair(effect, verdict), &measurement).verdict, expected, "{effect}");
        }
        let without =
            Measurement { comparisons: vec![pair(0.9, Verdict::Faster)], ..Measurement::default() };
        assert_eq!(judged(pair(0.894, Verdict::Faster), &without).verdict, Verdict::Faster);
    }
}
