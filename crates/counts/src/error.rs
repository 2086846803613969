//! What can stop aggregation, each with the number behind it and the next thing to try.

use std::path::PathBuf;

/// An error of this crate. What merely could not be counted is no error: it is in the
/// [`crate::Ledger`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The recording could not be read.
    #[error("{source}")]
    Recording {
        /// The recording.
        path: PathBuf,
        /// What the reader found.
        source: perfdata::Error,
    },
    /// The input has no bytes.
    #[error(
        "{path}: empty input, expected a recording or counts; did the program that should write \
         it fail?"
    )]
    EmptyInput {
        /// The input.
        path: PathBuf,
    },
    /// The input is text of no kind that counts.
    #[error(
        "{path}: text, but neither branch stacks nor pre-aggregated counts; print them with perf \
         script -F pid,ip,brstack --show-mmap-events, or give the perf.data itself"
    )]
    NoCountsInText {
        /// The input.
        path: PathBuf,
    },
    /// Pre-aggregated text does not say which image it is of.
    #[error("{path}: pre-aggregated addresses belong to one image; name it with --binary")]
    NotOneImage {
        /// The input.
        path: PathBuf,
    },
    /// The recording holds nothing to count.
    #[error(
        "{path}: no samples in it; record again, and check that the event fires (perf evlist -v, \
         planish doctor)"
    )]
    NoSamples {
        /// The recording.
        path: PathBuf,
    },
    /// The recording has no samples, since it is not whole.
    #[error("{path}: no samples in it: {loss}")]
    Lost {
        /// The recording.
        path: PathBuf,
        /// What it has lost.
        loss: String,
    },
    /// The recording has AUX data that is not decoded here, and nothing else.
    #[error(
        "{path}: no samples in it, but {bytes} bytes of AUX data of {tracer}, which planish does \
         not decode; for Intel PT, perf inject --itrace=i100usl --strip makes samples with branch \
         stacks of it"
    )]
    OtherTracer {
        /// The recording.
        path: PathBuf,
        /// Bytes of AUX data.
        bytes: u64,
        /// Who made it.
        tracer: String,
    },
    /// The AUX data of Arm SPE holds no record.
    #[error(
        "{path}: {bytes} bytes of Arm SPE data without a record ({incomplete} incomplete, {damaged} damaged places); \
         record again: planish record -e arm_spe_0/{terms}/u -- COMMAND", terms = perfdata::spe::BRANCH_TERMS
    )]
    NoTrace {
        /// The recording.
        path: PathBuf,
        /// Bytes of AUX data read.
        bytes: u64,
        /// Records that were broken off.
        incomplete: u64,
        /// Places where the bytes are no packet.
        damaged: u64,
    },
    /// The recording is cut before its first sample.
    #[error(
        "{path}: the recording is cut: its header promises {promised_bytes} bytes of data, \
         {present_bytes} are there, without a sample; copy it again, or record again"
    )]
    CutShort {
        /// The recording.
        path: PathBuf,
        /// Bytes of data that the header promises.
        promised_bytes: u64,
        /// Bytes of data that are there.
        present_bytes: u64,
    },
    /// None of the branches that were counted in a kernel lies in its image.
    #[error("{path}: {branches} branches were counted, none of them in {image}: {cause}")]
    NotOfThisKernel {
        /// Where the counts were to go.
        path: PathBuf,
        /// Branches counted.
        branches: u64,
        /// The image.
        image: String,
        /// Why, and what to do.
        cause: String,
    },
    /// Nothing in the recording belongs to the images asked for.
    #[error("{path}: {samples} samples, none of them in {images}: {cause}")]
    NothingMatches {
        /// The recording.
        path: PathBuf,
        /// Samples read.
        samples: u64,
        /// The images asked for.
        images: String,
        /// Why, in numbers, and what to do.
        cause: String,
    },
    /// There are counts, of other images.
    #[error(
        "{path}: holds no counts of {image} (build ID {build_id}), but of {others}; give the \
         build that was recorded"
    )]
    OtherImage {
        /// The input.
        path: PathBuf,
        /// The image asked for.
        image: String,
        /// Its build ID.
        build_id: String,
        /// The images that there are counts of.
        others: String,
    },
    /// So little belongs to the images that the counts say nothing.
    #[error(
        "{path}: only {used} of {recorded} {what} could be counted, in {images}: {cause}; \
         --allow-few counts them all the same"
    )]
    TooFew {
        /// The recording, or how many.
        path: PathBuf,
        /// Branches or samples counted.
        used: u64,
        /// Of which.
        recorded: u64,
        /// Which of the two.
        what: &'static str,
        /// Where they lie.
        images: String,
        /// Why, and what to do.
        cause: String,
    },
    /// The samples lack the call chain or the branch stack that calling contexts are made of.
    #[error(
        "{path}: calling contexts need samples with a call chain and a branch stack; of {samples} \
         samples {without_chain} have no call chain and {without_branches} no branch stack; \
         record with planish record -b --call-graph fp, or --branches=emulated --call-graph fp"
    )]
    NoContexts {
        /// The recording.
        path: PathBuf,
        /// Samples read.
        samples: u64,
        /// Of which without a call chain.
        without_chain: u64,
        /// Of which without a branch stack.
        without_branches: u64,
    },
    /// An artefact or text input is not what it should be.
    #[error("{path}: {place}: expected {expected}, found {found}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, row or offset.
        place: String,
        /// What belongs there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// A counts artefact is of a version this planish does not read.
    #[error(
        "{path}: counts artefact of version {found}, this planish reads versions up to {expected}; \
         update planish, or aggregate the recording again"
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// The version it states.
        found: String,
        /// The version read here.
        expected: u32,
    },
    /// A sum left the range of 64 bits.
    #[error("count at {place} exceeds 64 bits; merge fewer recordings or scale them down first")]
    Overflow {
        /// Which count.
        place: String,
    },
    /// A file could not be opened, read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's word.
        source: std::io::Error,
    },
    /// The Parquet library refused.
    #[error("{path}: {source}")]
    Parquet {
        /// The file.
        path: PathBuf,
        /// The library's word.
        source: parquet::errors::ParquetError,
    },
}
