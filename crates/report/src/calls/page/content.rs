//! What does a page know? Views of the samples over one table of functions, each name once, and of
//! the calls of each view those that fit.

use super::prune::{Pruned, prune};
use super::view::{Space, View};
use crate::page::inert;
use calltrees::{FunctionId, Tree, Weight};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Characters of a name at most: nobody reads more of it, and a name can have a megabyte.
const LONGEST_NAME: usize = 400;
/// The tables of functions may take one in so many of the page's bytes. The calls take what they
/// leave.
const TABLE_PART: usize = 2;

/// The data of a page, as its script reads it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Content {
    names: Vec<String>,
    libraries: Vec<String>,
    functions: Functions,
    /// The views, that shown first first.
    pub(super) views: Vec<Seen>,
    /// Names that stand shortened.
    #[serde(skip)]
    pub(super) shortened: u64,
    /// Positions of functions.
    #[serde(skip)]
    pub(super) listed: HashMap<FunctionId, u32>,
}

/// One view.
#[derive(Debug, Default, Serialize)]
pub(super) struct Seen {
    pub(super) name: String,
    kind: String,
    clock: bool,
    waits: bool,
    /// The weight of all samples.
    pub(super) weight: u64,
    /// All samples.
    samples: u64,
    table: Table,
    /// The calls.
    pub(super) calls: Pruned,
    /// What the calls weigh by themselves in each block of the time, if that fits.
    pub(super) times: Option<Times>,
    /// Functions that the table has no room for.
    pub(super) unlisted: u64,
}

/// Functions of all views.
#[derive(Debug, Default, Serialize)]
struct Functions {
    name: Vec<u32>,
    library: Vec<u32>,
    /// Positions of those that were inlined.
    inlined: Vec<u32>,
    /// Positions of those that are states of threads.
    states: Vec<u32>,
}

/// The weights of a view's functions, those with the greatest totals first.
#[derive(Debug, Default, Serialize)]
struct Table {
    #[serde(rename = "f")]
    functions: Vec<u32>,
    #[serde(rename = "o")]
    own: Vec<u64>,
    #[serde(rename = "os")]
    own_samples: Vec<u64>,
    #[serde(rename = "t")]
    total: Vec<u64>,
    #[serde(rename = "ts")]
    total_samples: Vec<u64>,
}

/// Own weights of rows by block of the time.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Times {
    /// Blocks of the page's time that are one here.
    each: u32,
    /// How many entries each block has.
    #[serde(rename = "b")]
    blocks: Vec<u32>,
    /// Rows, each less the one before it in the block; entries of `cut` behind the rows.
    #[serde(rename = "n")]
    rows: Vec<u32>,
    #[serde(rename = "w")]
    weights: Vec<u64>,
    #[serde(rename = "s")]
    samples: Vec<u64>,
}

/// A name of at most so many characters, visible, and whether that shortened it.
pub(super) fn shortened(name: &str, most: usize) -> (String, bool) {
    let mut rest = name.chars();
    let mut kept: String = rest.by_ref().take(most).collect();
    let is_cut = rest.next().is_some();
    if is_cut {
        kept.pop();
        kept.push('…');
    }
    (crate::visible(&kept).into_owned(), is_cut)
}

/// Bytes of a name in the page.
fn written(name: &str) -> usize {
    let text = serde_json::Value::from(name).to_string();
    inert(&text).len() + 1
}

fn digits(number: u64) -> usize {
    number.to_string().len() + 1
}

/// Fills the list of functions up to a number of bytes.
struct Lists<'s> {
    space: &'s Space<'s>,
    content: Content,
    names: HashMap<String, u32>,
    libraries: HashMap<String, u32>,
    left: usize,
}

impl Lists<'_> {
    /// The position of a function, and takes the room for it and for `more` bytes if there is as
    /// much.
    fn position(&mut self, id: FunctionId, more: usize) -> Option<u32> {
        if let Some(known) = self.content.listed.get(&id).copied() {
            self.left = self.left.checked_sub(more + digits(known.into()))?;
            return Some(known);
        }
        let function = self.space.functions.get(id.0 as usize)?;
        let (name, is_cut) = shortened(&function.name(), LONGEST_NAME);
        let (path, _) = shortened(function.library, LONGEST_NAME);
        let known = self.names.get(&name).copied();
        let library = self.libraries.get(&path).copied();
        let position = self.content.functions.name.len() as u32;
        let name_at = known.unwrap_or(self.content.names.len() as u32);
        let library_at = library.unwrap_or(self.content.libraries.len() as u32);
        let marks = usize::from(function.is_inlined) + usize::from(function.is_state);
        let bytes = [name_at, library_at].map(|at| digits(at.into())).iter().sum::<usize>()
            + digits(position.into()) * (1 + marks)
            + if known.is_none() { written(&name) } else { 0 }
            + if library.is_none() { written(&path) } else { 0 };
        self.left = self.left.checked_sub(bytes + more)?;
        if known.is_none() {
            self.content.shortened += u64::from(is_cut);
            self.content.names.push(name.clone());
            self.names.insert(name, name_at);
        }
        if library.is_none() {
            self.content.libraries.push(path.clone());
            self.libraries.insert(path, library_at);
        }
        let functions = &mut self.content.functions;
        functions.name.push(name_at);
        functions.library.push(library_at);
        functions.inlined.extend(function.is_inlined.then_some(position));
        functions.states.extend(function.is_state.then_some(position));
        self.content.listed.insert(id, position);
        Some(position)
    }

    /// The table of a view in at most `room` bytes, and how many functions it lacks.
    fn table(&mut self, rows: &[(FunctionId, Weight, Weight)], room: usize) -> (Table, u64) {
        let mut table = Table::default();
        self.left = room;
        for (id, own, total) in rows {
            let weights = [own.period, own.samples, total.period, total.samples];
            // A lighter function may have a shorter name, but then a heavier one would be missing.
            let Some(position) = self.position(*id, weights.map(digits).iter().sum()) else {
                break;
            };
            table.functions.push(position);
            table.own.push(own.period);
            table.own_samples.push(own.samples);
            table.total.push(total.period);
            table.total_samples.push(total.samples);
        }
        let lacks = rows.len().saturating_sub(table.functions.len()) as u64;
        (table, lacks)
    }
}

/// Own and total weight of each function, the greatest totals first.
fn sums(space: &Space<'_>, view: &View<'_>) -> Vec<(FunctionId, Weight, Weight)> {
    let mut sums = vec![(Weight::default(), Weight::default()); space.functions.len()];
    let mut counted_in = vec![0u32; space.functions.len()];
    for (number, stack) in (1u32..).zip(space.stacks(view)) {
        for (depth, id) in stack.functions.iter().enumerate() {
            let at = id.0 as usize;
            let (Some(sum), Some(last)) = (sums.get_mut(at), counted_in.get_mut(at)) else {
                continue;
            };
            if depth == 0 {
                sum.0.add(stack.weight);
            }
            // A function that calls itself counts once per stack.
            if std::mem::replace(last, number) != number {
                sum.1.add(stack.weight);
            }
        }
    }
    let numbered = (0u32..).map(FunctionId).zip(sums);
    let mut rows: Vec<_> = numbered
        .filter(|(_, (_, total))| total.samples > 0)
        .map(|(id, (own, total))| (id, own, total))
        .collect();
    rows.sort_by_key(|(id, own, total)| (Reverse((total.period, own.period)), *id));
    rows
}

/// The data of a page in at most `room` bytes; `blocks` is into how many parts the time is cut.
pub(super) fn content(space: &Space<'_>, views: &[View<'_>], blocks: u32, room: usize) -> Content {
    let mut lists = Lists {
        space,
        content: Content::default(),
        names: HashMap::new(),
        libraries: HashMap::new(),
        left: 0,
    };
    // What is said of a view besides its lists, and the numbers that are known only at the end.
    let each = |view: &View<'_>| 500 + written(&view.name) + written(&view.kind);
    let mut left = room.saturating_sub(500 + views.iter().map(each).sum::<usize>());
    // The first may use what the others leave.
    let share = left / (views.len() + 1).max(2);
    let mut seen: Vec<Seen> = Vec::new();
    for (at, view) in views.iter().enumerate().rev() {
        let own = if at == 0 { left } else { share };
        let found = one(&mut lists, space, view, blocks, own);
        left -= own.min(left);
        left += found.1;
        seen.push(found.0);
    }
    seen.reverse();
    Content { views: seen, ..lists.content }
}

/// One view in at most `room` bytes, and how many of them it leaves.
fn one(
    lists: &mut Lists<'_>,
    space: &Space<'_>,
    view: &View<'_>,
    blocks: u32,
    room: usize,
) -> (Seen, usize) {
    let rows = sums(space, view);
    let (table, unlisted) = lists.table(&rows, room / TABLE_PART);
    let room = room - (room / TABLE_PART - lists.left);
    let stacks: Vec<_> = space.stacks(view).collect();
    let tree = Tree::of_calls(stacks.iter().map(|stack| (&*stack.functions, stack.weight)));
    let calls =
        prune(&tree, &lists.content.listed, if blocks > 1 { room - room / 3 } else { room });
    let used = serde_json::to_string(&calls).map_or(room, |text| text.len());
    let mut left = room.saturating_sub(used);
    let times = (blocks > 1).then(|| times(&stacks, &tree, &calls, blocks, left)).flatten();
    if let Some(times) = &times {
        let text = serde_json::to_string(times).unwrap_or_default();
        left = left.saturating_sub(text.len());
    }
    let whole = tree.get(tree.root()).map(|root| root.total).unwrap_or_default();
    let seen = Seen {
        name: shortened(&view.name, LONGEST_NAME).0,
        kind: shortened(&view.kind, LONGEST_NAME).0,
        clock: view.clock,
        waits: view.waits,
        weight: whole.period,
        samples: whole.samples,
        table,
        calls,
        times,
        unlisted,
    };
    (seen, left)
}

/// The calls' own weights by block, in as many blocks as fit; none where not even a few do.
fn times(
    stacks: &[super::view::Seen<'_>],
    tree: &Tree,
    calls: &Pruned,
    blocks: u32,
    room: usize,
) -> Option<Times> {
    /// With fewer parts a range says little.
    const FEWEST: u32 = 8;
    let mut sums: std::collections::BTreeMap<(u32, u32), Weight> = Default::default();
    for stack in stacks {
        let place = tree.end_of(&stack.functions).and_then(|id| calls.place(tree, id))?;
        sums.entry((stack.block, place)).or_default().add(stack.weight);
    }
    let mut each = 1;
    loop {
        let times = columns(&sums, each, blocks.div_ceil(each));
        let text = serde_json::to_string(&times).ok()?;
        if text.len() <= room {
            return Some(times);
        }
        let mut wider = std::collections::BTreeMap::new();
        for ((block, place), weight) in sums {
            wider.entry((block / 2, place)).or_insert_with(Weight::default).add(weight);
        }
        sums = wider;
        each *= 2;
        if blocks.div_ceil(each) < FEWEST {
            return None;
        }
    }
}

fn columns(sums: &std::collections::BTreeMap<(u32, u32), Weight>, each: u32, count: u32) -> Times {
    let mut times = Times { each, blocks: vec![0; count as usize], ..Times::default() };
    let mut before = (u32::MAX, 0);
    for (&(block, place), weight) in sums {
        if let Some(entries) = times.blocks.get_mut(block as usize) {
            *entries += 1;
            times.rows.push(if before.0 == block { place - before.1 } else { place });
            times.weights.push(weight.period);
            times.samples.push(weight.samples);
            before = (block, place);
        }
    }
    times
}
