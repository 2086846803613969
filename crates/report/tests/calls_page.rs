//! What does a real browser make of the page of a recording? It is searched, zoomed, turned, sorted
//! and filtered, by mouse and by keys, with and without hostile names.
#![allow(clippy::unwrap_used)] // In a test the place of the failure says enough.

mod chromium;

use calltrees::{
    Blocks, Event, Function, FunctionId, Known, Ledger, Library, LibraryId, Names, Recorded, Stack,
    Thread, Weight,
};
use chromium::{Browser, DOWN, ENTER, ESCAPE, LEFT, RIGHT, UP, said, strings, typed};
use report::calls::{Extra, LARGEST_PAGE, Origin, Selected, page};
use serde_json::json;

/// A recording of stacks, innermost first, of functions by number.
fn recorded(names: &[String], library: &str, stacks: &[(Vec<u32>, u64)]) -> Recorded {
    let library = Library::at(library);
    let function = |name: &String| Function {
        name: name.clone(),
        library: LibraryId(0),
        known: Known::Symbol,
        line: None,
    };
    let stack = |(functions, period): &(Vec<u32>, u64)| Stack {
        event: 0,
        thread: 0,
        block: 0,
        cgroup: None,
        functions: functions.iter().map(|&function| FunctionId(function)).collect(),
        at: None,
        weight: Weight { period: *period, samples: 1 + period / 1_000_000, heaviest: *period },
    };
    let stacks: Vec<Stack> = stacks.iter().map(stack).collect();
    let used = stacks.iter().map(|stack| stack.weight.samples).sum();
    Recorded {
        events: vec![Event { name: "cpu-clock".to_owned(), is_clock: true, ..Event::default() }],
        threads: vec![Thread { pid: 1, tid: 1, name: "work".to_owned() }],
        cgroups: Vec::new(),
        names: Names::of(names.iter().map(function).collect(), vec![library]),
        stacks,
        span_ns: 1_000_000_000,
        switching: None,
        remarks: Vec::new(),
        ledger: Ledger { samples: used + 3, used, malformed: 3, ..Ledger::default() },
    }
}

fn written(recorded: &Recorded, origin: &Origin) -> String {
    page(&Selected { recorded, event: 0, limit: 40, percent: 0.5 }, origin, &Extra::default())
}

/// main (0) calls parse (1) and run (2), both call copy (3); run calls itself through again (4).
fn small() -> Recorded {
    let names = ["main", "parse", "run", "copy", "again"].map(str::to_owned);
    let stacks = [
        (vec![3, 1, 0], 10_000_000),
        (vec![1, 0], 20_000_000),
        (vec![3, 2, 0], 30_000_000),
        (vec![3, 2, 4, 2, 0], 40_000_000),
    ];
    recorded(&names, "/usr/bin/work", &stacks)
}

fn origin(text: &str) -> Origin {
    Origin {
        recording: format!("perf.data{text}"),
        command: Some(format!("perf record -g ./work{text}")),
        host: Some(format!("host{text}")),
        processor: Some(format!("processor{text}")),
        kernel: Some(format!("6.1{text}")),
        recorder: Some(format!("6.1{text}")),
        planish: "1.0".to_owned(),
    }
}

/// The names of the drawn frames, row by row.
const FRAMES: &str =
    "return Array.from(document.querySelectorAll('.frame')).map(f => f.textContent)";
/// The names of the functions in their table.
const LISTED: &str = "return Array.from(document.querySelectorAll('#functions td.name button')).map(b => b.textContent)";
/// The lines of the tree of calls.
const TREE: &str = "return Array.from(document.querySelectorAll('#tree tbody tr')).map(r => \
                    r.getAttribute('aria-level') + ' ' + r.cells[3].innerText.replace(/[▾▸]/g, '').trim() + ' ' + r.cells[0].textContent)";
const FOCUSED: &str = "return document.activeElement.textContent";

/// One browser for all questions: starting it is what takes time.
#[test]
fn the_page_of_a_recording_works_in_chromium_without_errors_and_without_network() {
    let Some(browser) = Browser::start() else { return };
    browser.open(&written(&small(), &origin("")));
    browser.assert_silent();
    assert_eq!(
        strings(&browser.run(FRAMES)),
        ["all samples", "main", "run", "parse", "again", "copy", "copy", "run", "copy"]
    );
    // A frame is as wide as it weighs, and lies below its caller.
    let boxes = "return Array.from(document.querySelectorAll('.frame')).map(f => { \
                 var b = f.getBoundingClientRect(), all = document.getElementById('flame').getBoundingClientRect(); \
                 return Math.round(100 * b.width / all.width) })";
    assert_eq!(browser.run(boxes), json!([100, 100, 70, 30, 40, 30, 10, 40, 40]));
    assert_eq!(said(&browser, "notes"), "3 samples not used: their records are damaged");
    assert!(said(&browser, "ledger").contains("not used: damaged records3"));
    assert!(said(&browser, "origin").contains("recorded byperf record -g ./work"));
    searches(&browser);
    zooms(&browser);
    turns(&browser);
    folds(&browser);
    lists(&browser);
    fits(&browser);
    browser.assert_silent();
    is_not_moved_by_names(&browser);
    holds_much(&browser);
}

fn searches(browser: &Browser) {
    browser.run("document.body.focus()");
    browser.key("/");
    assert_eq!(browser.run("return document.activeElement.id"), json!("search"));
    ["C", "O", "P", "Y"].into_iter().for_each(|key| browser.key(key));
    assert_eq!(said(browser, "found"), "1 function, in stacks of 80.00 %");
    let found = "return [document.querySelectorAll('.frame.found').length, document.querySelectorAll('#functions tr.found').length]";
    assert_eq!(browser.run(found), json!([3, 1]));
    // A recursive function's stacks count once.
    typed(browser, "search", "run");
    assert_eq!(said(browser, "found"), "1 function, in stacks of 70.00 %");
    browser.key(ESCAPE);
    assert_eq!(browser.run(found), json!([0, 0]));
    assert_eq!(said(browser, "found"), "");
}

fn zooms(browser: &Browser) {
    browser.click(".frame[aria-label^='parse']");
    assert_eq!(strings(&browser.run(FRAMES)), ["all samples", "main", "parse", "copy"]);
    assert!(said(browser, "shown").contains("zoomed to parse (30.00 %)"));
    browser.click("#out");
    assert_eq!(strings(&browser.run(FRAMES)).len(), 9);
    // The same by keys: down to main, run, and to its right parse.
    browser.run("document.querySelector(\".frame[aria-level='1']\").focus()");
    for (key, name) in [
        (DOWN, "main"),
        (DOWN, "run"),
        (RIGHT, "parse"),
        (DOWN, "copy"),
        (UP, "parse"),
        (LEFT, "run"),
    ] {
        browser.key(key);
        assert_eq!(browser.run(FOCUSED), json!(name));
    }
    assert!(
        said(browser, "about").starts_with("run  [work]  70.00 % total, 0.00 % self, 70.0 ms, ")
    );
    browser.key(ENTER);
    assert_eq!(
        strings(&browser.run(FRAMES)),
        ["all samples", "main", "run", "again", "copy", "run", "copy"]
    );
    assert_eq!(browser.run(FOCUSED), json!("run"));
    browser.key(ESCAPE);
    assert_eq!(browser.run(FOCUSED), json!("main"));
    browser.key(ESCAPE);
    assert_eq!(browser.run("return document.getElementById('out').disabled"), json!(true));
}

fn turns(browser: &Browser) {
    browser.click("#invert");
    let pressed = "return document.getElementById('invert').getAttribute('aria-pressed')";
    assert_eq!(browser.run(pressed), json!("true"));
    assert_eq!(
        strings(&browser.run(FRAMES)),
        [
            "all samples",
            "copy",
            "parse",
            "run",
            "parse",
            "main",
            "again",
            "main",
            "main",
            "run",
            "main"
        ]
    );
    browser.click("#invert");
    // Only what goes through a function: by the table, by a key, by the button.
    browser.click("#functions tr:has(button[data-fn]) button[data-fn]");
    assert_eq!(strings(&browser.run(FRAMES)), ["all stacks through copy", "copy"]);
    browser.run("document.querySelector('.frame[tabindex=\"0\"]').focus()");
    browser.key("i");
    assert_eq!(strings(&browser.run(FRAMES)).len(), 9);
    assert_eq!(browser.run(pressed), json!("true"));
    browser.click("#whole");
    browser.click("#invert");
    browser.click(".frame[aria-label^='run'][aria-level='3']");
    browser.click("#focus");
    assert_eq!(
        strings(&browser.run(FRAMES)),
        ["all stacks through run", "run", "again", "copy", "run", "copy"]
    );
    assert!(said(browser, "shown").starts_with("Only stacks through run"));
    browser.click("#whole");
    assert_eq!(strings(&browser.run(FRAMES)).len(), 9);
}

fn folds(browser: &Browser) {
    let open = ["1 main 100.00 %", "2 run 70.00 %", "3 again 40.00 %", "4 run 40.00 %"];
    let open = [&open[..], &["5 copy 40.00 %", "3 copy 30.00 %", "2 parse 30.00 %"]].concat();
    assert_eq!(strings(&browser.run(TREE)), open);
    browser.run("document.querySelector('#tree tbody tr').focus()");
    browser.key(DOWN);
    browser.key(LEFT);
    let folded = ["1 main 100.00 %", "2 run 70.00 %", "2 parse 30.00 %"];
    assert_eq!(strings(&browser.run(TREE)), folded);
    let state = "return document.activeElement.getAttribute('aria-expanded')";
    assert_eq!(browser.run(state), json!("false"));
    browser.key(RIGHT);
    assert_eq!(strings(&browser.run(TREE)), open);
    assert_eq!(browser.run(state), json!("true"));
    browser.key(RIGHT);
    browser.key(ENTER);
    assert!(said(browser, "shown").starts_with("Only stacks through again"));
    browser.click("#whole");
}

fn lists(browser: &Browser) {
    assert_eq!(strings(&browser.run(LISTED)), ["copy", "parse", "main", "run", "again"]);
    let sorted = "return Array.from(document.querySelectorAll('#functions th')).map(h => h.getAttribute('aria-sort'))";
    assert_eq!(browser.run(sorted)[0], "descending");
    browser.click("#functions th:nth-child(2) button");
    assert_eq!(strings(&browser.run(LISTED)), ["main", "copy", "run", "again", "parse"]);
    browser.click("#functions th:nth-child(5) button");
    assert_eq!(strings(&browser.run(LISTED)), ["again", "copy", "main", "parse", "run"]);
    assert_eq!(browser.run(sorted)[4], "ascending");
    browser.click("#functions th:nth-child(5) button");
    assert_eq!(strings(&browser.run(LISTED)), ["run", "parse", "main", "copy", "again"]);
    typed(browser, "filter", "Ain");
    assert_eq!(strings(&browser.run(LISTED)), ["main", "again"]);
    assert_eq!(said(browser, "listed"), "2 functions");
    typed(browser, "filter", "");
}

/// Windows of any width, both themes, paper.
fn fits(browser: &Browser) {
    browser.assert_good_to_look_at("calls");
    // Names stand out from their frames in either theme and on paper: 4.5 to 1 (WCAG 2.1, 1.4.3).
    let contrast = "function part(c) { c /= 255; return c <= 0.03928 ? c / 12.92 : Math.pow((c + 0.055) / 1.055, 2.4) } \
                    function light(c) { var p = c.match(/[\\d.]+/g).map(Number); return 0.2126 * part(p[0]) + 0.7152 * part(p[1]) + 0.0722 * part(p[2]) } \
                    var box = document.createElement('div'); document.body.appendChild(box); var least = 99; \
                    for (var n = 0; n < 8; n += 1) { box.className = 'frame c' + n; var s = getComputedStyle(box); \
                    var two = [light(s.color), light(s.backgroundColor)].sort((a, b) => b - a); least = Math.min(least, (two[0] + 0.05) / (two[1] + 0.05)) } \
                    box.remove(); return [least >= 4.5, getComputedStyle(document.documentElement).backgroundColor]";
    let looks = [
        ("screen", "light", "rgb(255, 255, 255)"),
        ("screen", "dark", "rgb(20, 23, 27)"),
        ("print", "light", "rgb(255, 255, 255)"),
    ];
    for (medium, theme, background) in looks {
        browser.look(medium, theme);
        assert_eq!(browser.run(contrast), json!([true, background]), "{medium} {theme}");
    }
    let hidden = "return getComputedStyle(document.querySelector('.tools')).display";
    assert_eq!(browser.run(hidden), json!("none"));
    browser.look("screen", "light");
}

/// Names that would do something if they were taken for markup or obeyed.
const HOSTILE: [&str; 7] = [
    "</script><script>document.title='taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "<!--<script>",
    "\"'`]]>'); document.title='taken'; //",
    "\u{202e}drawkcab\u{2066}",
    "a\nb\tc\x1b[31mred\0",
    "__proto__",
];

fn is_not_moved_by_names(browser: &Browser) {
    let names: Vec<String> =
        HOSTILE.iter().map(|name| (*name).to_owned()).chain(["x".repeat(1 << 20)]).collect();
    let path: Vec<u32> = (0..names.len() as u32).collect();
    let found = recorded(&names, HOSTILE[1], &[(path, 80_000_000), (vec![2, 1], 20_000_000)]);
    let text = written(&found, &origin(HOSTILE[0]));
    assert!(text.len() < 100_000, "{}", text.len());
    assert!(!text.contains(['\u{202e}', '\u{2066}', '\x1b', '\0']));
    browser.open(&text);
    for step in ["#invert", "button[data-fn]", "#whole", ".frame:last-child"] {
        browser.click(step);
    }
    typed(browser, "search", "<img");
    let harmless = "return [document.title === 'taken', document.images.length, document.scripts.length, \
                    document.querySelectorAll('[onerror]').length, document.body.innerText.includes('<img src=x'), \
                    document.querySelectorAll('.frame').length]";
    assert_eq!(browser.run(harmless), json!([false, 0, 2, 0, true, 9]));
    assert!(said(browser, "notes").contains("1 long name shortened"));
    browser.assert_silent();
}

/// A recording that does not fit: the page stays small, says so, and its weights add up.
fn holds_much(browser: &Browser) {
    let names: Vec<String> =
        (0..60_000).map(|n| format!("space::of<{n}>::{}", "name_".repeat(n % 8))).collect();
    let stacks: Vec<(Vec<u32>, u64)> = (0..150_000u32)
        .map(|n| {
            let frame = |at: u32| n.wrapping_mul(2_654_435_761).rotate_left(at * 3) % 60_000;
            let path = (0..8).map(frame).chain([0]).collect();
            (path, 1000 + u64::from(n % 977) * 1_000_003)
        })
        .collect();
    let mut found = recorded(&names, "/usr/bin/work", &stacks);
    (0..).zip(&mut found.stacks).for_each(|(at, stack)| stack.block = at % 128);
    let selected = Selected { recorded: &found, event: 0, limit: 40, percent: 0.5 };
    let blocks = Some(Blocks::cut(&(0..1_000_000_000), 128));
    let text = page(&selected, &origin(""), &Extra { blocks, ..Extra::default() });
    assert!(text.len() <= LARGEST_PAGE, "{}", text.len());
    assert!(text.len() > LARGEST_PAGE * 4 / 5, "{}", text.len());
    let milliseconds = browser.open(&text);
    println!("a page of {} bytes is drawn after {milliseconds:.0} ms", text.len());
    let notes = said(browser, "notes");
    assert!(notes.contains("light call paths of "), "{notes}");
    assert!(notes.contains(" light functions missing from the table"), "{notes}");
    // All weight is there.
    assert_eq!(
        browser.run("return calls.total[0] === seen.weight && calls.samples[0] === seen.samples"),
        json!(true)
    );
    browser.click("#invert");
    assert_eq!(browser.run("return Math.abs(view.root.total - seen.weight) < 1"), json!(true));
    assert!(strings(&browser.run(FRAMES)).contains(&"lighter calls".to_owned()));
    typed(browser, "search", "of<1");
    assert!(said(browser, "found").contains("functions, in stacks of "));
    // The parts of the time add up to all of it.
    let sum = browser.run(
        "var sum = 0; for (var at = 0; at < 128; at += 32) { choose(at, at + 32); sum += calls.total[0]; } \
         choose(null); return [seen.times !== null, sum === seen.weight, calls.total[0] === seen.weight]",
    );
    assert_eq!(sum, json!([true, true, true]));
    browser.assert_silent();
}
