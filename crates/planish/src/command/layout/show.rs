//! `planish layout show`: the map of the text before and after, and functions as they are laid out.

use super::{Plan, Source, VERSION, from};
use crate::cli::{FINE, Format, Global};
use crate::command::compare::tell::screen;
use crate::output::{self, print};
use anyhow::anyhow;
use image::ImageAddr;
use layout::heat::{self, Heat, HeatMap};
use layout::write::order::{Part, symbol};
use layout::{Block, BlockIndex, Function, FunctionIndex, FunctionLayout, Placed};
use report::layout::{BlockView, FunctionView, HeatView, LayoutView, PageView};
use std::collections::HashSet;
use std::path::PathBuf;

/// Size of the pages that are shown.
const PAGE_BYTES: u64 = 4 << 10;

/// Arguments of `planish layout show`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub from: Source,
    /// Show the functions of this name: blocks, clusters, frequencies, edges, or why it is left
    /// out (repeat for more)
    #[arg(long, value_name = "NAME")]
    pub function: Vec<String>,
    /// Write the map as a picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write the map and the functions as a page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Prints and writes what was asked for.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let outputs: Vec<PathBuf> = args.svg.iter().chain(&args.html).cloned().collect();
    super::refuse_inputs(&args.from, &outputs)?;
    let plan = from(&args.from, false, global)?;
    let mut view = LayoutView {
        schema: "planish-layout-show".to_owned(),
        version: VERSION,
        binary: plan.image.path().display().to_string(),
        heat: maps(&plan),
        functions: Vec::new(),
    };
    for name in &args.function {
        view.functions.extend(functions(&plan, name)?);
    }
    if let Some(path) = &args.svg {
        let text = report::layout::picture(&view);
        output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    if let Some(path) = &args.html {
        let text = report::layout::page(&view);
        output::write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    // What goes to standard output stands there alone.
    if outputs.iter().any(|path| path.as_os_str() == "-") {
        return Ok(FINE);
    }
    match args.format {
        Format::Json => print(&(report::json(&serde_json::to_string(&view)?).into_owned() + "\n"))?,
        Format::Text if view.functions.is_empty() => print(&report::layout::heat(&view, screen()))?,
        Format::Text => {
            for function in &view.functions {
                print(&report::layout::function(function, screen()))?;
            }
        }
    }
    Ok(FINE)
}

/// The text as recorded and as laid out.
pub fn maps(plan: &Plan) -> Vec<HeatView> {
    let text = heat::text_of(&plan.image);
    let before = heat::before(&plan.cfg, text.clone(), PAGE_BYTES);
    let after = heat::after(&plan.cfg, &plan.layout, &plan.cloned, &plan.params, text, PAGE_BYTES);
    vec![heat_view("as recorded", &before), heat_view("as laid out", &after)]
}

fn heat_view(name: &str, map: &HeatMap) -> HeatView {
    let word = |heat| match heat {
        Heat::Hot => "hot",
        Heat::Warm => "warm",
        Heat::Cold => "cold",
    };
    let pages = map.pages.iter().map(|page| PageView {
        address: page.address.0,
        executions: u64::try_from(page.executions).unwrap_or(u64::MAX),
        executed_bytes: page.executed_bytes,
        heat: word(page.heat).to_owned(),
    });
    HeatView { name: name.to_owned(), page_bytes: map.page_bytes, pages: pages.collect() }
}

/// All functions of a name: those of the graph, then those that are not in it, with the reason.
fn functions(plan: &Plan, name: &str) -> anyhow::Result<Vec<FunctionView>> {
    let named = |function: &Function| function.names.iter().any(|own| own == name);
    let graph = plan.cfg.functions.iter().zip(0u32..).filter(|(function, _)| named(function));
    let mut views: Vec<FunctionView> =
        graph.map(|(function, index)| in_graph(plan, function, FunctionIndex(index))).collect();
    let mut rest: Vec<image::Function<'_>> =
        plan.image.functions().iter().filter(|function| function.name == name).collect();
    rest.sort_by_key(|function| function.address);
    rest.dedup_by_key(|function| function.address);
    let same_name = rest.len();
    rest.retain(|function| views.iter().all(|view| view.address != function.address.0));
    if views.is_empty() && rest.is_empty() {
        return Err(no_such(plan, name));
    }
    if !rest.is_empty() {
        let mapped: HashSet<ImageAddr> =
            image::blocks::read(&plan.image)?.iter().map(|entry| entry.address()).collect();
        for function in rest {
            let is_mapped = mapped.contains(&function.address);
            views.push(left_out(plan, function, same_name, is_mapped)?);
        }
    }
    Ok(views)
}

/// A function of the graph.
fn in_graph(plan: &Plan, function: &Function, index: FunctionIndex) -> FunctionView {
    let mut view = FunctionView {
        names: function.names.clone(),
        module: function.module.clone(),
        address: function.blocks.first().map_or(0, |block| block.address.0),
        ..FunctionView::default()
    };
    let Some((at, placed)) =
        (0u32..).zip(&plan.layout.functions).find(|(_, placed)| placed.function == index)
    else {
        view.left_out = Some("none of its blocks was executed often enough".to_owned());
        return view;
    };
    view.score = (placed.intra.before, placed.intra.after);
    let id = |block: &BlockIndex| {
        function.blocks.get(block.0 as usize).map_or(u32::MAX, |block| block.id.0)
    };
    view.paths = placed.clones.iter().map(|path| path.0.iter().map(id).collect()).collect();
    for (number, cluster) in (0u32..).zip(&placed.clusters) {
        let entry = cluster.contains(&Placed::ENTRY);
        let part = if entry { Part::Entry } else { Part::Part(number) };
        let symbol = symbol(function.names.first().map_or("", String::as_str), part);
        let place =
            plan.layout.hot.iter().position(|at_| at_.layout == at && at_.cluster == number);
        let blocks = cluster.iter().filter_map(|placed| block(function, *placed)).collect();
        view.clusters.push((symbol, place.map_or(0, |place| place as u64 + 1), blocks));
    }
    view.cold = cold(function, placed);
    view
}

fn cold(function: &Function, placed: &FunctionLayout) -> Vec<BlockView> {
    let all = (0..function.blocks.len() as u32)
        .map(|block| Placed { block: BlockIndex(block), clone: 0 });
    let rest = all.filter(|block| !placed.clusters.iter().flatten().any(|other| other == block));
    rest.filter_map(|placed| block(function, placed)).collect()
}

fn block(function: &Function, placed: Placed) -> Option<BlockView> {
    let block: &Block = function.blocks.get(placed.block.0 as usize)?;
    let mut successors: Vec<(u32, u64)> = function
        .edges
        .iter()
        .filter(|edge| edge.from == placed.block)
        .filter_map(|edge| Some((function.blocks.get(edge.to.0 as usize)?.id.0, edge.weight)))
        .collect();
    successors.sort_by_key(|&(id, weight)| (std::cmp::Reverse(weight), id));
    let marks = [
        (placed.block == BlockIndex(0), "entry"),
        (block.flags.is_landing_pad(), "landing pad"),
        (block.flags.has_return(), "returns"),
        (block.flags.has_indirect_branch(), "indirect branch"),
    ];
    let id = block.id.0;
    Some(BlockView {
        id: if placed.clone == 0 { id.to_string() } else { format!("{id}.{}", placed.clone) },
        address: block.address.0,
        size: block.size,
        frequency: (placed.clone == 0).then_some(block.frequency),
        successors: if placed.clone == 0 { successors } else { Vec::new() },
        marks: marks.iter().filter(|(is, _)| *is).map(|(_, mark)| (*mark).to_owned()).collect(),
    })
}

/// That a name is none of a function.
fn no_such(plan: &Plan, name: &str) -> anyhow::Error {
    let functions = plan.image.functions();
    let part = functions.iter().map(|f| f.name).filter(|own| own.contains(name)).take(3);
    let like = part.collect::<Vec<_>>().join(", ");
    let hint = if like.is_empty() { String::new() } else { format!("; did you mean {like}?") };
    anyhow!(
        "{}: has no function `{name}`; give the name of its symbol{hint}",
        plan.image.path().display()
    )
}

/// Why a function is not in the graph. So many have its name, and the address map has its blocks or
/// not.
fn left_out(
    plan: &Plan,
    found: image::Function<'_>,
    same_name: usize,
    is_mapped: bool,
) -> anyhow::Result<FunctionView> {
    let view = |why| FunctionView {
        names: vec![found.name.to_owned()],
        address: found.address.0,
        left_out: Some(why),
        ..FunctionView::default()
    };
    if plan.stale.is_some() {
        return Ok(view(
            "no executed function of the recorded build was recognised as it".to_owned(),
        ));
    }
    let inside = |address: ImageAddr| address >= found.address && address < found.end();
    let counts = plan.counts()?;
    let counted =
        counts.branches.iter().any(|b| b.from.is_some_and(inside) || b.to.is_some_and(inside))
            || counts.fall_throughs.iter().any(|range| inside(range.first))
            || counts.samples.iter().any(|sample| inside(sample.address));
    let why = if !counted {
        "nothing was counted in it".to_owned()
    } else if plan.has_blocks && !is_mapped {
        "the address map does not know its blocks: it was built without -fbasic-block-address-map"
            .to_owned()
    } else if same_name > 1 {
        format!(
            "{same_name} functions have this name, and a list of names cannot tell them apart; \
             build with -funique-internal-linkage-names"
        )
    } else {
        let reasons: Vec<String> = plan
            .build
            .left_out
            .iter()
            .map(|(reason, count)| format!("{reason} ({count})"))
            .collect();
        format!(
            "its counts became no frequency of its blocks; functions were left out for: {}",
            reasons.join(", ")
        )
    };
    Ok(view(why))
}
