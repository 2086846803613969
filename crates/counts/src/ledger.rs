//! Balanced books: samples, branch stack entries, fall-through ranges and paths, in and used and
//! not used by reason.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why something that was recorded could not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The process had nothing mapped at the address, as far as the recording tells.
    Unmapped,
    /// The address lies in a mapping that is no file (JIT code, vdso, anonymous memory).
    NoFile,
    /// The address lies in an image that was not asked for.
    OtherImage,
    /// The sample is of a process that was not asked for.
    OtherProcess,
    /// The file that the recording names could not be opened, or where the kernel lay is hidden:
    /// addresses are unknown.
    ImageUnavailable,
    /// The file at hand has another build ID than the recorded one.
    BuildIdMismatch,
    /// The address lies in the image's file but in no executable segment.
    NotExecutable,
    /// The processor marked the entry as executed on a wrong, speculated path.
    WrongPath,
    /// A repetition of the newest entry, which some processors write; the range between the two
    /// cannot have run.
    DuplicateEntry,
    /// The two ends of a range lie in different images, or one lies in none.
    CrossesImages,
    /// The range ends before it begins.
    Backwards,
    /// The range is longer than any straight-line code.
    TooLong,
    /// The range passes a call, return or jump that is always taken.
    CrossesTransfer,
    /// Decoding from the start of the range does not meet its end: the code recorded is not the
    /// image's code.
    NotOnInstruction,
    /// Neither the trace nor the records around it tell which process ran (AUX data).
    NoProcess,
    /// The record did not have the shape that its event's attributes promise.
    Malformed,
}

/// In, used, and not used by reason. `entered == used + Σ unused` always holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Book {
    /// What the recording held.
    pub entered: u64,
    /// What ended in a count.
    pub used: u64,
    /// What did not, by reason.
    pub unused: BTreeMap<Reason, u64>,
}

impl Book {
    /// Enters `count` and uses it.
    pub fn use_up(&mut self, count: u64) {
        self.entered = self.entered.saturating_add(count);
        self.used = self.used.saturating_add(count);
    }

    /// Enters `count` and writes it off for `reason`.
    pub fn write_off(&mut self, reason: Reason, count: u64) {
        if count == 0 {
            return;
        }
        self.entered = self.entered.saturating_add(count);
        let sum = self.unused.entry(reason).or_default();
        *sum = sum.saturating_add(count);
    }

    /// Takes `count` back from what was used, for `reason`.
    pub fn revoke(&mut self, reason: Reason, count: u64) {
        self.used = self.used.saturating_sub(count);
        self.entered = self.entered.saturating_sub(count);
        self.write_off(reason, count);
    }

    /// Adds another book.
    pub fn add(&mut self, other: &Book) {
        self.use_up(other.used);
        for (&reason, &count) in &other.unused {
            self.write_off(reason, count);
        }
    }

    /// Whether nothing entered.
    pub fn is_empty(&self) -> bool {
        self.entered == 0
    }

    /// Whether the sums agree.
    pub fn balances(&self) -> bool {
        self.entered == self.unused.values().fold(self.used, |sum, &n| sum.saturating_add(n))
    }

    /// Share of what entered that was used, in percent; 100 where nothing entered.
    pub fn used_pct(&self) -> f64 {
        if self.entered == 0 { 100.0 } else { 100.0 * self.used as f64 / self.entered as f64 }
    }
}

/// What a run of aggregation read, used and left aside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Samples, by where their instruction pointer lay; empty where branches were counted and not
    /// sampled.
    pub samples: Book,
    /// Branch stack entries, or branches where each was counted.
    pub branches: Book,
    /// Pairs of neighbouring entries, each of which spans a fall-through range.
    pub fall_throughs: Book,
    /// Pairs of neighbouring entries again, as paths; empty where paths were not asked for.
    #[serde(default, skip_serializing_if = "Book::is_empty")]
    pub paths: Book,
    /// Samples that the kernel could not deliver (LOST and LOST_SAMPLES records).
    pub lost: u64,
    /// Records of kinds that this version does not know.
    pub unknown_records: u64,
    /// Bytes at the end of a recording that held no whole record.
    pub truncated_bytes: u64,
    /// Feature sections (build IDs, …) that a recording announces but does not hold: it was cut.
    #[serde(default)]
    pub missing_sections: u64,
    /// Bytes behind the last section of a recording.
    #[serde(default)]
    pub surplus_bytes: u64,
    /// Always 0, since counting does not depend on the order of records; kept for readers of the
    /// format.
    pub out_of_order: u64,
    /// What the AUX data of Arm SPE held.
    #[serde(default, skip_serializing_if = "SpeLedger::is_empty")]
    pub spe: SpeLedger,
}

/// What the AUX data of Arm's Statistical Profiling Extension held. Its records are samples,
/// branches and ranges in the books of [`Ledger`]; here stands what they were made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpeLedger {
    /// Buffers (AUXTRACE records).
    pub buffers: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Records with the address of an instruction.
    pub records: u64,
    /// Of which taken branches.
    pub taken: u64,
    /// Of which branches that were not taken, or whose record does not say enough.
    pub not_taken: u64,
    /// Of which other operations.
    pub other_operations: u64,
    /// Of the taken ones, those with the target of the branch before, which gives a range.
    pub with_previous_target: u64,
    /// Ranges that were not recorded: from the target of a branch to the next instruction that can
    /// transfer control.
    pub inferred_ranges: u64,
    /// Records without an address, or that were broken off.
    pub incomplete: u64,
    /// Places where the bytes are no packet.
    pub damaged: u64,
    /// Where the first of them lies in the file, in bytes.
    pub first_damage: Option<u64>,
    /// AUX records that say that the buffer was full.
    pub truncated: u64,
    /// AUX records that say that data is missing in between.
    pub partial: u64,
    /// AUX records that say that operations were picked faster than they could be written down.
    pub collided: u64,
}

impl SpeLedger {
    /// Whether there was no AUX data of Arm SPE.
    pub fn is_empty(&self) -> bool {
        *self == SpeLedger::default()
    }

    /// Adds another one.
    pub fn add(&mut self, other: &SpeLedger) {
        let sums = [
            (&mut self.buffers, other.buffers),
            (&mut self.bytes, other.bytes),
            (&mut self.records, other.records),
            (&mut self.taken, other.taken),
            (&mut self.not_taken, other.not_taken),
            (&mut self.other_operations, other.other_operations),
            (&mut self.with_previous_target, other.with_previous_target),
            (&mut self.inferred_ranges, other.inferred_ranges),
            (&mut self.incomplete, other.incomplete),
            (&mut self.damaged, other.damaged),
            (&mut self.truncated, other.truncated),
            (&mut self.partial, other.partial),
            (&mut self.collided, other.collided),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
        self.first_damage = self.first_damage.into_iter().chain(other.first_damage).min();
    }
}

impl Ledger {
    /// Adds another ledger.
    pub fn add(&mut self, other: &Ledger) {
        self.samples.add(&other.samples);
        self.branches.add(&other.branches);
        self.fall_throughs.add(&other.fall_throughs);
        self.paths.add(&other.paths);
        self.lost = self.lost.saturating_add(other.lost);
        self.unknown_records = self.unknown_records.saturating_add(other.unknown_records);
        self.truncated_bytes = self.truncated_bytes.saturating_add(other.truncated_bytes);
        self.missing_sections = self.missing_sections.saturating_add(other.missing_sections);
        self.surplus_bytes = self.surplus_bytes.saturating_add(other.surplus_bytes);
        self.out_of_order = self.out_of_order.saturating_add(other.out_of_order);
        self.spe.add(&other.spe);
    }

    /// Whether all books balance.
    pub fn balances(&self) -> bool {
        [&self.samples, &self.branches, &self.fall_throughs, &self.paths]
            .into_iter()
            .all(Book::balances)
    }
}
