//! Where the functions of the probe section begin: their symbols by the hash of the name.
//!
//! Addresses in the section are relative to a symbol that is named by hash alone. Several functions
//! of the section may be relative to one symbol: code of a call that was inlined without a call
//! probe stands there as a function of its own. Of several symbols with one name (local functions
//! of several files) the section does not say which one it means. But linkers keep probes in the
//! order of the code that they belong to (`SHF_LINK_ORDER`), so with as many functions as symbols
//! the first one is the first one.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::Guid;
use crate::{Image, ImageAddr};

/// Symbols by the hash of their name, each by ascending address.
pub(super) struct Places {
    by_name: FxHashMap<Guid, Vec<Range<ImageAddr>>>,
}

impl Places {
    pub(super) fn of(image: &Image) -> Places {
        let mut by_name: FxHashMap<Guid, Vec<Range<ImageAddr>>> = FxHashMap::default();
        for function in image.functions().iter() {
            let places = by_name.entry(Guid::of(function.name)).or_default();
            // A name may stand in the table twice for one address.
            if places.last().is_none_or(|last| last.start != function.address) {
                places.push(function.address..function.end());
            }
        }
        Places { by_name }
    }

    /// The place of the `occurrence`-th of `occurrences` functions that are relative to this
    /// symbol.
    pub(super) fn find(
        &self,
        symbol: Guid,
        occurrence: usize,
        occurrences: usize,
    ) -> Option<&Range<ImageAddr>> {
        let places = self.by_name.get(&symbol)?;
        match places.as_slice() {
            [only] => Some(only),
            several => several.get(occurrence).filter(|_| several.len() == occurrences),
        }
    }
}
