//! How are closures of functions, and what a build holds of them, told: as a tree, lines, a graph
//! for Graphviz, and JSON? The schemas stand in `docs/reference/livepatch.md`.

mod build;

pub use build::{Flags, differences, differences_json, left_out, notes, summary, summary_json};

use crate::visible;
use livepatch::possible::{CLANG_REMEDY, Possible, RELIANCES, Relation};
use livepatch::{Analysis, Closure, Edge, Member, NodeId, Source, Touched};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Version of the JSON schemas.
const VERSION: u32 = 1;

/// A closure with what is told beside it.
#[derive(Clone, Copy)]
pub struct Told<'a> {
    /// The build.
    pub analysis: &'a Analysis,
    /// The functions that change together.
    pub closure: &'a Closure,
    /// What a patch touches; nothing without one.
    pub touched: &'a Touched,
    /// Callers and callees that may rely on a member; `None` where nobody asked.
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

/// One function a line: object file, name, source place; of possible ones also what they are to
/// which member.
pub fn flat(told: &Told<'_>) -> String {
    let columns = |node| {
        let place = place(told.analysis, node).unwrap_or_default();
        let (unit, name) = (shown_unit(told.analysis, node), shown_name(told.analysis, node));
        format!("{unit}\t{name}\t{}", visible(&place))
    };
    let members = told.closure.members.iter().map(|member| columns(member.node) + "\n");
    let possible = told.possible.unwrap_or_default().iter().map(|found| {
        let (relation, member) = (relation(found), shown_name(told.analysis, found.member));
        format!("{}\tpossible {relation} of {member}\n", columns(found.other))
    });
    members.chain(possible).collect()
}

fn relation(found: &Possible) -> &'static str {
    match found.relation {
        Relation::Caller => "caller",
        Relation::Callee => "callee",
    }
}

/// The functions by the way each was reached, and how many there are.
pub fn tree(told: &Told<'_>) -> String {
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

/// The closure as JSON.
pub fn json(told: &Told<'_>) -> Value {
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
        let mut value = function_json(analysis, found.other);
        if let Some(object) = value.as_object_mut() {
            object.insert("of".into(), json!(name(analysis, found.member)));
            object.insert("relation".into(), json!(relation(found)));
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
        "schema": "planish-livepatch", "version": VERSION,
        "members": told.closure.members.iter().map(member).collect::<Vec<_>>(),
        "possible": told.possible.unwrap_or_default().iter().map(possible).collect::<Vec<_>>(),
        "patch_outside_functions": elsewhere,
        "skipped": files_json(&analysis.skipped), "may_be_stale": files_json(&analysis.doubts),
        "patch_files_unread": told.touched.unread,
    })
}

fn files_json(files: &[livepatch::Skipped]) -> Vec<Value> {
    files
        .iter()
        .map(|it| json!({ "path": it.path.display().to_string(), "reason": it.reason }))
        .collect()
}

/// The closure as a graph for Graphviz.
pub fn dot(told: &Told<'_>) -> String {
    let analysis = told.analysis;
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let labelled = |node| {
        let said = format!("{}\n{}", shown_name(analysis, node), shown_unit(analysis, node));
        quoted(&said).replace('\n', "\\n")
    };
    let mut text = String::from("digraph closure {\n  rankdir=LR;\n  node [shape=box];\n");
    for member in &told.closure.members {
        let style = if has_code(analysis, member.node) { "solid" } else { "dashed" };
        let label = labelled(member.node);
        let _ = writeln!(text, "  n{} [label={label}, style={style}];", member.node.0);
    }
    for member in &told.closure.members {
        for edge in analysis.graph.leaving(member.node).filter(|edge| told.closure.holds(edge.to)) {
            let label = quoted(edge.reason.word());
            let _ = writeln!(text, "  n{} -> n{} [label={label}];", edge.from.0, edge.to.0);
        }
    }
    for (number, found) in told.possible.unwrap_or_default().iter().enumerate() {
        let label = labelled(found.other);
        let _ = writeln!(text, "  p{number} [label={label}, style=dotted];");
        let member = format!("n{}", found.member.0);
        let (from, to) = match found.relation {
            Relation::Caller => (member, format!("p{number}")),
            Relation::Callee => (format!("p{number}"), member),
        };
        let _ = writeln!(text, "  {from} -> {to} [label=\"possible\", style=dotted];");
    }
    text + "}\n"
}

/// Says when nothing of a closure has code: stale dumps, or names that were never emitted.
pub fn no_code(told: &Told<'_>) -> Option<&'static str> {
    let members = &told.closure.members;
    let empty = members.iter().all(|member| !has_code(told.analysis, member.node));
    (empty && !members.is_empty())
        .then_some("nothing of this closure has code in the objects; are the dumps of this build?")
}
