//! The strings of a table that are needed: tables hold the names of all functions, which counts do
//! without.

use crate::Error;
use crate::sampled;
use crate::wire::{Field, Source};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Strings by their index.
#[derive(Debug, Default)]
pub(crate) struct Strings(BTreeMap<u64, Arc<str>>);

impl Strings {
    /// Asks for a string before the table is read.
    pub(crate) fn want(&mut self, index: u64) {
        self.0.entry(index).or_insert_with(|| Arc::from(""));
    }

    /// Reads what was asked for from the strings of a message, the fields `number`; `at` is the
    /// index of the first.
    pub(crate) fn read(
        &mut self,
        source: &Source,
        message: &[u8],
        number: u32,
        at: &mut u64,
    ) -> Result<(), Error> {
        source.fields(message, |field, value| {
            if let (true, Field::Bytes(text)) = (field == number, value) {
                if let Some(place) = self.0.get_mut(at) {
                    *place = sampled::name(text).into();
                }
                *at = at.saturating_add(1);
            }
            Ok(())
        })
    }

    /// A string that was asked for; empty where the table does not have it.
    pub(crate) fn get(&self, index: u64) -> Arc<str> {
        self.0.get(&index).map_or_else(|| Arc::from(""), Arc::clone)
    }
}
