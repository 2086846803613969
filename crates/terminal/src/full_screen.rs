//! The whole terminal as a screen of cells, given back however the program ends: at its end, by a
//! panic, by a signal, by Ctrl-Z.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::terminal::Terminal;
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui_crossterm::crossterm::{event as events, execute};
use std::io::{self, IsTerminal, Stdout};
use std::sync::{Mutex, Once, PoisonError, TryLockError};
use std::time::Duration;

pub use ratatui_crossterm::crossterm::event;

/// Why there is no screen.
#[derive(Debug)]
pub enum NoScreen {
    /// Standard output is no terminal.
    NoTerminal,
    /// What the terminal calls itself: one that cannot move its cursor.
    Dumb(String),
}

impl std::fmt::Display for NoScreen {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NoScreen::NoTerminal => out.write_str(
                "standard output is no terminal to look around in; to print the result, leave -i out \
                 of planish report, or give planish top --once or --batch N",
            ),
            NoScreen::Dumb(term) => write!(
                out,
                "the terminal (TERM={term}) cannot show a screen; to print the result, leave -i \
                 out of planish report, or give planish top --once; or set TERM to what your terminal is (xterm-256color fits most)"
            ),
        }
    }
}

impl std::error::Error for NoScreen {}

/// What the terminal is set to.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    entered: bool,
    mouse: bool,
}

/// Held while the terminal is drawn on or set.
static STATE: Mutex<State> = Mutex::new(State { entered: false, mouse: false });
static HOOK: Once = Once::new();

/// Gives the terminal back as it was, if it was taken. For ends that do not come by themselves.
pub(crate) fn leave() {
    /// A drawing that hangs, on a terminal that takes no more, is not waited for.
    const LOOKS: u32 = 50;
    for _ in 0..LOOKS {
        match STATE.try_lock() {
            Ok(mut state) => return give_back(&mut state),
            Err(TryLockError::Poisoned(state)) => return give_back(&mut state.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(4)),
        }
    }
    give_back(&mut State { entered: true, mouse: true });
}

fn give_back(state: &mut State) {
    if !std::mem::take(&mut state.entered) {
        return;
    }
    let mut out = io::stdout();
    if std::mem::take(&mut state.mouse) {
        let _ = execute!(out, DisableMouseCapture);
    }
    // Nobody is left to tell of a failure.
    let _ = execute!(out, LeaveAlternateScreen, Show);
    let _ = disable_raw_mode();
}

/// The terminal, taken.
#[derive(Debug)]
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl FullScreen {
    /// Whether there is a terminal that can show a screen.
    ///
    /// # Errors
    /// Where there is not.
    pub fn check() -> Result<(), NoScreen> {
        if !io::stdout().is_terminal() {
            return Err(NoScreen::NoTerminal);
        }
        let term = std::env::var("TERM").unwrap_or_default();
        if term.is_empty() || term == "dumb" || term == "unknown" {
            return Err(NoScreen::Dumb(term));
        }
        Ok(())
    }

    /// Takes the terminal.
    ///
    /// # Errors
    /// Where there is none, or it cannot be set.
    pub fn enter() -> anyhow::Result<FullScreen> {
        FullScreen::check()?;
        HOOK.call_once(|| {
            let told = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                leave();
                told(panic);
            }));
        });
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let screen = FullScreen { terminal };
        screen.take(false)?;
        Ok(screen)
    }

    fn take(&self, mouse: bool) -> io::Result<()> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        enable_raw_mode()?;
        state.entered = true;
        execute!(io::stdout(), EnterAlternateScreen, Hide)?;
        if mouse {
            state.mouse = true;
            execute!(io::stdout(), EnableMouseCapture)?;
        }
        Ok(())
    }

    /// Draws what changed.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Buffer, Rect)) -> io::Result<()> {
        let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        if state.entered {
            self.terminal.draw(|frame| {
                let area = frame.area();
                draw(frame.buffer_mut(), area);
            })?;
        }
        Ok(())
    }

    /// Draws all cells at the next time.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// What the terminal sends next; none where that takes longer than `wait`.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn next(&mut self, wait: Option<Duration>) -> io::Result<Option<event::Event>> {
        match wait {
            Some(wait) if !events::poll(wait)? => Ok(None),
            _ => events::read().map(Some),
        }
    }

    /// Takes clicks, or leaves them to the terminal.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn take_clicks(&mut self, on: bool) -> io::Result<()> {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        state.mouse = on;
        match on {
            true => execute!(io::stdout(), EnableMouseCapture),
            false => execute!(io::stdout(), DisableMouseCapture),
        }
    }

    /// Gives the terminal back, stops this program as Ctrl-Z does, and takes the terminal again
    /// when the shell lets it go on.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn suspend(&mut self) -> io::Result<()> {
        let mouse = STATE.lock().unwrap_or_else(PoisonError::into_inner).mouse;
        leave();
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)?;
        self.take(mouse)?;
        self.terminal.clear()
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        leave();
    }
}
