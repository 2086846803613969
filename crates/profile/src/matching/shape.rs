//! What a profile is matched with: where each function of a program has code, and where it calls
//! which other one.
//!
//! Read off the program's code and its debug information by the same rules by which attribution
//! makes a profile, so that a profile of this very program finds each of its calls in place.

use std::collections::{BTreeMap, BTreeSet};

use image::code::{InstructionKind, instructions};
use image::debug::{DebugInfo, DebugProblems, DwarfFunction};
use image::{Error, Image, ImageAddr};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::Location;
use crate::attribute::{canonical_name, entered, location};

/// The functions of a program by name, those included that exist only as inlined copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramShape {
    /// Each function, under the name that a profile has for it.
    pub functions: BTreeMap<String, FunctionShape>,
    /// What could not be read.
    pub problems: DebugProblems,
}

/// One function, all its inlined copies taken together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionShape {
    /// Locations that have code.
    pub lines: BTreeSet<Location>,
    /// Locations from which control can go to the start of a function, be it called, jumped to or
    /// inlined.
    pub calls: BTreeMap<Location, Callees>,
}

/// The functions that a location can call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Callees {
    /// Those that the code or the debug information names.
    pub names: BTreeSet<String>,
    /// Whether the location holds an indirect call, which can go to any function.
    pub indirect: bool,
    /// Whether it holds an indirect jump: that of a `switch` in most cases, to another function in
    /// some.
    pub jump: bool,
}

/// Where control goes from an instruction at the end of its function's own code.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Leaves {
    To(ImageAddr),
    ByCall,
    ByJump,
}

impl ProgramShape {
    /// Reads a program with `threads` threads; the result does not depend on their number.
    ///
    /// Every instruction of every function in the debug information is decoded and resolved.
    ///
    /// # Errors
    /// When the debug information cannot be resolved. Damage in parts of it is in
    /// [`ProgramShape::problems`].
    pub fn read(
        image: &Image,
        debug: &DebugInfo<'_>,
        threads: usize,
    ) -> Result<ProgramShape, Error> {
        let (functions, problems) = debug.all_functions(threads);
        let entries = entries(image, &functions);
        let (addresses, leaving) = decode(image, &functions, &entries);
        let resolved = debug.resolve(&addresses, threads)?;
        let mut shape = ProgramShape { functions: BTreeMap::new(), problems };
        for function in functions.iter().filter(|function| !function.name.is_empty()) {
            shape.function(canonical_name(&function.name));
        }
        let fs = debug.uses_fs_discriminators();
        let names: Vec<&str> = resolved.names.iter().map(canonical_name).collect();
        let mut leaving = leaving.into_iter().peekable();
        let mut seen: FxHashSet<_> = FxHashSet::default();
        for (at, stack) in resolved.stacks.iter().enumerate() {
            let leaves = leaving.next_if(|(place, _)| *place == at).map(|(_, leaves)| leaves);
            if !seen.insert((*stack, leaves)) {
                continue;
            }
            // From the outermost function inwards; one without a name ends the stack, as it does in
            // attribution.
            let mut caller: Option<(&str, Location)> = None;
            for frame in resolved.stack(*stack).iter().rev() {
                let Some(name) = names.get(frame.function.index()).filter(|name| !name.is_empty())
                else {
                    break;
                };
                if let Some((caller, at)) = caller {
                    shape
                        .function(caller)
                        .calls
                        .entry(at)
                        .or_default()
                        .names
                        .insert((*name).to_owned());
                }
                caller = Some((*name, location(frame, fs)));
            }
            let Some((name, at)) = caller else { continue };
            let function = shape.function(name);
            function.lines.insert(at);
            match leaves {
                Some(Leaves::ByCall) => function.calls.entry(at).or_default().indirect = true,
                Some(Leaves::ByJump) => function.calls.entry(at).or_default().jump = true,
                Some(Leaves::To(to)) => {
                    let called =
                        entries.get(&to).into_iter().flatten().map(|name| (*name).to_owned());
                    function.calls.entry(at).or_default().names.extend(called);
                }
                None => {}
            }
        }
        Ok(shape)
    }

    fn function(&mut self, name: &str) -> &mut FunctionShape {
        if !self.functions.contains_key(name) {
            self.functions.insert(name.to_owned(), FunctionShape::default());
        }
        self.functions.entry(name.to_owned()).or_default()
    }
}

/// The names of the functions that begin at an address: several where the linker folded equal code.
fn entries<'f>(
    image: &Image,
    functions: &'f [DwarfFunction],
) -> FxHashMap<ImageAddr, BTreeSet<&'f str>> {
    let mut entries: FxHashMap<ImageAddr, BTreeSet<&str>> = FxHashMap::default();
    for function in functions {
        for range in &function.ranges {
            if let Some(name) = entered(image, function, range.start) {
                entries.entry(range.start).or_default().insert(name);
            }
        }
    }
    entries
}

/// The addresses of all instructions of functions, sorted, and the positions of those that leave
/// their function.
fn decode(
    image: &Image,
    functions: &[DwarfFunction],
    entries: &FxHashMap<ImageAddr, BTreeSet<&str>>,
) -> (Vec<ImageAddr>, Vec<(usize, Leaves)>) {
    let ranges = functions.iter().flat_map(|function| &function.ranges);
    let mut spans: Vec<(u64, u64)> = ranges.map(|range| (range.start.0, range.end.0)).collect();
    spans.sort_unstable();
    spans.dedup();
    let (mut addresses, mut leaving, mut done) = (Vec::new(), Vec::new(), 0);
    for (start, end) in spans {
        // A function inside another one is decoded with it.
        if start.max(done) >= end {
            continue;
        }
        for instruction in instructions(image, ImageAddr(start.max(done))) {
            let at = instruction.address;
            if at.0 >= end || instruction.kind == InstructionKind::Invalid {
                break;
            }
            done = at.0.saturating_add(u64::from(instruction.len));
            let leaves = match (instruction.kind, instruction.target) {
                (InstructionKind::IndirectCall, _) => Some(Leaves::ByCall),
                (InstructionKind::IndirectBranch, _) => Some(Leaves::ByJump),
                (_, Some(to)) if entries.contains_key(&to) => Some(Leaves::To(to)),
                _ => None,
            };
            leaving.extend(leaves.map(|leaves| (addresses.len(), leaves)));
            addresses.push(at);
        }
    }
    (addresses, leaving)
}
