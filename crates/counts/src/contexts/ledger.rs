//! What unwinding used, what it could not use and why, and what it had to guess.

use std::fmt::Write as _;

/// Counts of one or several recordings. `samples` is the sum of `unwound` and of the reasons below
/// it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextLedger {
    /// Samples read.
    pub samples: u64,
    /// Samples whose branch stack was unwound along their call chain.
    pub unwound: u64,
    /// Samples of other processes than the one asked for.
    pub other_process: u64,
    /// Samples without a call chain.
    pub without_chain: u64,
    /// Samples without a branch stack, or with an empty one.
    pub without_branches: u64,
    /// Samples none of whose branches touches the image.
    pub outside: u64,
    /// Samples taken within two instructions of a function's begin or of a return, where a chain
    /// of frame pointers lacks a caller.
    pub incomplete_frame: u64,
    /// Samples (and lines of text) that are damaged.
    pub malformed: u64,
    /// Call chains that stop at an address that no call returns to; the frames before it were
    /// used.
    pub broken_chains: u64,
    /// Call chains none of whose frames lies in the image.
    pub foreign_chains: u64,
    /// Frames beyond the deepest context kept; the innermost ones were used.
    pub cut_frames: u64,
    /// Branches of all unwound samples that touch the image.
    pub branches: u64,
    /// Branches on a wrong, speculated path.
    pub wrong_path: u64,
    /// Samples whose chain is the sampled address alone; their contexts begin where their branches
    /// show a call.
    pub leaf_only: u64,
    /// Samples whose callers the kernel delivers in a record of its own, which is not there.
    pub deferred_missing: u64,
    /// Calls whose caller is not in the chain; it was filled in.
    pub unmatched_calls: u64,
    /// Returns to where no call stands before. What is older in the sample counts without a
    /// context.
    pub unmatched_returns: u64,
    /// Ranges that no code runs straight through. What is older in the sample counts without a
    /// context.
    pub impossible_ranges: u64,
    /// Ways out of the image without one back, or the other way. What is older in the sample
    /// counts without a context.
    pub unpaired_outside: u64,
    /// Contexts met when there were too many already; what ran in them counts without one.
    pub folded_contexts: u64,
    /// Ranges counted.
    pub ranges: u64,
    /// Of which with a context.
    pub ranges_in_context: u64,
    /// Samples that the kernel could not deliver.
    pub lost: u64,
    /// Bytes of recordings that are missing at their end or form no whole record.
    pub truncated_bytes: u64,
}

/// Of [`ContextLedger::pairs`] the first ones: the samples, then what became of each of them.
const OF_SAMPLES: usize = 8;

impl ContextLedger {
    /// All counts with their words, which those lack that [`ContextLedger::lines`] does not list.
    fn pairs(&mut self) -> [(&mut u64, &'static str); 24] {
        [
            (&mut self.samples, ""),
            (&mut self.unwound, "unwound"),
            (&mut self.other_process, "of other processes"),
            (&mut self.without_chain, "without a call chain"),
            (&mut self.without_branches, "without a branch stack"),
            (&mut self.outside, "whose branches lie elsewhere"),
            (
                &mut self.incomplete_frame,
                "at the start or end of a function, where frame pointers miss a caller",
            ),
            (&mut self.malformed, "damaged"),
            (&mut self.broken_chains, "call chains cut where no call returns to"),
            (&mut self.foreign_chains, "call chains without a frame in the image"),
            (&mut self.cut_frames, "frames beyond the deepest context kept"),
            (&mut self.branches, ""),
            (&mut self.wrong_path, "branches on a wrong path left out"),
            (&mut self.leaf_only, "samples whose call chain is their own address alone"),
            (
                &mut self.deferred_missing,
                "samples whose callers come later, in a record that is not there",
            ),
            (&mut self.unmatched_calls, "calls whose caller the chain lacks, filled in"),
            (
                &mut self.unmatched_returns,
                "returns to where no call stands; older branches without context",
            ),
            (&mut self.impossible_ranges, "impossible ranges; older branches without context"),
            (
                &mut self.unpaired_outside,
                "ways out of the image without one back; older branches without context",
            ),
            (&mut self.folded_contexts, "contexts too many, counted without context"),
            (&mut self.ranges, ""),
            (&mut self.ranges_in_context, ""),
            (&mut self.lost, "that the kernel could not deliver"),
            (&mut self.truncated_bytes, ""),
        ]
    }

    /// Adds another ledger.
    pub fn add(&mut self, other: &ContextLedger) {
        let mut other = other.clone();
        for ((sum, _), (count, _)) in self.pairs().into_iter().zip(other.pairs()) {
            *sum = sum.saturating_add(*count);
        }
    }

    /// Whether every sample is accounted for.
    pub fn balances(&self) -> bool {
        let mut own = self.clone();
        let fates = own.pairs().into_iter().take(OF_SAMPLES).skip(1);
        fates.fold(0u64, |sum, (count, _)| sum.saturating_add(*count)) == self.samples
    }

    /// The ledger in words, one fact a line; zeros are left out.
    pub fn lines(&self) -> Vec<String> {
        let mut first = format!("{} in", self.samples);
        let mut rest = Vec::new();
        for (at, (count, words)) in self.clone().pairs().into_iter().enumerate() {
            if *count == 0 || words.is_empty() {
                continue;
            }
            if at < OF_SAMPLES {
                let _ = write!(first, ", {count} {words}");
            } else {
                rest.push(format!("{count} {words}"));
            }
        }
        let ranges = format!(
            "{} ranges counted, {} of them in a context",
            self.ranges, self.ranges_in_context
        );
        let mut lines = vec![first, ranges];
        lines.append(&mut rest);
        lines
    }
}
