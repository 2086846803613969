//! Which name finds each section in a symbol order? Chooses names that mean one section only, and
//! makes some where there are none.
//!
//! lld orders sections by the names of symbols, and a name that several objects use for a local
//! function moves all of them. Where a section has no name of its own, a symbol of its own object
//! gets one: the section's symbol, which no program gets to see, or a local one.

use std::collections::BTreeMap;

use crate::relocatable::Section;

/// How a section is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Handle {
    /// By a name that is its own already.
    Own(String),
    /// By a new name for the symbol of this number.
    Renamed(usize, String),
    /// Not at all: it stays behind all others.
    Nothing,
}

/// Chooses the handles of all sections of a link; `others` are names that sections have which must
/// not move.
pub(crate) fn choose<'s>(
    sections: &[&'s Section],
    others: impl Iterator<Item = &'s str>,
) -> Vec<Handle> {
    let mut uses: BTreeMap<&'s str, u32> = BTreeMap::new();
    for name in others {
        *uses.entry(name).or_default() += 1;
    }
    for section in sections {
        for name in section.globals.iter().chain(&section.locals) {
            *uses.entry(name).or_default() += 1;
        }
    }
    let own = |section: &Section| {
        let mut names = section.globals.iter().chain(&section.locals);
        names.find(|name| uses.get(name.as_str()) == Some(&1)).cloned()
    };
    let mut renamed = 0_usize;
    let mut handle = |section: &Section| {
        if let Some(name) = own(section) {
            return Handle::Own(name);
        }
        let Some(symbol) = section.spare else { return Handle::Nothing };
        renamed += 1;
        Handle::Renamed(symbol, format!("planish.section.{renamed}"))
    };
    sections.iter().map(|section| handle(section)).collect()
}
