//! Why reading a part of the debug information ended early.

/// Damage in the debug information.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    /// A table or an entry is not what DWARF allows.
    #[error(transparent)]
    Dwarf(#[from] gimli::Error),
    /// Something has a size that no compiler writes; reading on could take forever.
    #[error("more than {limit} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many would have been read.
        limit: usize,
    },
}

/// A result that damage can prevent.
pub(super) type Reading<T> = Result<T, Damage>;
