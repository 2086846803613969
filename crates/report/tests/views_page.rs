//! What does a real browser make of a page with several events and the time line of threads, of the page
//! of a difference, of a layout and of a finished run? With hostile names throughout.
#![allow(clippy::unwrap_used)] // In a test the place of the failure says enough.

mod chromium;
mod sample;

use calltrees::rows::By;
use calltrees::switching::{Interval, Reason, Switching, ThreadRow, Times, Wait};
use calltrees::{
    Blocks, Event, Function, FunctionId, Known, Ledger, Library, LibraryId, Names, Recorded, Stack,
    Thread, Weight,
};
use chromium::{Browser, ENTER, ESCAPE, RIGHT, said, strings, typed};
use report::calls::diff::{self, Asked, Rows, Unit};
use report::calls::{Extra, Origin, Selected, difference_page, page};
use report::layout::{
    FunctionView, HeatView, LayoutSummary, LayoutView, PageView, Turned, TurnedFunction,
    TurnedLine, VerifyResult, Worth,
};
use report::{Build, LaidOut, Matched, Optimization, Profile, Program, ReportMachine, Stage};
use serde_json::json;

/// Markup, what ends a script, and what terminals and readers of text obey.
const HOSTILE: &str =
    "</script><img src=x onerror=\"document.title='taken'\"><!--\u{202e}\x1b[31m\n'`&";

const BLOCKS: u32 = 128;
/// Of a block.
const LENGTH_NS: u64 = 8_000_000;

/// main calls parse in the first half of the time, run in the second; both wait.
fn recorded(names: [&str; 3], run_share: u64) -> Recorded {
    let id = |bytes: &[u8]| Some(bytes.to_vec());
    let library = Library::at(format!("/usr/bin/{HOSTILE}"));
    let library = Library { build_id: id(&[0xab; 20]), ..library };
    let function = |name: &&str| Function {
        name: (*name).to_owned(),
        library: LibraryId(0),
        known: Known::Symbol,
        line: None,
    };
    let stack = |event: u32, block: u32, functions: &[u32], samples: u64| Stack {
        event,
        thread: 0,
        block,
        cgroup: None,
        functions: functions.iter().map(|&function| FunctionId(function)).collect(),
        at: None,
        weight: Weight { period: samples * 1_000_000, samples, heaviest: 1_000_000 },
    };
    let mut stacks = Vec::new();
    for block in 0..BLOCKS {
        // A little noise that is the same every time.
        let wobble = u64::from(block * 7919 % 5);
        let half = if block < BLOCKS / 2 { 1 } else { 2 };
        stacks.push(stack(0, block, &[half, 0], run_share / 2 + wobble));
        stacks.push(stack(0, block, &[2, 0], run_share / 2));
        stacks.push(stack(0, block, &[1, 0], 40 - run_share / 2));
        stacks.push(stack(1, block, &[half, 0], 4));
        stacks.push(stack(2, block, &[2, 0], 1));
    }
    let event = |name: &str, off_cpu| Event {
        name: name.to_owned(),
        is_clock: true,
        off_cpu,
        ..Event::default()
    };
    let used = stacks.iter().filter(|s| s.event == 0).map(|s| s.weight.samples).sum();
    Recorded {
        events: vec![
            event("cpu-clock", None),
            event("wait", Some(Reason::Synchronization)),
            event("preempted", Some(Reason::Preemption)),
        ],
        threads: vec![Thread { pid: 1, tid: 1, name: HOSTILE.to_owned() }],
        names: Names::of(names.iter().map(function).collect(), vec![library]),
        stacks,
        cgroups: Vec::new(),
        span_ns: u64::from(BLOCKS) * LENGTH_NS,
        switching: None,
        remarks: vec![HOSTILE.to_owned()],
        ledger: Ledger { samples: used, used, ..Ledger::default() },
    }
}

/// Two threads: one that waits for the second half, one that is preempted in the first quarter.
fn switching() -> Switching {
    let end = u64::from(BLOCKS) * LENGTH_NS;
    let thread = |tid: i32, name: &str, cpu_ns: u64| ThreadRow {
        pid: Some(1),
        tid,
        name: name.to_owned(),
        voluntary: 1,
        preempted: 1,
        times: Times { cpu_ns, ..Times::default() },
        page_faults: 0,
        alive: Some((0, end)),
        ran_until: Some(end),
    };
    let interval = |tid: i32, reason, start_ns: u64, end_ns: u64| Interval {
        wait: Wait { tid, reason, sample_ns: None, start_ns, woken: None, end_ns },
        pid: 1,
        left_cpu: None,
        came_cpu: None,
    };
    Switching {
        threads: vec![thread(1, HOSTILE, end / 2), thread(2, "worker", 3 * end / 4)],
        intervals: vec![
            interval(1, Reason::Synchronization, end / 2, end),
            interval(2, Reason::Preemption, 0, end / 4),
        ],
        has_stacks: true,
        has_clock: true,
        span_ns: end,
        ..Switching::default()
    }
}

fn origin() -> Origin {
    Origin {
        recording: HOSTILE.to_owned(),
        command: Some(HOSTILE.to_owned()),
        host: Some(HOSTILE.to_owned()),
        processor: Some(HOSTILE.to_owned()),
        kernel: Some("6.1".to_owned()),
        recorder: Some("6.1".to_owned()),
        planish: "1.0".to_owned(),
    }
}

#[track_caller]
fn assert_harmless(browser: &Browser, text: &str) {
    assert!(!text.contains(['\u{202e}', '\x1b']), "it holds what a terminal obeys");
    let harmless = "return [document.title === 'taken', document.images.length, document.querySelectorAll('[onerror]').length]";
    assert_eq!(browser.run(harmless), json!([false, 0, 0]));
    browser.assert_silent();
}

const FRAMES: &str =
    "return Array.from(document.querySelectorAll('.frame')).map(f => f.textContent)";
const VERDICTS: &str = "return Array.from(document.querySelectorAll('#verdict-table tbody tr')).map(r => \
                        r.cells[0].textContent + ' ' + r.cells[6].textContent)";

/// One browser for all pages: starting it is what takes time.
#[test]
fn pages_of_several_events_and_kinds_work_in_chromium_without_errors_and_without_network() {
    let Some(browser) = Browser::start() else { return };
    shows_events(&browser);
    follows_the_time_of_samples(&browser);
    shows_a_difference(&browser);
    shows_a_layout(&browser);
    shows_a_run(&browser);
}

fn shows_events(browser: &Browser) {
    let mut found = recorded(["main", HOSTILE, "run"], 40);
    found.switching = Some(switching());
    let selected = Selected { recorded: &found, event: 0, limit: 40, percent: 0.5 };
    let time = 0..u64::from(BLOCKS) * LENGTH_NS - u64::from(BLOCKS);
    let extra = Extra { blocks: Some(Blocks::cut(&time, BLOCKS)), ..Extra::default() };
    let text = page(&selected, &origin(), &extra);
    browser.open(&text);
    assert_harmless(browser, &text);
    let ids = browser.run("return document.querySelector('details.ids').textContent");
    assert!(ids.as_str().unwrap().contains(&"ab".repeat(20)), "{ids}");

    // All events are there, and all kinds of time in one graph, each in its colour and by name.
    let buttons =
        "return Array.from(document.querySelectorAll('#views button')).map(b => b.textContent)";
    let views = strings(&browser.run(buttons));
    let kinds: Vec<&str> = views.iter().map(|view| view.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(
        kinds,
        ["cpu-clock 7.94", "wait 512.0", "preempted 128.0", "running and waiting 8.58"]
    );
    browser.click("#views button:nth-child(4)");
    let states = "return Array.from(document.querySelectorAll('.frame.k0, .frame.k1, .frame.k2')).map(f => f.className.match(/k\\d/)[0] + ' ' + f.textContent).sort()";
    let states = strings(&browser.run(states));
    for expected in ["k0 running", "k1 wait", "k2 preempted"] {
        assert!(states.contains(&expected.to_owned()), "{states:?}");
    }
    assert!(said(browser, "legend").contains("preempted 1.49 %"), "{}", said(browser, "legend"));
    browser.key("e");
    assert_eq!(
        browser.run("return document.querySelector('#views button[aria-pressed=true]').textContent.split(' ')[0]"),
        json!("cpu-clock")
    );
    browser.click("#views button:nth-child(3)");
    assert_eq!(strings(&browser.run(FRAMES)), ["all waits", "main", "run"]);
    browser.click("#views button:nth-child(1)");

    // The threads, with what they did.
    let rows = "return Array.from(document.querySelectorAll('#threads canvas')).map(c => c.getAttribute('aria-label').replace(/^.*: /, ''))";
    assert_eq!(
        strings(&browser.run(rows)),
        ["running 75 %, preempted 25 %, wait 0 %", "running 50 %, preempted 0 %, wait 50 %"]
    );
    assert_eq!(said(browser, "states"), "runningpreemptedwait");

    // A part of the time: the graphs are of it alone.
    let sum = "return [range === null ? null : [range.from, range.to], calls.total[0] / 1e6]";
    let whole = browser.run(sum)[1].clone();
    browser.drag("#threads canvas", 0.0, 0.5);
    let half: u64 = found
        .stacks
        .iter()
        .filter(|s| s.event == 0 && s.block < 64)
        .map(|s| s.weight.samples)
        .sum();
    assert_eq!(browser.run(sum), json!([[0, 64], half]));
    assert!(
        said(browser, "shown").contains("only from 0.000 to 0.512 s"),
        "{}",
        said(browser, "shown")
    );
    // The table of functions follows, as the flame graph does.
    let own = "return sums.listed.map(f => functionName(f) + ' ' + sums.own[f] / 1e6).sort().slice(-1)[0]";
    let run: u64 = found
        .stacks
        .iter()
        .filter(|s| s.event == 0 && s.block < 64 && s.functions[0] == FunctionId(2))
        .map(|s| s.weight.samples)
        .sum();
    assert_eq!(browser.run(own), json!(format!("run {run}")));
    browser.click("#closer");
    assert_eq!(browser.run("return [line.from, line.to]"), json!([0, 512]));
    browser.run("document.getElementById('threads').focus()");
    browser.key(RIGHT);
    assert_eq!(browser.run(sum)[0], json!([4, 68]));
    browser.key(ENTER);
    assert_eq!(browser.run("return [line.from, line.to]"), json!([32, 544]));
    browser.key(ESCAPE);
    assert_eq!(browser.run(sum), json!([null, whole]));
    typed(browser, "from", "0.8");
    assert_eq!(browser.run(sum)[0], json!([100, 128]));
    browser.assert_good_to_look_at("events");
    browser.click("#all-time");
    assert_eq!(browser.run(sum), json!([null, whole]));
}

/// Without switches the rows tell when threads were sampled.
fn follows_the_time_of_samples(browser: &Browser) {
    let found = recorded(["main", "parse", "run"], 40);
    let selected = Selected { recorded: &found, event: 0, limit: 40, percent: 0.5 };
    let extra =
        Extra { blocks: Some(Blocks::cut(&(0..1_000_000_000), BLOCKS)), ..Extra::default() };
    browser.open(&page(&selected, &origin(), &extra));
    assert!(said(browser, "time-source").contains("Record with --switch-events"));
    browser.drag("#threads canvas", 0.75, 1.0);
    assert_eq!(browser.run("return [range.from, range.to]"), json!([96, 128]));
    browser.assert_silent();
    // Without times there is no time line, and nothing else is missing.
    browser.open(&page(&selected, &origin(), &Extra::default()));
    let hidden =
        "return [document.getElementById('time').hidden, document.getElementById('lines').hidden]";
    assert_eq!(browser.run(hidden), json!([true, true]));
    assert_eq!(strings(&browser.run(FRAMES)), ["all samples", "main", "parse", "run"]);
    browser.assert_silent();
}

fn shows_a_difference(browser: &Browser) {
    let (old, new) =
        (recorded(["main", HOSTILE, "run"], 40), recorded(["main", HOSTILE, "run.llvm.77"], 60));
    let unit = |recorded| Unit { recorded, event: 0 };
    let asked = Asked {
        by: Rows::Of(By::Function),
        total: false,
        inlined: false,
        percent: 0.5,
        margin: 1.0,
        limit: 0,
    };
    let found = diff::diff(&[unit(&old)], &[unit(&new)], asked).unwrap();
    let text = difference_page(&found, &[(unit(&old), origin())], &[(unit(&new), origin())]);
    browser.open(&text);
    assert_harmless(browser, &text);
    let rows = strings(&browser.run(VERDICTS));
    assert!(rows.iter().any(|row| row.starts_with("▲ more run")), "{rows:?}");
    assert!(rows.iter().any(|row| row.starts_with("▼ less </script>")), "{rows:?}");
    // Strong colours for what moved; a clone has the colour of its function on both sides.
    let strong =
        "return Array.from(document.querySelectorAll('.frame.d-more')).map(f => f.textContent)";
    for view in ["1", "2"] {
        browser.click(&format!("#views button:nth-child({view})"));
        assert_eq!(strings(&browser.run(strong)), ["run"]);
    }
    let weak = "return document.querySelectorAll('.frame.d-none').length";
    assert_eq!(browser.run(weak), json!(2));
    typed(browser, "verdict-filter", "less");
    assert_eq!(strings(&browser.run(VERDICTS)).len(), 1);
    typed(browser, "verdict-filter", "");
    browser.click("#verdict-table th:nth-child(4) button");
    assert!(strings(&browser.run(VERDICTS))[0].starts_with("▲ more run"));
    browser.click("#verdict-table th:nth-child(4) button");
    assert!(strings(&browser.run(VERDICTS))[0].starts_with("▼ less"));
    browser.click("#verdict-table tbody tr:last-child button");
    assert!(said(browser, "shown").contains("Only stacks through run"));
    browser.click("#whole");
    browser.assert_good_to_look_at("difference");
}

fn heat(name: &str, hot: usize) -> HeatView {
    let page = |number: usize| PageView {
        address: number as u64 * 4096,
        executions: if number < hot { 1000 } else { 0 },
        executed_bytes: 100,
        heat: if number < hot { "hot" } else { ["warm", "cold"][number % 2] }.to_owned(),
    };
    HeatView { name: name.to_owned(), page_bytes: 4096, pages: (0..300).map(page).collect() }
}

fn shows_a_layout(browser: &Browser) {
    let view = LayoutView {
        schema: "planish-layout-show".to_owned(),
        version: 1,
        binary: format!("/bin/{HOSTILE}"),
        heat: vec![heat("as recorded", 120), heat("as laid out", 40)],
        functions: vec![FunctionView {
            names: vec![HOSTILE.to_owned()],
            ..FunctionView::default()
        }],
    };
    let text = report::layout::page(&view);
    browser.open(&text);
    assert_harmless(browser, &text);
    browser.assert_good_to_look_at("layout");
}

fn shows_a_run(browser: &Browser) {
    let program = |path: &str, code_bytes| Program {
        path: path.into(),
        build_id: Some("ab12".repeat(10)),
        code_bytes,
    };
    let worth = |taken, pages| Worth { taken, pages_4k: (pages, pages / 4), ..Worth::default() };
    let line = |line: u32| TurnedLine {
        function: HOSTILE.into(),
        file: Some(format!("/src/{HOSTILE}.c")),
        line,
        executions: 18_000 / u64::from(line),
    };
    let summary = LayoutSummary {
        functions: 10,
        clusters: 14,
        before: worth(2_000_000, 120),
        after: worth(900_000, 40),
        turned: Some(Turned {
            to_fall_through: (12, 900_000),
            to_taken: (1, 7),
            lines: (1..9).map(line).collect(),
            functions: vec![TurnedFunction {
                name: HOSTILE.into(),
                share: 0.625,
                taken: Some((2_000_000, 900_000)),
            }],
        }),
        ..LayoutSummary::default()
    };
    let layout = LaidOut { summary, verified: VerifyResult::default(), objects: None };
    let run = Optimization {
        schema: "planish-optimize".into(),
        version: 1,
        planish: "1.0".into(),
        machine: ReportMachine { cpu: HOSTILE.into(), cpus: 2, kernel: "6.1".into() },
        build: Build {
            command: format!("make {HOSTILE}"),
            base: program(".planish/app.base", 2_048_000),
            opt: program(".planish/app.opt", 1_900_000),
            ..Build::default()
        },
        recordings: vec![report::Recording { command: HOSTILE.into(), ..Default::default() }],
        profile: Profile::default(),
        matched: Matched { functions: 10, functions_matched: 9, ..Matched::default() },
        measurements: vec![sample::measurement()],
        last_step: Vec::new(),
        beside_release: Vec::new(),
        branches: Vec::new(),
        variants: Vec::new(),
        layout: Some(layout),
        images: Vec::new(),
        stages: vec![Stage { name: "build".into(), command: HOSTILE.into(), ..Stage::default() }],
        take: None,
        warnings: vec![HOSTILE.into()],
    };
    let text = run.html();
    browser.open(&text);
    assert_harmless(browser, &text);
    let body = browser.run("return document.body.innerText");
    let body = body.as_str().unwrap();
    for expected in
        ["pages of 4 KiB touched", "120", "Straightened branches", "12 jumps", "18,000", "62.5"]
    {
        assert!(body.contains(expected), "{expected}: {body}");
    }
    browser.assert_good_to_look_at("run");
}
