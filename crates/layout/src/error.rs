//! What can stop the making of a control flow graph, each with its numbers and the next thing to
//! try.

use std::path::PathBuf;

use crate::write;
use image::BuildId;

/// An error of this crate. What merely could not be used is no error: it is in the
/// [`crate::BuildReport`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The image does not say which blocks it has.
    #[error(
        "{image}: has no address map of its basic blocks, so counts cannot be given to blocks; build it with clang and \
         -fbasic-block-address-map, keep its sections when linking and stripping, and record again",
        image = image.display()
    )]
    NoBlockMap {
        /// The image.
        image: PathBuf,
    },
    /// The image has a map of its blocks, but none of it can be used.
    #[error(
        "{image}: none of the {functions} functions in its block address map can be used ({reasons}); \
         build it again with -fbasic-block-address-map, and keep its symbol table",
        image = image.display()
    )]
    NoUsableMap {
        /// The image.
        image: PathBuf,
        /// Functions in the map.
        functions: u64,
        /// Why they cannot be used, with how many each.
        reasons: String,
    },
    /// The counts are of another build.
    #[error(
        "{image}: has build ID {image_id}, but the counts are of {counts_id}; give the program that was recorded, or \
         the recorded build by --recorded",
        image = image.display()
    )]
    OtherBuild {
        /// The image.
        image: PathBuf,
        /// Its build ID.
        image_id: Box<BuildId>,
        /// The build ID that the counts name.
        counts_id: Box<BuildId>,
    },
    /// The counts hold nothing for this image.
    #[error(
        "{image}: the counts hold no branches, ranges or samples in it; record the program again, and check with \
         `planish aggregate` that its samples are found",
        image = image.display()
    )]
    NoCounts {
        /// The image.
        image: PathBuf,
    },
    /// Counts are there, but no function that can be laid out got any.
    #[error(
        "{image}: {entered} counts, none of them in a function that can be laid out ({reasons}); check that the hot code \
         was compiled with -fbasic-block-address-map and lies in .text",
        image = image.display()
    )]
    NothingHot {
        /// The image.
        image: PathBuf,
        /// What entered.
        entered: u64,
        /// Where it went, with how much each.
        reasons: String,
    },
    /// Too many branches go where no block begins: the image is not what was recorded.
    #[error(
        "{image}: {dubious} of {judged} recorded branches ({share_pct:.1} %, more than {limit_pct:.0} %) go into the middle of a \
         block; the image is another than the recorded one, give the recorded one or record again",
        image = image.display()
    )]
    SourceDrift {
        /// The image.
        image: PathBuf,
        /// Branches into the middle of a block.
        dubious: u64,
        /// Those and the ones that became edges.
        judged: u64,
        /// Their share in percent.
        share_pct: f64,
        /// The largest share that is accepted, in percent.
        limit_pct: f64,
    },
    /// Next to no branch became an edge.
    #[error(
        "{image}: {used} of {entered} recorded branches became edges, less than {limit_pct} %; most of the time is spent in \
         code without a block address map, or the image is another than the recorded one",
        image = image.display()
    )]
    TooFewEdges {
        /// The image.
        image: PathBuf,
        /// Branches that became edges.
        used: u64,
        /// Branches that entered.
        entered: u64,
        /// The smallest share that is accepted, in percent.
        limit_pct: f64,
    },
    /// What was asked for is about functions without an address map, and none of these ran.
    #[error(
        "{image}: the address map knows every function that ran, so nothing is left for llvm-bolt; leave \"rest\" out of \
         --emit (\"bolt-rest\" out of steps in [optimize])",
        image = image.display()
    )]
    NothingUnmapped {
        /// The image.
        image: PathBuf,
    },
    /// Paths of an older build are no paths of this one.
    #[error("--clone needs the recorded build; leave --recorded out")]
    ClonesOfOtherBuild,
    /// The image has no such function.
    #[error("{image}: has no function `{name}`; give the name of its symbol{hint}", image = image.display())]
    NoFunction {
        /// The image.
        image: PathBuf,
        /// What was asked for.
        name: String,
        /// Names like it.
        hint: String,
    },
    /// A compiler would end on the layout.
    #[error("{image}: clang would not take this layout: {finding}", image = image.display())]
    Refused {
        /// The image.
        image: PathBuf,
        /// The first thing that is wrong.
        finding: String,
    },
    /// The cc profile cannot hold the layout.
    #[error("{image}: cc profile: {source}", image = image.display())]
    CcProfile {
        /// The image.
        image: PathBuf,
        /// Why not.
        source: write::Error,
    },
    /// Another file cannot hold the layout.
    #[error(transparent)]
    Write(#[from] write::Error),
    /// The counts are not of the image.
    #[error(transparent)]
    Counts(#[from] counts::Error),
    /// The image cannot be read.
    #[error(transparent)]
    Image(#[from] image::Error),
}

impl Error {
    /// Whether nothing was counted in the image, or hardly anything: its start-up code alone, or its
    /// table of calls to libraries. For one of several images that is fine.
    pub fn is_of_hardly_anything(&self) -> bool {
        /// Of so few branches nothing can be laid out, wherever they are.
        const FEW: u64 = 1000;
        match self {
            Error::NoCounts { .. } | Error::NothingHot { .. } => true,
            Error::TooFewEdges { entered, .. } => *entered < FEW,
            Error::Counts(error) => matches!(error, counts::Error::OtherImage { .. }),
            _ => false,
        }
    }
}
