//! What stands in for stores in a build without them: it says so, whatever is asked.

use crate::{Address, Error, Found, Listing, Object, Put, Settings};
use std::convert::Infallible;
use std::path::PathBuf;

/// A store that cannot be opened.
#[derive(Debug)]
pub struct Store(Infallible);

impl Store {
    /// There is none.
    ///
    /// # Errors
    /// Always.
    pub fn open(address: &Address, _: &Settings) -> Result<Store, Error> {
        Err(Error::NotBuilt { address: address.clone() })
    }

    /// Never called.
    pub fn list(&self, _: &str, _: usize) -> Listing {
        match self.0 {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn head(&self, _: &str) -> Result<Option<Found>, Error> {
        match self.0 {}
    }

    /// Never called.
    pub fn fetch(&self, _: &[(Object, PathBuf)], _: &dyn Fn(u64)) -> Vec<Result<(), Error>> {
        match self.0 {}
    }

    /// Never called.
    pub fn put(
        &self,
        _: &[(String, PathBuf)],
        _: bool,
        _: &dyn Fn(u64),
    ) -> Vec<Result<Put, Error>> {
        match self.0 {}
    }
}
