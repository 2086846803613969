//! The resolution itself: which units, which jobs, and how their results become one answer.

use rustc_hash::FxHashMap;

use super::dwo::{Dwo, DwoSearch};
use super::functions::FunctionTable;
use super::index::{UnitEntry, UnitIndex};
use super::lines::{self, Row};
use super::names::{Describer, Files};
use super::resolved::{DebugProblems, NamedNode, Resolved, UnitStacks};
use super::tree::{NONE, Node, Tree};
use super::unit::{Dwarf, Unit};
use super::{DebugInfo, unit};
use crate::{Error, ImageAddr};

/// Everything a job needs to look at.
pub(super) struct Sight<'a> {
    pub(super) main: Dwarf<'a>,
    pub(super) supplement: Option<Dwarf<'a>>,
    pub(super) supplement_units: &'a [usize],
    pub(super) index: &'a UnitIndex,
    pub(super) dwo: DwoSearch<'a>,
    pub(super) floor: u64,
}

/// A unit opened for its entries.
pub(super) struct OpenUnit<'a> {
    pub(super) entry: &'a UnitEntry,
    /// The file of the entries, when it is not the main one.
    split: Option<Dwarf<'a>>,
    pub(super) unit: Unit<'a>,
}

/// The addresses of one unit.
pub(super) struct Part {
    pub(super) unit: usize,
    pub(super) positions: Vec<u32>,
    pub(super) addresses: Vec<u64>,
}

/// What the jobs of one unit found.
enum Found<'a> {
    Tree {
        innermost: Vec<u32>,
        nodes: Vec<NamedNode>,
        names: Vec<&'a [u8]>,
        problems: DebugProblems,
    },
    Lines {
        rows: Vec<Option<Row>>,
        problems: DebugProblems,
    },
}

impl DebugInfo<'_> {
    /// Finds the inline stacks of addresses, which must be sorted and without duplicates.
    ///
    /// Damage in the debug information is counted in the answer; what could be read is used.
    ///
    /// # Errors
    /// None at present; the signature leaves room for debug files that must be fetched.
    pub fn resolve(&self, addresses: &[ImageAddr], threads: usize) -> Result<Resolved, Error> {
        let plain: Vec<u64> = addresses.iter().map(|address| address.0).collect();
        let mut resolved = Resolved::unresolved(plain.len());
        if self.is_empty() {
            return Ok(resolved);
        }
        let sight = self.sight();
        let parts = parts(sight.index, &plain);
        if let Some(error) = &sight.index.damage {
            resolved.problems.damaged(0, error);
        }
        // Trees first: they take longer, and the last job should be a short one.
        let count = parts.len();
        let mut found = jobs::run(count * 2, threads, |number| match parts.get(number) {
            Some(part) => sight.tree_job(part),
            None => sight.lines_job(parts.get(number - count)),
        });
        let lines = found.split_off(count);
        for ((part, tree), lines) in parts.iter().zip(found).zip(lines) {
            resolved.join(part, tree, lines);
        }
        Ok(resolved)
    }

    pub(super) fn sight(&self) -> Sight<'_> {
        let main = self.file.dwarf();
        let supplement = self.supplement.as_ref().map(|file| file.dwarf());
        Sight {
            index: self.index(&main),
            supplement_units: self.supplement_units(supplement.as_ref()),
            dwo: DwoSearch {
                package: self.package.as_ref(),
                search: &self.search,
                image: self.file.image(),
            },
            floor: self.floor,
            main,
            supplement,
        }
    }
}

pub(super) fn parts(index: &UnitIndex, addresses: &[u64]) -> Vec<Part> {
    let collect = |positions: &[u32]| {
        positions.iter().filter_map(|at| addresses.get(*at as usize).copied()).collect()
    };
    index
        .split(addresses)
        .into_iter()
        .map(|(unit, positions)| Part {
            unit: unit as usize,
            addresses: collect(&positions),
            positions,
        })
        .collect()
}

impl Resolved {
    fn join(&mut self, part: &Part, tree: Found<'_>, lines: Found<'_>) {
        let Found::Tree { innermost, nodes, names, problems } = tree else { return };
        let Found::Lines { rows, problems: more } = lines else { return };
        self.problems.add(problems);
        self.problems.add(more);
        self.add_unit(&part.positions, &UnitStacks { innermost, rows, nodes, names });
    }
}

impl<'a> Sight<'a> {
    /// Opens the entries of a unit, split-off ones included.
    pub(super) fn open(
        &self,
        position: usize,
        problems: &mut DebugProblems,
    ) -> Option<OpenUnit<'a>> {
        let entry = self.index.units.get(position)?;
        let opened = Unit::open(&self.main, entry.offset, None)
            .and_then(|skeleton| self.dwo.full(&self.main, &entry.dwo, skeleton));
        if let Some(Dwo::Missing(file)) = entry.dwo.get() {
            problems.missing(file);
        }
        match opened {
            Ok((split, unit)) => Some(OpenUnit { entry, split, unit }),
            Err(error) => {
                problems.damaged(entry.offset, &error);
                None
            }
        }
    }

    pub(super) fn dwarf<'s>(&'s self, open: &'s OpenUnit<'a>) -> &'s Dwarf<'a> {
        open.split.as_ref().unwrap_or(&self.main)
    }

    /// The functions of an opened unit, read at most once.
    pub(super) fn functions(
        &self,
        open: &OpenUnit<'a>,
        problems: &mut DebugProblems,
    ) -> &'a FunctionTable {
        let collect = || FunctionTable::collect(self.dwarf(open), &open.unit, self.floor);
        let table = open.entry.functions.get_or_init(collect);
        if let Some(error) = &table.damage {
            problems.damaged(open.entry.offset, error);
        }
        table
    }

    /// Calls `each` with a describer for entries of the unit.
    pub(super) fn describing<T>(
        &self,
        open: &OpenUnit<'a>,
        each: impl FnOnce(&mut Describer<'_, 'a>) -> T,
    ) -> T {
        let split_units = open.split.as_ref().map(|split| unit::unit_offsets(split).0);
        let own_units = |offset: usize| match &split_units {
            Some(units) => {
                units.get(units.partition_point(|unit| *unit <= offset).checked_sub(1)?).copied()
            }
            None => self.index.containing(offset).map(|unit| unit.offset),
        };
        let files = Files {
            own: self.dwarf(open),
            own_units: &own_units,
            supplement: self.supplement.as_ref(),
            supplement_units: self.supplement_units,
        };
        each(&mut Describer::new(files, &open.unit))
    }

    fn tree_job(&self, part: &Part) -> Found<'a> {
        let mut problems = DebugProblems::default();
        let Some(open) = self.open(part.unit, &mut problems) else {
            return Found::Tree {
                innermost: vec![NONE; part.addresses.len()],
                nodes: vec![],
                names: vec![],
                problems,
            };
        };
        let functions = self.functions(&open, &mut problems);
        let tree = Tree::build(self.dwarf(&open), &open.unit, functions, &part.addresses);
        if let Some(error) = &tree.damage {
            problems.damaged(open.entry.offset, error);
        }
        let (nodes, names) = self.describing(&open, |describer| name_nodes(&tree, describer));
        Found::Tree { innermost: tree.innermost, nodes, names, problems }
    }

    fn lines_job(&self, part: Option<&Part>) -> Found<'a> {
        let mut problems = DebugProblems::default();
        let rows = part.and_then(|part| {
            let entry = self.index.units.get(part.unit)?;
            let (rows, damage) = match Unit::open(&self.main, entry.offset, None) {
                Ok(unit) => lines::rows(&self.main, &unit.root, &part.addresses, self.floor),
                // The tree job reports this one.
                Err(_) => (Vec::new(), None),
            };
            if let Some(error) = &damage {
                problems.damaged(entry.offset, error);
            }
            Some(rows)
        });
        let mut rows = rows.unwrap_or_default();
        rows.resize(part.map_or(0, |part| part.addresses.len()), None);
        Found::Lines { rows, problems }
    }
}

/// Names the nodes that stand in some address's stack; the others stay unnamed and unread.
pub(super) fn name_nodes<'a>(
    tree: &Tree,
    describer: &mut Describer<'_, 'a>,
) -> (Vec<NamedNode>, Vec<&'a [u8]>) {
    let mut used = vec![false; tree.nodes.len()];
    for &innermost in &tree.innermost {
        let mut next = innermost;
        while let Some(seen) = used.get_mut(next as usize).filter(|seen| !**seen) {
            *seen = true;
            next = tree.nodes.get(next as usize).map_or(NONE, |node| node.parent);
        }
    }
    let mut names: Vec<&[u8]> = Vec::new();
    let mut numbers: FxHashMap<&[u8], u32> = FxHashMap::default();
    let mut named = |node: &Node, used: bool| {
        let described = if used { describer.describe(node.entry) } else { Default::default() };
        let name = described.name.unwrap_or_default();
        let next = names.len() as u32;
        let number = *numbers.entry(name).or_insert(next);
        if number == next {
            names.push(name);
        }
        let call = Row { line: node.call_line, discriminator: node.call_discriminator };
        NamedNode { parent: node.parent, name: number, start_line: described.start_line, call }
    };
    let nodes = tree.nodes.iter().zip(&used).map(|(node, used)| named(node, *used)).collect();
    (nodes, names)
}
