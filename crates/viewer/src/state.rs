//! What the user chose to see, and the table that follows from it.

use crate::data::{Data, Lines, Setup};
use crate::prompt::Prompt;
use crate::row::{Row, RowKey, Table};
use crate::views::{Fetched, Grown, Made, Order, View};
use calltrees::{FunctionId, Recorded};
use rustc_hash::FxHashSet;

/// What the program around the viewer is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Nothing but drawing.
    Nothing,
    /// End.
    Quit,
    /// Give the terminal back until the shell continues us.
    Suspend,
    /// Draw all cells anew.
    Redraw,
    /// Fetch the lines of a function, of samples of an event (index), and tell
    /// [`Viewer::fetched`].
    Lines(FunctionId, u32),
    /// Read the part of the recording between two times (`FROM-TO` in seconds, empty: all), and
    /// tell [`Viewer::read_again`].
    Time(String),
    /// Take clicks, or no more.
    Mouse(bool),
    /// Forget the samples so far; of live views.
    Clear,
}

/// What lies over the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Help,
    /// A whole name, by its parts, each with what it is.
    Whole(Vec<(String, String)>),
}

/// Where one is in a view.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub selected: usize,
    pub top: usize,
    /// The line that is selected, for when the table is made anew.
    pub key: Option<RowKey>,
    pub order: usize,
    /// Lines that are turned from how they are by themselves.
    pub turned: FxHashSet<RowKey>,
}

/// A recording, and what of it is to be seen.
#[derive(Debug)]
pub struct Viewer {
    pub(crate) setup: Setup,
    pub(crate) data: Data,
    pub(crate) view: View,
    /// Views that Escape goes back to.
    pub(crate) before: Vec<View>,
    pub(crate) places: Vec<Place>,
    pub(crate) by: usize,
    pub(crate) percent: f64,
    pub(crate) chosen: Option<FunctionId>,
    pub(crate) fetched: Fetched,
    pub(crate) waits_by_stack: bool,
    pub(crate) prompt: Option<Prompt>,
    pub(crate) search: String,
    pub(crate) over: Option<Over>,
    /// First line of what lies over the table.
    pub(crate) over_top: usize,
    /// What is said in the line above the last.
    pub(crate) message: String,
    pub(crate) mouse: bool,
    pub(crate) time: String,
    /// Of live views: no new samples are taken.
    pub(crate) still: bool,
    pub(crate) table: Table,
    pub(crate) grown: Option<Grown>,
    /// Columns and lines of the screen, and lines of the table on it with the first one's place.
    pub(crate) size: (u16, u16),
    pub(crate) page: (usize, u16),
}

impl Viewer {
    /// Shows samples of an event (index) of a recording, in a view. `chosen` is the function that callers,
    /// callees and lines are of.
    pub fn new(
        setup: Setup,
        recorded: Recorded,
        event: u32,
        view: View,
        chosen: Option<FunctionId>,
    ) -> Viewer {
        let percent = setup.percent;
        let mut viewer = Viewer {
            setup,
            data: Data::new(recorded, event),
            view,
            before: Vec::new(),
            places: View::ALL.iter().map(|_| Place::default()).collect(),
            by: 0,
            percent,
            chosen,
            fetched: Fetched::Nothing,
            waits_by_stack: false,
            prompt: None,
            search: String::new(),
            over: None,
            over_top: 0,
            message: String::new(),
            mouse: false,
            time: String::new(),
            still: false,
            table: Table::default(),
            grown: None,
            size: (80, 24),
            page: (1, 0),
        };
        viewer.make();
        viewer
    }

    /// Begins with rows by this, one of [`Setup::by`].
    pub fn begin_by(&mut self, word: &str) {
        self.by = self.setup.by.iter().position(|(one, _)| *one == word).unwrap_or(0);
        self.make();
    }

    /// What is to be done at once, before any key.
    pub fn first(&mut self) -> Ask {
        if self.view == View::Lines { self.want_lines() } else { Ask::Nothing }
    }

    /// Goes on with other samples; of live views. `said` stands in the line above the last.
    pub fn update(&mut self, recorded: Recorded, said: &str) {
        if !self.still {
            self.data.replace(recorded);
            self.message = said.to_owned();
            // Who has not moved looks at what is hottest, whatever that is now.
            self.with_place(|place| {
                if place.selected == 0 {
                    place.key = None;
                }
            });
            self.make();
        }
    }

    /// The lines that were asked for, or why there are none.
    pub fn fetched(&mut self, function: FunctionId, lines: Result<Lines, String>) {
        if self.fetched.function() != Some(function) {
            return;
        }
        self.fetched = match lines {
            Ok(lines) => Fetched::Here(function, Box::new(lines)),
            Err(why) => Fetched::Refused(function, why),
        };
        self.make();
        self.select_hottest();
    }

    /// The part of the recording that was asked for, or why there is none.
    pub fn read_again(&mut self, time: &str, recorded: Result<Recorded, String>) {
        match recorded {
            Ok(recorded) => {
                time.clone_into(&mut self.time);
                self.data.narrowed.clear();
                self.data.replace(recorded);
                // Other samples have other functions.
                self.chosen = None;
                self.fetched = Fetched::Nothing;
                self.message.clear();
                self.make();
            }
            Err(why) => self.message = why,
        }
    }

    /// The samples that are looked at.
    pub fn recorded(&self) -> &Recorded {
        self.data.recorded()
    }

    /// Says something in the line above the last.
    pub fn say(&mut self, said: &str) {
        said.clone_into(&mut self.message);
    }

    pub(crate) fn place(&self) -> Place {
        self.places.get(self.view.number()).cloned().unwrap_or_default()
    }

    pub(crate) fn with_place(&mut self, change: impl FnOnce(&mut Place)) {
        if let Some(place) = self.places.get_mut(self.view.number()) {
            change(place);
        }
    }

    pub(crate) fn order(&self) -> Order {
        let orders = self.view.orders();
        let at = self.places.get(self.view.number()).map_or(0, |place| place.order);
        orders.get(at.checked_rem(orders.len()).unwrap_or(0)).copied().unwrap_or(Order::Place)
    }

    /// The selected line.
    pub(crate) fn row(&self) -> Option<&Row> {
        let selected = self.places.get(self.view.number()).map_or(0, |place| place.selected);
        self.table.rows.get(selected)
    }

    /// Everything that tables are made from, with what is turned in this view.
    pub(crate) fn made<'m>(&'m self, turned: &'m FxHashSet<RowKey>) -> Made<'m> {
        Made {
            setup: &self.setup,
            data: &self.data,
            by: self.by,
            order: self.order(),
            percent: self.percent,
            chosen: self.chosen,
            turned,
            fetched: &self.fetched,
            waits_by_stack: self.waits_by_stack,
            width: usize::from(self.size.0),
        }
    }

    /// Makes the table anew, and keeps to the line that is selected.
    pub(crate) fn make(&mut self) {
        let place = self.place();
        let (table, grown) = self.made(&place.turned).table(self.view);
        (self.table, self.grown) = (table, grown);
        let again = place.key.as_ref();
        let again = again.and_then(|key| self.table.rows.iter().position(|row| row.key == *key));
        self.select(again.unwrap_or(place.selected));
    }

    /// Selects a line, the last one if there are not so many.
    pub(crate) fn select(&mut self, at: usize) {
        let at = at.min(self.table.rows.len().saturating_sub(1));
        let key = self.table.rows.get(at).map(|row| row.key.clone());
        let page = self.page.0.max(1);
        self.with_place(|place| {
            place.selected = at;
            place.key = key;
            place.top = place.top.min(at).max((at + 1).saturating_sub(page));
        });
    }

    /// Selects the hottest line, of the lines of a function.
    fn select_hottest(&mut self) {
        let rows = self.table.rows.iter().enumerate().filter(|(_, row)| row.depth == 0);
        // The first of several.
        let hottest = rows.rev().max_by(|(_, one), (_, other)| one.heat.total_cmp(&other.heat));
        self.select(hottest.map_or(0, |(at, _)| at));
    }

    /// Asks for the lines of the chosen function, unless they are there.
    pub(crate) fn want_lines(&mut self) -> Ask {
        let Some(id) = self.chosen else { return Ask::Nothing };
        if self.fetched.function() == Some(id) {
            return Ask::Nothing;
        }
        self.fetched = Fetched::Awaited(id);
        self.make();
        Ask::Lines(id, self.data.event)
    }
}
