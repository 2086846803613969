//! Counts and blocks to a [`Cfg`].
//!
//! Three passes over the counts. The first gives each function of the map the weight of its
//! branches, so that functions are chosen: named by a symbol, in a section that is laid out, not
//! confusable with another hot one. The second turns branches into edges, calls and returns
//! (`transfers`), the third expands ranges into edges between neighbours. What is left is the
//! frequency of each block. Cost: linear in counts and blocks, with a binary search per address.
//!
//! Sources for the rules: <https://github.com/google/llvm-propeller>, as
//! [`crate::Rules::Upstream`]; [`crate::Rules::Decoded`] replaces its guesses by a look at the
//! instruction, and says where in [`crate::Rules`].

use image::blocks::FunctionBlocks;
use image::{Image, ImageAddr};
use rustc_hash::FxHashMap;

use crate::evidence::Evidence;
use crate::report::{BuildReport, Unused};
use crate::rules::{BuildOptions, Modules};
use crate::samples;
use crate::selection::Selection;
use crate::table::{End, Table};
use crate::transfers::Classifier;
use crate::{Cfg, Error};

/// Smallest share of branches that must become edges, in percent; llvm-propeller's.
const SMALLEST_USED_PCT: f64 = 0.05;

/// Makes the graph of an image from its blocks ([`image::blocks::read`]) and its counts. Of
/// functions with a common name at most one is in it.
///
/// # Errors
/// As [`build_in_modules`].
pub fn build(
    image: &Image,
    blocks: Vec<FunctionBlocks>,
    counts: &counts::ImageCounts,
    options: &BuildOptions,
) -> Result<(Cfg, BuildReport), Error> {
    build_in_modules(image, blocks, counts, options, &|addresses| vec![None; addresses.len()])
}

/// Makes the graph of an image, as [`build`] does. Functions with a common name are told apart by
/// the files of their units, which `modules` is asked for where there are such.
///
/// # Errors
/// When the image has no usable block address map, when nothing was counted in a function that can
/// be laid out, or when the counts are of another build or visibly do not fit the image.
pub fn build_in_modules(
    image: &Image,
    blocks: Vec<FunctionBlocks>,
    counts: &counts::ImageCounts,
    options: &BuildOptions,
    modules: Modules<'_>,
) -> Result<(Cfg, BuildReport), Error> {
    let path = || image.path().to_owned();
    if blocks.is_empty() {
        return Err(Error::NoBlockMap { image: path() });
    }
    if let (Some(&image_id), Some(&counts_id)) = (image.build_id(), counts.build_id.as_ref())
        && image_id != counts_id
    {
        return Err(Error::OtherBuild {
            image: path(),
            image_id: Box::new(image_id),
            counts_id: Box::new(counts_id),
        });
    }
    if counts.is_empty() {
        return Err(Error::NoCounts { image: path() });
    }
    let mut report = BuildReport::default();
    let table = Table::new(image, blocks, &mut report);
    if table.candidates.is_empty() {
        let reasons: Vec<String> = report
            .unusable
            .iter()
            .map(|(reason, functions)| format!("{functions} {reason}"))
            .collect();
        let functions = report.mapped_functions;
        return Err(Error::NoUsableMap { image: path(), functions, reasons: reasons.join(", ") });
    }
    let selection =
        Selection::new(image, &table, &weights(&table, counts), options, modules, &mut report);
    if !counts.has_branches() {
        let cfg = samples::graph(image, &table, &selection, counts, &mut report);
        return finish(image, cfg, report);
    }
    let mut builder = Builder {
        image,
        table: &table,
        selection: &selection,
        options,
        evidence: Evidence::default(),
    };
    builder.branches(counts, &mut report);
    builder.ranges(counts, &mut report);
    check_fit(image, options, &report)?;
    let cfg = builder.evidence.into_cfg(&table, &selection, options.rules);
    finish(image, cfg, report)
}

fn finish(image: &Image, cfg: Cfg, mut report: BuildReport) -> Result<(Cfg, BuildReport), Error> {
    report.hot_functions = cfg.functions.len() as u64;
    let blocks = || cfg.functions.iter().flat_map(|function| &function.blocks);
    report.blocks = blocks().count() as u64;
    report.hot_blocks = blocks().filter(|block| block.frequency != 0).count() as u64;
    if cfg.functions.is_empty() {
        let books = [&report.branches, &report.fall_throughs, &report.samples];
        let entered = books.iter().fold(0u64, |sum, book| sum.saturating_add(book.entered));
        let reasons = format!(
            "branches: {}; ranges: {}; samples: {}",
            report.branches.reasons(),
            report.fall_throughs.reasons(),
            report.samples.reasons()
        );
        return Err(Error::NothingHot { image: image.path().to_owned(), entered, reasons });
    }
    Ok((cfg, report))
}

/// How much was counted in each candidate.
fn weights(table: &Table, counts: &counts::ImageCounts) -> FxHashMap<u32, u64> {
    let mut weights: FxHashMap<u32, u64> = FxHashMap::default();
    let mut add = |address: Option<ImageAddr>, count: u64| {
        if let Some(spot) = address.and_then(|address| table.find(address, End::Source)) {
            let weight = weights.entry(spot.candidate).or_default();
            *weight = weight.saturating_add(count);
        }
    };
    for branch in &counts.branches {
        add(branch.from, branch.count);
        add(branch.to, branch.count);
    }
    for range in &counts.fall_throughs {
        add(Some(range.first), range.count);
        add(Some(range.last), range.count);
    }
    if !counts.has_branches() {
        counts.samples.iter().for_each(|sample| add(Some(sample.address), sample.count));
    }
    weights
}

/// Says whether the counts can be of this image.
fn check_fit(image: &Image, options: &BuildOptions, report: &BuildReport) -> Result<(), Error> {
    let (entered, used) = (report.branches.entered, report.branches.used);
    let dubious = report.branches.unused_for(Unused::IntoBlock);
    let share_pct = report.dubious_pct();
    if share_pct > options.largest_dubious_pct {
        return Err(Error::SourceDrift {
            image: image.path().to_owned(),
            dubious,
            judged: dubious.saturating_add(used),
            share_pct,
            limit_pct: options.largest_dubious_pct,
        });
    }
    if entered != 0 && (used as f64) * 100.0 < (entered as f64) * SMALLEST_USED_PCT {
        let limit_pct = SMALLEST_USED_PCT;
        return Err(Error::TooFewEdges {
            image: image.path().to_owned(),
            used,
            entered,
            limit_pct,
        });
    }
    Ok(())
}

/// What the passes over branches and ranges share.
struct Builder<'b> {
    image: &'b Image,
    table: &'b Table,
    selection: &'b Selection,
    options: &'b BuildOptions,
    evidence: Evidence,
}

impl Builder<'_> {
    fn branches(&mut self, counts: &counts::ImageCounts, report: &mut BuildReport) {
        let mut classifier =
            Classifier::new(self.image, self.table, self.selection, self.options.rules);
        for branch in &counts.branches {
            let outcome = classifier.branch(branch, &mut self.evidence);
            report.branches.enter(outcome, branch.count);
        }
    }

    fn ranges(&mut self, counts: &counts::ImageCounts, report: &mut BuildReport) {
        for range in &counts.fall_throughs {
            let outcome = self.range(range);
            report.fall_throughs.enter(outcome, range.count);
        }
    }

    fn range(&mut self, range: &counts::FallThrough) -> Result<(), Unused> {
        let first =
            self.selection.find(self.table, range.first, End::Target, Unused::TargetUnmapped)?;
        let last =
            self.selection.find(self.table, range.last, End::Source, Unused::SourceUnmapped)?;
        if range.last < range.first {
            return Err(Unused::Backwards);
        }
        if first.candidate != last.candidate {
            return Err(Unused::CrossesFunctions);
        }
        let blocks =
            self.table.candidate(first.candidate).map_or(0, |candidate| candidate.blocks.len());
        let mut passed = Vec::new();
        let mut here = first;
        while here != last {
            let falls =
                |block: &image::blocks::Block| block.flags.can_fall_through() || block.size == 0;
            if !self.table.block(here).is_some_and(falls) {
                return Err(Unused::NoFallThrough);
            }
            let next = self.table.next(here).filter(|_| passed.len() < blocks);
            let next = next.ok_or(Unused::CrossesFunctions)?;
            passed.push((here, next));
            here = next;
        }
        for (from, to) in passed {
            self.evidence.edge(from, to, range.count);
        }
        Ok(())
    }
}
