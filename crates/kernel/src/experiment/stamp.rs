//! What was a build made of? Kept in it, so that the same is not made twice.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a build was made of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) tree: PathBuf,
    pub(super) configuration: String,
    pub(super) words: Vec<String>,
    /// SHA-256 of the image as built, once it is there.
    pub(super) image: String,
}

impl Stamp {
    /// Where a build keeps it.
    fn path(own: &Path) -> PathBuf {
        own.join("stamp.json")
    }

    /// What a build says that it was made of; none where there is no build.
    pub(super) fn of(build: &Path) -> Option<Stamp> {
        let path = Stamp::path(&build.join(crate::make::DIRECTORY));
        serde_json::from_slice(&beside::given::read(&path, beside::given::TEXT).ok()?).ok()
    }

    pub(super) fn write(&self, own: &Path) -> Result<(), Error> {
        let path = Stamp::path(own);
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        beside::write(&path, &bytes).map_err(Error::io(&path))
    }
}
