//! The answer to a resolution: one inline stack per address, each distinct stack and name kept
//! once.

use rustc_hash::FxHashMap;

use super::damage::Damage;
use super::lines::Row;

/// Number of a function name in a [`NameTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(u32);

impl NameId {
    /// Position in the table, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Distinct function names in the order in which they were first met by address and depth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTable {
    names: Vec<String>,
    numbers: FxHashMap<String, u32>,
}

impl NameTable {
    /// The name, or an empty one for a number of another table.
    pub fn get(&self, id: NameId) -> &str {
        self.names.get(id.index()).map_or("", String::as_str)
    }

    /// How many names there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// All names, by number.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The number of a name; names that are not UTF-8 get replacement characters.
    pub(super) fn intern(&mut self, name: &[u8]) -> NameId {
        let name = String::from_utf8_lossy(name);
        if let Some(&known) = self.numbers.get(name.as_ref()) {
            return NameId(known);
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone().into_owned());
        self.numbers.insert(name.into_owned(), number);
        NameId(number)
    }
}

/// One function of an inline stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// Linkage name, else plain name.
    pub function: NameId,
    /// Line of the function's declaration (`DW_AT_decl_line`), 0 when unknown.
    pub start_line: u32,
    /// Line of the instruction in the innermost function, of the call in the others; 0 when the
    /// compiler gave none.
    pub line: u32,
    /// Discriminator as encoded; see [`super::discriminator`] for its parts.
    pub discriminator: u32,
}

/// Number of an inline stack in a [`Resolved`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(u32);

impl StackId {
    /// The stack without frames: the address is in no function of the debug information.
    pub const EMPTY: StackId = StackId(0);
}

/// What could not be read; nothing here stops the rest from being used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DebugProblems {
    /// Units whose entries or lines are damaged, at least in part.
    pub damaged_units: u64,
    /// Units whose `.dwo` file was not found; only what their skeletons state is known.
    pub missing_dwo: u64,
    /// The first of the problems, in words.
    pub first: Option<String>,
}

impl DebugProblems {
    pub(super) fn damaged(&mut self, offset: usize, error: &Damage) {
        self.damaged_units += 1;
        self.first.get_or_insert_with(|| {
            format!("unit at offset {offset:#x} of .debug_info is damaged: {error}")
        });
    }

    pub(super) fn missing(&mut self, file: &std::path::Path) {
        self.missing_dwo += 1;
        self.first.get_or_insert_with(|| {
            format!(
                "{} is missing or of another build; keep .dwo files, or pack them with dwp",
                file.display()
            )
        });
    }

    pub(super) fn add(&mut self, other: DebugProblems) {
        self.damaged_units += other.damaged_units;
        self.missing_dwo += other.missing_dwo;
        if self.first.is_none() {
            self.first = other.first;
        }
    }
}

/// Inline stacks of a list of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The stack of each address, in the order of the request.
    pub stacks: Vec<StackId>,
    /// Function names.
    pub names: NameTable,
    /// What could not be read.
    pub problems: DebugProblems,
    frames: Vec<Frame>,
    /// Where the frames of a stack begin; stack n ends where n + 1 begins.
    begins: Vec<u32>,
}

impl Resolved {
    /// No stacks yet, for this many addresses.
    pub(super) fn unresolved(addresses: usize) -> Resolved {
        Resolved {
            stacks: vec![StackId::EMPTY; addresses],
            begins: vec![0, 0],
            ..Resolved::default()
        }
    }

    /// The frames of a stack, innermost first.
    pub fn stack(&self, id: StackId) -> &[Frame] {
        self.stack_at(id.0 as usize)
    }

    /// The frames of a stack by its [index](Self::stack_index), innermost first.
    pub fn stack_at(&self, index: usize) -> &[Frame] {
        match (self.begins.get(index), self.begins.get(index + 1)) {
            (Some(&begin), Some(&end)) => {
                self.frames.get(begin as usize..end as usize).unwrap_or_default()
            }
            _ => &[],
        }
    }

    /// The frames of the address at this position of the request, innermost first.
    pub fn frames(&self, position: usize) -> &[Frame] {
        self.stacks.get(position).map_or(&[], |id| self.stack(*id))
    }

    /// How many distinct stacks there are, the empty one included; the numbers of all stacks are
    /// below it.
    pub fn stack_count(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// Number of a stack, below [`Self::stack_count`].
    pub fn stack_index(id: StackId) -> usize {
        id.0 as usize
    }

    fn add_stack(&mut self, frames: impl Iterator<Item = Frame>) -> StackId {
        let id = StackId(self.begins.len().saturating_sub(1) as u32);
        self.frames.extend(frames);
        self.begins.push(self.frames.len() as u32);
        id
    }

    /// Adds what was found in one unit.
    pub(super) fn add_unit(&mut self, positions: &[u32], unit: &UnitStacks<'_>) {
        let names: Vec<NameId> = unit.names.iter().map(|name| self.names.intern(name)).collect();
        let mut known: FxHashMap<(u32, Row), StackId> = FxHashMap::default();
        let mut last = None;
        for ((&position, &node), row) in positions.iter().zip(&unit.innermost).zip(&unit.rows) {
            if node == super::tree::NONE {
                continue;
            }
            let key = (node, row.unwrap_or_default());
            let id = match last {
                Some((same, id)) if same == key => id,
                _ => *known
                    .entry(key)
                    .or_insert_with(|| self.add_stack(unit.frames(key.0, key.1, &names))),
            };
            last = Some((key, id));
            if let Some(stack) = self.stacks.get_mut(position as usize) {
                *stack = id;
            }
        }
    }
}

/// A node of the tree with what is known about its function.
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedNode {
    pub(super) parent: u32,
    /// Position in [`UnitStacks::names`].
    pub(super) name: u32,
    pub(super) start_line: u32,
    pub(super) call: Row,
}

/// Everything found in one unit, by address of the unit's part of the request.
pub(super) struct UnitStacks<'a> {
    pub(super) innermost: Vec<u32>,
    pub(super) rows: Vec<Option<Row>>,
    pub(super) nodes: Vec<NamedNode>,
    pub(super) names: Vec<&'a [u8]>,
}

impl UnitStacks<'_> {
    fn frames<'s>(
        &'s self,
        node: u32,
        row: Row,
        names: &'s [NameId],
    ) -> impl Iterator<Item = Frame> + 's {
        let mut next = Some((node, row));
        std::iter::from_fn(move || {
            let (index, row) = next?;
            let node = self.nodes.get(index as usize)?;
            next = Some((node.parent, node.call));
            let function = *names.get(node.name as usize)?;
            Some(Frame {
                function,
                start_line: node.start_line,
                line: row.line,
                discriminator: row.discriminator,
            })
        })
    }
}
