//! What does each key do?

use crate::keys::Key;
use crate::prompt::{Prompt, Purpose, matches, percentage};
use crate::row::{Fold, RowKey};
use crate::state::{Ask, Over, Viewer};
use crate::views::{View, search};
use calltrees::FunctionId;
use calltrees::rows::{By, Subject};

impl Viewer {
    /// Does what a key is for.
    pub fn key(&mut self, key: Key) -> Ask {
        match key {
            Key::Control('c') => return Ask::Quit,
            Key::Control('z') => return Ask::Suspend,
            Key::Control('l') => return Ask::Redraw,
            _ => {}
        }
        if let Some(prompt) = self.prompt.take() {
            return self.typed(prompt, key);
        }
        if self.over.is_some() {
            return self.key_over(key);
        }
        if !self.setup.live {
            self.message.clear();
        }
        self.key_of_view(key)
    }

    fn key_of_view(&mut self, key: Key) -> Ask {
        let page = self.page.0.max(1);
        let at = self.place().selected;
        match key {
            Key::Char('q') => return Ask::Quit,
            Key::Up | Key::Char('k') => self.select(at.saturating_sub(1)),
            Key::Down | Key::Char('j') => self.select(at.saturating_add(1)),
            Key::PageUp => self.select(at.saturating_sub(page)),
            Key::PageDown => self.select(at.saturating_add(page)),
            Key::Char(' ') if !self.setup.live => self.select(at.saturating_add(page)),
            Key::Home | Key::Char('g') => self.select(0),
            Key::End | Key::Char('G') => self.select(usize::MAX),
            Key::Click(_, line) => self.click(line),
            Key::Tab => return self.step_view(1),
            Key::BackTab => return self.step_view(View::ALL.len() - 1),
            Key::Char(digit @ '1'..='8') => {
                let number = digit.to_digit(10).unwrap_or(1) as usize;
                let view = View::ALL.get(number.saturating_sub(1)).copied();
                return self.show(view.unwrap_or_default());
            }
            Key::Enter => return self.enter(),
            Key::Right => self.fold(Fold::Open),
            Key::Left => self.fold(Fold::Closed),
            Key::Char('*') => self.fold_below(Fold::Open),
            Key::Char('-') => self.fold_below(Fold::Closed),
            Key::Char('c') => return self.of_function(View::Callers),
            Key::Char('C') => return self.of_function(View::Callees),
            Key::Char('s') => return self.of_function(View::Lines),
            Key::Char('w') => self.show_whole(),
            Key::Escape => {
                if let Some(view) = self.before.pop() {
                    self.view = view;
                    self.make();
                }
            }
            Key::Char('?') => self.put_over(Over::Help),
            Key::Char('/') => self.prompt = Some(Prompt::new(Purpose::Search)),
            Key::Char('n') => self.find(false),
            Key::Char('N') => self.find(true),
            Key::Char('p') => self.prompt = Some(Prompt::new(Purpose::Percent)),
            Key::Char('m') => {
                self.mouse = !self.mouse;
                let said = if self.mouse { "mouse on" } else { "mouse off" };
                said.clone_into(&mut self.message);
                return Ask::Mouse(self.mouse);
            }
            _ => return self.key_of_data(key),
        }
        Ask::Nothing
    }

    /// Keys that change which samples are told, and how.
    fn key_of_data(&mut self, key: Key) -> Ask {
        match key {
            Key::Char('b') if self.view == View::Waits => {
                self.waits_by_stack = !self.waits_by_stack;
                self.with_place(|place| place.turned.clear());
                self.make();
            }
            Key::Char('b') => {
                self.by = (self.by + 1).checked_rem(self.setup.by.len()).unwrap_or(0);
                self.make();
                self.select(0);
            }
            Key::Char('o') => {
                self.with_place(|place| place.order = place.order.wrapping_add(1));
                self.make();
                self.select(0);
                self.message = format!("order: {}", self.order().word());
            }
            Key::Char('e' | 'E') => {
                if self.data.next_event(key == Key::Char('E')) {
                    self.fetched = crate::views::Fetched::Nothing;
                    self.make();
                    if self.view == View::Lines {
                        return self.want_lines();
                    }
                } else {
                    "there is no other event with samples".clone_into(&mut self.message);
                }
            }
            Key::Char('f') => self.narrow(),
            Key::Char('u') | Key::Backspace => {
                if self.data.widen() {
                    self.make();
                } else {
                    "all samples are shown".clone_into(&mut self.message);
                }
            }
            Key::Char('t') if !self.setup.live => self.prompt = Some(Prompt::new(Purpose::Time)),
            Key::Char('z') if self.setup.live => return Ask::Clear,
            Key::Char(' ') if self.setup.live => {
                self.still = !self.still;
                let said = if self.still { "standing still; Space goes on" } else { "going on" };
                said.clone_into(&mut self.message);
            }
            _ => {}
        }
        Ask::Nothing
    }

    /// A key while a line is typed.
    fn typed(&mut self, mut prompt: Prompt, key: Key) -> Ask {
        match key {
            Key::Escape => return Ask::Nothing,
            Key::Enter => return self.entered(prompt),
            Key::Char(c) => prompt.push(c),
            Key::Backspace if prompt.text.is_empty() => return Ask::Nothing,
            Key::Backspace => drop(prompt.text.pop()),
            Key::Control('u') => prompt.text.clear(),
            _ => {}
        }
        self.prompt = Some(prompt);
        Ask::Nothing
    }

    fn entered(&mut self, prompt: Prompt) -> Ask {
        match prompt.purpose {
            Purpose::Search => {
                if !prompt.text.is_empty() {
                    self.search = prompt.text;
                }
                self.find(false);
            }
            Purpose::Percent => match percentage(&prompt.text) {
                Some(percent) => {
                    self.percent = percent;
                    self.make();
                    self.message = format!("what is below {percent} % is left out");
                }
                None => self.message = format!("{} is no percentage", prompt.text),
            },
            Purpose::Time => return Ask::Time(prompt.text.trim().to_owned()),
        }
        Ask::Nothing
    }

    /// A key while something lies over the table.
    fn key_over(&mut self, key: Key) -> Ask {
        let page = self.page.0.max(1);
        match key {
            Key::Up | Key::Char('k') => self.over_top = self.over_top.saturating_sub(1),
            Key::Down | Key::Char('j') => self.over_top = self.over_top.saturating_add(1),
            Key::PageUp => self.over_top = self.over_top.saturating_sub(page),
            Key::PageDown | Key::Char(' ') => self.over_top = self.over_top.saturating_add(page),
            Key::Home | Key::Char('g') => self.over_top = 0,
            // Drawing keeps it to the last page.
            Key::End | Key::Char('G') => self.over_top = usize::MAX,
            _ => self.over = None,
        }
        Ask::Nothing
    }

    fn put_over(&mut self, over: Over) {
        self.over = Some(over);
        self.over_top = 0;
    }

    fn click(&mut self, line: u16) {
        let (page, first) = self.page;
        let Some(at) = line.checked_sub(first).map(usize::from).filter(|at| *at < page) else {
            return;
        };
        let at = self.place().top + at;
        if at >= self.table.rows.len() {
            return;
        }
        if at == self.place().selected {
            self.turn();
        }
        self.select(at);
    }

    fn step_view(&mut self, step: usize) -> Ask {
        let next = (self.view.number() + step) % View::ALL.len();
        self.show(View::ALL.get(next).copied().unwrap_or_default())
    }

    /// Goes to a view.
    fn show(&mut self, view: View) -> Ask {
        /// Further back nobody remembers.
        const MOST: usize = 100;
        if view != self.view {
            self.before.push(std::mem::replace(&mut self.view, view));
            if self.before.len() > MOST {
                self.before.remove(0);
            }
        }
        self.make();
        if view == View::Lines { self.want_lines() } else { Ask::Nothing }
    }

    /// Goes to a view of the selected function.
    fn of_function(&mut self, view: View) -> Ask {
        let function = self.row().and_then(|row| row.function).or(self.chosen);
        let Some(function) = function else {
            "this line is no function".clone_into(&mut self.message);
            return Ask::Nothing;
        };
        if self.chosen != Some(function) {
            self.chosen = Some(function);
            for place in [View::Callers, View::Callees, View::Lines] {
                self.places
                    .get_mut(place.number())
                    .into_iter()
                    .for_each(|place| (place.selected, place.top, place.key) = (0, 0, None));
            }
        }
        self.show(view)
    }

    /// What Enter does: the callers of a function, the samples of anything else, or a line opened
    /// or closed.
    fn enter(&mut self) -> Ask {
        let Some(row) = self.row() else { return Ask::Nothing };
        match (self.view, row.key.clone(), row.function) {
            (View::Hot, _, Some(_)) => return self.of_function(View::Callers),
            (View::Hot, RowKey::Subject(_), None) => {
                self.narrow();
                self.by = 0;
                self.make();
                self.select(0);
            }
            (View::Waits, RowKey::Subject(Subject::Thread(_)), _) => {
                self.narrow();
                self.waits_by_stack = true;
                self.make();
            }
            _ => self.turn(),
        }
        Ask::Nothing
    }

    /// Opens a closed line, closes an open one.
    fn turn(&mut self) {
        let Some(row) = self.row() else { return };
        let key = row.key.clone();
        match row.fold {
            Fold::Leaf => {}
            Fold::Open | Fold::Closed => self.flip(key),
        }
    }

    fn flip(&mut self, key: RowKey) {
        self.with_place(|place| {
            if !place.turned.remove(&key) {
                place.turned.insert(key);
            }
        });
        self.make();
    }

    /// Opens or closes the selected line; what is closed goes to the line that it lies under.
    fn fold(&mut self, to: Fold) {
        let at = self.place().selected;
        let Some(row) = self.row() else { return };
        let depth = row.depth;
        match (row.fold, to) {
            (Fold::Closed, Fold::Open) | (Fold::Open, Fold::Closed) => self.turn(),
            (_, Fold::Closed) if depth > 0 => {
                let above = self.table.rows.get(..at).unwrap_or_default();
                if let Some(parent) = above.iter().rposition(|row| row.depth < depth) {
                    self.select(parent);
                }
            }
            (Fold::Open, Fold::Open) => self.select(at + 1),
            _ => {}
        }
    }

    /// Opens or closes all lines below the selected one.
    fn fold_below(&mut self, to: Fold) {
        /// More lines than that nobody looks through.
        const MOST: usize = 20_000;
        let at = self.place().selected;
        let Some(depth) = self.row().map(|row| row.depth) else { return };
        let from = if to == Fold::Open { Fold::Closed } else { Fold::Open };
        // Opened lines bring further ones.
        while self.table.rows.len() < MOST {
            let rows = self.table.rows.iter().enumerate().skip(at);
            let below = rows.take_while(|(index, row)| *index == at || row.depth > depth);
            let keys: Vec<RowKey> =
                below.filter(|(_, row)| row.fold == from).map(|(_, row)| row.key.clone()).collect();
            if keys.is_empty() {
                return;
            }
            self.with_place(|place| {
                for key in keys {
                    if !place.turned.remove(&key) {
                        place.turned.insert(key);
                    }
                }
            });
            self.make();
        }
    }

    /// Looks only at the samples of the selected line.
    fn narrow(&mut self) {
        let Some(row) = self.row() else { return };
        let by_row = self.setup.by.get(self.by).map(|(_, by)| *by);
        let wanted = match (&row.key, row.function) {
            (RowKey::Subject(subject @ Subject::Thread(_)), _) if self.view == View::Waits => {
                Some((By::Thread, subject.clone()))
            }
            (RowKey::Subject(subject), _) => by_row.map(|by| (by, subject.clone())),
            (_, Some(function)) => Some((By::Function, Subject::Function(function))),
            _ => None,
        };
        match wanted {
            Some((by, subject)) => {
                self.data.narrow(by, subject);
                self.make();
            }
            None => "this line has no samples of its own".clone_into(&mut self.message),
        }
    }

    /// Goes to the next line whose name holds what is searched for.
    fn find(&mut self, back: bool) {
        if self.search.is_empty() {
            "search for what? Press /".clone_into(&mut self.message);
            return;
        }
        let wanted = self.search.clone();
        let place = self.place();
        let found = if self.view.is_tree() {
            self.find_in_tree(&wanted, back)
        } else {
            let count = self.table.rows.len();
            let step = |number: usize| {
                let steps = if back { count - number } else { number };
                (place.selected + steps).checked_rem(count)
            };
            let is_found = |at: &usize| {
                self.table.rows.get(*at).is_some_and(|row| matches(&row.name, &wanted))
            };
            (1..=count).filter_map(step).find(is_found)
        };
        let Some(found) = found else {
            self.message = format!("nothing here is called {wanted}");
            return;
        };
        self.select(found);
        let share = self.data.share_through(|id| matches(&self.data.function(id), &wanted));
        self.message =
            format!("{wanted}: {share:.2} % of the samples are in or below such functions");
    }

    /// The same in a tree, where closed lines are opened for it.
    fn find_in_tree(&mut self, wanted: &str, back: bool) -> Option<usize> {
        let place = self.place();
        let is_it = |id: FunctionId| matches(&self.data.function(id), wanted);
        let made = self.made(&place.turned);
        let (key, turn) = search(&made, self.grown.as_ref()?, place.key.as_ref(), back, is_it)?;
        turn.into_iter().for_each(|key| self.flip(key));
        self.table.rows.iter().position(|row| row.key == key)
    }

    /// Shows the whole name of the selected line, and its numbers.
    fn show_whole(&mut self) {
        let Some(row) = self.row() else { return };
        let mut parts = vec![("name".to_owned(), row.name.clone())];
        if let Some(id) = row.function {
            let names = &self.data.recorded().names;
            let linkage = names.function(id).map(|function| function.name.clone());
            let linkage = linkage.filter(|linkage| *linkage != row.name);
            parts.extend(linkage.map(|linkage| ("linkage name".to_owned(), linkage)));
            let library = names.library(id);
            parts.extend(library.map(|library| ("library".to_owned(), library.path.clone())));
            let problem = library.and_then(|library| library.problem.clone());
            parts.extend(problem.map(|problem| ("no names because".to_owned(), problem)));
        } else if !row.more.is_empty() {
            parts.push(("of".to_owned(), row.more.clone()));
        }
        let columns = self.table.columns.iter().zip(&row.cells);
        parts.extend(columns.map(|(column, cell)| (column.title.clone(), cell.clone())));
        self.put_over(Over::Whole(parts));
    }
}
