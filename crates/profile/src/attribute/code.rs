//! How often each instruction ran: ranges become disjoint segments, segments become instructions.

use counts::ImageCounts;
use image::code::{InstructionKind, instructions};
use image::{Image, ImageAddr};
use std::ops::Range;

use super::{AttributeOptions, AttributeReport};

/// What knows which function contains an address.
pub(super) trait KnownFunctions {
    /// All code of the function that contains the address, the same slice for every address of one
    /// function.
    fn ranges(&self, at: ImageAddr) -> Option<&[Range<ImageAddr>]>;
}

/// An instruction and how often it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExecutedInstruction {
    pub(super) address: ImageAddr,
    pub(super) bytes: u8,
    pub(super) count: u64,
}

/// All instructions that ran, and those of touched functions that did not; sorted by address.
#[derive(Debug, Default)]
pub(super) struct Executed {
    pub(super) instructions: Vec<ExecutedInstruction>,
}

impl Executed {
    pub(super) fn find(&self, address: ImageAddr) -> Option<&ExecutedInstruction> {
        let found =
            self.instructions.binary_search_by_key(&address, |instruction| instruction.address);
        self.instructions.get(found.ok()?)
    }
}

/// Instructions of fall-through ranges.
pub(super) fn of_ranges(
    image: &Image,
    counts: &ImageCounts,
    known: &impl KnownFunctions,
    options: &AttributeOptions,
    report: &mut AttributeReport,
) -> Executed {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let mut changes: Vec<(u64, i128)> = Vec::new();
    let mut last_function: Option<*const [Range<ImageAddr>]> = None;
    for range in &counts.fall_throughs {
        let count = u128::from(range.count);
        report.counted += count;
        let (first, Some(end)) = (range.first.0, range.last.0.checked_add(1)) else {
            report.backwards += count;
            continue;
        };
        if end <= first {
            report.backwards += count;
            continue;
        }
        match known.ranges(range.first) {
            None if !image.is_executable_address(range.first) => {
                report.outside_code += count;
                continue;
            }
            None => report.add_outside(image, range.first, count),
            Some(all) => {
                report.matched += count;
                // Ranges come sorted, so one function's ranges come together.
                if options.zero_lines && !last_function.is_some_and(|last| std::ptr::eq(all, last))
                {
                    last_function = Some(all);
                    spans.extend(all.iter().map(|range| (range.start.0, range.end.0)));
                }
            }
        }
        spans.push((first, end));
        changes.push((first, i128::from(range.count)));
        changes.push((end, -i128::from(range.count)));
    }
    changes.sort_unstable_by_key(|change| change.0);
    let mut executed = decode(image, spans, report);
    let (mut sum, mut next) = (0i128, changes.iter().peekable());
    for instruction in &mut executed.instructions {
        while let Some(change) = next.next_if(|change| change.0 <= instruction.address.0) {
            sum += change.1;
        }
        instruction.count = u64::try_from(sum).unwrap_or(u64::MAX);
    }
    executed
}

/// Instructions that samples fell on.
pub(super) fn of_samples(
    image: &Image,
    counts: &ImageCounts,
    known: &impl KnownFunctions,
    report: &mut AttributeReport,
) -> Executed {
    let mut executed = Executed::default();
    for sample in &counts.samples {
        let count = u128::from(sample.count);
        report.counted += count;
        let Some(instruction) = instructions(image, sample.address).next() else {
            report.outside_code += count;
            continue;
        };
        if known.ranges(sample.address).is_none() {
            report.add_outside(image, sample.address, count);
            continue;
        }
        report.matched += count;
        let (address, bytes) = (instruction.address, instruction.len);
        executed.instructions.push(ExecutedInstruction { address, bytes, count: sample.count });
    }
    executed
}

/// Decodes the union of half-open spans of addresses, each of which begins with an instruction.
fn decode(image: &Image, mut spans: Vec<(u64, u64)>, report: &mut AttributeReport) -> Executed {
    spans.sort_unstable();
    spans.dedup();
    let mut executed = Executed::default();
    // Everything below `done` is decoded; below `broken` it is not known where instructions begin.
    let (mut done, mut broken) = (0, 0);
    for (first, end) in spans {
        let start = first.max(done);
        if start >= end || first < broken {
            continue;
        }
        match run(image, start, end, &mut executed) {
            Ok(next) => done = next,
            Err(place) => {
                report.undecodable_places += 1;
                done = place;
                broken = place;
            }
        }
    }
    executed
}

/// Decodes from `start` until an instruction begins at or after `end`; returns that place.
///
/// `Err` is the place of bytes that are no instruction; what follows them is decoded from the next
/// span that begins after it.
fn run(image: &Image, start: u64, end: u64, into: &mut Executed) -> Result<u64, u64> {
    let mut next = start;
    for instruction in instructions(image, ImageAddr(start)) {
        let address = instruction.address;
        if address.0 >= end {
            break;
        }
        if instruction.kind == InstructionKind::Invalid {
            return Err(address.0 + 1);
        }
        next = address.0.saturating_add(u64::from(instruction.len));
        into.instructions.push(ExecutedInstruction { address, bytes: instruction.len, count: 0 });
    }
    if next == start { Err(start.saturating_add(1)) } else { Ok(next) }
}
