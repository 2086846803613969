//! What decides the exit code of `planish compare`: gates over many rows, looks in between, a
//! second block of rounds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Output};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn planish(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("XDG_DATA_HOME", self.at("data"))
            .output()
            .unwrap()
    }

    /// Exit code, standard output and standard error; lines for people without their breaks.
    fn ran(&self, arguments: &[&str]) -> (i32, String, String) {
        let ran = self.planish(arguments);
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = |bytes: &[u8]| words(&String::from_utf8_lossy(bytes));
        (ran.status.code().unwrap(), text(&ran.stdout), text(&ran.stderr))
    }

    fn script(&self, name: &str, body: &str) {
        let path = self.at(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }

    /// Kept runs of `rows` benchmarks over `layouts` matched layouts; in the last one the variant
    /// takes `factor` times as much.
    fn kept(&self, name: &str, rows: usize, layouts: usize, rounds: u32, factor: f64) {
        let binaries =
            |name: &str| (0..=layouts).map(|l| format!("/{name}.{l}")).collect::<Vec<_>>();
        let benchmark =
            |row| json!({ "name": format!("row{row}"), "command": ["{bin}"], "metrics": ["cpu"] });
        let design = json!({
            "variants": [{ "name": "old", "binaries": binaries("old") }, { "name": "new", "binaries": binaries("new") }],
            "benchmarks": (0..rows).map(benchmark).collect::<Vec<_>>(),
            "rounds": rounds, "seed": 1, "margin": 0.01, "layouts": if layouts > 0 { "matched" } else { "none" },
        });
        let mut lines = vec![json!({ "format": "planish-runs", "version": 2, "design": design })];
        let mut state = 7u64;
        for (row, round) in (0..rows).flat_map(|row| (0..=rounds).map(move |round| (row, round))) {
            for (variant, layout, copy) in slots(layouts) {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let noise = 1.0 + 0.003 * ((state >> 40) as f64 / (1u64 << 24) as f64);
                let luck = 1.0 + 0.01 * ((layout * 5 % 8) as f64 / 8.0);
                let slower = if variant == 1 && row + 1 == rows { factor } else { 1.0 };
                let time = (1e9 * noise * luck * slower) as u64;
                lines.push(json!({
                    "sequence": lines.len(), "round": round, "benchmark": row, "variant": variant, "layout": layout,
                    "copy": copy, "start_unix_ns": 0, "wall_ns": time, "user_ns": time, "system_ns": 0,
                    "max_rss_bytes": 0, "minor_faults": 0, "major_faults": 0, "voluntary_switches": 0,
                    "involuntary_switches": 0, "steal_ticks": 0, "environment_bytes": 0, "exit_code": 0,
                    "output_bytes": 0, "output_sha256": ""
                }));
            }
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(self.at(name), text).unwrap();
    }
}

/// Variant, layout and copy of every run of a round; the variants take turns in being the first.
fn slots(layouts: usize) -> Vec<(usize, usize, usize)> {
    let built = if layouts > 0 { vec![(0, 0), (0, 1)] } else { vec![(0, 0)] };
    let all = built.into_iter().chain((1..=layouts).map(|l| (l, 0)));
    all.flat_map(|(layout, copy)| [(0, layout, copy), (1, layout, copy)]).collect()
}

#[test]
fn a_quarter_slower_fails_over_eight_layouts_and_eight_rows() {
    let folder = Folder::new();
    folder.kept("runs.jsonl", 8, 8, 10, 1.254);
    for gate in [&["--fail-if", "slower > 5%"][..], &[]] {
        let (code, told, said) = folder.ran(&[&["compare", "show", "runs.jsonl"], gate].concat());
        assert_eq!(code, 1, "{told}{said}");
        assert!(told.contains("new: 1 of 8 slower"), "{told}");
    }
    let (code, _, said) =
        folder.ran(&["compare", "show", "runs.jsonl", "--fail-if", "slower > 30%"]);
    assert_eq!((code, said.as_str()), (0, ""));
}

#[test]
fn what_a_gate_cannot_judge_is_said_and_what_lies_beyond_the_margin_is_named() {
    let folder = Folder::new();
    // Without layouts eight rounds are too few for any claim among eight rows, however large.
    folder.kept("runs.jsonl", 8, 0, 8, 1.254);
    let (code, told, said) =
        folder.ran(&["compare", "show", "runs.jsonl", "--fail-if", "slower > 5%"]);
    assert_eq!(code, 4, "{told}");
    assert!(
        said.contains("not ruled out either: 1 row is undecided, the first new on row7 (1.25"),
        "{said}"
    );
    assert!(
        said.contains("the exit code is 4; with the gate \"undecided > 5%\" it is 1"),
        "{said}"
    );
    assert!(told.contains("beyond ±1.0 % (new on row7 1.25"), "{told}");
    let strict = ["compare", "show", "runs.jsonl", "--fail-if", "slower > 5%, undecided > 5%"];
    let (code, _, said) = folder.ran(&strict);
    assert!(code == 1 && said.contains("row7"), "{said}");
    let (code, ..) = folder.ran(&["compare", "show", "runs.jsonl", "--fail-if", "undecided > 40%"]);
    assert_eq!(code, 0);
}

#[test]
fn an_undecided_row_says_so_once_and_names_the_variant() {
    let folder = Folder::new();
    folder.kept("runs.jsonl", 1, 0, 8, 1.0);
    let (code, told, _) = folder.ran(&["compare", "show", "runs.jsonl", "--margin", "0.02"]);
    assert_eq!((code, told.matches("ndecided").count()), (4, 1), "{told}");
    assert!(told.contains("new: the runs show no difference and none is ruled out"), "{told}");
}

/// Prints a number that varies a little, and from the run of the number in the second argument on
/// another one.
fn counted(name: &str, number: u32, from: u32, then: u32) -> String {
    format!(
        "echo >> {name}.count; n=$(wc -l < {name}.count); v={number}; [ $n -gt {from} ] && v={then}\n\
         echo t=$((v + n * 7 % 5))"
    )
}

const PRINTED: [&str; 4] = ["--metric", "output:t=([0-9]+)", "--format", "json"];

#[test]
fn slower_counts_only_when_a_second_block_of_rounds_says_so_too() {
    let folder = Folder::new();
    // One run warms up, six more count; then b is as fast as a, and c stays slower.
    folder.script("a", &counted("a", 10_000, 0, 10_000));
    folder.script("b", &counted("b", 10_500, 7, 10_000));
    folder.script("c", &counted("c", 10_500, 0, 10_500));
    let of = |programs: [&str; 2], more: &[&str]| {
        let words =
            [&["compare"], &programs[..], &["--rounds", "6"], more, &PRINTED, &["--", "{bin}"]]
                .concat();
        let (code, told, said) = folder.ran(&words);
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {said}"));
        (code, told["comparisons"][0].clone(), said)
    };
    let (code, once, said) = of(["a", "b"], &["--confirm", "--raw", "r.jsonl"]);
    assert_eq!((code, &once["verdict"]), (4, &json!("undecided")), "{once}");
    assert!(
        once["confirmation"]["confirmed"] == false && once["confirmation"]["rounds"] == 8,
        "{once}"
    );
    assert!(said.contains("8 more rounds are to confirm it"), "{said}");
    let (_, again, _) = folder.ran(&["compare", "show", "r.jsonl", "--format", "json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["comparisons"][0], once, "kept runs give the same verdict");
    let (code, twice, _) = of(["a", "c"], &["--confirm"]);
    assert_eq!((code, &twice["verdict"]), (1, &json!("slower")), "{twice}");
    assert_eq!(twice["confirmation"]["confirmed"], true);
}

#[test]
fn going_on_after_a_result_was_told_has_a_price_and_is_said() {
    let folder = Folder::new();
    folder.script("a", &counted("a", 10_000, 0, 10_000));
    folder.script("b", &counted("b", 10_002, 0, 10_002));
    let of = |rounds: &str, more: &[&str]| {
        let words = ["compare", "a", "b", "--rounds", rounds, "--raw", "r.jsonl"];
        let (_, told, said) = folder.ran(&[&words, more, &PRINTED, &["--", "{bin}"]].concat());
        let told: Value = serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {said}"));
        (told["comparisons"][0].clone(), said)
    };
    let (first, said) = of("7", &[]);
    assert_eq!((&first["p_value"], said.as_str()), (&first["p_corrected"], ""));
    let (more, said) = of("9", &["--resume"]);
    assert!(said.contains("told after 7 rounds already"), "{said}");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(
        number(&more["p_value"]) >= 1.0 || number(&more["p_corrected"]) > number(&more["p_value"]),
        "{more}"
    );
    assert!(more["warnings"].to_string().contains("told after 7 rounds before"), "{more}");
}

#[test]
fn a_gate_that_could_never_be_hit_is_refused_before_anything_runs() {
    let folder = Folder::new();
    folder.script("a", "echo >> ran");
    folder.script("b", "echo >> ran");
    let words = ["compare", "a", "b", "--rounds", "5", "--fail-if", "slower > 5%", "--", "{bin}"];
    let (code, _, said) = folder.ran(&words);
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("5 rounds cannot show a difference at 5 %; 6 are the least; so --fail-if"),
        "{said}"
    );
    let many = [
        "compare",
        "a",
        "b",
        "--rounds",
        "8",
        "--among",
        "8",
        "--fail-if",
        "slower",
        "--",
        "{bin}",
    ];
    let (code, _, said) = folder.ran(&many);
    assert!(code == 2 && said.contains("among 8 rows; 9 are the least"), "{said}");
    assert!(!folder.at("ran").exists());
}

#[test]
fn a_calibration_beside_other_work_is_marked() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let folder = Folder::new();
    folder.script("a", "i=0; while [ $i -lt 300 ]; do i=$((i+1)); done");
    let stop = AtomicBool::new(false);
    let threads = 2 * std::thread::available_parallelism().map_or(2, usize::from);
    let told = std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let ran = folder.ran(&[
            "compare",
            "calibrate",
            "a",
            "--rounds",
            "6",
            "--metric",
            "wall",
            "--",
            "{bin}",
        ]);
        stop.store(true, Ordering::Relaxed);
        ran
    });
    assert!(told.0 == 0 && told.1.contains("The machine was busy: others used"), "{told:?}");
    let later =
        folder.ran(&["compare", "a", "a", "--rounds", "6", "--metric", "wall", "--", "{bin}"]);
    assert!(later.1.contains("taken on a busy machine"), "{later:?}");
}

#[test]
fn a_report_in_a_directory_that_is_not_there_is_refused_before_anything_runs() {
    let folder = Folder::new();
    for name in ["a", "b"] {
        folder.script(name, "echo x >>ran");
    }
    for option in ["--html", "--markdown", "--raw"] {
        let (code, _, said) =
            folder.ran(&["compare", "./a", "./b", option, "nodir/x", "--", "{bin}"]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains("nodir/x: there is no directory nodir"), "{said}");
    }
    assert!(!folder.at("ran").exists());
}
