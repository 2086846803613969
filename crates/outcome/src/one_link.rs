//! Is a difference between two single links more than another link would make?

use compare::result::{Compared, Measurement};

/// Judges a pair of single links, and the rows of a measurement that are such, by what its row of the
/// pair's program says of links.
pub(crate) fn judge(measurement: &mut Measurement, mut pair: Compared) -> Compared {
    let mut rows = measurement.comparisons.iter();
    if let Some(averaged) = rows.find(|row| row.variant == pair.variant).cloned() {
        let rows = measurement.comparisons.iter_mut();
        rows.chain([&mut pair]).for_each(|row| row.judge_as_one_link(&averaged));
    }
    pair
}
