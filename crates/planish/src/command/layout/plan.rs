//! Counts and an image to a layout with everything that is known about it.

use super::Mode;
use crate::command::evidence;
use crate::command::profile::counts_of;
use counts::ImageCounts;
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use image::{Image, ImageAddr};
use layout::{
    Account, BuildOptions, BuildReport, Cfg, CloneParams, CloneReport, ClonedFunction, Layout,
    LayoutReport, Params, PathCounts, Rules, StaleReport,
};
use report::counted;
use report::layout::{Book, LayoutSummary, Worth};
use std::path::Path;
use std::sync::Arc;

/// Percent of branches into the middle of blocks from which on the image is said to be another than
/// the recorded one.
const DUBIOUS_PCT: f64 = 1.0;

/// How a layout is computed.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanOptions {
    /// What chains may hold.
    pub mode: Mode,
    /// As Google's Propeller tools do.
    pub upstream: bool,
    /// Whether an order of functions alone is of no use.
    pub blocks_needed: bool,
    /// What may be cloned along paths; `None`: nothing.
    pub clone: Option<CloneParams>,
}

/// A layout, and what it was computed from.
pub struct Plan {
    /// The image that is laid out.
    pub image: Arc<Image>,
    /// The recorded image, where that is an older build.
    pub recorded: Option<Arc<Image>>,
    /// What the inputs hold.
    pub found: Aggregated,
    /// Path of the first input, for messages.
    pub input: std::path::PathBuf,
    /// The graph.
    pub cfg: Cfg,
    /// What became of the counts.
    pub build: BuildReport,
    /// What was recognised, where the counts are of an older build.
    pub stale: Option<StaleReport>,
    /// Whether the graph has blocks, or functions alone.
    pub has_blocks: bool,
    /// Functions with clones, as the layout was given them.
    pub cloned: Vec<ClonedFunction>,
    /// What was cloned; `None` where it was not asked for.
    pub clone: Option<CloneReport>,
    /// The parameters.
    pub params: Params,
    /// The layout.
    pub layout: Layout,
    /// What it is worth.
    pub worth: LayoutReport,
}

impl Plan {
    /// The counts of the image.
    ///
    /// # Errors
    /// Where there are none, with what there is instead.
    pub fn counts(&self) -> anyhow::Result<&ImageCounts> {
        counts_of(&self.found, &self.image, std::slice::from_ref(&self.input))
    }
}

/// Lays a program out. `input` names the counts in messages. `recorded` is the image that the
/// counts are of, where that is an older build than `image`.
///
/// # Errors
/// Where the counts are not of the image, or the image says too little about its code.
pub fn plan(
    image: Arc<Image>,
    recorded: Option<Arc<Image>>,
    found: Aggregated,
    input: &Path,
    options: PlanOptions,
) -> anyhow::Result<Plan> {
    let counts = counts_of(&found, recorded.as_ref().unwrap_or(&image), &[input.to_owned()])?;
    let blocks = image::blocks::read(&image)?;
    let has_blocks = !blocks.is_empty() || options.blocks_needed;
    let rules = if options.upstream { Rules::Upstream } else { Rules::Decoded };
    let build_options = BuildOptions { rules, ..BuildOptions::default() };
    let mut stale = None;
    let (cfg, build) = match &recorded {
        Some(old) => {
            let (graph, build) =
                layout::build(old, image::blocks::read(old)?, counts, &build_options)?;
            let (carried, report) =
                layout::carry_over(&graph, old, &image, blocks, &build_options)?;
            stale = Some(report);
            (carried, build)
        }
        None if has_blocks => {
            let modules = |addresses: &[ImageAddr]| modules(&image, addresses);
            layout::build_in_modules(&image, blocks, counts, &build_options, &modules)?
        }
        None => layout::function_graph(&image, counts)?,
    };
    let mut params = if options.upstream { Params::propeller() } else { Params::default() };
    if options.mode == Mode::InterFunction {
        params.mode = layout::Mode::InterFunction;
    }
    let (cloned, clone) = match options.clone {
        // The paths of an older build name addresses that mean something else now.
        Some(_) if recorded.is_some() => {
            anyhow::bail!("--clone needs the recorded build; leave --recorded out")
        }
        Some(what) => {
            let paths = PathCounts::new(&cfg, &counts.paths);
            let (cloned, report) = layout::choose_clones(&cfg, &paths, &what, &params);
            (cloned, Some(report))
        }
        None => (Vec::new(), None),
    };
    let (layout, worth) = layout::lay_out_with(&cfg, &cloned, &params);
    let input = input.to_owned();
    Ok(Plan {
        image,
        recorded,
        found,
        input,
        cfg,
        build,
        stale,
        has_blocks,
        cloned,
        clone,
        params,
        layout,
        worth,
    })
}

/// The files of the units that hold the functions at these addresses, as far as the debug
/// information says so.
fn modules(image: &Image, addresses: &[ImageAddr]) -> Vec<Option<String>> {
    match DebugInfo::load(image, &DebugSearch::default()) {
        Ok(debug) => debug.unit_names_at(addresses, 1),
        Err(_) => vec![None; addresses.len()],
    }
}

impl Plan {
    /// The plan as a plain value, no file written yet.
    pub fn summary(&self) -> LayoutSummary {
        let (worth, build) = (&self.worth, &self.build);
        let left_out = build.left_out.iter().map(|(reason, &count)| (reason.to_string(), count));
        let unusable = build.unusable.iter().map(|(reason, &count)| (reason.to_string(), count));
        LayoutSummary {
            schema: "planish-layout".to_owned(),
            version: super::VERSION,
            binary: self.image.path().display().to_string(),
            build_id: self.image.build_id().map(ToString::to_string),
            observed: build.observed.to_string(),
            mapped_functions: build.mapped_functions,
            functions: worth.functions,
            clusters: worth.clusters,
            hot_blocks: (worth.hot_blocks, worth.hot_bytes),
            cold_blocks: (worth.cold_blocks, worth.cold_bytes),
            clones: worth.clones,
            before: of(&worth.before),
            after: of(&worth.after),
            books: vec![
                ("branches".to_owned(), book(&build.branches)),
                ("ranges".to_owned(), book(&build.fall_throughs)),
                ("samples".to_owned(), book(&build.samples)),
            ],
            left_out: left_out.chain(unusable).collect(),
            evidence: self.evidence(),
            warnings: self.warnings(),
            files: Vec::new(),
        }
    }

    fn evidence(&self) -> Option<report::Evidence> {
        let counted = self.recorded.as_ref().unwrap_or(&self.image);
        let counts = counts_of(&self.found, counted, std::slice::from_ref(&self.input)).ok()?;
        Some(evidence::told(&Evidence::of(counts, counted)))
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> =
            self.evidence().and_then(|evidence| evidence.warning).into_iter().collect();
        let paths = self.counts().map_or(0, |counts| counts.paths.len());
        if self.clone.is_some() && paths == 0 {
            warnings.push(
                "nothing was cloned, since the counts have no paths; give the recording itself, \
                 or counts of planish aggregate --paths"
                    .to_owned(),
            );
        }
        if let Some(clone) = self.clone.filter(|clone| clone.over_budget > 0) {
            warnings.push(format!(
                "{} would save branches too, but the clones' budget of {} is spent \
                 (--clone-budget)",
                counted(clone.over_budget, "path", "paths"),
                counted(clone.budget_bytes, "byte", "bytes")
            ));
        }
        let told = self.build.told_by_module;
        if told > 0 {
            warnings.push(format!(
                "{told} functions share their names with others; the cc profile tells them apart \
                 by their files, which clang heeds where the relink has -g1 or more, too; an \
                 order of symbols cannot tell them apart, so the parts of one name stand together"
            ));
        }
        if self.worth.unknown > 0 {
            let blocks = counted(self.worth.unknown, "block or edge", "blocks or edges");
            warnings.push(format!("{blocks} of clones could not be placed"));
        }
        let inferred =
            self.build.inferred.iter().chain(self.stale.iter().map(|stale| &stale.inferred));
        let bounded: u64 = inferred.map(|report| report.bounded_functions).sum();
        if bounded > 0 {
            warnings.push(format!(
                "in {} flow repair ended before it found the nearest counts that fit",
                counted(bounded, "large function", "large functions")
            ));
        }
        if self.build.observed == layout::Observed::SamplesOnly {
            warnings.push(
                "the recording has no branch stacks, so all edges are guessed from samples; \
                 planish record --branches=hardware or --branches=emulated gives them"
                    .to_owned(),
            );
        }
        let dubious = self.build.dubious_pct();
        if dubious >= DUBIOUS_PCT {
            warnings.push(format!(
                "{dubious:.1} % of the branches go into the middle of a block, which none does in \
                 the program that was recorded: this is probably another build, and its order is \
                 wrong; record it again, or give the recorded one by --recorded"
            ));
        }
        if let Some(stale) = &self.stale {
            // What was left out for its name is not in the graph that was carried over.
            let shared_pct = self.build.shared_name_pct();
            let matched_pct = stale.matched_pct() * (1.0 - shared_pct / 100.0);
            let shared =
                self.build.left_out.get(&layout::Unused::DuplicateName).copied().unwrap_or(0);
            let mut told = format!(
                "the recording is of another build: {matched_pct:.1} % of its executions were \
                 recognised in this one"
            );
            if shared > 0 {
                let functions = counted(shared, "function was", "functions were");
                told += &format!(
                    "; {functions} not ({shared_pct:.1} %), for the name is shared with another"
                );
            }
            warnings.push(told);
        }
        if !self.has_blocks {
            warnings.push(
                "the binary has no address map of its blocks, so functions are ordered by calls \
                 and branches alone; scores and pages count each function as two blocks"
                    .to_owned(),
            );
        }
        warnings
    }
}

fn of(totals: &layout::Totals) -> Worth {
    Worth {
        score_within: totals.intra,
        score_calls: totals.inter,
        taken: totals.taken,
        fall_throughs: totals.fall_throughs,
        pages_4k: (totals.small_pages.touched, totals.small_pages.hottest),
        pages_2m: (totals.large_pages.touched, totals.large_pages.hottest),
    }
}

fn book(account: &Account) -> Book {
    let mut unused: Vec<(String, u64)> =
        account.unused.iter().map(|(reason, &count)| (reason.to_string(), count)).collect();
    unused.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    Book { entered: account.entered, used: account.used, unused }
}
