//! Trees of calls, as indented lines, JSON and folded stacks.

use super::names::is_called;
use super::{Selected, bracketed, demangled};
use calltrees::rows::of_event;
use calltrees::{FunctionId, NodeId, Recorded, Tree, Weight};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// From which end stacks are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the outermost frame inwards.
    Calls,
    /// From a function outwards.
    Callers,
    /// From a function inwards.
    Callees,
}

/// Which tree is told.
#[derive(Clone, Debug)]
pub struct Shape {
    /// From which end.
    pub direction: Direction,
    /// Functions that the callers or callees are of.
    pub of: Vec<FunctionId>,
    /// Frames from the root at most; 0: all.
    pub depth: usize,
}

impl Shape {
    /// Callers or callees of the functions with a name, linkage or as written in the source, with
    /// or without parameters, the type that is returned and a template's arguments.
    ///
    /// # Errors
    /// Where no function has it, with some that come near.
    pub fn of_function(
        recorded: &Recorded,
        direction: Direction,
        name: &str,
    ) -> Result<Shape, String> {
        if name.trim().is_empty() {
            return Err(
                "expected the name of a function, found none; `planish report hot` lists them"
                    .to_owned(),
            );
        }
        let functions = (0u32..).zip(recorded.names.functions());
        let found = functions.clone().filter(|(_, function)| is_called(&function.name, name));
        let of: Vec<FunctionId> = found.map(|(number, _)| FunctionId(number)).collect();
        if of.is_empty() {
            let near = functions.map(|(_, function)| demangled(&function.name));
            let mut near: Vec<String> = near.filter(|read| read.contains(name)).collect();
            near.sort();
            near.dedup();
            near.truncate(5);
            let hint = if near.is_empty() {
                "`planish report hot --limit 0` lists all".to_owned()
            } else {
                format!("do you mean {}?", near.join(", "))
            };
            return Err(format!("no sample has a function called {name}; {hint}"));
        }
        Ok(Shape { direction, of, depth: 0 })
    }

    fn tree(&self, selected: &Selected<'_>) -> Tree {
        let stacks = of_event(selected.recorded, selected.event)
            .map(|stack| (&*stack.functions, stack.weight));
        let is_it = |function: FunctionId| self.of.contains(&function);
        match self.direction {
            Direction::Calls => Tree::of_calls(stacks),
            Direction::Callers => Tree::of_callers(stacks, is_it),
            Direction::Callees => Tree::of_callees(stacks, is_it),
        }
    }
}

/// A node that is told, with how deep it lies.
struct Told {
    id: NodeId,
    depth: usize,
}

/// The nodes to tell, in the order of lines, and how many others there are with what weight of
/// their own.
fn walk(selected: &Selected<'_>, shape: &Shape, tree: &Tree) -> (Vec<Told>, usize) {
    let whole = selected.whole();
    let mut told = Vec::new();
    let children = |id: NodeId| tree.get(id).map_or(&[][..], |node| node.children.as_slice());
    let mut open: Vec<Told> =
        children(tree.root()).iter().rev().map(|&id| Told { id, depth: 0 }).collect();
    while let Some(next) = open.pop() {
        let Some(node) = tree.get(next.id) else { continue };
        let full = selected.limit != 0 && told.len() >= selected.limit;
        let deep = shape.depth != 0 && next.depth >= shape.depth;
        if full || deep || selected.share(node.total, whole) < selected.percent {
            continue;
        }
        let deeper = next.depth + 1;
        told.push(next);
        open.extend(node.children.iter().rev().map(|&id| Told { id, depth: deeper }));
    }
    let left_out = tree.len().saturating_sub(1 + told.len());
    (told, left_out)
}

fn function_name(
    selected: &Selected<'_>,
    function: Option<FunctionId>,
) -> (String, String, String) {
    let names = &selected.recorded.names;
    let linkage = function.and_then(|id| names.function(id)).map(|f| f.name.clone());
    let library = function.and_then(|id| names.library(id));
    let linkage = linkage.unwrap_or_default();
    (demangled(&linkage), linkage, library.map(|l| l.path.clone()).unwrap_or_default())
}

/// The tree as indented lines.
pub fn graph_text(selected: &Selected<'_>, shape: &Shape) -> String {
    let tree = shape.tree(selected);
    let whole = selected.whole();
    let (told, left_out) = walk(selected, shape, &tree);
    let mut text = format!("{}\n\n", selected.headline());
    let own = if shape.direction == Direction::Callers { "begins" } else { "self" };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{:>8}{own:>9}  function", "total");
    for Told { id, depth } in &told {
        let Some(node) = tree.get(*id) else { continue };
        let (name, _, library) = function_name(selected, node.function);
        let short = library.rsplit('/').next().unwrap_or(&library);
        let _ = writeln!(
            text,
            "{:>6.2} %{:>7.2} %  {}{}  {}",
            selected.share(node.total, whole),
            selected.share(node.own, whole),
            "  ".repeat((*depth).min(MOST_INDENT)),
            crate::visible(&name),
            bracketed(short),
        );
    }
    if left_out > 0 {
        let plural = crate::counted(left_out as u64, "more frame", "more frames");
        let _ = writeln!(text, "… {plural} (--limit 0 --percent 0)");
    }
    text
}

/// Deeper frames stand no further to the right.
const MOST_INDENT: usize = 60;

/// The tree as JSON: a list of nodes, each with the position of its parent.
pub fn graph_json(selected: &Selected<'_>, shape: &Shape) -> Value {
    let tree = shape.tree(selected);
    let whole = selected.whole();
    let (told, left_out) = walk(selected, shape, &tree);
    let positions: std::collections::HashMap<NodeId, usize> =
        told.iter().enumerate().map(|(position, node)| (node.id, position)).collect();
    let row = |Told { id, depth }: &Told| {
        let node = tree.get(*id)?;
        let (name, linkage, library) = function_name(selected, node.function);
        Some(json!({
            "parent": node.parent.and_then(|parent| positions.get(&parent)),
            "depth": depth,
            "function": name,
            "linkage_name": linkage,
            "library": library,
            "self_weight": node.own.period,
            "total_weight": node.total.period,
            "self_samples": node.own.samples,
            "total_samples": node.total.samples,
            "total_percent": selected.share(node.total, whole),
        }))
    };
    let direction = match shape.direction {
        Direction::Calls => "calls",
        Direction::Callers => "callers",
        Direction::Callees => "callees",
    };
    let mut head = selected.json("planish-report-tree");
    head.insert("direction".to_owned(), json!(direction));
    head.insert("left_out".to_owned(), json!(left_out));
    head.insert("nodes".to_owned(), told.iter().filter_map(row).collect());
    Value::Object(head)
}

/// One line a stack, outermost frame first, with its weight: what flame graph programs read.
pub fn folded(selected: &Selected<'_>) -> String {
    let mut sums: std::collections::BTreeMap<String, Weight> = std::collections::BTreeMap::new();
    for stack in of_event(selected.recorded, selected.event) {
        let thread = selected.recorded.threads.get(stack.thread as usize);
        let mut line = thread.map(|thread| frame(&thread.name)).unwrap_or_default();
        for function in stack.functions.iter().rev() {
            line.push(';');
            line.push_str(&frame(&function_name(selected, Some(*function)).0));
        }
        sums.entry(line).or_default().add(stack.weight);
    }
    sums.iter().map(|(line, weight)| format!("{line} {}\n", weight.period)).collect()
}

/// A name without what ends a frame of a folded stack.
fn frame(name: &str) -> String {
    crate::visible(name).replace(';', ":")
}
