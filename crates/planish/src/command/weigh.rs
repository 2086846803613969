//! What do several recordings weigh against each other, as a user says it?

use anyhow::bail;
use counts::Error;
use counts::aggregate::Aggregated;
use counts::weigh::{Weight, factors};

/// The weight of each of so many `things`: 1 where the user says nothing.
pub fn of(given: &[f64], number: usize, things: &str) -> anyhow::Result<Vec<f64>> {
    if given.is_empty() {
        return Ok(vec![1.0; number]);
    }
    if given.len() != number {
        bail!(
            "the number of --weight is {} and that of {things} is {number}: give one weight for \
             each, in the same order",
            given.len()
        );
    }
    if let Some(bad) = given.iter().find(|weight| !(0.001..=1000.0).contains(*weight)) {
        bail!("--weight {bad}: expected a number from 0.001 to 1000");
    }
    Ok(given.to_vec())
}

/// Multiplies what was counted of each recording so that it has its weight; with what.
///
/// # Errors
/// Where a count leaves the range of 64 bits.
pub fn weighted(
    parts: Vec<Aggregated>,
    wanted: impl Iterator<Item = f64>,
) -> Result<(Vec<Aggregated>, Vec<u64>), Error> {
    let weight =
        |(part, wanted): (&Aggregated, f64)| Weight { wanted, recorded: part.counts.recorded() };
    let weights: Vec<Weight> = parts.iter().zip(wanted).map(weight).collect();
    let factors = factors(&weights);
    let weighted = parts.into_iter().zip(&factors).map(|(part, &factor)| {
        Ok::<_, Error>(Aggregated { counts: part.counts.times(factor)?, ..part })
    });
    Ok((weighted.collect::<Result<_, _>>()?, factors))
}
