//! Adding profiles up, each with a weight.

use crate::{Error, FunctionProfile, SampleProfile};

/// What a merge could not simply add.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MergeReport {
    /// Functions whose probe checksums differ between inputs: the first one seen was kept, since
    /// the counts speak about different code. Inlined copies count too.
    pub checksum_conflicts: u64,
}

/// Merges profiles; a profile of weight `k` counts as if it were given `k` times. Sums stop at the
/// largest 64-bit number instead of wrapping. Weight 0 leaves a profile out.
///
/// The merged profile has the flags, the symbol list and the provenance of all inputs together.
pub fn merge<'p>(
    inputs: impl IntoIterator<Item = (&'p SampleProfile, u64)>,
) -> (SampleProfile, MergeReport) {
    let mut merged = SampleProfile::default();
    let mut report = MergeReport::default();
    for (profile, weight) in inputs {
        add_profile(&mut merged, profile, weight, &mut report);
    }
    (merged, report)
}

/// Adds one profile to another, weighted, as [`merge`] does.
pub fn add_profile(
    into: &mut SampleProfile,
    from: &SampleProfile,
    weight: u64,
    report: &mut MergeReport,
) {
    if weight == 0 {
        return;
    }
    into.fs_discriminators |= from.fs_discriminators;
    into.partial |= from.partial;
    into.context_sensitive |= from.context_sensitive;
    into.symbol_list.extend(from.symbol_list.iter().cloned());
    into.symbol_list.sort_unstable();
    into.symbol_list.dedup();
    into.provenance.add(&from.provenance);
    for (name, function) in &from.functions {
        add(into.function(name), function, weight, report);
    }
}

/// Adds one function profile to another, weighted.
pub fn add_function(into: &mut FunctionProfile, from: &FunctionProfile, weight: u64) {
    add(into, from, weight, &mut MergeReport::default());
}

fn add(into: &mut FunctionProfile, from: &FunctionProfile, weight: u64, report: &mut MergeReport) {
    match (into.checksum, from.checksum) {
        (Some(old), Some(new)) if old != new => {
            report.checksum_conflicts += 1;
            return;
        }
        (old, new) => into.checksum = old.or(new),
    }
    let plus = |sum: &mut u64, count: u64| *sum = sum.saturating_add(count.saturating_mul(weight));
    plus(&mut into.total, from.total);
    plus(&mut into.head, from.head);
    into.attributes |= from.attributes;
    for (at, sample) in &from.body {
        let sum = into.body.entry(*at).or_default();
        plus(&mut sum.count, sample.count);
        for (name, count) in &sample.targets {
            plus(sum.targets.entry(name.clone()).or_default(), *count);
        }
    }
    for (at, types) in &from.vtables {
        let sums = into.vtables.entry(*at).or_default();
        for (name, count) in types {
            plus(sums.entry(name.clone()).or_default(), *count);
        }
    }
    for (at, callee) in from.inlined_calls() {
        add(into.inlined(at, &callee.name), callee, weight, report);
    }
}

/// Refuses profiles, each with the name of its file, that cannot be put together.
///
/// # Errors
/// Where some count probes and some lines, or some keep calling contexts and some do not.
pub fn refuse_mixture<'p>(
    profiles: impl IntoIterator<Item = (&'p SampleProfile, String)>,
) -> Result<(), Error> {
    let (mut of_probes, mut of_lines) = (None, None);
    let (mut by_context, mut by_function) = (None, None);
    for (profile, name) in profiles {
        let context = if profile.context_sensitive { &mut by_context } else { &mut by_function };
        *context = Some(name.clone());
        *(if profile.is_probe_based() { &mut of_probes } else { &mut of_lines }) = Some(name);
    }
    if let (Some(probes), Some(lines)) = (of_probes, of_lines) {
        return Err(Error::ProbesAndLines { probes, lines });
    }
    match (by_context, by_function) {
        (Some(contexts), Some(functions)) => {
            Err(Error::ContextsAndFunctions { contexts, functions })
        }
        _ => Ok(()),
    }
}
