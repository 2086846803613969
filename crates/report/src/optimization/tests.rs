//! Tests of the report of a run.

use super::*;
use ::compare::result::{Benchmark, Compared, Direction, MetricInfo, Verdict};

fn sample() -> Measurement {
    let metric = MetricInfo {
        name: "cpu".into(),
        words: "CPU time (user + system)".into(),
        unit: "ns".into(),
        better: Direction::Lower,
    };
    let benchmark = Benchmark {
        name: "eval".into(),
        command: "{bin} eval 130".into(),
        parameters: Default::default(),
        metrics: vec![metric],
    };
    let json = serde_json::json!({
        "schema": "planish-compare", "version": 2, "planish": "0.1.0", "seed": 1, "margin": 0.01,
        "correction": "holm", "machines": [], "benchmarks": [], "variants": [], "comparisons": [],
        "interrupted": false, "raw": [], "warnings": []
    });
    let mut sample: Measurement = serde_json::from_value(json).unwrap();
    sample.benchmarks = vec![benchmark];
    sample.comparisons = vec![Compared {
        verdict: Verdict::Faster,
        effect: 0.9204,
        interval: Some([0.903, 0.934]),
        ..compared()
    }];
    sample
}

fn compared() -> Compared {
    serde_json::from_value(serde_json::json!({
        "machine": "m", "benchmark": "eval", "metric": "cpu", "base": "app.base", "variant": "app.opt",
        "verdict": "same", "negligible": false, "sentence": "this binary is faster", "effect": 1.0,
        "interval": null, "p_value": 0.0001, "p_corrected": 0.0001, "n": 30,
        "as_built": { "ratio": 0.9204, "interval": [0.903, 0.934], "p_value": 0.0001 },
        "base_median": 5e8, "variant_median": 4.6e8, "spread": [0.01, 0.01], "smallest_effect": 0.01,
        "warnings": []
    }))
    .unwrap()
}

fn report() -> Optimization {
    let program =
        |path: &str| Program { path: path.into(), build_id: Some("ab12".into()), code_bytes: 2048 };
    Optimization {
        schema: "planish-optimize".into(),
        version: 1,
        planish: "0.1.0".into(),
        machine: ReportMachine::default(),
        build: Build {
            base: program(".planish/app.base"),
            opt: program(".planish/app.opt"),
            ..Build::default()
        },
        recordings: vec![Recording {
            command: "app train".into(),
            file_bytes: 1 << 20,
            seconds: Some(1.5),
            samples: Some(1200),
            share: Some(1.0),
        }],
        profile: Profile::default(),
        matched: Matched {
            functions: 10,
            functions_matched: 9,
            samples: 1000,
            samples_matched: 990,
            ..Matched::default()
        },
        measurements: vec![sample()],
        last_step: vec![],
        beside_release: vec![],
        branches: vec![Branches {
            command: "app eval".into(),
            base: 2000,
            opt: 1100,
            others: vec![],
        }],
        variants: vec![],
        images: vec![],
        layout: None,
        stages: vec![Stage {
            name: "build".into(),
            command: "sh -c 'a | b'".into(),
            seconds: 1.0,
            said: vec![],
        }],
        take: None,
        warnings: vec!["careful".into()],
    }
}

#[test]
fn the_report_opens_with_the_result() {
    let text = report().markdown();
    let first = "# app, rebuilt with its profile: faster, CPU time (user + system) 0.920 (95 % \
                 interval 0.903 to 0.934)";
    assert_eq!(text.lines().next(), Some(first));
    assert!(
        text.contains("| `app eval` | baseline | 2,000 | 1 |\n| | rebuilt | 1,100 | 0.550 |"),
        "{text}"
    );
    assert!(
        text.contains("9 of 10 profiled functions (inlined ones too), 99.0 % of the samples"),
        "{text}"
    );
    assert!(text.contains("a \\| b"), "{text}");
}

#[test]
fn a_title_states_no_gain_that_was_not_shown() {
    let mut report = report();
    for (verdict, words) in [
        (
            Verdict::Same,
            "no difference shown in CPU time (user + system), 0.920 (95 % interval 0.903 to 0.934)",
        ),
        (
            Verdict::Undecided,
            "undecided in CPU time (user + system), 0.920 (95 % interval 0.903 to 0.934)",
        ),
        (
            Verdict::LayoutLuck,
            "only layout luck in CPU time (user + system), 0.920 (95 % interval 0.903 to 0.934)",
        ),
    ] {
        report.measurements[0].comparisons[0].verdict = verdict;
        let title = format!("# app, rebuilt with its profile: {words}");
        assert_eq!(report.markdown().lines().next(), Some(title.as_str()));
    }
}

#[test]
fn another_programs_numbers_do_not_stand_for_the_results() {
    let mut report = report();
    report.measurements[0].comparisons[0].variant = "app.pgo".into();
    assert_eq!(report.markdown().lines().next(), Some("# app: not measured"));
}

#[test]
fn a_layout_is_told_with_its_scores_pages_and_objects() {
    let mut report = report();
    let program = Program { path: ".planish/app.layout".into(), ..Program::default() };
    report.variants.push(Variant { name: "layout".into(), program, flags: "-O2".into() });
    let mut laid_out = LaidOut::default();
    laid_out.summary.after.pages_4k = (7, 3);
    laid_out.summary.after.pages_2m = (2, 1);
    (laid_out.verified.asked, laid_out.verified.in_order) = (40, 39);
    laid_out.objects = Some(Objects { reused: 9, laid_out: 1, compiled: 0 });
    report.layout = Some(laid_out);
    report.branches[0].others = vec![("layout".into(), 900)];
    report.measurements[0].comparisons[0].variant = "app.layout".into();
    assert_eq!(report.result(), "app.layout");
    let text = report.markdown();
    assert!(
        text.starts_with("# app, rebuilt with its profile and a layout: faster, CPU time"),
        "{text}"
    );
    assert!(text.contains("| pages of 4 KiB touched | 0 | 7 |"), "{text}");
    assert!(text.contains("| superpages (2 MiB) touched | 0 | 2 |"), "{text}");
    assert!(text.contains("| superpages with 90 % of the executions | 0 | 1 |"), "{text}");
    assert!(
        text.contains("39 of 40 sections in order; 1 object compiled for it, 9 objects reused"),
        "{text}"
    );
    assert!(
        text.contains("| | baseline | rebuilt | layout |")
            && text.contains("| | layout | 900 | 0.450 |")
    );
    let text = report.terminal(Style::default());
    assert!(
        text.contains("taken branches of layout: 0.450 of the baseline's (900 of 2,000"),
        "{text}"
    );
}

#[test]
fn the_terminal_shows_branches_and_notes() {
    let text = report().terminal(Style::default());
    assert!(text.contains("taken branches: 0.550 of the baseline's"), "{text}");
    assert!(text.contains("note: careful"), "{text}");
}

#[test]
fn the_projects_own_release_build_comes_first() {
    let mut report = report();
    report.beside_release = vec![Compared {
        verdict: Verdict::Undecided,
        base: "app.release".into(),
        effect: 0.985,
        interval: Some([0.968, 1.002]),
        ..compared()
    }];
    let title = "# app, rebuilt with its profile: beside its own release build undecided in CPU \
                 time (user + system), 0.985 (95 % interval 0.968 to 1.002); beside the baseline \
                 faster, CPU time (user + system) 0.920 (95 % interval 0.903 to 0.934)";
    let text = report.markdown();
    assert_eq!(text.lines().next(), Some(title));
    let own = text.find("- app.opt beside the project's own release build: undecided").unwrap();
    let base = text.find("- app.opt beside the baseline: faster").unwrap();
    assert!(own < base, "{text}");
    let page = report.html();
    let hero = page.find("class=\"hero\"").unwrap();
    assert!(
        page[hero..].starts_with("class=\"hero\"><b class=\"grey\">−1.5\u{a0}%</b>"),
        "{}",
        &page[hero..hero + 80]
    );
}

#[test]
fn an_interval_beside_1_that_is_no_claim_is_explained() {
    let mut report = report();
    let own = |interval, confirmation| Compared {
        verdict: Verdict::Undecided,
        base: "app.release".into(),
        interval: Some(interval),
        p_value: 0.031,
        p_corrected: 0.124,
        confirmation,
        ..compared()
    };
    let said = |report: &Optimization| report.markdown();
    report.beside_release = vec![own([0.968, 0.998], None)];
    let text = said(&report);
    assert!(
        text.contains("that can be chance (p = 0.031 alone, 0.124 among all of them)"),
        "{text}"
    );
    report.beside_release = vec![own([0.968, 1.002], None)];
    assert!(!said(&report).contains("can be chance"));
    let second = ::compare::result::Confirmation { rounds: 20, ..Default::default() };
    report.beside_release = vec![own([1.001, 1.02], Some(second))];
    assert!(said(&report).contains("the 20 rounds that were to confirm it did not"));
    // Two single links, while the result is averaged over others.
    let averaged = ::compare::result::Averaged { one_relink: 0.15, ..Default::default() };
    let before = report.measurements[0].comparisons.clone();
    report.measurements[0].comparisons[0].layouts = Some(averaged);
    report.beside_release = vec![Compared { effect: 0.95, ..own([0.93, 0.97], None) }];
    assert!(said(&report).contains("another link of the same code moves the time by up to 15.0 %"));
    report.measurements[0].comparisons = before;
    // A pair of another command is not taken for this one.
    report.beside_release = vec![Compared { benchmark: "other".into(), ..compared() }];
    assert!(!said(&report).contains("own release build"));
}

#[test]
fn the_closing_words_claim_what_the_layout_added_only_where_it_is_shown() {
    let mut report = report();
    let program = Program { path: ".planish/app.layout".into(), ..Program::default() };
    report.variants.push(Variant { name: "layout".into(), program, flags: String::new() });
    report.measurements[0].comparisons[0].variant = "app.layout".into();
    let step = |verdict| Compared {
        verdict,
        base: "app.opt".into(),
        variant: "app.layout".into(),
        effect: 0.985,
        interval: Some([0.968, 1.002]),
        ..compared()
    };
    report.last_step = vec![step(Verdict::Undecided)];
    let text = report.terminal(Style::default());
    assert!(
        text.contains("app.layout beside the baseline: faster, CPU time (user + system) 0.920"),
        "{text}"
    );
    assert!(text.contains("beside app.opt (the profile alone): undecided"), "{text}");
    assert!(text.contains("that the layout adds to the profile is not shown"), "{text}");
    let averaged = ::compare::result::Averaged { count: 8, ..Default::default() };
    report.last_step = vec![Compared { layouts: Some(averaged), ..step(Verdict::Faster) }];
    assert!(report.markdown().contains("0.968 to 1.002), averaged over 8 layouts"));
    // What the layout made slower is not what to take.
    assert!(!report.markdown().contains("take app.opt"));
    report.last_step = vec![step(Verdict::Slower)];
    assert_eq!(report.advised(), Advised::Before("app.opt"));
    let text = report.terminal(Style::default());
    assert!(text.contains("take app.opt: app.layout is slower than it"), "{text}");
    report.last_step.push(step(Verdict::Faster));
    assert_eq!(report.advised(), Advised::Result, "it is faster on another command");
    report.beside_release = vec![Compared { verdict: Verdict::Slower, ..compared() }];
    assert_eq!(report.advised(), Advised::Release);
    assert!(report.markdown().contains("keep the project's own release build: app.layout is"));
    // Nothing is shown of the result, and the release build is faster than the baseline.
    let of_release = |verdict| Compared { variant: "app.release".into(), verdict, ..compared() };
    let undecided =
        Compared { verdict: Verdict::Undecided, base: "app.release".into(), ..compared() };
    report.beside_release = vec![undecided];
    report.last_step.clear();
    report.measurements[0].comparisons.iter_mut().for_each(|row| row.verdict = Verdict::Same);
    report.measurements[0].comparisons.push(of_release(Verdict::Faster));
    assert_eq!(report.advised(), Advised::Release);
    assert!(report.is_shown_faster("app.release") && !report.is_shown_faster("app.layout"));
    assert!(report.markdown().contains("no such gain is shown for app.layout"));
    // The profile alone gains, which the layout does not show.
    let alone = Compared { variant: "app.opt".into(), verdict: Verdict::Faster, ..compared() };
    report.last_step = vec![step(Verdict::Undecided)];
    report.measurements[0].comparisons.push(alone);
    assert_eq!(report.advised(), Advised::Before("app.opt"));
    let words =
        "take app.opt: it is faster than the baseline; no such gain is shown for app.layout";
    assert!(report.markdown().contains(words));
    // The release build gains more.
    let base = &mut report.measurements[0].comparisons;
    base.iter_mut().filter(|row| row.variant == "app.release").for_each(|row| row.effect = 0.8);
    assert_eq!(report.advised(), Advised::Release);
    report.last_step = vec![step(Verdict::Faster)];
    assert_eq!(report.advised(), Advised::Result, "it is faster than what gains");
    report.measurements[0].comparisons.pop();
    report.last_step.clear();
    report.measurements[0].comparisons.pop();
    report.measurements[0].comparisons.push(of_release(Verdict::Same));
    assert_eq!(report.advised(), Advised::Result);
    report.measurements[0].comparisons.pop();
    let faster = |row: &mut Compared| row.verdict = Verdict::Faster;
    report.measurements[0].comparisons.iter_mut().for_each(faster);
    report.beside_release.clear();
    report.last_step = vec![step(Verdict::Faster)];
    let text = report.markdown();
    assert!(
        text.contains("(the profile alone): faster, CPU time") && !text.contains("is not shown"),
        "{text}"
    );
}

#[test]
fn the_program_to_take_is_named_with_what_is_not_shown() {
    let take = |which: &str, faster| Take {
        which: which.into(),
        path: ".planish/app.layout".into(),
        libraries: vec![".planish/libw.so".into(), ".planish/libx.so".into()],
        faster,
    };
    let with = "program: .planish/app.layout, with .planish/libw.so, .planish/libx.so";
    assert_eq!(take("result", true).words(), with);
    assert_eq!(take("baseline", false).words(), with);
    let told = take("result", false).words();
    assert_eq!(told, format!("{with} (not shown to be faster than the program without a profile)"));
}
