//! How do a plan's text and functions become plain values that are shown?

use super::{BlockView, FunctionView, HeatView, LayoutView, PageView, VERSION, VerifyResult};
use layout::heat::{Heat, HeatMap};
use layout::verify::Verification;
use layout::write::check;
use layout::write::order::{Part, symbol};
use layout::{Block, BlockIndex, Error, Function, FunctionIndex, FunctionLayout, Placed, Plan};
use serde_json::json;
use std::path::Path;

/// Size of the pages that are shown.
const PAGE_BYTES: u64 = 4 << 10;

impl LayoutView {
    /// The map of the text before and after, and the functions of these names.
    ///
    /// # Errors
    /// Where the program has no function of a name.
    pub fn of(plan: &Plan, names: &[String]) -> Result<LayoutView, Error> {
        let (before, after) = plan.heat(PAGE_BYTES);
        let mut functions = Vec::new();
        for name in names {
            let named = plan.functions_named(name)?;
            functions.extend(named.in_graph.iter().filter_map(|index| in_graph(plan, *index)));
            functions.extend(named.left_out.into_iter().map(|(function, why)| FunctionView {
                names: vec![function.name.to_owned()],
                address: function.address.0,
                left_out: Some(why),
                ..FunctionView::default()
            }));
        }
        Ok(LayoutView {
            schema: "planish-layout-show".to_owned(),
            version: VERSION,
            binary: plan.image.path().display().to_string(),
            heat: vec![heat_view("as recorded", &before), heat_view("as laid out", &after)],
            functions,
        })
    }
}

impl VerifyResult {
    /// Of a program in which nothing was counted, so that it has no layout to have.
    pub fn nothing(new: &Path) -> VerifyResult {
        VerifyResult {
            schema: "planish-layout-verify".to_owned(),
            version: VERSION,
            binary: new.display().to_string(),
            applied: true,
            ..VerifyResult::default()
        }
    }

    /// What was found in the program `binary`.
    pub fn of(found: &Verification, binary: &Path) -> VerifyResult {
        let first = found.deviations.iter();
        VerifyResult {
            schema: "planish-layout-verify".to_owned(),
            version: VERSION,
            binary: binary.display().to_string(),
            applied: found.is_applied(),
            asked: found.asked,
            found: found.found,
            in_order: found.in_order,
            blocks: (found.compared, found.same_blocks),
            not_checked: (found.not_checked, found.not_checked_executions, found.executions),
            hot_bytes: (found.hot_bytes, found.hot_span),
            deviations: found.deviation_count,
            first: first.map(|(symbol, what)| (symbol.clone(), what.to_string())).collect(),
        }
    }
}

/// What is wrong with a cc profile, as JSON.
pub fn check_json(findings: &[check::Finding]) -> serde_json::Value {
    let list = findings.iter().map(|f| {
        let fatal = f.severity == check::Severity::Fatal;
        let newer = f.severity == check::Severity::Newer;
        json!({
            "fatal": fatal, "newer": newer, "line": f.line, "function": f.function, "what": f.what,
        })
    });
    let list: Vec<_> = list.collect();
    json!({ "schema": "planish-layout-check", "version": VERSION, "findings": list })
}

/// What is wrong with the cc profile `path`, a line a finding.
pub fn check_text(path: &Path, findings: &[check::Finding]) -> String {
    let path = path.display().to_string();
    let line = |finding: &check::Finding| {
        let how = match finding.severity {
            check::Severity::Fatal => "clang ends or stops reading here",
            check::Severity::Ignored => "without effect",
            check::Severity::Newer => "needs a clang newer than 22",
        };
        format!("{}: {finding} ({how})\n", crate::visible(&path))
    };
    findings.iter().map(line).collect()
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

/// A function of the graph.
fn in_graph(plan: &Plan, index: FunctionIndex) -> Option<FunctionView> {
    let function = plan.cfg.function(index)?;
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
        return Some(view);
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
    Some(view)
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
