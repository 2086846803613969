//! What `planish clones` prints.

use super::Shape;
use crate::cli::Format;
use crate::output;
use clones::possible::{CLANG_REMEDY, Possible, RELIANCES, Relation};
use clones::{
    Analysis, Closure, Difference, Differences, Edge, Member, NodeId, Reason, Source, Touched,
};
use report::visible;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Version of the JSON schema, which stands in `docs/reference/clones.md`.
const VERSION: u32 = 1;
/// Notes on left-out files and disagreements go on for so many lines.
const NOTES: usize = 5;
/// The summary names so many functions with large closures.
const LARGEST: usize = 10;

/// A closure with what is told beside it.
pub struct Told<'a> {
    pub analysis: &'a Analysis,
    pub closure: &'a Closure,
    pub touched: &'a Touched,
    /// `None` where nobody asked.
    pub possible: Option<&'a [Possible]>,
}

fn name(analysis: &Analysis, node: NodeId) -> &str {
    analysis.graph.get(node).map_or("?", |node| &node.name)
}

fn unit(analysis: &Analysis, node: NodeId) -> &str {
    let unit = analysis.graph.get(node).and_then(|node| analysis.units.get(node.unit.0 as usize));
    unit.map_or("?", String::as_str)
}

/// For lines: what `name` and `unit` say, with nothing in it that ends the line.
fn shown_name(analysis: &Analysis, node: NodeId) -> Cow<'_, str> {
    visible(name(analysis, node))
}

fn shown_unit(analysis: &Analysis, node: NodeId) -> Cow<'_, str> {
    visible(unit(analysis, node))
}

fn place(analysis: &Analysis, node: NodeId) -> Option<String> {
    let place = analysis.graph.get(node)?.place.as_ref()?;
    Some(format!("{}:{}", place.file, place.line))
}

fn has_code(analysis: &Analysis, node: NodeId) -> bool {
    analysis.graph.get(node).is_some_and(|node| node.has_code)
}

/// `name  [object]  file:line`, with a word where the name has no code.
fn label(analysis: &Analysis, node: NodeId) -> String {
    let code = if has_code(analysis, node) { "" } else { ", no code of its own" };
    let place =
        place(analysis, node).map_or(String::new(), |place| format!(" ({})", visible(&place)));
    format!("{}{place} [{}{code}]", shown_name(analysis, node), shown_unit(analysis, node))
}

fn evidence(edge: &Edge) -> String {
    let word = |(source, count): (Source, u32)| match count {
        1 => source.word().to_owned(),
        count => format!("{} × {count}", source.word()),
    };
    edge.evidence().map(word).collect::<Vec<_>>().join(", ")
}

/// Prints a closure.
pub fn closure(told: &Told<'_>, shape: Shape) -> anyhow::Result<()> {
    match shape {
        Shape::Tree => print!("{}", tree(told)),
        Shape::Flat => {
            told.closure.members.iter().for_each(|member| {
                let place = place(told.analysis, member.node).unwrap_or_default();
                let (unit, name) = (
                    shown_unit(told.analysis, member.node),
                    shown_name(told.analysis, member.node),
                );
                println!("{unit}\t{name}\t{}", visible(&place));
            });
            told.possible
                .unwrap_or_default()
                .iter()
                .for_each(|found| flat_possible(told.analysis, found));
        }
        Shape::Json => output::print_json(&to_json(told))?,
        Shape::Dot => print!("{}", dot(told)),
    }
    Ok(())
}

/// A line with a fourth column, which says what the function is to which member.
fn flat_possible(analysis: &Analysis, found: &Possible) {
    let (unit, name) = (shown_unit(analysis, found.other), shown_name(analysis, found.other));
    let place = place(analysis, found.other).unwrap_or_default();
    let relation = if found.relation == Relation::Caller { "caller" } else { "callee" };
    let member = shown_name(analysis, found.member);
    println!("{unit}\t{name}\t{}\tpossible {relation} of {member}", visible(&place));
}

fn tree(told: &Told<'_>) -> String {
    let mut children: BTreeMap<NodeId, Vec<&Member>> = BTreeMap::new();
    for member in &told.closure.members {
        if let Some(step) = &member.step {
            children.entry(step.from).or_default().push(member);
        }
    }
    let mut text = String::new();
    let roots = told.closure.members.iter().filter(|member| member.step.is_none());
    // A stack, not recursion: chains of inlining may be long.
    let mut waiting: Vec<(usize, &Member)> = roots.map(|member| (0, member)).collect();
    waiting.reverse();
    while let Some((depth, member)) = waiting.pop() {
        let indent = "  ".repeat(depth);
        let how = member
            .step
            .as_ref()
            .map_or(String::new(), |step| format!("{}: ", step.edge.reason.word()));
        let shown = member
            .step
            .as_ref()
            .map_or(String::new(), |step| format!("  <{}>", evidence(&step.edge)));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{indent}{how}{}{shown}", label(told.analysis, member.node));
        let next = children.get(&member.node).into_iter().flatten().rev();
        waiting.extend(next.map(|member| (depth + 1, *member)));
    }
    let with_code =
        told.closure.members.iter().filter(|member| has_code(told.analysis, member.node)).count();
    let units: BTreeSet<&str> =
        told.closure.members.iter().map(|member| unit(told.analysis, member.node)).collect();
    let _ = writeln!(
        text,
        "\n{} functions, {with_code} with code of their own, in {} object files",
        told.closure.members.len(),
        units.len()
    );
    possible_lines(told, &mut text);
    text
}

fn possible_lines(told: &Told<'_>, text: &mut String) {
    let Some(possible) = told.possible else {
        let _ = writeln!(
            text,
            "callers and callees that may rely on one of them without holding its code: --possible"
        );
        return;
    };
    if possible.is_empty() {
        let _ = writeln!(text, "\nno caller or callee outside that may rely on one of them");
        return;
    }
    let _ = writeln!(text, "\npossible, without proof; what rules them out:");
    for found in possible {
        let clang = is_clang(told.analysis, found.other);
        let flags: Vec<&str> = match clang {
            true => vec![CLANG_REMEDY],
            false => reliances(found.relation).map(|(_, flag)| flag).collect(),
        };
        let how = match found.relation {
            Relation::Caller => "calls",
            Relation::Callee => "is called by",
        };
        let _ = writeln!(
            text,
            "  {} {how} {}: {}",
            label(told.analysis, found.other),
            shown_name(told.analysis, found.member),
            flags.join(" ")
        );
    }
}

fn is_clang(analysis: &Analysis, node: NodeId) -> bool {
    let unit = analysis.graph.get(node).map(|node| node.unit.0 as usize);
    unit.and_then(|unit| analysis.is_clang.get(unit)).copied().unwrap_or(false)
}

fn reliances(relation: Relation) -> impl Iterator<Item = (&'static str, &'static str)> {
    RELIANCES
        .iter()
        .filter(move |(side, _, _)| *side == relation)
        .map(|(_, what, flag)| (*what, *flag))
}

fn function_json(analysis: &Analysis, node: NodeId) -> Value {
    json!({
        "name": name(analysis, node), "object": unit(analysis, node), "place": place(analysis, node),
        "has_code": has_code(analysis, node),
    })
}

fn to_json(told: &Told<'_>) -> Value {
    let analysis = told.analysis;
    let member = |member: &Member| {
        let mut value = function_json(analysis, member.node);
        if let (Some(step), Some(object)) = (&member.step, value.as_object_mut()) {
            object.insert("because_of".into(), json!(name(analysis, step.from)));
            object.insert("because_of_object".into(), json!(unit(analysis, step.from)));
            object.insert("reason".into(), json!(step.edge.reason.word()));
            let evidence: BTreeMap<&str, u32> =
                step.edge.evidence().map(|(source, count)| (source.word(), count)).collect();
            object.insert("evidence".into(), json!(evidence));
        }
        value
    };
    let possible = |found: &Possible| {
        let clang = is_clang(analysis, found.other);
        let flags: Vec<Value> = reliances(found.relation)
            .map(|(what, flag)| json!({ "relies_on": what, "flag": (!clang).then_some(flag) }))
            .collect();
        let relation = if found.relation == Relation::Caller { "caller" } else { "callee" };
        let mut value = function_json(analysis, found.other);
        if let Some(object) = value.as_object_mut() {
            object.insert("of".into(), json!(name(analysis, found.member)));
            object.insert("relation".into(), json!(relation));
            object.insert("may_rely_on".into(), json!(flags));
        }
        value
    };
    let elsewhere: Vec<Value> = told
        .touched
        .elsewhere
        .iter()
        .map(|(file, line)| json!({ "file": file, "line": line }))
        .collect();
    json!({
        "schema": "planish-clones", "version": VERSION,
        "members": told.closure.members.iter().map(member).collect::<Vec<_>>(),
        "possible": told.possible.unwrap_or_default().iter().map(possible).collect::<Vec<_>>(),
        "patch_outside_functions": elsewhere,
        "skipped": skipped_json(analysis), "may_be_stale": files_json(&analysis.doubts),
        "patch_files_unread": told.touched.unread,
    })
}

fn skipped_json(analysis: &Analysis) -> Vec<Value> {
    files_json(&analysis.skipped)
}

fn files_json(files: &[clones::Skipped]) -> Vec<Value> {
    files
        .iter()
        .map(|it| json!({ "path": it.path.display().to_string(), "reason": it.reason }))
        .collect()
}

fn dot(told: &Told<'_>) -> String {
    let analysis = told.analysis;
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let mut text = String::from("digraph closure {\n  rankdir=LR;\n  node [shape=box];\n");
    for member in &told.closure.members {
        let style = if has_code(analysis, member.node) { "solid" } else { "dashed" };
        let label = quoted(&format!(
            "{}\n{}",
            shown_name(analysis, member.node),
            shown_unit(analysis, member.node)
        ));
        let label = label.replace('\n', "\\n");
        let _ = writeln!(text, "  n{} [label={label}, style={style}];", member.node.0);
    }
    for member in &told.closure.members {
        for edge in analysis.graph.leaving(member.node).filter(|edge| told.closure.holds(edge.to)) {
            let label = quoted(edge.reason.word());
            let _ = writeln!(text, "  n{} -> n{} [label={label}];", edge.from.0, edge.to.0);
        }
    }
    for (number, found) in told.possible.unwrap_or_default().iter().enumerate() {
        let label = quoted(&format!(
            "{}\n{}",
            shown_name(analysis, found.other),
            shown_unit(analysis, found.other)
        ));
        let _ = writeln!(text, "  p{number} [label={}, style=dotted];", label.replace('\n', "\\n"));
        let member = format!("n{}", found.member.0);
        let (from, to) = match found.relation {
            Relation::Caller => (member, format!("p{number}")),
            Relation::Callee => (format!("p{number}"), member),
        };
        let _ = writeln!(text, "  {from} -> {to} [label=\"possible\", style=dotted];");
    }
    text + "}\n"
}

/// Prints what a build holds.
pub fn summary(analysis: &Analysis, shape: Shape, quiet: bool) -> anyhow::Result<()> {
    let mut reasons: BTreeMap<&Reason, usize> = BTreeMap::new();
    for edge in analysis.graph.edges() {
        *reasons.entry(&edge.reason).or_default() += 1;
    }
    let covered: BTreeMap<&str, usize> = Source::ALL
        .iter()
        .zip(analysis.covered)
        .map(|(source, units)| (source.word(), units))
        .collect();
    let sizes = clones::sizes(&analysis.graph, LARGEST);
    let disagreements = analysis.disagreements();
    if shape == Shape::Json {
        let largest = |&(node, size): &(NodeId, usize)| {
            let mut value = function_json(analysis, node);
            value.as_object_mut().map(|object| object.insert("with_code".into(), json!(size)));
            value
        };
        let closures = json!({
            "functions": sizes.functions, "mean": sizes.mean, "median": sizes.median, "p95": sizes.p95,
            "largest": sizes.largest.iter().map(largest).collect::<Vec<_>>(),
        });
        let reasons: BTreeMap<&str, usize> =
            reasons.iter().map(|(reason, count)| (reason.word(), *count)).collect();
        let disagreement = |it: &clones::Disagreement| {
            json!({
                "callee": name(analysis, it.callee), "caller": name(analysis, it.caller),
                "object": unit(analysis, it.caller), "says": it.says.word(), "silent": it.silent.word(),
            })
        };
        let told = json!({
            "schema": "planish-clones-summary", "version": VERSION, "object_files": analysis.units.len(),
            "functions": analysis.graph.nodes().len(), "ties": reasons, "object_files_by_source": covered,
            "closures": closures,
            "disagreements": disagreements.iter().map(disagreement).collect::<Vec<_>>(),
            "skipped": skipped_json(analysis), "may_be_stale": files_json(&analysis.doubts),
        });
        output::print_json(&told)?;
        return Ok(());
    }
    println!("{} object files, {} functions", analysis.units.len(), analysis.graph.nodes().len());
    println!("object files with each source:");
    covered.iter().for_each(|(source, units)| println!("  {source:<12} {units:>8}"));
    println!("ties:");
    reasons.iter().for_each(|(reason, count)| println!("  {:<14} {count:>8}", reason.word()));
    println!(
        "functions with code that change with a function: mean {:.2}, median {}, 95 % up to {}; \
         the most:",
        sizes.mean, sizes.median, sizes.p95
    );
    sizes
        .largest
        .iter()
        .for_each(|&(node, size)| println!("  {size:>6}  {}", label(analysis, node)));
    println!("disagreements between sources: {}", disagreements.len());
    for it in disagreements.iter().take(20) {
        println!(
            "  {} inlined into {}: {} says so, {} does not",
            name(analysis, it.callee),
            label(analysis, it.caller),
            it.says.word(),
            it.silent.word()
        );
    }
    if disagreements.len() > 20 {
        println!("  … all with --format json");
    }
    if !quiet {
        notes(analysis, &Touched::default());
    }
    Ok(())
}

/// Says when nothing of a closure has code: stale dumps, or names that were never emitted.
pub fn no_code(analysis: &Analysis, closure: &Closure) {
    let empty = closure.members.iter().all(|member| !has_code(analysis, member.node));
    if empty && !closure.members.is_empty() {
        eprintln!(
            "planish: nothing of this closure has code in the objects; are the dumps of this \
             build?"
        );
    }
}

/// Says on standard error what was left out.
pub fn notes(analysis: &Analysis, touched: &Touched) {
    for (file, line) in &touched.elsewhere {
        eprintln!(
            "planish: {file}:{line} lies in no function of this build: what changes with it is \
             not known"
        );
    }
    for file in &touched.unread {
        eprintln!(
            "planish: {file} cannot be read here: each line of the patch counts for the function \
             that begins last before it; types, macros and data between functions are not told \
             apart"
        );
    }
    left_out(analysis);
    if analysis.graph.nodes().all(|(_, node)| !node.has_code) {
        eprintln!("planish: no object here has symbols of functions; is this build stripped?");
    }
    let dumps = Source::ALL.iter().zip(analysis.covered);
    let has = |wanted: &[Source]| {
        dumps.clone().any(|(source, units)| wanted.contains(source) && units > 0)
    };
    if !has(&[Source::IpaClones, Source::Remarks]) {
        eprintln!(
            "planish: no dumps of the compiler: build with gcc -fdump-ipa-clones \
             -fdump-ipa-icf-details or clang -fsave-optimization-record to see what debug \
             information does not show"
        );
    }
}

/// Says on standard error which files were not used, and which may be of another build.
pub fn left_out(analysis: &Analysis) {
    for (files, what) in [(&analysis.doubts, "may be stale"), (&analysis.skipped, "left out")] {
        for file in files.iter().take(NOTES) {
            eprintln!("planish: {} {what}: {}", file.path.display(), file.reason);
        }
        if let Some(more) = files.len().checked_sub(NOTES).filter(|more| *more > 0) {
            eprintln!(
                "planish: {more} more files {what}; planish clones BUILD_DIR --format json names \
                 all"
            );
        }
    }
}

/// Prints how closures differ.
pub fn differences(found: &Differences, format: Format) -> anyhow::Result<()> {
    let pair = |(object, name): &(String, String)| json!({ "object": object, "name": name });
    if format == Format::Json {
        let row = |it: &Difference| {
            json!({
                "object": it.function.0, "name": it.function.1,
                "lost": it.lost.iter().map(pair).collect::<Vec<_>>(),
                "gained": it.gained.iter().map(pair).collect::<Vec<_>>(),
            })
        };
        let rows: Vec<Value> = found.functions.iter().map(row).collect();
        let told = json!({
            "schema": "planish-clones-diff", "version": VERSION, "compared": found.compared, "functions": rows,
        });
        output::print_json(&told)?;
        return Ok(());
    }
    for it in &found.functions {
        println!("{} [{}]", it.function.1, it.function.0);
        it.lost.iter().for_each(|(object, name)| println!("  - {name} [{object}]"));
        it.gained.iter().for_each(|(object, name)| println!("  + {name} [{object}]"));
    }
    println!("{} of {} functions have another closure", found.functions.len(), found.compared);
    Ok(())
}
