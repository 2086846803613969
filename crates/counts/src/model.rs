//! What a counts artefact holds: per image, sorted counts of samples, branches and fall-through
//! ranges.

use crate::ledger::Ledger;
use image::{BuildId, ImageAddr};

/// Executions of one branch. An end outside the image is `None`: another image, or nowhere that was
/// mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Branch {
    /// Address of the branch instruction.
    pub from: Option<ImageAddr>,
    /// Address that control went to.
    pub to: Option<ImageAddr>,
    /// Branch stack entries seen, or executions where each was counted.
    pub count: u64,
    /// How many of them the processor had mispredicted; 0 where the recording does not tell.
    pub mispredicted: u64,
}

/// Executions of a straight-line run of instructions, `first..=last`, both instruction starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FallThrough {
    /// Target of the branch that entered the range.
    pub first: ImageAddr,
    /// Source of the branch that left it.
    pub last: ImageAddr,
    /// Times seen.
    pub count: u64,
}

/// Two branches taken one after the other, with the straight line between them: how control came to
/// a range and where it went from there. An end outside the image is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// Source of the branch that entered the range.
    pub from: Option<ImageAddr>,
    /// Its target, the first instruction of the range.
    pub first: ImageAddr,
    /// Source of the branch that left the range.
    pub last: ImageAddr,
    /// Its target.
    pub to: Option<ImageAddr>,
    /// Times seen.
    pub count: u64,
}

/// Samples whose instruction pointer was at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SampleCount {
    /// The sampled instruction.
    pub address: ImageAddr,
    /// Samples.
    pub count: u64,
}

/// Everything counted in one image, each list sorted by address and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageCounts {
    /// Build ID of the image, where it has one.
    pub build_id: Option<BuildId>,
    /// Path of the image as the recording names it.
    pub path: String,
    /// Architecture of its code, as the kernel calls it (`x86_64`, `aarch64`); empty where the file
    /// does not tell.
    pub architecture: String,
    /// Instruction pointer samples.
    pub samples: Vec<SampleCount>,
    /// Branches with at least one end in the image.
    pub branches: Vec<Branch>,
    /// Fall-through ranges inside the image.
    pub fall_throughs: Vec<FallThrough>,
    /// Paths through the image; empty where they were not asked for.
    pub paths: Vec<Path>,
    /// What of the samples, branches and ranges is of the first half of the samples; empty where
    /// the counts are of no samples.
    pub first_half: FirstHalf,
}

/// Counts of one half of the samples ([`crate::halves`]), sorted as those of the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FirstHalf {
    /// Instruction pointer samples.
    pub samples: Vec<SampleCount>,
    /// Branches; which of them were mispredicted is not told.
    pub branches: Vec<Branch>,
    /// Fall-through ranges; empty in files of versions before 4.
    pub fall_throughs: Vec<FallThrough>,
}

impl FirstHalf {
    /// True where the counts are not told apart by halves.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.branches.is_empty() && self.fall_throughs.is_empty()
    }
}

impl ImageCounts {
    /// True where nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty() && self.branches.is_empty() && self.fall_throughs.is_empty()
    }

    /// True where the recording had branch stacks in this image.
    pub fn has_branches(&self) -> bool {
        !self.branches.is_empty() || !self.fall_throughs.is_empty()
    }

    /// True where the counts cannot be of samples that were told apart by halves: so many never
    /// fall into one.
    pub(crate) fn is_undivided(&self) -> bool {
        let samples = self.sample_total();
        let sampled = samples > 0 && samples <= 64;
        self.first_half.is_empty() && !self.is_empty() && !sampled
    }

    /// Forgets the halves, where they are known of a part only.
    pub(crate) fn add_halves(&mut self, more: FirstHalf, undivided: bool) {
        if undivided {
            self.first_half = FirstHalf::default();
        } else {
            self.first_half.samples.extend(more.samples);
            self.first_half.branches.extend(more.branches);
            self.first_half.fall_throughs.extend(more.fall_throughs);
        }
    }

    /// Sum of branch counts with both ends inside the image or coming from outside.
    pub fn branch_total(&self) -> u128 {
        self.branches.iter().map(|b| u128::from(b.count)).sum()
    }

    /// Sum of fall-through counts.
    pub fn fall_through_total(&self) -> u128 {
        self.fall_throughs.iter().map(|r| u128::from(r.count)).sum()
    }

    /// Sum of samples.
    pub fn sample_total(&self) -> u128 {
        self.samples.iter().map(|s| u128::from(s.count)).sum()
    }
}

/// The counts of one or several recordings: images sorted by build ID and path, and the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// One entry per image.
    pub images: Vec<ImageCounts>,
    /// What went in, what was used, and what was not, by reason.
    pub ledger: Ledger,
}

impl Counts {
    /// Whether all that was counted is told apart by halves of the samples.
    pub fn is_divided(&self) -> bool {
        !self.images.iter().any(ImageCounts::is_undivided)
    }

    /// The counts of the image with this build ID, or, where either side has none, of this file
    /// name.
    pub fn find(&self, build_id: Option<&BuildId>, path: &str) -> Option<&ImageCounts> {
        let same_id = |i: &&ImageCounts| build_id.is_some() && i.build_id.as_ref() == build_id;
        if let Some(found) = self.images.iter().find(same_id) {
            return Some(found);
        }
        let name = base_name(path);
        self.images
            .iter()
            .find(|i| (i.build_id.is_none() || build_id.is_none()) && base_name(&i.path) == name)
    }
}

/// The last component of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
