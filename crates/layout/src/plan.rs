//! Counts and an image to a layout with everything that is known about it.

use crate::heat::{self, HeatMap};
use crate::{
    BuildOptions, BuildReport, Cfg, CloneParams, CloneReport, ClonedFunction, Error, FunctionIndex,
    Layout, LayoutReport, Mode, Params, PathCounts, Rules, StaleReport, build, build_in_modules,
    carry_over, choose_clones, function_graph, lay_out_with,
};
use counts::ImageCounts;
use counts::aggregate::Aggregated;
use counts::evidence::Evidence;
use image::debug::DebugInfo;
use image::debug_files::DebugSearch;
use image::{Arch, Function, Image, ImageAddr, ImageKind};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a layout is computed.
#[derive(Debug, Clone, Copy)]
pub struct PlanOptions {
    /// What chains may hold.
    pub mode: Mode,
    /// Judge branches, order blocks and score as Google's Propeller tools do.
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
    pub input: PathBuf,
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
) -> Result<Plan, Error> {
    let counts = found.of(recorded.as_ref().unwrap_or(&image), input)?;
    let blocks = image::blocks::read(&image)?;
    let has_blocks = !blocks.is_empty() || options.blocks_needed;
    let rules = if options.upstream { Rules::Upstream } else { Rules::Decoded };
    let build_options = BuildOptions { rules, ..BuildOptions::default() };
    let mut stale = None;
    let (cfg, build) = match &recorded {
        Some(old) => {
            let (graph, build) = build(old, image::blocks::read(old)?, counts, &build_options)?;
            let (carried, report) = carry_over(&graph, old, &image, blocks, &build_options)?;
            stale = Some(report);
            (carried, build)
        }
        None if has_blocks => {
            let modules = |addresses: &[ImageAddr]| modules(&image, addresses);
            build_in_modules(&image, blocks, counts, &build_options, &modules)?
        }
        None => function_graph(&image, counts)?,
    };
    let params = if options.upstream { Params::propeller() } else { Params::default() };
    let arm_kernel = image.arch() == Arch::Aarch64 && image.kind() == ImageKind::Kernel;
    let keep_whole = arm_kernel && !options.upstream;
    let params = Params { mode: options.mode, keep_whole, ..params };
    let (cloned, clone) = match options.clone {
        // The paths of an older build name addresses that mean something else now.
        Some(_) if recorded.is_some() => return Err(Error::ClonesOfOtherBuild),
        Some(what) => {
            let paths = PathCounts::new(&cfg, &counts.paths);
            let (cloned, report) = choose_clones(&cfg, &paths, &what, &params);
            (cloned, Some(report))
        }
        None => (Vec::new(), None),
    };
    let (layout, worth) = lay_out_with(&cfg, &cloned, &params);
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

/// What became of the functions of one name.
#[derive(Debug)]
pub struct Named<'p> {
    /// Those of the graph.
    pub in_graph: Vec<FunctionIndex>,
    /// The others of the image, with the reason.
    pub left_out: Vec<(Function<'p>, String)>,
}

impl Plan {
    /// The counts of the image that is laid out.
    ///
    /// # Errors
    /// Where there are none, with what there is instead.
    pub fn counts(&self) -> Result<&ImageCounts, Error> {
        Ok(self.found.of(&self.image, &self.input)?)
    }

    /// What the layout rests on.
    pub fn evidence(&self) -> Option<Evidence> {
        let counted = self.recorded.as_ref().unwrap_or(&self.image);
        let counts = self.found.of(counted, &self.input).ok()?;
        Some(Evidence::of(counts, counted))
    }

    /// The text as recorded and as laid out, in pages of this size.
    pub fn heat(&self, page_bytes: u64) -> (HeatMap, HeatMap) {
        let text = heat::text_of(&self.image);
        let before = heat::before(&self.cfg, text.clone(), page_bytes);
        let (cloned, params) = (&self.cloned, &self.params);
        (before, heat::after(&self.cfg, &self.layout, cloned, params, text, page_bytes))
    }

    /// All functions of a name: those of the graph, and those that are not in it.
    ///
    /// # Errors
    /// Where the image has none, with names that hold this one.
    pub fn functions_named(&self, name: &str) -> Result<Named<'_>, Error> {
        let has_name = |index: &FunctionIndex| {
            self.cfg.function(*index).is_some_and(|f| f.names.iter().any(|own| own == name))
        };
        let all = (0u32..).take(self.cfg.functions.len()).map(FunctionIndex);
        let in_graph: Vec<FunctionIndex> = all.filter(has_name).collect();
        let mut rest: Vec<Function<'_>> =
            self.image.functions().iter().filter(|function| function.name == name).collect();
        rest.sort_by_key(|function| function.address);
        rest.dedup_by_key(|function| function.address);
        let same_name = rest.len();
        let begins: HashSet<ImageAddr> = in_graph
            .iter()
            .filter_map(|index| Some(self.cfg.function(*index)?.blocks.first()?.address))
            .collect();
        rest.retain(|function| !begins.contains(&function.address));
        if in_graph.is_empty() && rest.is_empty() {
            return Err(self.no_such(name));
        }
        let mut left_out = Vec::new();
        if !rest.is_empty() {
            let blocks = image::blocks::read(&self.image)?;
            let mapped: HashSet<ImageAddr> = blocks.iter().map(|entry| entry.address()).collect();
            for function in rest {
                let is_mapped = mapped.contains(&function.address);
                left_out.push((function, self.why_left_out(function, same_name, is_mapped)?));
            }
        }
        Ok(Named { in_graph, left_out })
    }

    /// That a name is none of a function.
    fn no_such(&self, name: &str) -> Error {
        let functions = self.image.functions();
        let part = functions.iter().map(|f| f.name).filter(|own| own.contains(name)).take(3);
        let like = part.collect::<Vec<_>>().join(", ");
        let hint = if like.is_empty() { like } else { format!("; did you mean {like}?") };
        Error::NoFunction { image: self.image.path().to_owned(), name: name.to_owned(), hint }
    }

    /// Why a function is not in the graph. So many have its name, and the address map has its
    /// blocks or not.
    fn why_left_out(
        &self,
        function: Function<'_>,
        same_name: usize,
        is_mapped: bool,
    ) -> Result<String, Error> {
        if self.stale.is_some() {
            return Ok("no executed function of the recorded build was recognised as it".to_owned());
        }
        let inside = |address: ImageAddr| address >= function.address && address < function.end();
        let counts = self.counts()?;
        let counted =
            counts.branches.iter().any(|b| b.from.is_some_and(inside) || b.to.is_some_and(inside))
                || counts.fall_throughs.iter().any(|range| inside(range.first))
                || counts.samples.iter().any(|sample| inside(sample.address));
        Ok(if !counted {
            "nothing was counted in it".to_owned()
        } else if self.has_blocks && !is_mapped {
            "the address map does not know its blocks: it was built without \
             -fbasic-block-address-map"
                .to_owned()
        } else if same_name > 1 {
            format!(
                "{same_name} functions have this name, and a list of names cannot tell them \
                 apart; build with -funique-internal-linkage-names"
            )
        } else {
            let reasons = self.build.left_out.iter();
            let reasons: Vec<String> =
                reasons.map(|(reason, count)| format!("{reason} ({count})")).collect();
            format!(
                "its counts became no frequency of its blocks; functions were left out for: {}",
                reasons.join(", ")
            )
        })
    }
}
