//! Trees of calls, lines of which open and close.

use super::{Made, Order, View, percent};
use crate::data::Data;
use crate::row::{Column, Fold, Row, RowKey, Table};
use calltrees::{FunctionId, Node, NodeId, Tree, Weight};
use rustc_hash::{FxHashMap, FxHasher};
use std::cmp::Reverse;
use std::hash::{Hash as _, Hasher as _};

/// At first, a tree is open where it weighs so much of the whole, in per cent.
const FIRST_OPEN: f64 = 5.0;

/// A tree and what its shares are of.
#[derive(Clone, Debug)]
pub(crate) struct Grown {
    pub tree: Tree,
    pub whole: Weight,
}

/// What tells a path from others, by that of the path before its last function. A number, since
/// paths of deep recursions are long.
fn longer(path: u64, function: FunctionId) -> u64 {
    let mut hasher = FxHasher::default();
    (path, function).hash(&mut hasher);
    hasher.finish()
}

/// A node to come to: how deep it lies, and the path to its parent.
struct Open {
    id: NodeId,
    depth: usize,
    path: u64,
}

fn grow(made: &Made<'_>, view: View) -> Option<Tree> {
    let stacks = made.data.stacks().map(|stack| (&*stack.functions, stack.weight));
    let names = &made.data.recorded().names;
    let chosen = made.chosen.map(|id| names.without_line(id));
    let is_it = |id: FunctionId| Some(names.without_line(id)) == chosen;
    match view {
        View::Callers => made.chosen.map(|_| Tree::of_callers(stacks, is_it)),
        View::Callees => made.chosen.map(|_| Tree::of_callees(stacks, is_it)),
        _ => Some(Tree::of_calls(stacks)),
    }
}

pub(super) fn table(made: &Made<'_>, view: View) -> (Table, Option<Grown>) {
    let data = made.data;
    let Some(tree) = grow(made, view) else {
        let word = if view == View::Callers { "who called it" } else { "what it called" };
        let text = format!("Choose a function in another view (arrows, Enter) to see {word}.");
        return (Table::only(&text), None);
    };
    let whole = data.whole();
    let chosen = made.chosen.map(|id| format!("{} {}", data.function(id), data.library(id)));
    let chosen = chosen.unwrap_or_default();
    let about = match view {
        View::Callers => format!("who called {chosen}"),
        View::Callees => format!("what {chosen} called"),
        _ => "all calls, from the outermost function inwards".to_owned(),
    };
    let own = if view == View::Callers { "begins" } else { "self" };
    let columns =
        vec![Column::new("total", 9, 0), Column::new(own, 10, 44), Column::new("samples", 10, 100)];
    let grown = Grown { tree, whole };
    let rows = rows(made, &grown);
    let left_out = nodes_below(&grown, made.percent);
    let table =
        Table { columns, title: "function".to_owned(), rows, left_out, about, prose: false };
    (table, Some(grown))
}

/// How many nodes weigh less than the limit.
fn nodes_below(grown: &Grown, limit: f64) -> usize {
    let below = |id: &u32| {
        let node = grown.tree.get(NodeId(*id));
        node.is_some_and(|node| Data::share(node.total, grown.whole) < limit)
    };
    (1..grown.tree.len() as u32).filter(below).count()
}

/// The children of a node that weigh enough, in order.
fn children(made: &Made<'_>, grown: &Grown, node: &Node) -> Vec<NodeId> {
    let of = |id: &NodeId| grown.tree.get(*id);
    let heavy = |id: &NodeId| {
        of(id).is_some_and(|node| Data::share(node.total, grown.whole) >= made.percent)
    };
    let mut all: Vec<NodeId> = node.children.iter().copied().filter(heavy).collect();
    let name = |id: &NodeId| {
        let function = of(id).and_then(|node| node.function);
        function.map(|id| made.data.function(id))
    };
    match made.order {
        Order::Own => all.sort_by_key(|id| Reverse(of(id).map(|node| node.own.period))),
        Order::Samples => all.sort_by_key(|id| Reverse(of(id).map(|node| node.total.samples))),
        Order::Name => all.sort_by_cached_key(name),
        // As they come.
        _ => {}
    }
    all
}

fn rows(made: &Made<'_>, grown: &Grown) -> Vec<Row> {
    let Some(root) = grown.tree.get(grown.tree.root()) else { return Vec::new() };
    let mut rows = Vec::new();
    let below = |node: &Node, depth: usize, path: u64| -> Vec<Open> {
        let all = children(made, grown, node).into_iter().rev();
        all.map(|id| Open { id, depth, path }).collect()
    };
    let mut open = below(root, 0, 0);
    while let Some(next) = open.pop() {
        let Some(node) = grown.tree.get(next.id) else { continue };
        let Some(function) = node.function else { continue };
        let path = longer(next.path, function);
        let key = RowKey::Path(path);
        let heat = Data::share(node.total, grown.whole);
        let below = below(node, next.depth + 1, path);
        let by_itself = heat >= FIRST_OPEN;
        let is_open = by_itself != made.turned.contains(&key);
        let fold = match (below.is_empty(), is_open) {
            (true, _) => Fold::Leaf,
            (false, true) => Fold::Open,
            (false, false) => Fold::Closed,
        };
        let own = Data::share(node.own, grown.whole);
        rows.push(Row {
            key,
            cells: vec![percent(heat), percent(own), report::count(node.total.samples)],
            depth: next.depth,
            fold,
            name: made.data.function(function).to_string(),
            more: made.data.library(function),
            function: Some(function),
            heat: own,
        });
        if fold == Fold::Open {
            open.extend(below);
        }
    }
    rows
}

/// Whether a line with this key is open unless it was turned.
fn open_by_itself(grown: &Grown, node: NodeId) -> bool {
    let node = grown.tree.get(node);
    node.is_some_and(|node| Data::share(node.total, grown.whole) >= FIRST_OPEN)
}

/// The next node in the order of lines, open or not, behind the line `from` (before it, if `back`),
/// whose function is wanted; with what must be turned so that it is seen.
pub(crate) fn search(
    made: &Made<'_>,
    grown: &Grown,
    from: Option<&RowKey>,
    back: bool,
    is_it: impl Fn(FunctionId) -> bool,
) -> Option<(RowKey, Vec<RowKey>)> {
    let mut order: Vec<(NodeId, u64)> = Vec::new();
    let mut paths: FxHashMap<NodeId, u64> = FxHashMap::default();
    let mut open = vec![grown.tree.root()];
    while let Some(id) = open.pop() {
        let Some(node) = grown.tree.get(id) else { continue };
        if let Some(function) = node.function {
            let before = node.parent.and_then(|parent| paths.get(&parent)).copied();
            let path = longer(before.unwrap_or(0), function);
            paths.insert(id, path);
            order.push((id, path));
        }
        open.extend(children(made, grown, node).into_iter().rev());
    }
    let wanted = |(id, _): &&(NodeId, u64)| {
        let function = grown.tree.get(*id).and_then(|node| node.function);
        function.is_some_and(&is_it)
    };
    let here = order.iter().position(|(_, path)| from == Some(&RowKey::Path(*path)));
    let (before, behind) = match here {
        Some(at) => (order.get(..=at)?, order.get(at + 1..)?),
        None => (&order[..0], &order[..]),
    };
    let found = match back {
        false => behind.iter().chain(before).find(wanted),
        true => {
            let before = before.split_last().map_or(before, |(_, before)| before);
            before.iter().rev().chain(order.iter().rev()).find(wanted)
        }
    };
    let (found, path) = *found?;
    let mut turn = Vec::new();
    let mut at = grown.tree.get(found)?.parent;
    while let Some((id, path)) = at.and_then(|id| Some((id, *paths.get(&id)?))) {
        let key = RowKey::Path(path);
        if open_by_itself(grown, id) == made.turned.contains(&key) {
            turn.push(key);
        }
        at = grown.tree.get(id)?.parent;
    }
    Some((RowKey::Path(path), turn))
}
