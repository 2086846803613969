//! Which source line does each instruction belong to, and what do the lines add up to?

use crate::{Instruction, Request};
use calltrees::Weight;
use image::ImageAddr;
use image::debug::SourceFile;
use std::collections::BTreeMap;

/// Where source text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, by its position in [`Annotated::files`](crate::Annotated::files).
    pub file: usize,
    /// The line, 0 where the compiler gave none.
    pub line: u32,
}

/// A source line with what its instructions add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Where it stands; none where the debug information does not tell.
    pub place: Option<Place>,
    /// The inlined function that it belongs to (linkage name), if it is not the function itself.
    pub inlined: Option<String>,
    /// What was sampled in it.
    pub weight: Weight,
    /// The executions of its most executed instruction.
    pub count: Option<u64>,
    /// Its instructions, by position.
    pub instructions: Vec<usize>,
}

/// The lines, the files that they stand in, and what could not be read.
pub(crate) struct Told {
    pub lines: Vec<Line>,
    pub files: Vec<String>,
    pub problem: Option<String>,
}

/// Sorts the function's own lines before inlined ones, and those of its file before others.
type Key = (bool, bool, Option<Place>, Option<String>);

/// Puts the instructions into lines.
pub(crate) fn lines(instructions: &mut [Instruction], request: &Request<'_>) -> Told {
    let addresses: Vec<ImageAddr> = instructions.iter().map(|one| one.address).collect();
    let found = request.debug.map(|debug| debug.source_lines(&addresses)).unwrap_or_default();
    let resolved = request.debug.and_then(|debug| debug.resolve(&addresses, request.threads).ok());
    let inlined = |index: usize| {
        let resolved = resolved.as_ref()?;
        let (innermost, outer) = resolved.frames(index).split_first()?;
        (!outer.is_empty()).then(|| resolved.names.get(innermost.function).to_owned())
    };
    let place = |index: usize| {
        let of = found.lines.get(index).copied().flatten()?;
        let SourceFile(file) = of.file;
        Some(Place { file: file as usize, line: of.line })
    };
    // The file of the function's own code.
    let own_file = (0..instructions.len())
        .find(|&index| inlined(index).is_none() && place(index).is_some())
        .and_then(place)
        .map(|place| place.file);
    let mut grouped: BTreeMap<Key, Line> = BTreeMap::new();
    for (index, instruction) in instructions.iter().enumerate() {
        let (place, inlined) = (place(index), inlined(index));
        let elsewhere = place.map(|place| place.file) != own_file;
        let key = (inlined.is_some(), elsewhere, place, inlined.clone());
        let line = grouped.entry(key).or_insert_with(|| Line { place, inlined, ..Line::default() });
        line.weight.add(instruction.weight);
        line.count = line.count.max(instruction.count);
        line.instructions.push(index);
    }
    let lines: Vec<Line> = grouped.into_values().collect();
    for (number, line) in lines.iter().enumerate() {
        for &index in &line.instructions {
            if let Some(instruction) = instructions.get_mut(index) {
                instruction.line = number;
            }
        }
    }
    Told { lines, files: found.files, problem: found.problems.first }
}
