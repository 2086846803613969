//! Where a stream of records goes: into the recording itself, or into a file beside it.

use crate::Error;
use crate::backlog::Backlog;
use crate::file::{FINISHED_ROUND, Output, Part};
use perfdata::write::AuxPiece;

/// Where a stream goes.
pub(crate) enum Sink {
    /// The recording itself.
    Whole(Output),
    /// A file beside it.
    Part(Part),
}

impl Sink {
    /// Adds records.
    pub(crate) fn records(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self {
            Sink::Whole(output) => output.records(bytes),
            Sink::Part(part) => part.records(bytes),
        }
    }

    /// Adds AUX data.
    pub(crate) fn aux(&mut self, piece: &AuxPiece, data: [&[u8]; 2]) -> Result<(), Error> {
        match self {
            Sink::Whole(output) => output.aux(piece, data),
            // Readers look for AUX data in the file with the header alone.
            Sink::Part(_) => Err(Error::Together("AUX data", "--threads")),
        }
    }

    /// Ends a round.
    pub(crate) fn finish_round(&mut self) -> Result<(), Error> {
        self.records(&FINISHED_ROUND)
    }

    /// Writes what is buffered; all records are whole here.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        match self {
            Sink::Whole(output) => output.flush(),
            Sink::Part(part) => part.flush(),
        }
    }

    /// Waits until all is written that can be.
    pub(crate) fn sync(&mut self) -> Result<(), Error> {
        match self {
            Sink::Whole(output) => output.sync(),
            Sink::Part(part) => part.sync(),
        }
    }

    /// The queue before its file.
    pub(crate) fn backlog(&mut self) -> Option<&Backlog> {
        match self {
            Sink::Whole(output) => output.backlog(),
            Sink::Part(part) => Some(part.backlog()),
        }
    }

    /// Bytes of records so far.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Sink::Whole(output) => output.data_bytes(),
            Sink::Part(part) => part.bytes(),
        }
    }
}
