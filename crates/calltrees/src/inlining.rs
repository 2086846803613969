//! Which functions were inlined at which places, and which source lines these are, by the debug
//! information.

use crate::names::{Line, SourceId};
use image::debug::{DebugInfo, SourceFrames};
use image::{DebugSearch, Image, ImageAddr};
use rustc_hash::FxHashMap;

/// What is asked of the debug information.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'s> {
    /// Where it is looked for.
    pub search: &'s DebugSearch,
    /// Whether lines are asked for, too.
    pub lines: bool,
    pub threads: usize,
}

/// A function at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    /// As the debug information has it.
    pub name: String,
    pub line: Option<Line>,
}

/// The functions at places.
#[derive(Default)]
pub(crate) struct Inlining {
    /// Innermost first; the last one is the function of the symbol table.
    places: FxHashMap<u32, Box<[Inner]>>,
    sources: Vec<String>,
    numbers: FxHashMap<String, SourceId>,
}

impl Inlining {
    /// Adds places of an image, given by number; their addresses are sorted.
    pub(crate) fn add(&mut self, image: &Image, places: &[(ImageAddr, u32)], asked: Asked<'_>) {
        let Ok(debug) = DebugInfo::load(image, asked.search) else { return };
        let mut addresses: Vec<ImageAddr> = places.iter().map(|(at, _)| *at).collect();
        addresses.dedup();
        if asked.lines {
            let found = debug.source_frames(&addresses, asked.threads);
            let own = found.files.iter().map(|file| self.number(file)).collect::<Vec<_>>();
            self.note(places, &addresses, |position| inner(&found, &own, position));
            return;
        }
        let Ok(found) = debug.resolve(&addresses, asked.threads) else { return };
        let inner = |position| {
            let frames = found.frames(position).iter();
            let name = |id| found.names.get(id).to_owned();
            frames.map(|frame| Inner { name: name(frame.function), line: None }).collect()
        };
        self.note(places, &addresses, inner);
    }

    fn note(
        &mut self,
        places: &[(ImageAddr, u32)],
        addresses: &[ImageAddr],
        inner: impl Fn(usize) -> Box<[Inner]>,
    ) {
        for (at, place) in places {
            let Ok(position) = addresses.binary_search(at) else { continue };
            let found = inner(position);
            if !found.is_empty() {
                self.places.insert(*place, found);
            }
        }
    }

    fn number(&mut self, file: &str) -> SourceId {
        if let Some(known) = self.numbers.get(file) {
            return *known;
        }
        let next = SourceId(self.sources.len() as u32);
        self.sources.push(file.to_owned());
        self.numbers.insert(file.to_owned(), next);
        next
    }

    /// The functions at a place.
    pub(crate) fn at(&self, place: u32) -> &[Inner] {
        self.places.get(&place).map_or(&[], |inner| inner)
    }

    /// The paths of the source files.
    pub(crate) fn into_sources(self) -> Vec<String> {
        self.sources
    }
}

fn inner(found: &SourceFrames, own: &[SourceId], position: usize) -> Box<[Inner]> {
    let line = |at: image::debug::SourceLine| {
        let file = own.get(at.file.0 as usize).copied()?;
        Some(Line { file, number: at.line })
    };
    let of = |frame: &image::debug::SourceFrame| Inner {
        name: frame.function.map(|id| found.names.get(id).to_owned()).unwrap_or_default(),
        line: frame.line.and_then(line),
    };
    found.frames(position).iter().map(of).collect()
}
