//! The tables of each view.

mod hot;
mod lines;
mod notes;
mod trees;
mod waits;

pub(crate) use trees::{Grown, search};

use crate::data::{Data, Lines, Setup};
use crate::row::{Row, RowKey, Table};
use crate::text::folded;
use calltrees::FunctionId;
use rustc_hash::FxHashSet;

/// What is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum View {
    /// What weighs most.
    #[default]
    Hot,
    /// Who called the chosen function.
    Callers,
    /// What the chosen function called.
    Callees,
    /// All calls.
    Tree,
    /// The chosen function by line and instruction.
    Lines,
    /// How long threads and stacks waited.
    Waits,
    /// What each thread did over time.
    Timeline,
    /// What the numbers do not hold.
    Notes,
}

impl View {
    /// All, in the order of their keys.
    pub const ALL: [View; 8] = [
        View::Hot,
        View::Callers,
        View::Callees,
        View::Tree,
        View::Lines,
        View::Waits,
        View::Timeline,
        View::Notes,
    ];

    /// Its name on the screen.
    pub fn title(self) -> &'static str {
        match self {
            View::Hot => "Hot",
            View::Callers => "Callers",
            View::Callees => "Callees",
            View::Tree => "Tree",
            View::Lines => "Lines",
            View::Waits => "Waits",
            View::Timeline => "Timeline",
            View::Notes => "Notes",
        }
    }

    /// Its position among all.
    pub(crate) fn number(self) -> usize {
        View::ALL.iter().position(|view| *view == self).unwrap_or(0)
    }

    /// In which orders its lines can stand.
    pub(crate) fn orders(self) -> &'static [Order] {
        match self {
            View::Hot => &[Order::Own, Order::Total, Order::Samples, Order::Name],
            View::Callers | View::Callees | View::Tree => {
                &[Order::Total, Order::Own, Order::Samples, Order::Name]
            }
            View::Lines => &[Order::Place, Order::Own],
            View::Waits => &[Order::Total, Order::Longest, Order::Samples, Order::Name],
            View::Timeline | View::Notes => &[Order::Place],
        }
    }

    /// Whether it is a tree.
    pub(crate) fn is_tree(self) -> bool {
        matches!(self, View::Callers | View::Callees | View::Tree)
    }
}

/// What lines are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Own,
    Total,
    Samples,
    Longest,
    Name,
    /// As they lie in the file.
    Place,
}

impl Order {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Order::Own => "self",
            Order::Total => "total",
            Order::Samples => "count",
            Order::Longest => "longest",
            Order::Name => "name",
            Order::Place => "place",
        }
    }
}

/// The lines of the chosen function, as far as they are there.
#[derive(Clone, Debug, Default)]
pub(crate) enum Fetched {
    /// Nobody asked.
    #[default]
    Nothing,
    /// Asked for.
    Awaited(FunctionId),
    Here(FunctionId, Box<Lines>),
    /// Why they are not to be had.
    Refused(FunctionId, String),
}

impl Fetched {
    pub(crate) fn function(&self) -> Option<FunctionId> {
        match self {
            Fetched::Nothing => None,
            Fetched::Awaited(id) | Fetched::Here(id, _) | Fetched::Refused(id, _) => Some(*id),
        }
    }
}

/// What a table is made from.
pub(crate) struct Made<'m> {
    pub setup: &'m Setup,
    pub data: &'m Data,
    /// Which of [`Setup::by`].
    pub by: usize,
    pub order: Order,
    /// What weighs less is left out, in per cent.
    pub percent: f64,
    /// The function that callers, callees and lines are of.
    pub chosen: Option<FunctionId>,
    /// Lines that are open, or, where a line is open by itself, closed.
    pub turned: &'m FxHashSet<RowKey>,
    pub fetched: &'m Fetched,
    /// Whether waits are told by stack.
    pub waits_by_stack: bool,
    /// Cells of the screen.
    pub width: usize,
}

impl Made<'_> {
    /// The table of a view; of a tree also the tree.
    pub(crate) fn table(&self, view: View) -> (Table, Option<Grown>) {
        let (mut table, grown) = self.of_view(view);
        if table.prose {
            let cells = self.width.saturating_sub(2).max(10);
            let lines = table.rows.iter();
            let lines = lines.flat_map(|row| folded(&row.name, cells, self.setup.ascii));
            table.rows = (0..).zip(lines).map(|(number, line)| Row::text(number, line)).collect();
        }
        (table, grown)
    }

    fn of_view(&self, view: View) -> (Table, Option<Grown>) {
        match view {
            View::Hot => (hot::table(self), None),
            View::Callers | View::Callees | View::Tree => trees::table(self, view),
            View::Lines => (lines::table(self), None),
            View::Waits => (waits::table(self), None),
            View::Timeline => (notes::timeline(self), None),
            View::Notes => (notes::table(self), None),
        }
    }
}

/// A share as it stands in a column.
fn percent(share: f64) -> String {
    format!("{share:.2} %")
}
