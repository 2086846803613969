//! What a reader of SPE counts must know, in words.

use super::AuxSideband;
use crate::ledger::SpeLedger;
use perfdata::spe::BRANCH_TERMS;
use perfdata::tracer;
use std::path::Path;

/// Remarks on the AUX data of the recording at `path`.
pub(crate) fn notes(path: &Path, spe: &SpeLedger) -> Vec<String> {
    let path = path.display();
    let mut notes = Vec::new();
    let without = spe.taken.saturating_sub(spe.with_previous_target);
    if without > 0 {
        notes.push(format!(
            "{path}: {without} of {} taken branches of Arm SPE come without the target of the \
             branch before (FEAT_SPE_PBT, Armv8.7): no fall-through ranges were recorded for \
             them, only branches; the code at their targets is counted up to the next branch, \
             call or return, and not beyond",
            spe.taken
        ));
    }
    if spe.records > 0 && spe.taken == 0 {
        notes.push(format!(
            "{path}: none of {} Arm SPE records is a taken branch; record with branch_filter=1: \
             planish record -e arm_spe_0/{BRANCH_TERMS}/u -- COMMAND",
            spe.records
        ));
    }
    let lost = spe.truncated.saturating_add(spe.partial).saturating_add(spe.collided);
    if lost > 0 {
        notes.push(format!(
            "{path}: the kernel says that Arm SPE records were lost (how often: buffer full {}, \
             with gaps {}, operations picked too fast {}); record -m,SIZE makes the buffer \
             larger, record -c N with a larger N picks more slowly",
            spe.truncated, spe.partial, spe.collided
        ));
    }
    if spe.damaged > 0 {
        let first = spe.first_damage.unwrap_or_default();
        notes.push(format!(
            "{path}: {} places in the Arm SPE data are no packets, the first at offset {first:#x} \
             of the file; each was left out up to the end of a record",
            spe.damaged
        ));
    }
    notes
}

impl AuxSideband {
    /// Tracers in the recording whose data is not decoded.
    pub(crate) fn others(&self) -> Option<String> {
        let names: Vec<String> =
            self.tracers.iter().filter(|&&t| t != tracer::ARM_SPE).map(|&t| name(t)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The note on them.
    pub(crate) fn note_others(&self, path: &Path) -> Option<String> {
        let others = self.others()?;
        Some(format!(
            "{}: {} bytes of AUX data of {others} were not decoded",
            path.display(),
            self.bytes()
        ))
    }
}

fn name(number: u32) -> String {
    match number {
        tracer::INTEL_PT => "Intel PT".into(),
        tracer::INTEL_BTS => "Intel BTS".into(),
        tracer::CORESIGHT => "Arm CoreSight".into(),
        other => format!("tracer {other}"),
    }
}
