//! `.pseudo_probe_desc`: name and checksum of every function that was compiled with probes.
//!
//! The section is a list of: hash of the name (8 bytes), checksum (8 bytes), length of the name
//! (ULEB128), name. Source: the documentation of clang's `-fpseudo-probe-for-profiling` and the
//! bytes that clang 22 writes. Linkers keep one list per object, or one entry per function where
//! the compiler puts each into a section group.

use super::bytes::Reader;
use super::{Guid, Probes};
use crate::{Error, Image, Section};

/// What is known about a function that was compiled with probes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Descriptor {
    /// The hash of its name.
    pub guid: Guid,
    /// A checksum of its control-flow graph before optimisation: where it differs, probe numbers
    /// mean other blocks.
    pub checksum: u64,
    /// Its name as the compiler knew it (mangled).
    pub name: String,
}

impl Probes {
    /// Adds the descriptors of a section.
    pub(super) fn add_descriptors(
        &mut self,
        image: &Image,
        section: &Section,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let mut reader = Reader::new(image, section, bytes);
        while !reader.is_at_end() {
            let (guid, checksum, length) = (Guid(reader.u64()?), reader.u64()?, reader.uleb()?);
            let name = reader.text(length)?.to_owned();
            self.descriptors.push(Descriptor { guid, checksum, name });
        }
        Ok(())
    }

    /// Sorts the descriptors; of several for one function the first one stays.
    pub(super) fn sort_descriptors(&mut self) {
        self.descriptors.sort_by_key(|descriptor| descriptor.guid);
        let mut conflicts = 0;
        self.descriptors.dedup_by(|later, first| {
            let same = later.guid == first.guid;
            conflicts += u64::from(same && later != first);
            same
        });
        self.conflicting_descriptors = conflicts;
    }
}
