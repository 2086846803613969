//! What does a profile say, whichever tool wrote it? Values at addresses of mappings, each address
//! as the profile states it.

use crate::Error;
use crate::wire::Source;
use image::BuildId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most mappings of a profile.
pub(crate) const MOST_MAPPINGS: usize = 1 << 18;
/// Most distinct addresses, and stacks, of a profile.
pub(crate) const MOST_PLACES: usize = 1 << 21;
/// Most bytes of a path or of another name.
const MOST_NAME: usize = 4096;

/// An address as a profile states it: of a process, or of the image. [`crate::Form`] says which.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StatedAddr(pub u64);

/// A file that was mapped, as the profile states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: StatedAddr,
    /// The first address behind it; 0 where nothing is said.
    pub limit: StatedAddr,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file.
    pub path: Arc<str>,
    /// Its build ID, where it is one.
    pub build_id: Option<BuildId>,
}

/// What kind of code an address is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// A program or library.
    Native,
    /// The kernel.
    Kernel,
    /// Made at run time, or interpreted.
    Other,
}

/// Where values lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which mapping; none where the profile names none.
    pub mapping: Option<usize>,
    /// The address.
    pub address: StatedAddr,
    /// Of what.
    pub code: Code,
}

/// What values are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueType {
    /// Such as `samples` or `cpu`.
    pub name: String,
    /// Such as `count` or `nanoseconds`.
    pub unit: String,
}

/// A profile, as far as counts need it: the innermost address of each stack, with its value.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// The mappings.
    pub mappings: Vec<Mapping>,
    /// The sums of the values by innermost address.
    pub places: BTreeMap<Place, u128>,
    /// Values of samples without a stack.
    pub without_stack: u128,
    /// Values below zero, and those of samples that refer to what is not there.
    pub malformed: u128,
    /// What was summed up.
    pub value: ValueType,
    /// What a sample is in it: 1, or the period.
    pub divisor: u64,
    /// Other types of values in the file, which are left out.
    pub others: Vec<ValueType>,
    /// Events for each sample; of a clock, nanoseconds.
    pub period: Option<u64>,
    /// `clock`, `event`, or empty where nothing is said.
    pub source: &'static str,
    /// When it began, in seconds since 1970.
    pub begin: Option<u64>,
    /// When it ended.
    pub end: Option<u64>,
    /// The machine; empty where nothing, or more than one, is named.
    pub host: String,
    /// Its architecture, as its kernel calls it.
    pub architecture: String,
    /// The version of the service.
    pub program: String,
}

impl ValueType {
    /// `name/unit`.
    pub fn told(&self) -> String {
        format!("{}/{}", self.name, self.unit)
    }
}

/// As much of a name as is kept.
pub(crate) fn name(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.get(..MOST_NAME).unwrap_or(bytes));
    text.trim_end_matches('\0').to_owned()
}

/// A build ID in hex; Go's own, and hashes of other kinds, are none.
pub(crate) fn build_id(text: &str) -> Option<BuildId> {
    text.trim().parse().ok()
}

/// Sums by number, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct SumsOf<K>(pub(crate) std::collections::HashMap<K, u128>);

impl<K: std::hash::Hash + Eq> SumsOf<K> {
    pub(crate) fn add(
        &mut self,
        key: K,
        value: u128,
        what: &'static str,
        source: &Source,
    ) -> Result<(), Error> {
        if self.0.len() >= MOST_PLACES && !self.0.contains_key(&key) {
            return Err(source.too_many(what, MOST_PLACES));
        }
        let sum = self.0.entry(key).or_default();
        *sum = sum.saturating_add(value);
        Ok(())
    }
}

/// Seconds of nanoseconds since 1970; 0 says nothing.
pub(crate) fn window(time: u64, duration: u64) -> (Option<u64>, Option<u64>) {
    const NS: u64 = 1_000_000_000;
    if time == 0 {
        return (None, None);
    }
    (Some(time / NS), Some(time.saturating_add(duration) / NS))
}
