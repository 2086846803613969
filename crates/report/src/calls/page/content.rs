//! What does a page know? The functions in columns, each name once, and the calls that fit.

use super::prune::{Pruned, prune};
use crate::calls::{Selected, demangled};
use crate::page::inert;
use calltrees::rows::{By, Row, Subject, of_event, rows};
use calltrees::{FunctionId, Known, LibraryId, Tree};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Characters of a name at most: nobody reads more of it, and a name can have a megabyte.
const LONGEST_NAME: usize = 400;
/// The table of functions may take one in so many of the page's bytes. The calls take what it
/// leaves.
const TABLE_PART: usize = 2;

/// The data of a page, as its script reads it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Content {
    /// Whether weights are nanoseconds.
    clock: bool,
    /// The weight of all samples.
    weight: u64,
    /// All samples.
    samples: u64,
    names: Vec<String>,
    libraries: Vec<String>,
    functions: Functions,
    /// The calls.
    pub(super) calls: Pruned,
    /// Functions that the table has no room for.
    pub(super) unlisted: u64,
    /// Names that stand shortened.
    #[serde(skip)]
    pub(super) shortened: u64,
}

/// Functions, those with the greatest totals first.
#[derive(Debug, Default, Serialize)]
struct Functions {
    name: Vec<u32>,
    library: Vec<u32>,
    /// Positions of those that were inlined.
    inlined: Vec<u32>,
    own: Vec<u64>,
    own_samples: Vec<u64>,
    total: Vec<u64>,
    total_samples: Vec<u64>,
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

/// Fills the table of functions up to a number of bytes.
struct Table<'s> {
    selected: &'s Selected<'s>,
    content: Content,
    names: HashMap<String, u32>,
    libraries: HashMap<LibraryId, u32>,
    listed: HashMap<FunctionId, u32>,
    left: usize,
}

impl Table<'_> {
    /// Takes in a function if there is room.
    fn add(&mut self, id: FunctionId, row: &Row) -> bool {
        let Some(function) = self.selected.recorded.names.function(id) else { return false };
        let (name, is_cut) = shortened(&demangled(&function.name), LONGEST_NAME);
        let known = self.names.get(&name).copied();
        let library = self.libraries.get(&function.library).copied();
        let path = self.selected.recorded.names.library(id).map(|library| &*library.path);
        let (path, _) = shortened(path.unwrap_or_default(), LONGEST_NAME);
        let weights = [row.own.period, row.own.samples, row.total.period, row.total.samples];
        let content = &self.content;
        let positions = [
            known.unwrap_or(content.names.len() as u32),
            library.unwrap_or(content.libraries.len() as u32),
            content.functions.name.len() as u32,
        ];
        let digits = |number: u64| number.to_string().len() + 1;
        let bytes = weights.into_iter().chain(positions.map(u64::from)).map(digits).sum::<usize>()
            + if known.is_none() { written(&name) } else { 0 }
            + if library.is_none() { written(&path) } else { 0 };
        if bytes > self.left {
            return false;
        }
        self.left -= bytes;
        let known = known.unwrap_or_else(|| {
            let next = self.content.names.len() as u32;
            self.content.shortened += u64::from(is_cut);
            self.content.names.push(name.clone());
            self.names.insert(name, next);
            next
        });
        let library = library.unwrap_or_else(|| {
            let next = self.content.libraries.len() as u32;
            self.content.libraries.push(path);
            self.libraries.insert(function.library, next);
            next
        });
        let functions = &mut self.content.functions;
        let position = functions.name.len() as u32;
        if function.known == Known::Inlined {
            functions.inlined.push(position);
        }
        functions.name.push(known);
        functions.library.push(library);
        functions.own.push(row.own.period);
        functions.own_samples.push(row.own.samples);
        functions.total.push(row.total.period);
        functions.total_samples.push(row.total.samples);
        self.listed.insert(id, position);
        true
    }
}

/// The data of a page in at most `room` bytes.
pub(super) fn content(selected: &Selected<'_>, room: usize) -> Content {
    let (event, whole) = (selected.event(), selected.whole());
    let mut rows = rows(selected.recorded, selected.event, By::Function);
    rows.sort_by_key(|row| Reverse((row.total.period, row.own.period)));
    let content = Content {
        clock: event.is_clock,
        weight: whole.period,
        samples: whole.samples,
        ..Content::default()
    };
    // What the object says besides its lists, and the numbers that are known only at the end.
    let room = room.saturating_sub(500);
    let mut table = Table {
        selected,
        content,
        names: HashMap::new(),
        libraries: HashMap::new(),
        listed: HashMap::new(),
        left: room / TABLE_PART,
    };
    for row in &rows {
        let Subject::Function(id) = row.subject else { continue };
        // A lighter function may have a shorter name, but then a heavier one would be missing.
        if !table.add(id, row) {
            break;
        }
    }
    let room = room - (room / TABLE_PART - table.left);
    let stacks =
        of_event(selected.recorded, selected.event).map(|stack| (&*stack.functions, stack.weight));
    let tree = Tree::of_calls(stacks);
    let mut content = table.content;
    content.calls = prune(&tree, &table.listed, room);
    content.unlisted = rows.len().saturating_sub(table.listed.len()) as u64;
    content
}
