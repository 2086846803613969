//! Orders of symbols: the ld profile (sections of a cc profile) and the order of functions, for
//! lld. (mold 1.10 takes no order of functions.)
//!
//! One symbol a line. Linkers place the section of a symbol where the symbol stands first, warn
//! about symbols that they do not know (lld: `--no-warn-symbol-ordering`), and put everything else
//! behind. The names of the sections are clang's, see [`super::cc`].

use super::Error;
use super::cc::{block_of, function_of};
use crate::{Cfg, ClusterRef, Function, FunctionLayout, Layout, Placed};
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// A file that orders functions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Order {
    /// The file.
    pub text: String,
    /// Names that it cannot hold, which keep the place that the linker gives them.
    pub left_out: Vec<String>,
}

/// Where a section of a function stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The one with the entry block: the function's own symbol.
    Entry,
    /// The n-th cluster: `name.__part.n`.
    Part(u32),
    /// What is in no cluster: `name.cold`.
    Cold,
}

/// The symbol that clang gives a section of a function.
pub fn symbol(name: &str, part: Part) -> String {
    match part {
        Part::Entry => name.to_owned(),
        Part::Part(n) => format!("{name}.__part.{n}"),
        Part::Cold => format!("{name}.cold"),
    }
}

/// A section of a function in the order of the text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece<'c> {
    /// The function.
    pub function: &'c Function,
    /// Its layout.
    pub placed: &'c FunctionLayout,
    /// Which of its sections.
    pub part: Part,
}

/// The sections that a layout asks for, in its order: clusters, then cold parts.
///
/// # Errors
/// Where the layout is not of this graph.
pub fn pieces<'c>(cfg: &'c Cfg, layout: &'c Layout) -> Result<Vec<Piece<'c>>, Error> {
    let mut pieces = Vec::with_capacity(layout.hot.len() + layout.cold.len());
    let placed = |position: u32| {
        layout
            .functions
            .get(position as usize)
            .ok_or_else(|| Error::Foreign { what: format!("function {position} of the layout") })
    };
    for &ClusterRef { layout: position, cluster } in &layout.hot {
        let placed = placed(position)?;
        let function = function_of(cfg, placed)?;
        let blocks = placed.clusters.get(cluster as usize).ok_or_else(|| Error::Foreign {
            what: format!(
                "cluster {cluster} of {}",
                function.names.first().map_or("", |name| name)
            ),
        })?;
        for block in blocks {
            block_of(function, block.block)?;
        }
        let entry = blocks.contains(&Placed::ENTRY);
        let part = if entry { Part::Entry } else { Part::Part(cluster) };
        pieces.push(Piece { function, placed, part });
    }
    for &position in &layout.cold {
        let placed = placed(position)?;
        let function = function_of(cfg, placed)?;
        // Without its entry in a cluster, what is left is the function itself.
        let has_entry = placed.clusters.iter().any(|cluster| cluster.contains(&Placed::ENTRY));
        pieces.push(Piece {
            function,
            placed,
            part: if has_entry { Part::Cold } else { Part::Entry },
        });
    }
    Ok(pieces)
}

/// The ld profile: the symbol of every section, for every name of its function.
///
/// # Errors
/// Where the layout is not of this graph, or a name holds a line break.
pub fn ld_profile(cfg: &Cfg, layout: &Layout) -> Result<String, Error> {
    let pieces = pieces(cfg, layout)?;
    // Its cc profile names the same functions and refuses such a name, too.
    whole(
        pieces
            .iter()
            .flat_map(|piece| piece.function.names.iter().map(|name| symbol(name, piece.part))),
    )
}

/// The order of functions, each where its first cluster stands, whatever becomes of its blocks.
///
/// # Errors
/// Where the layout is not of this graph.
pub fn symbol_order(cfg: &Cfg, layout: &Layout) -> Result<Order, Error> {
    let functions = functions(cfg, layout)?;
    Ok(lines(functions.iter().flat_map(|function| function.names.iter().cloned())))
}

/// The functions of a layout by their first piece of the text.
///
/// # Errors
/// Where the layout is not of this graph.
pub fn functions<'c>(cfg: &'c Cfg, layout: &'c Layout) -> Result<Vec<&'c Function>, Error> {
    let mut seen = FxHashSet::default();
    let pieces = pieces(cfg, layout)?;
    Ok(pieces.iter().filter(|p| seen.insert(p.placed.function)).map(|p| p.function).collect())
}

fn ends_line(c: char) -> bool {
    c == '\n' || c == '\r'
}

fn whole(symbols: impl Iterator<Item = String>) -> Result<String, Error> {
    let Order { text, left_out } = lines(symbols);
    match left_out.into_iter().next() {
        Some(name) => {
            let found = name.chars().find(|&c| ends_line(c)).unwrap_or('\n');
            Err(Error::Name { name, format: "an order of symbols", found })
        }
        None => Ok(text),
    }
}

fn lines(symbols: impl Iterator<Item = String>) -> Order {
    let mut order = Order::default();
    let mut seen = FxHashSet::default();
    for symbol in symbols {
        // Functions of one name, told apart by their files elsewhere: to the linker the name means
        // all of them.
        if !seen.insert(symbol.clone()) {
            continue;
        }
        if symbol.contains(ends_line) {
            order.left_out.push(symbol);
            continue;
        }
        order.text.push_str(&symbol);
        order.text.push('\n');
    }
    order
}

/// Reads an order of symbols as lld does: one a line, blanks around it dropped, `#` begins a
/// comment line.
///
/// # Errors
/// At a symbol that stands twice, of which linkers heed only the first.
pub fn read(text: &str) -> Result<Vec<String>, Error> {
    let mut seen = BTreeSet::new();
    let mut symbols = Vec::new();
    for (line, number) in text.lines().zip(1u32..) {
        let symbol = line.trim();
        if symbol.is_empty() || symbol.starts_with('#') {
            continue;
        }
        if !seen.insert(symbol) {
            let found = format!(
                "`{symbol}` stands a second time; expected each symbol once, so remove this line"
            );
            return Err(Error::Malformed { line: number, found });
        }
        symbols.push(symbol.to_owned());
    }
    Ok(symbols)
}
