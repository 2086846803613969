//! Do the three forms hold everything they must, in good order, whatever the names are?

mod sample;

use compare::result::{Evidence, Measurement};
use proptest::prelude::*;
use report::compare::{Screen, html, markdown, terminal};
use std::collections::BTreeSet;

/// Elements in order, as `tag`, with the whole document checked: every tag closed, attributes
/// quoted and unique, entities known, identifiers unique, references to them valid.
fn parse(page: &str) -> Result<Vec<String>, String> {
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").ok_or("no document type")?;
    let (mut open, mut seen, mut ids, mut references) =
        (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
    while let Some(at) = rest.find('<') {
        text(&rest[..at])?;
        rest = &rest[at + 1..];
        let end = rest.find('>').ok_or("an open tag")?;
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            let last = open.pop();
            if last.as_deref() != Some(name) {
                return Err(format!("</{name}> closes {last:?}"));
            }
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        for (key, value) in split(attributes)? {
            match key.as_str() {
                "id" if !ids.insert(value.clone()) => {
                    return Err(format!("the identifier {value} twice"));
                }
                "aria-labelledby" => references.extend(value.split(' ').map(str::to_owned)),
                "href" => references.extend(value.strip_prefix('#').map(str::to_owned)),
                key if key.starts_with("on") || key == "style" || key == "src" => {
                    return Err(format!("{key} in {tag}"));
                }
                _ => {}
            }
        }
        seen.push(name.to_owned());
        if !empty {
            open.push(name.to_owned());
        }
    }
    let dangling = references.iter().find(|r| !ids.contains(*r));
    match (open.as_slice(), dangling) {
        ([], None) => Ok(seen),
        (open, dangling) => Err(format!("not closed: {open:?}, no such identifier: {dangling:?}")),
    }
}

fn text(text: &str) -> Result<(), String> {
    for piece in text.split('&').skip(1) {
        let known = ["amp;", "lt;", "gt;", "quot;", "#39;"];
        if !known.iter().any(|entity| piece.starts_with(entity)) {
            return Err(format!("&{piece}"));
        }
    }
    let bad = |c: char| c.is_control() && c != '\n';
    text.chars().find(|c| bad(*c)).map_or(Ok(()), |c| Err(format!("{c:?} in {text}")))
}

fn split(mut attributes: &str) -> Result<Vec<(String, String)>, String> {
    let mut found: Vec<(String, String)> = Vec::new();
    while !attributes.is_empty() {
        let (name, rest) = attributes.split_once("=\"").ok_or(format!("no value: {attributes}"))?;
        let (value, rest) = rest.split_once('"').ok_or(format!("no end: {attributes}"))?;
        text(value)?;
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
            || found.iter().any(|(n, _)| n == name)
        {
            return Err(format!("the attribute {name}"));
        }
        found.push((name.to_owned(), value.to_owned()));
        attributes = rest.strip_prefix(' ').unwrap_or(rest);
    }
    Ok(found)
}

fn count(tags: &[String], name: &str) -> usize {
    tags.iter().filter(|tag| *tag == name).count()
}

/// Gives everything that has a name these names, in turn.
fn rename(m: &mut Measurement, e: &mut [Evidence], names: &[String]) {
    let name = |n: usize, kind: &str| format!("{} {kind}{n}", names[n % names.len()]);
    let old = |list: &[String], name: &str| list.iter().position(|n| n == name).unwrap_or(0);
    let machines: Vec<String> = m.machines.iter().map(|x| x.name.clone()).collect();
    let benchmarks: Vec<String> = m.benchmarks.iter().map(|x| x.name.clone()).collect();
    let variants: Vec<String> = m.variants.iter().map(|x| x.name.clone()).collect();
    for c in &mut m.comparisons {
        c.machine = name(old(&machines, &c.machine), "m");
        c.benchmark = name(old(&benchmarks, &c.benchmark), "b");
        c.base = name(old(&variants, &c.base), "v");
        c.variant = name(old(&variants, &c.variant), "v");
        c.sentence = name(3, "s");
        c.warnings = vec![name(1, "w")];
    }
    for index in &mut m.indices {
        index.variant = name(old(&variants, &index.variant), "v");
        index.machine = index.machine.as_ref().map(|on| name(old(&machines, on), "m"));
    }
    for (n, machine) in m.machines.iter_mut().enumerate() {
        (machine.name, machine.cpu, machine.kernel) = (name(n, "m"), name(n, "cpu"), name(n, "k"));
    }
    for (n, b) in m.benchmarks.iter_mut().enumerate() {
        (b.name, b.command) = (name(n, "b"), name(n, "c"));
        b.parameters.insert(name(n, "p"), name(n, "q"));
        b.metrics
            .iter_mut()
            .for_each(|metric| (metric.words, metric.unit) = (name(n, "w"), name(n, "u")));
    }
    for (n, v) in m.variants.iter_mut().enumerate() {
        (v.name, v.description, v.freedom) = (name(n, "v"), name(n, "d"), name(n, "f"));
        v.code_metrics = [(name(n, "b"), [(name(n, "x"), 1.0)].into())].into();
    }
    m.alignment.iter_mut().for_each(|a| {
        (a.variant, a.benchmark, a.sentence) = (name(0, "v"), name(0, "b"), name(0, "s"))
    });
    m.stopped = vec![compare::result::Stopped {
        variant: name(0, "v"),
        benchmark: name(0, "b"),
        machine: name(0, "m"),
        reason: name(0, "r"),
    }];
    (m.warnings, m.raw, m.planish, m.correction) =
        (vec![name(0, "w")], vec![name(0, "r")], name(0, "z"), name(0, "y"));
    for run in e.iter_mut().flat_map(|e| &mut e.runs).filter(|r| r.outlier.is_some()) {
        run.outlier = Some(name(0, "o"));
    }
}

#[test]
fn a_page_holds_every_picture_of_every_cell() {
    let (m, e) = (sample::measurement(), sample::evidence(8));
    let page = html(&m, &e);
    let tags = parse(&page).unwrap();
    // Per benchmark a forest; per cell runs, histogram, ECDF, and with layouts strip and noise; one
    // calibration.
    let headings = [
        "Effects",
        "Layouts",
        "Noise",
        "Runs in time order",
        "Histogram",
        "Cumulative",
        "Calibration of epyc-vm",
    ];
    let found = headings.map(|h| page.matches(&format!("<figcaption><b>{h}</b>")).count());
    assert_eq!(found, [4, 6, 6, 8, 8, 8, 1]);
    assert_eq!((count(&tags, "script"), count(&tags, "style"), count(&tags, "img")), (1, 1, 0));
    assert_eq!(page.matches("<a class=\"cell").count(), 16);
    let title =
        page.split_once("<h1><span>").and_then(|(_, rest)| rest.split_once("</span>")).unwrap().0;
    assert!(
        title.starts_with("profile: 5 of 8 faster, 2 the same within ±1.0\u{a0}%, 1 undecided"),
        "{title}"
    );
    // What is undecided and lies wholly beyond the margin is named, and nothing else is said of it.
    assert!(title.contains("of these 1 beyond ±1.0\u{a0}% (profile on "), "{title}");
    for section in [
        "What to trust",
        "All results",
        "Benchmarks over their parameters and machines",
        "Geometric means",
        "Sizes",
        "Metrics of the code",
        "With aligned functions",
    ] {
        assert!(page.contains(&format!(">{section}</h2>")), "{section}");
    }
}

#[test]
fn a_page_without_runs_layouts_and_calibration_is_whole_too() {
    let (mut m, _) = sample::single();
    m.machines[0].calibration = None;
    m.comparisons[0].layouts = None;
    m.comparisons[0].interval = None;
    let page = html(&m, &[]);
    parse(&page).unwrap();
    assert!(
        page.contains("not calibrated: run planish compare calibrate PROGRAM -- {bin} ARGUMENTS")
    );
    assert!(page.contains("The runs are not at hand"));
    assert!(page.contains("Only the programs as built were measured"));
    m.comparisons.clear();
    parse(&html(&m, &[])).unwrap();
    assert!(
        markdown(&m).contains("Nothing was compared")
            && !terminal(&m, &[], Screen::default()).is_empty()
    );
}

#[test]
fn numbers_that_are_none_do_not_break_a_page() {
    let (mut m, mut e) = sample::single();
    let c = &mut m.comparisons[0];
    (c.effect, c.interval, c.p_value, c.base_median) =
        (f64::NAN, Some([f64::NEG_INFINITY, f64::INFINITY]), f64::NAN, f64::INFINITY);
    c.as_built.ratio = 0.0;
    e[0].runs[0].value = f64::NAN;
    e[0].runs[1].value = f64::INFINITY;
    e[0].runs[2].variant = 99;
    e[0].layouts[0].ratio = f64::NAN;
    e[0].layouts[1].interval = [f64::NAN; 2];
    let page = html(&m, &e);
    parse(&page).unwrap();
    let drawn = page.split(" d=\"").skip(1).filter_map(|d| d.split('"').next());
    assert!(
        drawn.clone().count() > 5
            && drawn.clone().all(|d| !d.contains("NaN") && !d.contains("inf"))
    );
    markdown(&m);
    terminal(&m, &e, Screen::default());
}

#[test]
fn a_terminal_tells_verdict_layouts_calibration_and_plots() {
    let (m, e) = sample::single();
    let told = terminal(&m, &e, report::Style::default());
    for part in [
        "0.931 [0.928, 0.934]   ▲ faster",
        "The change profile is faster than base by 6.9 %.",
        "8 matched layouts (97 % of the bytes at equal addresses), layout noise ±2.4 %, one relink",
        "calibrated: 4.6 % [3.1, 6.5] at α = 5 %",
        "━ averaged over layouts, ◆ as built",
        "1,265,340 (+1.0 %)",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
    assert!(!told.contains('\x1b'));
    assert!(terminal(&m, &e, report::Style { colour: true }).contains("\x1b[32m▲ faster\x1b[0m"));
}

#[test]
fn a_narrow_or_ascii_terminal_is_respected() {
    let (m, e) = (sample::measurement(), sample::evidence(8));
    for width in [48, 60, 80, 100] {
        let told = terminal(&m, &e, Screen { width, ..Screen::default() });
        let widest = told.lines().map(|l| l.chars().count()).max();
        assert!(widest <= Some(width), "{widest:?} of {width}\n{told}");
    }
    let (single, runs) = sample::single();
    for (m, e) in [(&m, &e), (&single, &runs)] {
        let told = terminal(m, e, Screen { ascii: true, ..Screen::default() });
        assert!(told.is_ascii() && !told.contains("??"), "{told}");
    }
}

#[test]
fn a_note_that_several_rows_share_is_told_once() {
    let (mut m, e) = (sample::measurement(), sample::evidence(8));
    let rows = m.comparisons.len();
    assert!(rows > 2, "{rows}");
    m.comparisons.iter_mut().for_each(|row| row.warnings = vec!["of all".to_owned()]);
    m.comparisons[1..].iter_mut().for_each(|row| row.warnings.push("of some".to_owned()));
    m.comparisons[0].warnings.push("of its own".to_owned());
    let page = html(&m, &e);
    for told in [terminal(&m, &e, Screen::default()), markdown(&m).replace("&#58;", ":"), page] {
        for line in ["every row: of all", &format!("{} rows (", rows - 1), "of its own"] {
            assert_eq!(told.matches(line).count(), 1, "{line}\n{told}");
        }
        assert_eq!(told.matches("of all").count(), 1, "{told}");
    }
}

#[test]
fn markdown_opens_with_the_verdict_and_has_whole_tables() {
    let told = markdown(&sample::measurement());
    assert!(told.starts_with("**profile&#58; 5 of 8 faster"), "{told}");
    let mut columns = None;
    for line in told.lines() {
        let cells = line.replace("\\|", "").matches('|').count();
        match (line.starts_with('|'), columns) {
            (true, Some(wanted)) => assert_eq!(cells, wanted, "{line}"),
            (true, None) => columns = Some(cells),
            (false, _) => columns = None,
        }
    }
    for line in [
        "| insert | profile | 2 | 0.931 [0.921, 0.941] | [0.927, 0.935] | insert rows=100000, epyc-vm | insert rows=100000, n1-arm |",
        "| size in bytes | text | data | bss | dec | file |",
        "| base | 1,252,340 | 18,432 | 4,096 | 1,274,868 | 1,500,000 |",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
    assert!(
        told.contains(
            "| profile | 469.8 ms | ±2.4 % | **0.931** | 0.928 to 0.934 | &lt; 0.001 (0.005) | ▲ faster |"
        ),
        "{told}"
    );
}

#[test]
fn ten_thousand_runs_are_drawn_quickly_and_small() {
    let (m, mut e) = sample::single();
    let mut noise = sample::Noise::new(5);
    e[0].runs = (0..10_000)
        .map(|n| compare::result::Shown {
            sequence: n,
            round: n as u32 / 18,
            variant: n as usize % 2,
            layout: (n / 2 % 9) as u32,
            value: 5e8 * (1.0 + 0.02 * noise.normal()),
            steal: 0.1 * noise.uniform(),
            outlier: (n % 50 == 0).then(|| "82 context switches".into()),
        })
        .collect();
    let started = std::time::Instant::now();
    let page = html(&m, &e);
    let took = started.elapsed();
    assert!(took.as_secs_f64() < 2.0, "{took:?}");
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

/// Names out of pieces that are markup somewhere.
fn name() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("<script>alert(1)</script>".to_owned()),
        Just("\"><img src=x onerror=alert(1)>".to_owned()),
        Just("]]>".to_owned()),
        Just("<!--".to_owned()),
        Just("</style>&lt;".to_owned()),
        Just("|`\n|---|".to_owned()),
        Just("\x1b[31m\u{202e}".to_owned()),
        ".{0,6}",
        "[a-z]{1,8}",
    ];
    proptest::collection::vec(piece, 1..4).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_name_becomes_markup(names in proptest::collection::vec(name(), 1..6)) {
        let (mut m, mut e) = (sample::measurement(), sample::evidence(3));
        let usual = parse(&html(&m, &e)).unwrap();
        rename(&mut m, &mut e, &names);
        let page = html(&m, &e);
        let tags = parse(&page).map_err(TestCaseError::fail)?;
        for tag in ["script", "style", "img", "meta", "link", "table", "figure", "svg"] {
            prop_assert_eq!(count(&tags, tag), count(&usual, tag), "{}", tag);
        }
        let told = markdown(&m);
        let allowed = ["<code>", "</code>", "<br>", "<details>", "</details>", "<summary>", "</summary>"];
        let bare = allowed.iter().fold(told.clone(), |text, tag| text.replace(tag, ""));
        prop_assert!(!bare.contains('<'), "{}", bare);
        let shown = terminal(&m, &e, Screen::default());
        prop_assert!(shown.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
