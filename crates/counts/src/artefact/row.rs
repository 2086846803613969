//! What is a row of a counts artefact, and which of two comes first? The order that every artefact's
//! rows have: by image, then by kind, then by address.

use image::ImageAddr;

/// What a row counts. The order is that of the rows of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Straight-line runs of instructions.
    FallThrough,
    /// Sampled addresses.
    Sample,
    /// Branches.
    Branch,
    /// Pairs of branches with the range between them.
    Path,
    /// Samples of the first half.
    FirstHalfSample,
    /// Branches of the first half.
    FirstHalfBranch,
    /// Ranges of the first half.
    FirstHalfFallThrough,
}

impl Kind {
    /// All of them, in their order.
    pub const ALL: [Kind; 7] = [
        Kind::FallThrough,
        Kind::Sample,
        Kind::Branch,
        Kind::Path,
        Kind::FirstHalfSample,
        Kind::FirstHalfBranch,
        Kind::FirstHalfFallThrough,
    ];

    /// What the column `kind` has.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FallThrough => "fall-through",
            Kind::Sample => "sample",
            Kind::Branch => "branch",
            Kind::Path => "path",
            Kind::FirstHalfSample => "first-half-sample",
            Kind::FirstHalfBranch => "first-half-branch",
            Kind::FirstHalfFallThrough => "first-half-fall-through",
        }
    }

    /// The kind of this name.
    pub fn of(name: &[u8]) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    /// Whether it counts what is of the first half of the samples, and counted as a whole, too.
    pub fn is_first_half(self) -> bool {
        self >= Kind::FirstHalfSample
    }
}

/// The image that rows are of. Images are in this order: build ID, path and architecture, by their
/// bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ImageKey {
    /// Build ID in lower-case hex, empty where it has none.
    pub build_id: String,
    /// Path as recorded.
    pub path: String,
    /// Architecture, empty where nobody knows.
    pub architecture: String,
}

/// What a row of an image counts. Rows are in this order; what is absent comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// What is counted.
    pub kind: Kind,
    /// Source of the branch that led to `first`; of paths only.
    pub before: Option<ImageAddr>,
    /// Sampled address, source of a branch, or first instruction of a range.
    pub first: Option<ImageAddr>,
    /// Target of a branch, or last instruction of a range.
    pub second: Option<ImageAddr>,
    /// Target of the branch at `second`; of paths only.
    pub after: Option<ImageAddr>,
}

impl RowKey {
    /// Whether the kind has these addresses.
    pub fn is_whole(&self) -> bool {
        let ends = (self.first.is_some(), self.second.is_some());
        let beyond = self.before.is_some() || self.after.is_some();
        match self.kind {
            Kind::Sample | Kind::FirstHalfSample => ends == (true, false) && !beyond,
            Kind::Branch | Kind::FirstHalfBranch => !beyond,
            Kind::FallThrough | Kind::FirstHalfFallThrough => ends == (true, true) && !beyond,
            Kind::Path => ends == (true, true),
        }
    }
}

/// A row without its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What is counted.
    pub key: RowKey,
    /// How many times.
    pub count: u128,
    /// How many of them were mispredicted.
    pub mispredicted: u128,
}

/// The first number that is too large for DECIMAL(38,0).
pub const LIMIT: u128 = 10u128.pow(38);
