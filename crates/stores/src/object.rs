//! What is known of objects, and how patient is who asks for them?

use crate::Error;
use std::time::Duration;

/// How patient a client is.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For how long a request that fails is made again.
    pub patience: Duration,
}

impl Default for Settings {
    /// Two minutes.
    fn default() -> Settings {
        Settings { patience: Duration::from_secs(120) }
    }
}

/// An object of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub bytes: u64,
}

/// What a list gave.
#[derive(Debug, Default)]
pub struct Listing {
    /// The objects, sorted by key, each once.
    pub objects: Vec<Object>,
    /// Why there may be more of them than these.
    pub ended: Option<Error>,
}

/// What a store says of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its bytes.
    pub bytes: u64,
    /// The SHA-256 of its content in hex, if planish put it there.
    pub sha256: Option<String>,
}

/// What became of a file that was to be put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is there now.
    Uploaded,
    /// It was there before, with the same content.
    Present,
    /// Another content is there under its name, and stays.
    Differs,
}

/// A file that was put, or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Put {
    /// What became of it.
    pub fate: Fate,
    /// Its bytes.
    pub bytes: u64,
}
