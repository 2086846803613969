//! What the files of one unit say, before it is joined with the others. Names stand once and are
//! numbered: a function of a header is named thousands of times in a build.

use crate::analysis::Skipped;
use crate::graph::{Reason, Source};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Texts, each numbered when it is first met.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) list: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
}

impl Names {
    /// The number of a text.
    pub(crate) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.list.len() as u32;
        let text: Arc<str> = text.into();
        self.list.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// The text of a number.
    pub(crate) fn get(&self, number: u32) -> Option<&Arc<str>> {
        self.list.get(number as usize)
    }
}

/// Number of a source file and a line of it.
pub(crate) type FactPlace = (u32, u32);

/// An end of a tie as a source names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// Number of its name.
    pub(crate) name: u32,
    pub(crate) place: Option<FactPlace>,
}

/// That a change of the first function changes the second.
#[derive(Debug)]
pub(crate) struct Tie {
    pub(crate) from: End,
    pub(crate) to: End,
    pub(crate) reason: Reason,
    pub(crate) source: Source,
}

/// What one unit's files say.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    /// Names of functions.
    pub(crate) names: Names,
    /// Source files as the compiler names them.
    pub(crate) files: Names,
    pub(crate) ties: Vec<Tie>,
    /// Functions with code, and whether other units may hold them too.
    pub(crate) functions: Vec<(u32, bool)>,
    /// Where functions are declared.
    pub(crate) places: Vec<(u32, FactPlace)>,
    pub(crate) sources: Vec<Source>,
    pub(crate) skipped: Vec<Skipped>,
    pub(crate) is_clang: bool,
    /// Whether the compiler left its work to the link.
    pub(crate) is_link_time: bool,
}

impl Facts {
    /// A function whose place the source does not tell.
    pub(crate) fn named(&mut self, name: &str) -> End {
        End { name: self.names.number(name), place: None }
    }

    /// A function at a place.
    pub(crate) fn placed(&mut self, name: &str, file: &str, line: u32) -> End {
        End { name: self.names.number(name), place: Some((self.files.number(file), line)) }
    }

    /// Adds a tie.
    pub(crate) fn tie(&mut self, from: End, to: End, reason: Reason, source: Source) {
        self.ties.push(Tie { from, to, reason, source });
    }
}
