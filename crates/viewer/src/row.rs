//! What a line of a table is: numbers in columns, a name, and what it stands for.

use calltrees::FunctionId;
use calltrees::rows::Subject;

/// A column of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    /// What it is called.
    pub title: String,
    /// Cells, the blank before it among them.
    pub cells: usize,
    /// The width of the screen from which on it is shown.
    pub from: usize,
}

impl Column {
    pub(crate) fn new(title: impl Into<String>, cells: usize, from: usize) -> Column {
        Column { title: title.into(), cells, from }
    }
}

/// What tells a line from all others, also after the table is made anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowKey {
    /// What the line is about.
    Subject(Subject),
    /// A path of functions from the root of a tree, by its hash.
    Path(u64),
    /// Its number, and that of a line below it.
    Number(usize, usize),
}

/// Whether there is something below a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Nothing.
    #[default]
    Leaf,
    /// Shown.
    Open,
    /// Not shown.
    Closed,
}

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub key: RowKey,
    /// By the columns of its table.
    pub cells: Vec<String>,
    /// How deep it lies.
    pub depth: usize,
    pub fold: Fold,
    /// What it is called, as it is: to be made visible.
    pub name: String,
    /// What stands behind the name, such as a library.
    pub more: String,
    /// The function that it is about, if any.
    pub function: Option<FunctionId>,
    /// How much of the whole it is, in per cent: what is hot is set off.
    pub heat: f64,
}

impl Row {
    /// A line of text.
    pub(crate) fn text(number: usize, text: impl Into<String>) -> Row {
        Row {
            key: RowKey::Number(number, 0),
            cells: Vec::new(),
            depth: 0,
            fold: Fold::Leaf,
            name: text.into(),
            more: String::new(),
            function: None,
            heat: 0.0,
        }
    }
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub columns: Vec<Column>,
    /// What the last column holds.
    pub title: String,
    pub rows: Vec<Row>,
    /// Lines that are left out by the percent limit.
    pub left_out: usize,
    /// What is said above the table.
    pub about: String,
    /// Whether its lines are sentences, to be folded as wide as the screen.
    pub prose: bool,
}

impl Table {
    /// A table that holds nothing but a sentence.
    pub(crate) fn only(text: &str) -> Table {
        Table { rows: vec![Row::text(0, text)], prose: true, ..Table::default() }
    }
}
