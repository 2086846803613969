//! What stands on the screen, view by view and key by key, on a terminal of the test's size.

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use annotate::{Annotated, Instruction, Line, Place};
use calltrees::FunctionId;
use image::ImageAddr;
use image::code::InstructionKind;
use ratatui_core::backend::TestBackend;
use ratatui_core::terminal::Terminal;
use report::calls::lines::SourceText;
use std::collections::BTreeMap;
use viewer::{Ask, Key, Lines, Setup, View, Viewer};
mod shown;

use shown::{HASH, MAIN, PLAIN, Shown, recorded, setup, weight};

#[test]
fn the_first_screen_says_what_weighs_most() {
    let mut shown = Shown::of(recorded(PLAIN));
    let lines = shown.lines();
    assert_eq!(lines[0], "perf.data   cpu-clock: 100 samples, 100.0 ms within 120.0 ms");
    assert_eq!(
        lines[1],
        "1 Hot  2 Callers  3 Callees  4 Tree  5 Lines  6 Waits  7 Timeline  8 Notes"
    );
    assert_eq!(lines[2], "by function, most self first");
    assert_eq!(lines[3], "     self     total  function");
    assert_eq!(lines[4], "  75.00 %   75.00 %  hash  [program]");
    assert_eq!(lines[5], "  20.00 %   80.00 %  parse  [program]");
    assert_eq!(lines[6], "   5.00 %  100.00 %  main  [program]");
    assert_eq!(lines[22].trim(), "1 of 3");
    let wide = Shown::sized(recorded(PLAIN), 120, 24).lines()[4].clone();
    assert_eq!(wide, "  75.00 %   75.00 %      75.0 ms        75  hash  [program]");
    assert!(lines[23].starts_with("Enter callers  C callees  s lines"), "{}", lines[23]);
    assert!(lines[23].ends_with("? keys  q quit"), "{}", lines[23]);
}

#[test]
fn callers_and_callees_of_the_selected_function_open() {
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("Enter");
    let text = shown.text();
    assert!(text.contains("who called hash [program]"), "{text}");
    let lines = shown.lines();
    assert_eq!(lines[4], "  75.00 %    0.00 %  ▾ hash  [program]");
    assert_eq!(lines[5], "  60.00 %    0.00 %    ▾ parse  [program]");
    assert_eq!(lines[6], "  60.00 %   60.00 %        main  [program]");
    assert_eq!(lines[7], "  15.00 %   15.00 %      main  [program]");
    // Right closes nothing, Left goes to the caller below which a line stands and closes it.
    shown.press("End Left");
    assert!(shown.selected().contains("▾ hash"), "{}", shown.selected());
    shown.press("Left");
    assert!(shown.selected().contains("▸ hash") && !shown.text().contains("parse "));
    shown.press("Right Down C");
    assert!(shown.text().contains("what parse [program] called"), "{}", shown.text());
    assert_eq!(shown.lines()[4], "  80.00 %   20.00 %  ▾ parse  [program]");
    shown.press("Esc Esc");
    assert!(shown.text().contains("by function"), "back where it began");
}

#[test]
fn trees_open_close_and_are_searched_behind_closed_lines() {
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("4 Left");
    assert_eq!(shown.selected(), "100.00 %    5.00 %  ▸ main  [program]");
    shown.press("/ pars Enter");
    assert!(shown.selected().contains("parse"), "{}", shown.text());
    assert!(shown.text().contains("pars: 80.00 % of the samples"), "{}", shown.text());
    shown.press("/ HASH Enter");
    assert!(shown.text().contains("nothing here is called HASH"), "{}", shown.text());
    shown.press("/ hash Enter");
    assert_eq!(shown.selected(), "60.00 %   60.00 %        hash  [program]");
    shown.press("n");
    assert_eq!(shown.selected(), "15.00 %   15.00 %      hash  [program]");
    shown.press("N");
    assert_eq!(shown.selected(), "60.00 %   60.00 %        hash  [program]");
    shown.press("Home -");
    assert_eq!(shown.lines()[5], "");
    shown.press("*");
    assert!(shown.lines()[7].contains("hash"), "{}", shown.text());
}

#[test]
fn rows_are_by_whatever_there_is_and_narrow_to_one_of_them() {
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("b");
    assert!(shown.lines()[4].ends_with("/usr/bin/program"), "{}", shown.text());
    shown.press("b");
    assert_eq!(shown.lines()[4], "  80.00 %  program  10/10");
    shown.press("Down Enter");
    assert!(shown.lines()[2].ends_with("only worker 10/11"), "{}", shown.text());
    assert_eq!(shown.lines()[4], "  75.00 %   75.00 %  hash  [program]");
    shown.press("u");
    assert_eq!(shown.lines()[4], "  75.00 %   75.00 %  hash  [program]");
    shown.press("u");
    assert!(shown.text().contains("all samples are shown"));
    shown.press("Home Down f");
    assert!(shown.lines()[2].ends_with("through parse [program]"), "{}", shown.text());
    assert!(shown.lines()[0].contains("80 samples"), "{}", shown.text());
}

#[test]
fn orders_limits_and_events_change_the_table() {
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("o");
    assert!(shown.lines()[4].contains("main") && shown.lines()[2].contains("most total"));
    shown.press("p 30% Enter");
    assert!(shown.lines()[22].contains("below 30 %") || shown.lines()[22].contains("3"));
    shown.press("p 90 Enter");
    assert_eq!((shown.lines()[4].contains("main"), shown.lines()[5].as_str()), (true, ""));
    assert!(shown.lines()[22].ends_with("1 of 1, 2 below 90 %"), "{}", shown.text());
    shown.press("p x Enter");
    assert!(shown.text().contains("x is no percentage"));
    shown.press("p 0 Enter e");
    assert!(shown.lines()[0].contains("wait: 10 waits, 100.0 ms"), "{}", shown.text());
    assert!(shown.text().contains("poll"));
    shown.press("E");
    assert!(shown.lines()[0].contains("cpu-clock"));
}

#[test]
fn waits_are_told_by_thread_and_by_stack() {
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("6");
    let lines = shown.lines();
    assert_eq!(lines[3], "    share     waited       wait  thread");
    assert_eq!(lines[4], "  70.00 %    70.0 ms    70.0 ms    worker  10/11");
    shown.press("b");
    assert!(shown.lines()[4].contains("▸ poll  [libc.so.6] < main"), "{}", shown.text());
    shown.press("Enter");
    assert!(shown.lines()[5].trim_start().starts_with("main"), "{}", shown.text());
    // Without records of switches, the time line says how to get them.
    shown.press("7");
    assert!(shown.text().contains("--switch-events"), "{}", shown.text());
}

#[test]
fn notes_hold_the_ledger_and_where_it_is_from() {
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("8");
    let first = shown.text();
    assert!(first.contains("1 sample not used: their records are damaged"), "{first}");
    shown.press("End");
    let last = shown.text();
    assert!(last.contains("100  used") && last.contains("host: here"), "{last}");
}

fn lines_of_hash() -> Lines {
    let instruction = |address, text: &str, samples, line| Instruction {
        address: ImageAddr(address),
        size: 4,
        kind: InstructionKind::Other,
        text: Some(text.to_owned()),
        target: None,
        target_function: None,
        weight: weight(samples, samples),
        count: None,
        line,
        block: None,
    };
    let line = |number, samples, instructions| Line {
        place: Some(Place { file: 0, line: number }),
        inlined: None,
        weight: weight(samples, samples),
        count: None,
        instructions,
    };
    let annotated = Annotated {
        instructions: vec![
            instruction(0x1000, "xor %eax, %eax", 0, 0),
            instruction(0x1004, "imul %rcx", 3, 1),
        ],
        lines: vec![line(7, 0, vec![0]), line(8, 3, vec![1])],
        files: vec!["/src/hash.c".to_owned()],
        ..Annotated::default()
    };
    let text = [(7, "int h = 0;\x1b[2J"), (8, "\th *= 31;")];
    let lines = text.map(|(number, text)| (number, text.to_owned()));
    let source = SourceText { path: None, problem: None, lines: BTreeMap::from(lines) };
    let notes = vec!["no executions".to_owned()];
    Lines { annotated, sources: vec![source], own: weight(3, 3), notes }
}

#[test]
fn lines_are_asked_for_and_shown_with_their_instructions() {
    let mut shown = Shown::of(recorded(PLAIN));
    assert_eq!(shown.press("s"), Ask::Lines(FunctionId(HASH), 0));
    assert!(shown.text().contains("Reading the lines of hash [program] …"));
    // An answer to another question is none.
    shown.viewer.fetched(FunctionId(MAIN), Ok(lines_of_hash()));
    assert!(shown.text().contains("Reading the lines"));
    shown.viewer.fetched(FunctionId(HASH), Ok(lines_of_hash()));
    let lines = shown.lines();
    assert_eq!(lines[4], "           ▸ hash.c:7  int h = 0;�[2J");
    assert_eq!(lines[5], " 100.00 %  ▾ hash.c:8      h *= 31;");
    assert_eq!(lines[6], " 100.00 %      1004  imul %rcx");
    assert!(lines[7].contains("note: no executions"));
    assert!(shown.selected().contains("hash.c:8"), "the hottest line is selected");
    shown.press("o");
    assert!(shown.lines()[4].contains("hash.c:8"));
    // Back and forth, nothing is asked for again.
    assert_eq!(shown.press("1 5"), Ask::Nothing);
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("s");
    shown.viewer.fetched(FunctionId(HASH), Err("the file is gone".to_owned()));
    assert!(shown.text().contains("the file is gone"));
}

#[test]
fn a_part_of_the_time_is_asked_for_and_shown() {
    let mut shown = Shown::of(recorded(PLAIN));
    assert_eq!(shown.press("t 1-2 Enter"), Ask::Time("1-2".to_owned()));
    shown.viewer.read_again("1-2", Err("no sample was taken then".to_owned()));
    assert!(shown.text().contains("no sample was taken then"));
    let mut part = recorded(PLAIN);
    part.stacks.truncate(1);
    shown.viewer.read_again("1-2", Ok(part));
    assert!(shown.lines()[2].ends_with("seconds 1-2"), "{}", shown.text());
    assert!(shown.lines()[0].contains("20 samples"));
    // Backspace on an empty line and Escape leave it.
    shown.press("t Backspace");
    assert!(!shown.text().contains("FROM-TO"));
    shown.press("t 5 Esc");
    assert!(shown.lines()[2].ends_with("seconds 1-2"));
}

#[test]
fn help_and_whole_names_lie_over_the_table_until_a_key_comes() {
    let long = format!("begin{}end", "x".repeat(200));
    let mut shown = Shown::of(recorded(["main", "parse", &long, "poll"]));
    assert!(shown.lines()[4].contains("begin") && shown.lines()[4].contains("xend"));
    assert!(shown.lines()[4].contains('…'));
    shown.press("w");
    let whole: String = shown.lines()[4..8].iter().map(|line| line.trim()).collect();
    assert!(whole.contains(&long), "{}", shown.text());
    shown.press("x");
    assert!(shown.text().contains("by function"));
    shown.press("?");
    assert!(shown.text().contains("callers: who called this function"), "{}", shown.text());
    shown.press("End");
    assert!(shown.text().contains("quit") && shown.lines()[23].starts_with("any key back"));
    shown.press("q");
    assert!(shown.text().contains("by function"), "q closes the help and does not end");
}

#[test]
fn keys_of_the_program_around_are_handed_on() {
    let mut shown = Shown::of(recorded(PLAIN));
    let asks = [
        ("q", Ask::Quit),
        ("^C", Ask::Quit),
        ("^Z", Ask::Suspend),
        ("^L", Ask::Redraw),
        ("m", Ask::Mouse(true)),
        ("m", Ask::Mouse(false)),
        ("z", Ask::Nothing),
    ];
    for (key, ask) in asks {
        assert_eq!(shown.press(key), ask, "{key}");
    }
    // A click selects a line; another one opens it.
    shown.press("4");
    shown.viewer.key(Key::Click(20, 5));
    assert!(shown.selected().contains("▾ parse"), "{}", shown.text());
    shown.viewer.key(Key::Click(20, 5));
    assert!(shown.selected().contains("▸ parse"), "{}", shown.text());
    shown.viewer.key(Key::Click(0, 0));
    shown.viewer.key(Key::Click(0, 23));
    assert!(shown.selected().contains("▸ parse"), "{}", shown.text());
}

#[test]
fn live_samples_keep_the_selected_line_and_stand_still_when_told() {
    let mut viewer =
        Viewer::new(Setup { live: true, ..setup() }, recorded(PLAIN), 0, View::Hot, None);
    viewer.key(Key::Down);
    let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut shown = Shown { viewer, terminal };
    assert!(shown.selected().contains("parse"));
    let mut next = recorded(PLAIN);
    next.stacks[0].weight = weight(900, 900_000_000);
    shown.viewer.update(next.clone(), "1 lost");
    assert!(shown.lines()[4].contains("parse") && shown.selected().contains("parse"));
    assert!(shown.text().contains("1 lost"));
    shown.press("Space");
    shown.viewer.update(recorded(PLAIN), "");
    assert!(shown.lines()[4].contains("parse"), "stands still");
    shown.press("Space");
    shown.viewer.update(recorded(PLAIN), "");
    assert!(shown.lines()[4].contains("hash"), "goes on");
    assert_eq!(shown.press("z"), Ask::Clear);
}

#[test]
fn any_size_and_any_key_will_do_and_hostile_names_are_harmless() {
    let megabyte = "漢\u{301}\x1b]0;x\x07".repeat(1 << 17);
    let keys = "1 2 3 4 5 6 7 8 Tab BackTab Enter Down Down w End Esc c Enter C s Esc 4 * - n / 漢 Enter N \
                o o e b b b b f u p 1 Enter ? PageDown Esc PageDown PageUp End Home Left Right";
    let sizes = [(80, 24), (20, 5), (200, 50), (1, 1), (2, 2), (7, 3), (40, 1), (3, 40), (0, 0)];
    for is_hostile in [false, true] {
        for (width, height) in sizes {
            // A name of 1 MB is looked at in one size: all of it is searched at each key.
            let bytes = if (width, height) == (80, 24) { megabyte.len() } else { 1100 };
            let long = &megabyte[..bytes];
            let hostile = ["a\x1b[2Jb\n\u{202e}\tc", long, "漢字漢字漢字", "\u{1f468}\u{200d}"];
            let names = if is_hostile { hostile } else { PLAIN };
            let mut shown = Shown::sized(recorded(names), width, height);
            for key in keys.split(' ') {
                shown.press(key);
                let buffer = shown.terminal.backend().buffer();
                let hidden = |c: char| c.is_control() || c == '\u{202e}';
                let harmless = |cell: &ratatui_core::buffer::Cell| !cell.symbol().contains(hidden);
                assert!(buffer.content.iter().all(harmless), "{key} at {width}x{height}");
            }
        }
    }
    // Grown and shrunk while it runs.
    let mut shown = Shown::of(recorded(PLAIN));
    shown.press("End");
    for (width, height) in sizes {
        shown.terminal.backend_mut().resize(width, height);
        shown.draw();
    }
}

#[test]
fn nothing_depends_on_colours_or_utf_8() {
    let plain = Setup { colour: false, ascii: true, ..setup() };
    let viewer =
        Viewer::new(plain, recorded(["main", "größe", "hash", "poll"]), 0, View::Tree, None);
    let terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
    let mut shown = Shown { viewer, terminal };
    assert_eq!(shown.lines()[4], " 100.00 %    5.00 %  - main  [program]");
    assert!(shown.text().contains("gr??e") || shown.text().contains("gr??"), "{}", shown.text());
    assert!(shown.text().is_ascii(), "{}", shown.text());
    let buffer = shown.terminal.backend().buffer();
    let reset = ratatui_core::style::Color::Reset;
    assert!(buffer.content.iter().all(|cell| (cell.fg, cell.bg) == (reset, reset)));
}
