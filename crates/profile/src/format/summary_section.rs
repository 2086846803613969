//! The summary block at the front of LLVM's binary formats.

use super::bytes::{Reader, put_uleb};
use crate::operations::Summary;
use crate::{Error, SampleProfile};

/// Appends the summary of `profile`: totals, then the sixteen cutoffs.
pub(crate) fn put_summary(out: &mut Vec<u8>, profile: &SampleProfile) {
    let summary = Summary::of(profile);
    put_uleb(out, summary.total_count);
    put_uleb(out, summary.max_count);
    put_uleb(out, summary.max_function_count);
    put_uleb(out, summary.counts);
    put_uleb(out, summary.functions);
    put_uleb(out, summary.cutoffs.len() as u64);
    for cutoff in &summary.cutoffs {
        put_uleb(out, u64::from(cutoff.share_millionths));
        put_uleb(out, cutoff.min_count);
        put_uleb(out, cutoff.counts);
    }
}

/// Steps over a summary; it is computed anew from the functions whenever it is needed.
pub(crate) fn skip_summary(reader: &mut Reader<'_>) -> Result<(), Error> {
    for _ in 0..5 {
        reader.uleb()?;
    }
    for _ in 0..reader.uleb()? {
        for _ in 0..3 {
            reader.uleb()?;
        }
    }
    Ok(())
}
