//! What can go wrong with a store, each with the object or bucket that it is about and the next thing
//! to try.

use crate::{Address, Kind};
use std::path::PathBuf;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No address.
    #[error("{text}: {why}")]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Nothing says who asks.
    #[error("{address}: {why}; {}", hint(.kind))]
    Credentials {
        /// The bucket.
        address: Address,
        /// Its protocol.
        kind: Kind,
        /// What is missing.
        why: String,
    },
    /// The settings do not fit the store.
    #[error("{address}: {why}")]
    Settings {
        /// The bucket.
        address: Address,
        /// What is wrong.
        why: String,
    },
    /// The store knows who asks, or does not, and refuses.
    #[error(
        "{address}: {why}; check the credentials in the environment, and that they may {action} it"
    )]
    Denied {
        /// The object or bucket.
        address: Address,
        /// What was to be done with it.
        action: &'static str,
        /// What the store says.
        why: String,
    },
    /// It is not there.
    #[error("{address}: {why}")]
    Absent {
        /// The object or bucket.
        address: Address,
        /// What the store says.
        why: String,
    },
    /// The store cannot be reached, or fails; trying again did not help.
    #[error("{address}: {why}")]
    Failed {
        /// The object or bucket.
        address: Address,
        /// What happened last.
        why: String,
    },
    /// Too many others failed one after the other.
    #[error("{address}: not tried, since the {failed} before it failed: {why}")]
    NotTried {
        /// The object.
        address: Address,
        /// How many failed.
        failed: usize,
        /// What happened last.
        why: String,
    },
    /// What came is not what the store said.
    #[error("{address}: {why}")]
    Damaged {
        /// The object.
        address: Address,
        /// What differs.
        why: String,
    },
    /// A file on this side.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: std::io::Error,
    },
    /// A file changed while it was read.
    #[error("{}: has changed while it was read; try again when it is whole", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The tasks that wait for the store cannot be run.
    #[error("the client of {address} cannot be started: {source}")]
    Start {
        /// The bucket.
        address: Address,
        /// Why not.
        source: std::io::Error,
    },
    /// This build knows no stores.
    #[error(
        "{address}: this planish was built without object stores; build it with the feature \
         object-stores, or give files"
    )]
    NotBuilt {
        /// What was asked for.
        address: Address,
    },
}

impl Error {
    /// Whether the store is to blame and not the object, so that the next one may fare the same.
    pub fn is_of_store(&self) -> bool {
        matches!(self, Error::Denied { .. } | Error::Failed { .. } | Error::NotTried { .. })
    }
}

/// What to set.
fn hint(kind: &Kind) -> &'static str {
    match kind {
        Kind::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_ENDPOINT_URL names a store other \
             than Amazon's), give the machine a role, or set AWS_SKIP_SIGNATURE=true for a bucket \
             that is open to all"
        }
        Kind::Google => {
            "set GOOGLE_APPLICATION_CREDENTIALS to a file with the key of a service account, run \
             on a machine that has one, or set GOOGLE_SKIP_SIGNATURE=true for a bucket that is open \
             to all"
        }
    }
}
