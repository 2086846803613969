//! `planish compare` on real programs: built, linked in layouts, measured, told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// A directory with a program of a dozen functions and a planish.toml.
struct Project {
    folder: tempfile::TempDir,
}

const SOURCE: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    #define F(n) __attribute__((noinline)) unsigned f##n(unsigned x) { return x * 2654435761u + n; }\n\
    F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)\n\
    int main(int c, char **v) {\n\
      unsigned s = 0, n = c > 1 ? atoi(v[1]) : 1000;\n\
      for (unsigned i = 0; i < n * WORK; i++) s += f1(f2(f3(f4(f5(f6(f7(f8(f9(s)))))))));\n\
      printf(\"%u\\n\", n); return s == 7;\n}\n";

const BUILD: &str = "[build]\n\
    command = '$PLANISH_CC $PLANISH_CFLAGS -DWORK=${WORK:-100} app.c $PLANISH_LDFLAGS -o $PLANISH_OUT/app'\n\
    binary = 'app'\nsources = ['app.c']\n";

impl Project {
    fn new(tables: &str) -> Project {
        let folder = tempfile::tempdir().unwrap();
        let project = Project { folder };
        std::fs::write(project.at("app.c"), SOURCE).unwrap();
        std::fs::write(project.at("planish.toml"), format!("{BUILD}{tables}")).unwrap();
        project
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn planish(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_planish"))
            .args(arguments)
            .current_dir(self.folder.path())
            .env("XDG_DATA_HOME", self.at("data"))
            .output()
            .unwrap()
    }

    /// Runs with `--format json`; exit code and result.
    fn json(&self, arguments: &[&str]) -> (i32, Value) {
        // Before the command, which stands behind --.
        let (before, after) = arguments
            .split_at(arguments.iter().position(|a| *a == "--").unwrap_or(arguments.len()));
        let ran = self.planish(&[before, &["--format", "json"], after].concat());
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
        (ran.status.code().unwrap(), value)
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let ran = self.planish(arguments);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        said
    }

    /// Commits `source` of each number, tagged t0, t1, …
    fn commit(&self, count: usize, source: impl Fn(usize) -> String) {
        std::fs::write(self.at(".gitignore"), ".planish\ndata\n").unwrap();
        self.git(&["init", "-q"]);
        for number in 0..count {
            std::fs::write(self.at("app.c"), source(number) + &format!("/* {number} */\n"))
                .unwrap();
            self.git(&["add", "-A"]);
            self.git(&["commit", "-q", "-m", &format!("Change {number}")]);
            self.git(&["tag", &format!("t{number}")]);
        }
    }

    fn git(&self, arguments: &[&str]) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"];
        let ran =
            Command::new("git").args(who).args(arguments).current_dir(self.folder.path()).output();
        let ran = ran.unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

fn has_clang() -> bool {
    let there = |name: &str| Command::new(name).arg("--version").output().is_ok();
    if there("clang-22") && there("ld.lld-22") {
        return true;
    }
    eprintln!("skipped: clang-22 and ld.lld-22 are not installed");
    false
}

const TWO: &str = "[[variant]]\nname = 'base'\n[[variant]]\nname = 'more'\nenvironment = { WORK = '200' }\n\
    [[benchmark]]\nname = 'sum'\ncommand = '{bin} {n}'\nparameters = { n = [4000] }\nmetrics = ['cpu', 'wall']\n";

#[test]
fn variants_are_built_and_averaged_over_matched_layouts() {
    if !has_clang() {
        return;
    }
    let project = Project::new(TWO);
    let (code, told) = project.json(&[
        "compare",
        "--layouts",
        "6",
        "--rounds",
        "3",
        "--html",
        "r.html",
        "--markdown",
        "r.md",
    ]);
    assert_eq!(code, 1, "twice the work is slower");
    let c = &told["comparisons"][0];
    assert_eq!((&c["verdict"], &c["n"]), (&Value::from("slower"), &Value::from(3)), "{c}");
    assert!(c["sentence"].as_str().unwrap().starts_with("the change is slower"), "{c}");
    assert_eq!(
        (&c["layouts"]["count"], &c["layouts"]["matched"]),
        (&Value::from(6), &Value::from(true)),
        "{c}"
    );
    assert!(told["variants"][1]["matched_share"].as_f64().unwrap() >= 0.95, "{}", told["variants"]);
    assert!(told["variants"][1]["sizes"]["text"].as_u64().unwrap() > 100);
    assert_eq!(c["others"][0]["name"], "wall");
    assert_eq!(c["benchmark"], "sum n=4000");
    let page = std::fs::read_to_string(project.at("r.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("sum n=4000"));
    assert!(std::fs::read_to_string(project.at("r.md")).unwrap().contains("more"));
    // One data file gives one report, in every byte.
    let again = |name: &str| {
        project.planish(&["compare", "show", ".planish/compare/runs.jsonl", "--html", name]);
        std::fs::read(project.at(name)).unwrap()
    };
    assert_eq!(again("1.html"), again("2.html"));
}

#[test]
fn one_variant_that_differs_leaves_the_others_matched() {
    if !has_clang() {
        return;
    }
    let tables =
        TWO.replace("[[benchmark]]", "[[variant]]\nname = 'O0'\noptimize = '-O0'\n[[benchmark]]");
    let project = Project::new(&tables);
    let ran = project.planish(&["compare", "--layouts", "6", "--rounds", "2", "--format", "json"]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let told: Value = serde_json::from_slice(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let of = |at: usize| {
        (&told["comparisons"][at]["variant"], &told["comparisons"][at]["layouts"]["matched"])
    };
    assert_eq!(of(0), (&Value::from("more"), &Value::from(true)), "{said}");
    assert_eq!(of(1), (&Value::from("O0"), &Value::from(false)), "{said}");
    assert!(
        said.contains("O0: its layouts are its own, those of the others are matched"),
        "{said}"
    );
    assert!(told["variants"][1]["matched_share"].as_f64().unwrap() >= 0.95, "{}", told["variants"]);
    assert!(told["variants"][2]["matched_share"].is_null(), "{}", told["variants"]);
}

#[test]
fn the_alignment_probe_tells_what_remains_of_a_difference() {
    if !has_clang() {
        return;
    }
    let project = Project::new(TWO);
    let (_, told) = project.json(&["compare", "--rounds", "8", "--probe-align", "32,64"]);
    let probes = told["alignment"].as_array().unwrap();
    assert_eq!(probes.len(), 2);
    assert_eq!((&probes[0]["align"], &probes[1]["align"]), (&Value::from(32), &Value::from(64)));
    for probe in probes {
        assert!(
            probe["sentence"].as_str().unwrap().contains("stays when functions are aligned"),
            "{probe}"
        );
        assert!(probe["effect"]["ratio"].as_f64().unwrap() > 1.3, "{probe}");
    }
}

#[test]
fn a_matrix_is_the_base_one_variant_per_flag_and_all() {
    if !has_clang() {
        return;
    }
    let tables = "[[benchmark]]\nname = 'sum'\ncommand = '{bin} 50'\n[matrix]\nflags = ['-fno-builtin', '-DX=1']\n";
    let project = Project::new(tables);
    let (code, told) =
        project.json(&["compare", "--matrix", "--rounds", "6", "--fail-if", "text > 1000%"]);
    assert_eq!(code, 0);
    let names: Vec<&str> = told["comparisons"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["variant"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["-fno-builtin", "-DX=1", "all"]);
    assert_eq!(told["variants"][3]["description"], "-fno-builtin -DX=1");
}

#[test]
fn gcc_variants_are_linked_in_layouts_too() {
    if !has_clang() || Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: gcc or lld is not installed");
        return;
    }
    let tables = "compiler = 'gcc'\n[[variant]]\nname = 'base'\n[[variant]]\nname = 'O3'\noptimize = '-O3'\n\
        [[benchmark]]\nname = 'sum'\ncommand = '{bin} 50'\n";
    let project = Project::new(tables);
    let (_, told) = project.json(&[
        "compare",
        "--layouts",
        "6",
        "--rounds",
        "2",
        "--layout-mode",
        "independent",
    ]);
    assert_eq!(told["comparisons"][0]["layouts"]["count"], 6, "{told}");
}

#[test]
fn files_of_two_machines_make_one_report_and_a_measurement_goes_on_where_it_ended() {
    if !has_clang() {
        return;
    }
    let project = Project::new(TWO);
    for machine in ["one", "two"] {
        let raw = format!("{machine}.jsonl");
        let (_, told) =
            project.json(&["compare", "--rounds", "7", "--machine", machine, "--raw", &raw]);
        assert_eq!(told["machines"][0]["name"], machine);
    }
    let (code, both) = project.json(&["compare", "show", "one.jsonl", "two.jsonl"]);
    assert_eq!((code, both["comparisons"].as_array().unwrap().len()), (1, 2));
    assert_eq!(both["indices"].as_array().unwrap().len(), 1, "{}", both["indices"]);
    let more = ["compare", "--rounds", "9", "--machine", "one", "--raw", "one.jsonl", "--resume"];
    assert_eq!(project.json(&more).1["comparisons"][0]["n"], 9);
    let other = [
        "compare",
        "--rounds",
        "9",
        "--machine",
        "one",
        "--raw",
        "one.jsonl",
        "--resume",
        "--seed",
        "9",
    ];
    assert!(project.refused(&other).contains("holds another measurement"));
    assert!(project.refused(&["compare", "show", "one.jsonl", "one.jsonl"]).contains("--machine"));
}

#[test]
fn bisect_finds_the_commit_that_added_work() {
    if !has_clang() {
        return;
    }
    let project = Project::new(TWO.split("[[variant]]\nname = 'more'").next().unwrap());
    let toml = "[[benchmark]]\nname = 'sum'\ncommand = '{bin} 4000'\nmetrics = ['cpu']\n";
    std::fs::write(project.at("planish.toml"), format!("{BUILD}{toml}")).unwrap();
    project.commit(5, |number| {
        let more = if number >= 3 { "WORK * 2" } else { "WORK" };
        SOURCE.replace("n * WORK", &format!("n * {more}"))
    });
    let (code, found) = project.json(&["compare", "bisect", "t0", "t4", "--rounds", "8"]);
    assert_eq!((code, &found["culprit"]["subject"]), (1, &Value::from("Change 3")), "{found}");
    assert_eq!(found["culprit"]["step"]["verdict"], "slower");
    assert_eq!(found["schema"], "planish-bisect");
    let (code, none) = project.json(&["compare", "bisect", "t0", "t2", "--rounds", "8"]);
    // Whether nothing is different is for the noise of this machine to allow.
    let open = none["slowdown"]["verdict"] == "undecided";
    let expected = if open { 4 } else { 0 };
    assert_eq!((code, &none["culprit"]), (expected, &Value::Null), "{none}");
}

/// A rate that halves at the third change, and a size that never does; both with noise.
const RATE: &str = "#include <stdio.h>\n#include <unistd.h>\n\
    int main(int c, char **v) {\n\
      if (c > 1) printf(\"size %d\\n\", 10000 + getpid() % 7);\n\
      else printf(\"rate %d\\n\", RATE + getpid() % 7);\n\
      return 0;\n}\n";

#[test]
fn bisect_finds_the_commit_that_lowered_a_rate() {
    if !has_clang() {
        return;
    }
    let project = Project::new("");
    let toml = "[[benchmark]]\nname = 'rate'\ncommand = '{bin}'\nmetrics = ['throughput:rate ([0-9]+)']\n\
        [[benchmark]]\nname = 'size'\ncommand = '{bin} s'\nmetrics = ['throughput:size ([0-9]+)']\n";
    std::fs::write(project.at("planish.toml"), format!("{BUILD}{toml}")).unwrap();
    project.commit(5, |number| RATE.replace("RATE", if number >= 3 { "5000" } else { "10000" }));
    let (code, found) = project.json(&["compare", "bisect", "t0", "t4", "--rounds", "8"]);
    assert_eq!((code, &found["culprit"]["subject"]), (1, &Value::from("Change 3")), "{found}");
    assert!(found["slowdown"]["effect"].as_f64().unwrap() < 0.6, "{found}");
    let sides: Vec<&Value> =
        found["steps"].as_array().unwrap().iter().map(|step| &step["side"]).collect();
    assert!(
        sides.contains(&&Value::from("good")) && !sides.contains(&&Value::from("unknown")),
        "{found}"
    );
    let (code, none) = project.json(&["compare", "bisect", "t0", "t2", "--rounds", "8"]);
    // Whether nothing is different is for the noise of this machine to allow.
    let open = none["slowdown"]["verdict"] == "undecided";
    let expected = if open { 4 } else { 0 };
    assert_eq!((code, &none["culprit"]), (expected, &Value::Null), "{none}");
}

#[test]
fn an_interruption_leaves_out_the_probes_and_says_so() {
    if !has_clang() {
        return;
    }
    // The run of the number in the file `stop` interrupts planish.
    let script = "echo >> count\n[ $(wc -l < count) = \"$(cat stop)\" ] && kill -INT $PPID && sleep 5\n\"$@\"\n";
    let project = Project::new(&TWO.replace("'{bin} {n}'", "'sh counted.sh {bin} {n}'"));
    std::fs::write(project.at("counted.sh"), script).unwrap();
    let interrupted = |stop: u32, more: &[&str]| {
        std::fs::write(project.at("count"), "").unwrap();
        std::fs::write(project.at("stop"), stop.to_string()).unwrap();
        let words = [&["compare", "--rounds", "8", "--probe-align", "32,64"], more].concat();
        project.json(&words)
    };
    let left_out = |told: &Value, align: &str| {
        let warnings = told["warnings"].to_string();
        warnings.contains(&format!("aligned to {align} bytes is left out"))
    };
    // Two programs in 9 rounds: the main measurement ends with run 18.
    let (code, told) = interrupted(15, &[]);
    assert_eq!((code, &told["interrupted"]), (130, &Value::from(true)), "{told}");
    assert!(told["comparisons"][0]["n"] == 6 && told["alignment"].is_null(), "{told}");
    assert!(left_out(&told, "32") && left_out(&told, "64"), "{told}");
    assert!(!project.at(".planish/compare/runs.align32.jsonl").exists());
    let (code, told) = interrupted(18 + 18 + 15, &[]);
    assert_eq!((code, &told["interrupted"]), (130, &Value::from(true)), "{told}");
    assert_eq!(
        (&told["comparisons"][0]["n"], &told["alignment"][0]["align"]),
        (&8.into(), &32.into()),
        "{told}"
    );
    assert!(told["alignment"].as_array().unwrap().len() == 1 && left_out(&told, "64"), "{told}");
    assert!(!left_out(&told, "32"), "{told}");
    let (_, told) = interrupted(0, &["--resume"]);
    assert_eq!(told["interrupted"], false, "{told}");
    assert_eq!(told["alignment"].as_array().unwrap().len(), 2, "{told}");
}

#[test]
fn a_calibration_is_stored_and_quoted_by_later_reports() {
    if !has_clang() {
        return;
    }
    let project = Project::new(TWO);
    assert_eq!(project.planish(&["compare", "--rounds", "8"]).status.code(), Some(1));
    let program = ".planish/variants/base";
    let (code, told) =
        project.json(&["compare", "calibrate", program, "--rounds", "6", "--", "{bin}", "100"]);
    assert_eq!(told["schema"], "planish-calibration");
    let rate = told["false_positive_rate"].as_f64().unwrap();
    assert!(code == 0 && rate < 0.3, "{told}");
    let (_, later) =
        project.json(&["compare", program, program, "--rounds", "6", "--", "{bin}", "30"]);
    assert_eq!(later["machines"][0]["calibration"]["false_positive_rate"].as_f64(), Some(rate));
}

#[test]
fn objects_of_another_build_are_refused() {
    if !has_clang() {
        return;
    }
    let project = Project::new(TWO);
    let build = |name: &str, work: &str| {
        let ran = Command::new("clang-22")
            .args([
                "-O2",
                "-ffunction-sections",
                "app.c",
                "-fuse-ld=lld",
                "-o",
                name,
                &format!("-DWORK={work}"),
            ])
            .arg(format!("-Wl,--reproduce={name}.repro.tar"))
            .current_dir(project.folder.path())
            .status();
        assert!(ran.unwrap().success());
    };
    build("a", "100");
    build("b", "200");
    let quick = ["compare", "a", "b", "--layouts", "6", "--rounds", "2"];
    let run = ["--", "{bin}", "10"];
    let (_, told) = project.json(&[&quick[..], &run[..]].concat());
    assert_eq!(told["comparisons"][0]["layouts"]["count"], 6);
    let swapped = [&quick[..], &["--objects", "b.repro.tar", "a.repro.tar"], &run].concat();
    assert!(project.refused(&swapped).contains("does not link to the code of"));

    // A measurement is not gone on with when a program was built anew, and nothing but runs is
    // written over.
    let raw = ["compare", "a", "b", "--rounds", "6", "--raw", "r.jsonl"];
    project.json(&[&raw[..], &run].concat());
    build("b", "300");
    let on = [&raw[..], &["--resume"], &run].concat();
    assert!(project.refused(&on).contains("holds another measurement"));
    let over = ["compare", "a", "b", "--rounds", "6", "--raw", "a", "--", "{bin}", "10"];
    assert!(project.refused(&over).contains("--raw would destroy it"));
    let same = ["compare", "show", "r.jsonl", "--html", "r.jsonl"];
    assert!(project.refused(&same).contains("another name"));
    project.json(&[&raw[..], &run].concat());
    assert!(project.at("r.jsonl.old").exists());

    // A row that is there twice is no run that was made.
    let text = std::fs::read_to_string(project.at("r.jsonl")).unwrap();
    let last = text.lines().last().unwrap();
    std::fs::write(project.at("twice.jsonl"), format!("{text}{last}\n")).unwrap();
    assert!(project.refused(&["compare", "show", "twice.jsonl"]).contains("a second run"));
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_next_step() {
    let project = Project::new(TWO);
    let script = |name: &str, body: &str| {
        let path = project.at(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    };
    script("a", "echo 1");
    script("b", "echo 1");
    script("hangs", "sleep 60");
    let refused = |arguments: &[&str], word: &str| {
        let said = project.refused(&[&["compare"], arguments].concat());
        assert!(said.contains(word), "{arguments:?}: {said}");
    };
    refused(&["a", "--", "{bin}"], "at least two programs");
    refused(&["a", "gone", "--", "{bin}"], "gone");
    refused(&["a", "b"], "behind --");
    refused(&["a", "b", "--layouts", "8", "--", "{bin}"], "--reproduce");
    let as_built = |name: &'static str, word: &str| {
        refused(&["a", "b", "--layouts", "8", "--as-built", name, "--", "{bin}"], word);
    };
    as_built("c", "--as-built c: no variant has this name; there are a, b");
    as_built("a", "it is the program that the others are compared with");
    as_built("b", "no objects of a");
    let after = |given: &'static str, word: &str| {
        refused(&["a", "b", "--layouts", "8", "--after-link", given, "--", "{bin}"], word);
    };
    after("b=strip {in}", "expected NAME=COMMAND");
    let words = ["a", "b", "--layouts", "8", "--objects", "c=x.tar", "--", "{bin}"];
    refused(&words, "--objects c: no variant has this name");
    after("c=cp {in} {out}", "--after-link c: no variant has this name");
    refused(&["a", "hangs", "--timeout", "0.2", "--rounds", "6", "--", "{bin}"], "--timeout");
    refused(&["a", "b", "--metric", "output:t=(.*)", "--", "{bin}"], "no number");
    refused(&["a", "b", "--fail-if", "slow", "--", "{bin}"], "known are slower");
    refused(&["a", "b", "--gauge", "--", "{bin}"], "add --cpu 0");
    refused(&["a", "b", "--cpu", "99999", "--", "{bin}"], "/sys/devices/system/cpu/online");
    refused(&["a", "b", "--gauge", "--looks", "--", "{bin}"], "cannot be used with");
    refused(&["a", "b", "--probe-align", "32", "--", "{bin}"], "planish.toml");
    refused(&["--matrix"], "[matrix]");
    refused(&["--config", "none.toml"], "none.toml");
    std::fs::write(project.at("planish.toml"), "[[variant]]\nname = 'x'\nbinary = 'a'\n").unwrap();
    refused(&[], "at least two tables [[variant]]");
    std::fs::write(
        project.at("planish.toml"),
        format!("{BUILD}{TWO}[compare]\nlayout_mode = 'odd'\n"),
    )
    .unwrap();
    refused(&[], "layout_mode");
    script("c", "echo 2");
    let (code, rest) = project.json(&["compare", "a", "b", "c", "--rounds", "6", "--", "{bin}"]);
    assert_eq!((code, rest["comparisons"].as_array().unwrap().len()), (2, 1), "{rest}");
    assert!(
        rest["stopped"][0]["reason"].as_str().unwrap().contains("printed something else"),
        "{rest}"
    );
    let words = ["compare", "a", "b", "c", "gone", "--optional", "c", "--optional", "gone"];
    let (code, rest) = project.json(&[&words[..], &["--rounds", "6", "--", "{bin}"]].concat());
    assert!(
        matches!(code, 0 | 1 | 4),
        "what may fail or be missing does not decide: {code} {rest}"
    );
    assert_eq!(rest["stopped"][0]["variant"], "c", "{rest}");
    refused(
        &["a", "b", "--optional", "d", "--", "{bin}"],
        "no variant has this name; there are a, b",
    );
    script("zero", "echo rate 0");
    script("rate", "echo rate 7");
    let by = ["--metric", "throughput:rate ([0-9]+)", "--ignore-output", "--", "{bin}"];
    refused(&[&["rate", "zero"][..], &by].concat(), "zero on run, round");
    let few = project.json(&["compare", "a", "b", "--rounds", "3", "--", "{bin}"]).1;
    let warnings = few["comparisons"][0]["warnings"].to_string();
    assert!(warnings.contains("six are the least"), "{warnings}");
    assert_eq!(few["comparisons"][0]["verdict"], "undecided");
}
