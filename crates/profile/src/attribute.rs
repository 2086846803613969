//! How counts per address become counts per source line: attribution.
//!
//! With branch stacks the rules are those of llvm-profgen
//! (<https://github.com/llvm/llvm-project/blob/main/llvm/tools/llvm-profgen/ProfileGenerator.cpp>),
//! so that the same recording gives the same profile:
//! 1. Each fall-through range adds its count to every instruction in it. All other instructions of
//!    a function that a range begins in count as seen 0 times, so that the compiler learns which
//!    lines are cold.
//! 2. Each function of an instruction's inline stack gets count × instruction bytes as its total.
//!    The innermost one gets the count at (line − first line, base discriminator); of several
//!    instructions at one location the largest count stands, after multiplication by the
//!    discriminator's duplication factor.
//! 3. A branch to the first instruction of a function, whatever the kind of branch, is a call: it
//!    adds to the function's head count and, at the innermost location of its source, to the call
//!    target. Code split off into a second range (`foo.cold`) has no entry.
//! 4. A location of a function that exists on its own is raised to the sum of its call targets.
//!
//! One difference: where several functions have one name, llvm-profgen gives zeros to the lines of
//! all of them when one is touched. Here only the touched one gets them, since nothing was seen of
//! the others.
//!
//! Plain samples say where time went, not how often something ran. The count of an instruction is
//! its samples; rule 2 holds; there are no heads and no call targets; and lines without samples
//! stay absent, since a line that ran quickly is easily missed, and a zero would declare it cold.
//!
//! Where the image has pseudo probes, [`attribute_probes`] counts these in place of lines; its
//! rules stand there.

mod build;
mod code;
mod contexts;
mod error;
mod names;
mod probes;
mod report;

pub(crate) use build::location;
pub use contexts::{attribute_contexts, leave_out_initializers};
pub use error::AttributeError;
pub use names::canonical_name;
pub(crate) use names::entered;
pub use probes::attribute_probes;
pub use report::{AttributeReport, NO_SYMBOL};

use counts::ImageCounts;
use image::debug::{DebugInfo, FunctionsAt};
use image::{Image, ImageAddr};

use crate::SampleProfile;
use build::Builder;
use code::{Executed, KnownFunctions};

/// Which counts a profile is made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountSource {
    /// Branch stacks where there are any, else samples.
    #[default]
    Auto,
    /// Fall-through ranges and branches.
    Branches,
    /// Instruction pointer samples.
    Samples,
}

/// How to attribute.
#[derive(Clone, Debug)]
pub struct AttributeOptions {
    /// Threads for reading debug information. The profile does not depend on it.
    pub threads: usize,
    /// Which counts to use.
    pub source: CountSource,
    /// Whether lines of touched functions that did not run are recorded with count 0 (branch
    /// stacks only).
    pub zero_lines: bool,
    /// Whether to list all functions of the image in [`SampleProfile::symbol_list`]. That reads
    /// all debug information.
    pub symbol_list: bool,
    /// The smallest share of the counts, in percent, that must fall into functions of the debug
    /// information.
    pub least_matched_pct: u32,
}

impl Default for AttributeOptions {
    fn default() -> AttributeOptions {
        AttributeOptions {
            threads: 1,
            source: CountSource::Auto,
            zero_lines: true,
            symbol_list: false,
            least_matched_pct: 5,
        }
    }
}

/// Makes the sample profile of one image.
///
/// # Errors
/// When there is nothing to attribute, no debug information to attribute it by, or less than
/// [`AttributeOptions::least_matched_pct`] of it falls into functions: each with the numbers and
/// the next step.
pub fn attribute(
    image: &Image,
    debug: &DebugInfo<'_>,
    counts: &ImageCounts,
    options: &AttributeOptions,
) -> Result<(SampleProfile, AttributeReport), AttributeError> {
    let branches = match options.source {
        CountSource::Auto => counts.has_branches(),
        CountSource::Branches => true,
        CountSource::Samples => false,
    };
    let counted = if branches {
        counts.fall_throughs.len() + counts.branches.len()
    } else {
        counts.samples.len()
    };
    if counted == 0 {
        return Err(AttributeError::no_counts(counts, branches));
    }
    if debug.is_empty() {
        return Err(AttributeError::no_debug_information(image, debug));
    }
    let mut report = AttributeReport { from_branches: branches, ..AttributeReport::default() };
    let points = points(counts, branches);
    let functions = debug.functions_at(&points, options.threads);
    report.problems = functions.problems.clone();
    let executed = if branches {
        code::of_ranges(
            image,
            counts,
            &Touched { points: &points, functions: &functions },
            options,
            &mut report,
        )
    } else {
        code::of_samples(
            image,
            counts,
            &Touched { points: &points, functions: &functions },
            &mut report,
        )
    };
    report.check(image, debug, options.least_matched_pct)?;
    let mut profile = build(
        image,
        debug,
        counts,
        &executed,
        &Touched { points: &points, functions: &functions },
        options,
        &mut report,
    )?;
    profile.fs_discriminators = debug.uses_fs_discriminators();
    if options.symbol_list {
        let names = debug.all_function_names(options.threads);
        profile.symbol_list = names.iter().map(|name| canonical_name(name).to_owned()).collect();
        profile.symbol_list.sort_unstable();
        profile.symbol_list.dedup();
    }
    report.functions = profile.functions.len() as u64;
    if profile.functions.is_empty() {
        return Err(AttributeError::empty(image, debug, &report));
    }
    Ok((profile, report))
}

/// The functions at the points where ranges begin, branches go, or samples fell.
struct Touched<'t> {
    points: &'t [ImageAddr],
    functions: &'t FunctionsAt,
}

impl KnownFunctions for Touched<'_> {
    fn ranges(&self, at: ImageAddr) -> Option<&[std::ops::Range<ImageAddr>]> {
        self.function(at).map(|function| function.ranges.as_slice())
    }
}

impl Touched<'_> {
    fn function(&self, at: ImageAddr) -> Option<&image::debug::DwarfFunction> {
        self.functions.at(self.points.binary_search(&at).ok()?)
    }
}

/// Sorted addresses whose functions attribution asks for.
fn points(counts: &ImageCounts, branches: bool) -> Vec<ImageAddr> {
    let mut points: Vec<ImageAddr> = if branches {
        let targets = counts.branches.iter().filter_map(|branch| branch.to);
        counts.fall_throughs.iter().map(|range| range.first).chain(targets).collect()
    } else {
        counts.samples.iter().map(|sample| sample.address).collect()
    };
    points.sort_unstable();
    points.dedup();
    points
}

fn build(
    image: &Image,
    debug: &DebugInfo<'_>,
    counts: &ImageCounts,
    executed: &Executed,
    touched: &Touched<'_>,
    options: &AttributeOptions,
    report: &mut AttributeReport,
) -> Result<SampleProfile, AttributeError> {
    let branches: &[counts::Branch] = if report.from_branches { &counts.branches } else { &[] };
    let mut addresses: Vec<ImageAddr> =
        executed.instructions.iter().map(|instruction| instruction.address).collect();
    let sources = branches.iter().filter_map(|branch| branch.from);
    let sources = sources.filter(|from| executed.find(*from).is_none());
    addresses.extend(sources);
    addresses.sort_unstable();
    addresses.dedup();
    let resolved = debug.resolve(&addresses, options.threads)?;
    report.problems = resolved.problems.clone();
    let mut builder = Builder::new(&resolved, debug.uses_fs_discriminators());
    builder.add_instructions(&addresses, executed, report);
    for branch in branches {
        let callee = branch.to.and_then(|to| names::entered(image, touched.function(to)?, to));
        let Some(callee) = callee else {
            report.branches_elsewhere += u128::from(branch.count);
            continue;
        };
        report.calls += u128::from(branch.count);
        let source = branch.from.and_then(|from| addresses.binary_search(&from).ok());
        builder.add_call(source, callee, branch.count);
    }
    let (profile, initializers) = builder.finish();
    report.initializers = initializers;
    Ok(profile)
}
