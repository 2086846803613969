//! What the making of a graph used, and what it left aside for which reason.

use std::collections::BTreeMap;
use std::fmt;

use crate::InferReport;

/// Why a count did not become an edge. Where planish's own rules apply, counts of control that
/// comes from or goes to code without blocks still raise the frequency of the block at the other
/// end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unused {
    /// Control comes from another image.
    SourceOutside,
    /// Control comes from code of the image that has no block address map.
    SourceUnmapped,
    /// Control goes to another image.
    TargetOutside,
    /// Control goes to code of the image that has no block address map.
    TargetUnmapped,
    /// A jump or call into the middle of a block: a sign of another image than the recorded one.
    IntoBlock,
    /// A range passes a block that does not fall through.
    NoFallThrough,
    /// A range begins and ends in different functions or parts of a function.
    CrossesFunctions,
    /// A range ends before it begins.
    Backwards,
    /// In a function that no symbol names.
    NoSymbol,
    /// In a function of a section that is not laid out.
    SectionExcluded,
    /// In a function that shares a name with another hot one, so that a list of names cannot tell
    /// them apart.
    DuplicateName,
}

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unused::SourceOutside => "from another image",
            Unused::SourceUnmapped => "from code without block map",
            Unused::TargetOutside => "to another image",
            Unused::TargetUnmapped => "to code without block map",
            Unused::IntoBlock => "into the middle of a block",
            Unused::NoFallThrough => "range passes a block that does not fall through",
            Unused::CrossesFunctions => "range crosses functions",
            Unused::Backwards => "range ends before it begins",
            Unused::NoSymbol => "function without symbol",
            Unused::SectionExcluded => "section not laid out",
            Unused::DuplicateName => "name shared with another hot function",
        })
    }
}

/// In, used, and not used by reason: `entered == used + Σ unused`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Account {
    /// Counts that came in.
    pub entered: u64,
    /// Counts that became edges, or, of ranges, lie within one block.
    pub used: u64,
    /// The others, by reason.
    pub unused: BTreeMap<Unused, u64>,
}

impl Account {
    pub(crate) fn enter(&mut self, outcome: Result<(), Unused>, count: u64) {
        self.entered = self.entered.saturating_add(count);
        let sum = match outcome {
            Ok(()) => &mut self.used,
            Err(reason) => self.unused.entry(reason).or_default(),
        };
        *sum = sum.saturating_add(count);
    }

    /// Counts that were not used for this reason.
    pub fn unused_for(&self, reason: Unused) -> u64 {
        self.unused.get(&reason).copied().unwrap_or(0)
    }

    /// Whether the sums agree.
    pub fn balances(&self) -> bool {
        self.entered
            == self.unused.values().fold(self.used, |sum, &count| sum.saturating_add(count))
    }

    /// The reasons with their counts, largest first, as one line for messages.
    pub fn reasons(&self) -> String {
        let mut list: Vec<(u64, Unused)> =
            self.unused.iter().map(|(&reason, &count)| (count, reason)).collect();
        list.sort_by_key(|&(count, reason)| (std::cmp::Reverse(count), reason));
        let words: Vec<String> =
            list.iter().map(|(count, reason)| format!("{count} {reason}")).collect();
        if words.is_empty() { "no reason counted".to_owned() } else { words.join(", ") }
    }
}

/// Why a function of the block address map is not in the graph although the map names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Unusable {
    /// The compiler counted its blocks but did not list them.
    BlocksOmitted,
    /// It has no block.
    NoBlocks,
    /// Its address is not in code: the linker threw it away.
    NotInCode,
    /// Its blocks are not in address order, or two have the same number.
    Disordered,
    /// It overlaps a function that begins before it, or is in the map twice.
    Overlaps,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unusable::BlocksOmitted => "blocks not listed",
            Unusable::NoBlocks => "no blocks",
            Unusable::NotInCode => "not in code",
            Unusable::Disordered => {
                "blocks out of order or doubled (cloned? record the build without clones)"
            }
            Unusable::Overlaps => "overlapping another function",
        })
    }
}

/// What the counts were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Observed {
    /// Branch stacks: edges are observed.
    #[default]
    Branches,
    /// Instruction pointer samples only: lower quality, all edges are inferred.
    SamplesOnly,
}

impl fmt::Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Observed::Branches => "branch stacks",
            Observed::SamplesOnly => "instruction-pointer samples only: lower quality",
        })
    }
}

/// What the making of a graph used and left aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuildReport {
    /// What the counts were.
    pub observed: Observed,
    /// Functions in the block address map.
    pub mapped_functions: u64,
    /// Blocks in the block address map.
    pub mapped_blocks: u64,
    /// Functions of the map that cannot be used, by reason.
    pub unusable: BTreeMap<Unusable, u64>,
    /// Map entries that are parts of another function (`.cold`, `.__part.N`) and were joined with
    /// it.
    pub joined_parts: u64,
    /// Blocks that are shorter than the map says because the linker removed a jump at their end.
    pub relaxed_blocks: u64,
    /// Functions with counts that were left out, by reason.
    pub left_out: BTreeMap<Unused, u64>,
    /// How much was counted in functions that could be laid out: ends of branches and of ranges,
    /// or samples.
    pub weight: u64,
    /// Of that, in functions left out because they share their names ([`Unused::DuplicateName`]).
    pub shared_name_weight: u64,
    /// Functions that only the files of their units tell from others of the same name.
    pub told_by_module: u64,
    /// Functions in the graph.
    pub hot_functions: u64,
    /// Blocks in the graph with a frequency above 0.
    pub hot_blocks: u64,
    /// Blocks in the graph.
    pub blocks: u64,
    /// Taken branches.
    pub branches: Account,
    /// Fall-through ranges.
    pub fall_throughs: Account,
    /// Samples; only looked at where there are no branches.
    pub samples: Account,
    /// What flow repair did to make edges of samples; without samples only it has not run.
    pub inferred: Option<InferReport>,
}

impl BuildReport {
    /// Share of the judged branches that go into the middle of a block, in percent: a measure of
    /// how far the image is from the recorded one.
    pub fn dubious_pct(&self) -> f64 {
        let dubious = self.branches.unused_for(Unused::IntoBlock);
        let judged = dubious.saturating_add(self.branches.used);
        if judged == 0 { 0.0 } else { 100.0 * dubious as f64 / judged as f64 }
    }

    /// Share of what was counted that lies in functions left out because they share their names, in
    /// percent.
    pub fn shared_name_pct(&self) -> f64 {
        if self.weight == 0 {
            0.0
        } else {
            100.0 * self.shared_name_weight as f64 / self.weight as f64
        }
    }
}

/// A few lines for a terminal, without a newline at the end.
impl fmt::Display for BuildReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "functions: {} in the block map, {} hot with {} blocks, {} of them executed\ncounts: \
             {}",
            self.mapped_functions, self.hot_functions, self.blocks, self.hot_blocks, self.observed
        )?;
        let accounts = [
            ("branches", &self.branches),
            ("ranges", &self.fall_throughs),
            ("samples", &self.samples),
        ];
        for (what, account) in accounts.iter().filter(|(_, account)| account.entered != 0) {
            let share_pct = 100.0 * account.used as f64 / account.entered as f64;
            write!(
                f,
                "\n{what}: {} in, {} used ({share_pct:.1} %)",
                account.entered, account.used
            )?;
            if !account.unused.is_empty() {
                write!(f, "; not used: {}", account.reasons())?;
            }
        }
        if self.joined_parts + self.relaxed_blocks != 0 {
            write!(
                f,
                "\nblock map: {} entries joined with the function they are a part of, {} blocks \
                 shortened by the linker",
                self.joined_parts, self.relaxed_blocks
            )?;
        }
        for (reason, functions) in &self.left_out {
            write!(f, "\nleft out: {functions} functions with counts: {reason}")?;
        }
        for (reason, functions) in &self.unusable {
            write!(f, "\nnot usable: {functions} functions of the block map: {reason}")?;
        }
        Ok(())
    }
}
