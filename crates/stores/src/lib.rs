//! Objects of S3-compatible stores and of Google Cloud Storage: which are there, what is in them, and
//! how does a file get there?
//!
//! A [`Store`] is a bucket. [`Store::list`] finds objects page by page, [`Store::fetch`] brings them
//! into files, each whole or not at all, and [`Store::put`] takes files there, each as one object
//! that appears when it is whole; to put the same file again changes nothing. All of them wait until
//! they are done, so that callers know nothing of threads or tasks. What fails for a while (no
//! connection, a server's errors) is tried again for as long as [`Settings::patience`] says, with
//! pauses that grow and vary. The protocols are those of the crate `object_store`; endpoint and
//! credentials come from the environment variables that it reads.
//!
//! A store may be anybody's: lists and objects end at a number and a size, and an object that planish
//! put there is taken only if its bytes have the hash that went with them.
#![forbid(unsafe_code)]

mod address;
mod error;
mod object;

#[cfg(not(feature = "object-stores"))]
mod absent;
#[cfg(feature = "object-stores")]
mod client;
#[cfg(feature = "object-stores")]
mod credentials;
#[cfg(feature = "object-stores")]
mod fetch;
#[cfg(feature = "object-stores")]
mod put;
#[cfg(feature = "object-stores")]
mod said;

#[cfg(not(feature = "object-stores"))]
pub use absent::Store;
pub use address::{Address, Kind};
#[cfg(feature = "object-stores")]
pub use client::Store;
pub use error::Error;
pub use object::{Fate, Found, Listing, Object, Put, Settings};
