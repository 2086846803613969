//! How does a plan of a layout become the plain value that is told?

use super::{Book, LayoutSummary, Turned, TurnedFunction, TurnedLine, VERSION, Worth};
use crate::{Evidence, counted};
use image::Image;
use layout::{Account, Observed, Plan, Totals, Unused};

/// Percent of branches into the middle of blocks from which on the image is said to be another than
/// the recorded one.
const DUBIOUS_PCT: f64 = 1.0;

impl LayoutSummary {
    /// Of an image in which nothing was counted.
    pub fn nothing(image: &Image) -> LayoutSummary {
        LayoutSummary {
            schema: "planish-layout".to_owned(),
            version: VERSION,
            binary: image.path().display().to_string(),
            build_id: image.build_id().map(ToString::to_string),
            observed: "nothing".to_owned(),
            evidence: Some(Evidence::nothing()),
            ..LayoutSummary::default()
        }
    }

    /// The plan as a plain value, no file written yet.
    pub fn of(plan: &Plan) -> LayoutSummary {
        let (worth, build) = (&plan.worth, &plan.build);
        let evidence = plan.evidence().map(|evidence| Evidence::from(&evidence));
        let left_out = build.left_out.iter().map(|(reason, &count)| (reason.to_string(), count));
        let unusable = build.unusable.iter().map(|(reason, &count)| (reason.to_string(), count));
        LayoutSummary {
            schema: "planish-layout".to_owned(),
            version: VERSION,
            binary: plan.image.path().display().to_string(),
            build_id: plan.image.build_id().map(ToString::to_string),
            observed: build.observed.to_string(),
            mapped_functions: build.mapped_functions,
            functions: worth.functions,
            clusters: worth.clusters,
            hot_blocks: (worth.hot_blocks, worth.hot_bytes),
            cold_blocks: (worth.cold_blocks, worth.cold_bytes),
            clones: worth.clones,
            before: of(&worth.before),
            after: of(&worth.after),
            turned: Some(turned(plan)),
            books: vec![
                ("branches".to_owned(), book(&build.branches)),
                ("ranges".to_owned(), book(&build.fall_throughs)),
                ("samples".to_owned(), book(&build.samples)),
            ],
            left_out: left_out.chain(unusable).collect(),
            warnings: warnings(plan, evidence.as_ref()),
            evidence,
            files: Vec::new(),
        }
    }
}

/// Source lines that are told of.
const MOST_LINES: usize = 50;

fn turned(plan: &Plan) -> Turned {
    let found = plan.turned(MOST_LINES);
    let name = |index: layout::FunctionIndex| {
        let function = plan.cfg.function(index);
        function.and_then(|function| function.names.first()).cloned().unwrap_or_default()
    };
    let line = |one: &layout::Straightened| TurnedLine {
        function: name(one.function),
        file: one.place.as_ref().map(|(file, _)| file.clone()),
        line: one.place.as_ref().map_or(0, |(_, line)| *line),
        executions: one.executions,
    };
    let function = |one: &layout::FunctionTurned| TurnedFunction {
        name: name(one.function),
        share: one.executed_bytes as f64 / found.executed_bytes.max(1) as f64,
        taken: one.taken,
    };
    Turned {
        functions: found.functions.iter().map(function).collect(),
        to_fall_through: found.to_fall_through,
        to_taken: found.to_taken,
        lines: found.straightened.iter().map(line).collect(),
    }
}

/// What must be known of a layout.
fn warnings(plan: &Plan, evidence: Option<&Evidence>) -> Vec<String> {
    let mut warnings: Vec<String> =
        evidence.and_then(|evidence| evidence.warning.clone()).into_iter().collect();
    let paths = plan.counts().map_or(0, |counts| counts.paths.len());
    if plan.clone.is_some() && paths == 0 {
        warnings.push(
            "nothing was cloned, since the counts have no paths; give the recording itself, \
             or counts of planish aggregate --paths"
                .to_owned(),
        );
    }
    if let Some(clone) = plan.clone.filter(|clone| clone.over_budget > 0) {
        warnings.push(format!(
            "{} would save branches too, but the clones' budget of {} is spent \
             (--clone-budget)",
            counted(clone.over_budget, "path", "paths"),
            counted(clone.budget_bytes, "byte", "bytes")
        ));
    }
    let told = plan.build.told_by_module;
    if told > 0 {
        warnings.push(format!(
            "{told} functions share their names with others; the cc profile tells them apart \
             by their files, which clang heeds where the relink has -g1 or more, too; an \
             order of symbols cannot tell them apart, so the parts of one name stand together"
        ));
    }
    if plan.worth.unknown > 0 {
        let blocks = counted(plan.worth.unknown, "block or edge", "blocks or edges");
        warnings.push(format!("{blocks} of clones could not be placed"));
    }
    let inferred = plan.build.inferred.iter().chain(plan.stale.iter().map(|stale| &stale.inferred));
    let bounded: u64 = inferred.map(|report| report.bounded_functions).sum();
    if bounded > 0 {
        warnings.push(format!(
            "in {} flow repair ended before it found the nearest counts that fit",
            counted(bounded, "large function", "large functions")
        ));
    }
    if plan.build.observed == Observed::SamplesOnly {
        warnings.push(
            "the recording has no branch stacks, so all edges are guessed from samples; \
             planish record --branches=hardware or --branches=emulated gives them"
                .to_owned(),
        );
    }
    let dubious = plan.build.dubious_pct();
    if dubious >= DUBIOUS_PCT {
        warnings.push(format!(
            "{dubious:.1} % of the branches go into the middle of a block, which none does in \
             the program that was recorded: this is probably another build, and its order is \
             wrong; record it again, or give the recorded one by --recorded"
        ));
    }
    if let Some(stale) = &plan.stale {
        // What was left out for its name is not in the graph that was carried over.
        let shared_pct = plan.build.shared_name_pct();
        let matched_pct = stale.matched_pct() * (1.0 - shared_pct / 100.0);
        let shared = plan.build.left_out.get(&Unused::DuplicateName).copied().unwrap_or(0);
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
    if !plan.has_blocks {
        warnings.push(
            "the binary has no address map of its blocks, so functions are ordered by calls \
             and branches alone; scores and pages count each function as two blocks"
                .to_owned(),
        );
    }
    warnings
}
fn of(totals: &Totals) -> Worth {
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
