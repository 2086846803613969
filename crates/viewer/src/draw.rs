//! The screen: a title, the views, what is shown, the table, a line for messages and one for keys.
//!
//! Any size will do: what matters least goes first where there is little room.

use crate::help;
use crate::row::{Fold, Row, RowKey, Table};
use crate::state::{Over, Viewer};
use crate::text::{folded, head, middle, start, width, wrapped};
use crate::views::View;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color, Modifier, Style};

/// From so many per cent of the whole on, a line is set off; and from so many, strongly.
const WARM: f64 = 5.0;
const HOT: f64 = 20.0;
/// Names keep so many cells, as long as there are as many.
const NAME_CELLS: usize = 16;

/// Which lines there is room for.
struct Layout {
    title: Option<u16>,
    views: Option<u16>,
    about: Option<u16>,
    header: Option<u16>,
    first: u16,
    lines: u16,
    message: Option<u16>,
    keys: Option<u16>,
}

impl Layout {
    fn of(height: u16) -> Layout {
        // The height from which on there is room for each.
        let mut next = 0;
        let mut at = |from: u16| {
            let here = (height >= from).then_some(next);
            next += u16::from(here.is_some());
            here
        };
        let (title, views, about, header) = (at(6), at(8), at(10), at(5));
        let first = next;
        let keys = (height >= 3).then(|| height - 1);
        let message = (height >= 7).then(|| height.saturating_sub(2));
        let last = message.or(keys).unwrap_or(height);
        Layout { title, views, about, header, first, lines: last - first, message, keys }
    }
}

struct Screen<'s> {
    buffer: &'s mut Buffer,
    area: Rect,
    colour: bool,
    ascii: bool,
}

impl Screen<'_> {
    fn width(&self) -> usize {
        usize::from(self.area.width)
    }

    /// Puts harmless text at a column and line of the area; the column behind it comes back.
    fn put(&mut self, x: usize, y: u16, text: &str, style: Style) -> usize {
        let room = self.width().saturating_sub(x);
        let (Ok(column), true) = (u16::try_from(x), room > 0 && y < self.area.height) else {
            return x;
        };
        let shown = head(text, room, self.ascii);
        let (left, top) = (self.area.x + column, self.area.y + y);
        self.buffer.set_stringn(left, top, &shown, room, style);
        x + width(&shown)
    }

    fn style(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }

    fn faint(&self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    fn heat(&self, heat: f64) -> Style {
        match heat {
            heat if heat >= HOT => self.style(Color::Red),
            heat if heat >= WARM => self.style(Color::Yellow),
            _ => Style::new(),
        }
    }

    fn set_off(&mut self, y: u16, style: Style) {
        let line = Rect { y: self.area.y + y, height: 1, ..self.area };
        self.buffer.set_style(line.intersection(self.area), style);
    }
}

const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
const TURNED: Style = Style::new().add_modifier(Modifier::REVERSED);

impl Viewer {
    /// Puts the screen into the cells of an area.
    pub fn draw(&mut self, buffer: &mut Buffer, area: Rect) {
        let area = area.intersection(buffer.area);
        if area.is_empty() {
            return;
        }
        let layout = Layout::of(area.height);
        let resized = self.size != (area.width, area.height);
        self.size = (area.width, area.height);
        self.page = (usize::from(layout.lines), layout.first);
        if resized {
            // Some tables are made for the width.
            self.make();
        }
        for cell in area.positions() {
            if let Some(cell) = buffer.cell_mut(cell) {
                cell.reset();
            }
        }
        let (colour, ascii) = (self.setup.colour, self.setup.ascii);
        let mut screen = Screen { buffer, area, colour, ascii };
        self.title(&mut screen, &layout);
        match &self.over {
            Some(over) => {
                let lines = self.lines_over(over, screen.width());
                let last = lines.len().saturating_sub(usize::from(layout.lines).max(1));
                self.over_top = self.over_top.min(last);
                let shown = lines.iter().skip(self.over_top).take(usize::from(layout.lines));
                for ((text, style), y) in shown.zip(layout.first..) {
                    screen.put(0, y, text, *style);
                }
            }
            None => self.lines(&mut screen, &layout),
        }
        self.bottom(&mut screen, &layout);
    }

    fn title(&self, screen: &mut Screen<'_>, layout: &Layout) {
        let wide = screen.width();
        if let Some(y) = layout.title {
            let headline = self.data.headline();
            let behind = width(&headline).min(wide);
            let own = wide.saturating_sub(behind + 3).max(NAME_CELLS.min(wide));
            let at = screen.put(0, y, &middle(&self.setup.title, own, screen.ascii), STRONG);
            let room = wide.saturating_sub(at + 3);
            screen.put(at + 3, y, &middle(&headline, room, screen.ascii), Style::new());
        }
        if let Some(y) = layout.views {
            let named = |view: View| format!("{} {}", view.number() + 1, view.title());
            let whole: usize = View::ALL.iter().map(|view| width(&named(*view)) + 2).sum();
            let mut at = 0;
            for view in View::ALL {
                let here = view == self.view;
                let text = if here || whole <= wide + 2 {
                    named(view)
                } else {
                    (view.number() + 1).to_string()
                };
                let style = if here { TURNED } else { Style::new() };
                at = screen.put(at, y, &text, style) + if whole <= wide + 2 { 2 } else { 1 };
            }
        }
        if let Some(y) = layout.about {
            let mut said = vec![self.table.about.clone()];
            if !self.time.is_empty() {
                said.push(format!("seconds {}", self.time));
            }
            said.extend(self.data.narrowed.iter().map(|one| one.told.clone()));
            said.retain(|said| !said.is_empty());
            let said = middle(&said.join("; "), wide, screen.ascii);
            let faint = screen.faint();
            screen.put(0, y, &said, faint);
        }
    }

    fn lines(&self, screen: &mut Screen<'_>, layout: &Layout) {
        let place = self.place();
        let columns = Columns::of(&self.table, screen.width());
        if let Some(y) = layout.header {
            let at = columns.header(&self.table, screen, y);
            screen.put(at, y, &self.table.title, STRONG);
        }
        let rows = self.table.rows.iter().enumerate().skip(place.top);
        for ((index, row), y) in rows.zip(layout.first..layout.first + layout.lines) {
            self.line(screen, &columns, row, y);
            if index == place.selected {
                screen.set_off(y, TURNED);
            }
        }
        if self.table.rows.is_empty() && layout.lines > 0 {
            screen.put(2, layout.first, "Nothing is left to show here (u, p 0, e).", Style::new());
        }
    }

    fn line(&self, screen: &mut Screen<'_>, columns: &Columns, row: &Row, y: u16) {
        let heat = screen.heat(row.heat);
        let mut at = 0;
        if !row.cells.is_empty() {
            for (cells, number) in &columns.shown {
                let text = row.cells.get(*number).map_or("", String::as_str);
                let before = cells.saturating_sub(width(text));
                screen.put(at + before, y, text, heat);
                at += cells;
            }
        } else if row.depth > 0 || !self.table.columns.is_empty() {
            at = columns.cells;
        }
        at += if columns.cells > 0 { 2 } else { 0 };
        let room = screen.width().saturating_sub(at);
        // Deeper lines stand no further to the right than leaves room for their names.
        at += (row.depth * 2).min(room.saturating_sub(NAME_CELLS + 2) / 2 * 2);
        let has_folds = self.view.is_tree() || matches!(self.view, View::Lines | View::Waits);
        let mark = match (row.fold, screen.ascii) {
            (Fold::Open, false) => "▾ ",
            (Fold::Closed, false) => "▸ ",
            (Fold::Open, true) => "- ",
            (Fold::Closed, true) => "+ ",
            (Fold::Leaf, _) if has_folds => "  ",
            (Fold::Leaf, _) => "",
        };
        at = screen.put(at, y, mark, Style::new());
        let room = screen.width().saturating_sub(at);
        let more = match row.more.as_str() {
            "" => String::new(),
            // The name needs it all.
            _ if room < NAME_CELLS => String::new(),
            more => {
                // What a short name leaves over; of a long one a third.
                let name = width(&middle(&row.name, room, screen.ascii));
                let cells = room.saturating_sub(name + 2).max(room / 3).max(8).min(room);
                middle(more, cells, screen.ascii)
            }
        };
        let behind = if more.is_empty() { 0 } else { width(&more) + 2 };
        let is_text = row.function.is_none() && matches!(row.key, RowKey::Number(..));
        // Of a name the end matters too, of a line of text the start.
        let fit = if is_text { start } else { middle };
        let name = fit(&row.name, room.saturating_sub(behind), screen.ascii);
        let found = !self.search.is_empty() && crate::prompt::matches(&row.name, &self.search);
        let style = if found { STRONG.add_modifier(Modifier::UNDERLINED) } else { Style::new() };
        let at = screen.put(at, y, &name, style);
        if !more.is_empty() {
            let faint = screen.faint();
            screen.put(at + 2, y, &more, faint);
        }
    }

    /// The lines of what lies over the table.
    fn lines_over(&self, over: &Over, wide: usize) -> Vec<(String, Style)> {
        let mut lines = Vec::new();
        match over {
            Over::Help => {
                for (group, keys) in help::all(self.setup.live) {
                    lines.push((group.to_owned(), STRONG));
                    for (key, what) in keys {
                        let cells = wide.saturating_sub(17).max(10);
                        let behind = folded(what, cells, self.setup.ascii);
                        for (number, part) in behind.iter().enumerate() {
                            let key = if number == 0 { key } else { "" };
                            lines.push((format!("  {key:<13} {part}"), Style::new()));
                        }
                    }
                }
            }
            Over::Whole(parts) => {
                for (what, text) in parts {
                    lines.push((what.clone(), STRONG));
                    let text = wrapped(text, wide.saturating_sub(2), self.setup.ascii);
                    lines.extend(text.into_iter().map(|line| (format!("  {line}"), Style::new())));
                }
            }
        }
        lines
    }

    fn bottom(&self, screen: &mut Screen<'_>, layout: &Layout) {
        let wide = screen.width();
        if let Some(y) = layout.message {
            let place = self.place();
            let count = self.table.rows.len();
            let mut position = match count {
                0 => String::new(),
                count => format!("{} of {count}", place.selected + 1),
            };
            if self.table.left_out > 0 {
                position += &format!(", {} below {} %", self.table.left_out, self.percent);
            }
            let behind = width(&position);
            let room = wide.saturating_sub(behind + 2);
            screen.put(0, y, &middle(&self.message, room, screen.ascii), Style::new());
            let faint = screen.faint();
            screen.put(wide.saturating_sub(behind), y, &position, faint);
        }
        let Some(y) = layout.keys else { return };
        if let Some(prompt) = &self.prompt {
            let at = screen.put(0, y, prompt.purpose.label(), STRONG);
            // The end of what is typed is what one looks at.
            let room = wide.saturating_sub(at + 1);
            let from = prompt.text.chars().count().saturating_sub(room);
            let typed: String = prompt.text.chars().skip(from).collect();
            let at = screen.put(at, y, &typed, Style::new());
            screen.put(at, y, " ", TURNED);
            return;
        }
        let keys = match &self.over {
            Some(_) => vec![("any key", "back"), ("Up Down PgUp PgDn", "scroll")],
            None => help::line(self.view, self.setup.live),
        };
        // The last ones are what one needs most.
        let cells = |keys: &[(&str, &str)]| -> usize {
            keys.iter().map(|(key, what)| width(key) + width(what) + 3).sum()
        };
        let mut from = 0;
        while keys.get(from..).is_some_and(|rest| rest.len() > 1 && cells(rest) > wide + 2) {
            from += 1;
        }
        let mut at = 0;
        for (key, what) in keys.iter().skip(from) {
            at = screen.put(at, y, key, STRONG);
            at = screen.put(at + 1, y, what, screen.faint()) + 2;
        }
    }
}

/// The columns that there is room for.
struct Columns {
    /// Cells of each, and its number in the table.
    shown: Vec<(usize, usize)>,
    cells: usize,
}

impl Columns {
    fn of(table: &Table, wide: usize) -> Columns {
        let mut shown = Vec::new();
        let mut cells = 0;
        for (number, column) in table.columns.iter().enumerate() {
            let fits = wide >= column.from && cells + column.cells + 2 + NAME_CELLS / 2 <= wide;
            if fits {
                shown.push((column.cells, number));
                cells += column.cells;
            }
        }
        Columns { shown, cells }
    }

    /// Writes the titles; the column where names begin comes back.
    fn header(&self, table: &Table, screen: &mut Screen<'_>, y: u16) -> usize {
        let mut at = 0;
        for (cells, number) in &self.shown {
            let title = table.columns.get(*number).map_or("", |column| column.title.as_str());
            let title = middle(title, cells.saturating_sub(1), screen.ascii);
            screen.put(at + cells.saturating_sub(width(&title)), y, &title, STRONG);
            at += cells;
        }
        at + if self.cells > 0 { 2 } else { 0 }
    }
}
