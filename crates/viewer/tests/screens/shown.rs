//! A viewer on a terminal of the test's size, over a small recording.

use calltrees::rows::By;
use calltrees::switching::Reason;
use calltrees::{
    Event, Function, FunctionId, Known, Ledger, Library, LibraryId, Names, Recorded, Stack, Thread,
    Weight,
};
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use viewer::{Ask, Key, Setup, View, Viewer};

pub(crate) const MAIN: u32 = 0;
pub(crate) const PARSE: u32 = 1;
pub(crate) const HASH: u32 = 2;
pub(crate) const POLL: u32 = 3;

pub(crate) fn weight(samples: u64, period: u64) -> Weight {
    Weight { samples, period, heaviest: period / samples.max(1) }
}

pub(crate) fn function(name: &str, library: u32) -> Function {
    Function {
        name: name.to_owned(),
        library: LibraryId(library),
        known: Known::Symbol,
        line: None,
    }
}

/// Two threads of a program, sampled and waiting.
pub(crate) fn recorded(names: [&str; 4]) -> Recorded {
    let [main, parse, hash, poll] = names;
    let functions =
        vec![function(main, 0), function(parse, 0), function(hash, 0), function(poll, 1)];
    let libraries = vec![Library::at("/usr/bin/program"), Library::at("/usr/lib/libc.so.6")];
    let event = |name: &str, off_cpu| Event {
        name: name.to_owned(),
        is_clock: true,
        off_cpu,
        ..Event::default()
    };
    let stack = |event, thread, functions: &[u32], weight| Stack {
        event,
        thread,
        block: 0,
        cgroup: None,
        functions: functions.iter().map(|&number| FunctionId(number)).collect(),
        at: None,
        weight,
    };
    let thread = |tid, name: &str| Thread { pid: 10, tid, name: name.to_owned() };
    let ms = 1_000_000;
    Recorded {
        events: vec![event("cpu-clock", None), event("wait", Some(Reason::Synchronization))],
        threads: vec![thread(10, "program"), thread(11, "worker")],
        cgroups: Vec::new(),
        names: Names::of(functions, libraries),
        stacks: vec![
            stack(0, 0, &[PARSE, MAIN], weight(20, 20 * ms)),
            stack(0, 0, &[HASH, PARSE, MAIN], weight(60, 60 * ms)),
            stack(0, 1, &[HASH, MAIN], weight(15, 15 * ms)),
            stack(0, 1, &[MAIN], weight(5, 5 * ms)),
            stack(1, 0, &[POLL, PARSE, MAIN], weight(3, 30 * ms)),
            stack(1, 1, &[POLL, MAIN], weight(7, 70 * ms)),
        ],
        span_ns: 120 * ms,
        switching: None,
        ledger: Ledger { samples: 101, used: 100, malformed: 1, ..Ledger::default() },
        remarks: Vec::new(),
    }
}

pub(crate) const PLAIN: [&str; 4] = ["main", "parse", "hash", "poll"];

pub(crate) fn setup() -> Setup {
    Setup {
        title: "perf.data".to_owned(),
        by: vec![
            ("function", By::Function),
            ("library", By::Library),
            ("thread", By::Thread),
            ("process", By::Process),
        ],
        colour: true,
        ascii: false,
        live: false,
        percent: 0.0,
        notes: vec!["host: here".to_owned()],
    }
}

pub(crate) struct Shown {
    pub(crate) viewer: Viewer,
    pub(crate) terminal: Terminal<TestBackend>,
}

impl Shown {
    pub(crate) fn of(recorded: Recorded) -> Shown {
        Shown::sized(recorded, 80, 24)
    }

    pub(crate) fn sized(recorded: Recorded, width: u16, height: u16) -> Shown {
        let viewer = Viewer::new(setup(), recorded, 0, View::Hot, None);
        let terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        Shown { viewer, terminal }
    }

    /// Types words: keys have their names, everything else is typed.
    pub(crate) fn press(&mut self, keys: &str) -> Ask {
        let mut ask = Ask::Nothing;
        for word in keys.split(' ') {
            let named = match word {
                "Enter" => Some(Key::Enter),
                "Esc" => Some(Key::Escape),
                "Tab" => Some(Key::Tab),
                "BackTab" => Some(Key::BackTab),
                "Backspace" => Some(Key::Backspace),
                "Up" => Some(Key::Up),
                "Down" => Some(Key::Down),
                "Left" => Some(Key::Left),
                "Right" => Some(Key::Right),
                "End" => Some(Key::End),
                "Home" => Some(Key::Home),
                "PageUp" => Some(Key::PageUp),
                "PageDown" => Some(Key::PageDown),
                "Space" => Some(Key::Char(' ')),
                "^C" => Some(Key::Control('c')),
                "^Z" => Some(Key::Control('z')),
                "^L" => Some(Key::Control('l')),
                "^U" => Some(Key::Control('u')),
                _ => None,
            };
            let keys = named.map_or_else(|| word.chars().map(Key::Char).collect(), |key| vec![key]);
            for key in keys {
                ask = self.viewer.key(key);
                self.draw();
            }
        }
        ask
    }

    pub(crate) fn draw(&mut self) {
        let viewer = &mut self.viewer;
        self.terminal
            .draw(|frame| {
                let area = frame.area();
                viewer.draw(frame.buffer_mut(), area);
            })
            .unwrap();
    }

    /// The lines of the screen, without blanks at their ends.
    pub(crate) fn lines(&mut self) -> Vec<String> {
        self.draw();
        let buffer = self.terminal.backend().buffer().clone();
        let width = usize::from(buffer.area.width);
        let line = |cells: &[ratatui_core::buffer::Cell]| {
            cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned()
        };
        buffer.content.chunks(width).map(line).collect()
    }

    pub(crate) fn text(&mut self) -> String {
        self.lines().join("\n")
    }

    /// The selected line: the one whose cells are turned, below the views.
    pub(crate) fn selected(&mut self) -> String {
        self.draw();
        let buffer = self.terminal.backend().buffer().clone();
        let reversed = ratatui_core::style::Modifier::REVERSED;
        let width = usize::from(buffer.area.width);
        let rows = buffer.content.chunks(width).skip(4);
        let turned = rows.filter(|row| row.iter().all(|cell| cell.modifier.contains(reversed)));
        let text = |row: &[ratatui_core::buffer::Cell]| {
            row.iter().map(|cell| cell.symbol()).collect::<String>().trim().to_owned()
        };
        turned.map(text).next().unwrap_or_default()
    }
}
