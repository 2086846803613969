//! What is a collector asked for, and what does it ask of whoever records for it?

use address_spaces::MappedFile;
use fleet::Recording;
use image::Image;
use std::path::Path;
use std::time::Duration;

/// How to collect.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long a window is.
    pub window: Duration,
    /// From the start of one window to the next, at least.
    pub every: Duration,
    /// Share of a CPU that it may cost; no limit where there is none.
    pub budget: Option<f64>,
    /// Bytes of all files of the spool.
    pub limit: u64,
    /// What is known of all recordings: host, class, program.
    pub recording: Recording,
    /// What one sample takes from the program that it interrupts.
    pub sample_cost: Duration,
}

/// What a window is to be.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Where the recording goes.
    pub output: &'a Path,
    /// How long it is.
    pub length: Duration,
    /// Its size, at most.
    pub most_bytes: u64,
    /// By how much less often than usual samples are taken.
    pub slower: u32,
}

/// What a recording came to.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    /// Samples, those that were lost included.
    pub samples: u64,
}

/// What records for the collector, and says when it is over.
pub trait Host: Sync {
    /// Records one window.
    ///
    /// # Errors
    /// Where nothing was recorded.
    fn record(&self, asked: Asked<'_>) -> Result<Taken, record::Error>;

    /// Whether all that was to be recorded has ended, or somebody asked to stop.
    fn is_over(&self) -> bool;

    /// A file that is not at its recorded path, such as one of a container.
    fn elsewhere(&self, file: &MappedFile) -> Option<Image>;
}
