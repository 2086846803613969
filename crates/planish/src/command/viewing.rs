//! The viewer on the real terminal: its keys read, its screen drawn, its questions answered.

use super::report::kinds_of_rows;
use crate::output::{self, Stream};
use calltrees::{FunctionId, Recorded};
use std::time::{Duration, Instant};
use terminal::full_screen::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEventKind,
};
use terminal::full_screen::{FullScreen, NoScreen};
use viewer::{Ask, Key, Lines, Setup, Viewer};

/// What the viewer asks of whoever has the samples.
pub trait Answers {
    /// The lines of a function.
    ///
    /// # Errors
    /// Why there are none, in words.
    fn lines(
        &mut self,
        recorded: &Recorded,
        function: FunctionId,
        event: u32,
    ) -> Result<Lines, String>;

    /// The samples of a part of the time.
    ///
    /// # Errors
    /// Why there are none, in words.
    fn time(&mut self, time: &str) -> Result<Recorded, String>;

    /// Forgets the samples so far.
    fn clear(&mut self) {}

    /// New samples and what is to be said of them, of what still runs; looked at every
    /// [`Answers::pause`].
    fn fresh(&mut self) -> Option<(Recorded, String)> {
        None
    }

    /// Whether what still ran was asked to end from outside, and the viewer is to end too.
    fn is_over(&self) -> bool {
        false
    }

    /// How long to wait for a key at most, before there may be new samples.
    fn pause(&self) -> Option<Duration> {
        None
    }
}

/// Refuses what is no terminal, before anything is read.
pub fn check() -> Result<(), NoScreen> {
    FullScreen::check()
}

/// What holds as long as the viewer runs.
pub fn setup(title: String, notes: Vec<String>, percent: f64) -> Setup {
    Setup {
        title,
        by: kinds_of_rows(),
        colour: Stream::Output.style().colour,
        ascii: output::screen().ascii,
        live: false,
        percent,
        notes,
    }
}

/// Shows the viewer until the user ends it.
pub fn show(viewer: &mut Viewer, answers: &mut dyn Answers) -> anyhow::Result<()> {
    let mut screen = FullScreen::enter()?;
    let mut ask = viewer.first();
    let mut next = Instant::now();
    loop {
        match ask {
            Ask::Nothing => {}
            Ask::Quit => return Ok(()),
            Ask::Suspend => screen.suspend()?,
            Ask::Redraw => screen.redraw()?,
            Ask::Mouse(on) => screen.take_clicks(on)?,
            Ask::Clear => answers.clear(),
            Ask::Lines(function, event) => {
                screen.draw(|buffer, area| viewer.draw(buffer, area))?;
                let lines = answers.lines(viewer.recorded(), function, event);
                viewer.fetched(function, lines);
            }
            Ask::Time(time) => {
                viewer.say("reading …");
                screen.draw(|buffer, area| viewer.draw(buffer, area))?;
                let recorded = answers.time(&time);
                viewer.read_again(&time, recorded);
            }
        }
        if answers.is_over() {
            return Ok(());
        }
        let pause = answers.pause();
        if pause.is_some() && Instant::now() >= next {
            if let Some((recorded, said)) = answers.fresh() {
                viewer.update(recorded, &said);
            }
            next = Instant::now() + pause.unwrap_or_default();
        }
        screen.draw(|buffer, area| viewer.draw(buffer, area))?;
        let wait = pause.map(|_| next.saturating_duration_since(Instant::now()));
        ask = match screen.next(wait)?.as_ref().and_then(key) {
            Some(key) => viewer.key(key),
            None => Ask::Nothing,
        };
    }
}

/// The viewer's key of what the terminal sent.
fn key(event: &Event) -> Option<Key> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Mouse(mouse) => match mouse.kind {
            MouseEventKind::Down(MouseButton::Left) => Some(Key::Click(mouse.column, mouse.row)),
            MouseEventKind::ScrollUp => Some(Key::Up),
            MouseEventKind::ScrollDown => Some(Key::Down),
            _ => None,
        },
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return match key.code {
            KeyCode::Char(c) => Some(Key::Control(c.to_ascii_lowercase())),
            _ => None,
        };
    }
    Some(match key.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Tab => Key::Tab,
        KeyCode::BackTab => Key::BackTab,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return None,
    })
}
