//! Why a recording's switches cannot be told, with the next step.

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] perfdata::Error),
    /// It holds no switch records.
    #[error(
        "the recording holds no records of context switches; make one that does with `planish \
         record --switch-events -g -- CMD`"
    )]
    NoSwitches,
}
