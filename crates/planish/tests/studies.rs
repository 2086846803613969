//! Do the studies run from end to end? On a small tree whose kernel is a program, in few orders and rounds, without counts: the
//! scripts, variants, orders, runs, profiles, layouts and tables are those of `make study`, the numbers mean nothing.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

#[path = "../../kernel/tests/um_tree/mod.rs"]
mod um_tree;

use std::path::{Path, PathBuf};
use std::process::Command;

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
}

fn tree(root: &Path) {
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/studies/tree"), root);
    um_tree::write(root);
}

fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(tool).is_file());
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

/// Whether clock samples can be taken here by perf and by planish, and the kernel's limits set.
fn can_measure_recorders() -> bool {
    let limits = ["perf_event_max_sample_rate", "perf_cpu_time_max_percent"];
    let writable = |name: &&str| {
        let path = Path::new("/proc/sys/kernel").join(name);
        std::fs::OpenOptions::new().write(true).open(path).is_ok()
    };
    let folder = tempfile::tempdir().unwrap();
    let records = |program: &str| {
        let data = folder.path().join("data");
        let done = Command::new(program)
            .args([
                "record",
                "-r",
                "1",
                "-F",
                "25000",
                "-e",
                "cpu-clock",
                "-e",
                "cs",
                "--call-graph",
                "dwarf,8192",
                "-o",
            ])
            .arg(data)
            .args(["--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"])
            .output();
        done.is_ok_and(|done| done.status.success())
    };
    limits.iter().all(writable) && records("perf") && records(env!("CARGO_BIN_EXE_planish"))
}

/// Runs a study; its write-up.
fn study(name: &str, orders: u32, rounds: u32) -> Option<String> {
    let needed = ["clang-22", "ld.lld-22", "gcc", "make", "python3", "bash"];
    if !needed.into_iter().all(has) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    tree(&root);
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let work = folder.path().join("work");
    let done = Command::new("bash")
        .arg("scripts/study.sh")
        .arg(name)
        .current_dir(&project)
        .env("PLANISH", env!("CARGO_BIN_EXE_planish"))
        .env("STUDY_TREE", &root)
        .env("STUDY_WORK", &work)
        .env("STUDY_NATIVE", "1")
        .env("STUDY_ORDERS", orders.to_string())
        .env("STUDY_ROUNDS", rounds.to_string())
        .env("STUDY_COMPARISONS", "10")
        .env("STUDY_SIZES", "small")
        .env("BENCH_PRODUCTS", "10")
        .env("BENCH_TURNS", "500")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    if said.contains("the copies cannot be warmed") {
        println!("skipped: memory gave no superpages: {said}");
        return None;
    }
    assert!(done.status.success(), "{name}: {said}");
    let written: Vec<PathBuf> = std::fs::read_dir(&work)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    assert_eq!(written.len(), 1, "{name}: {written:?}");
    let text = std::fs::read_to_string(written.first().unwrap()).unwrap();
    assert!(text.starts_with("# ") && text.contains(&format!("make study NAME={name}")), "{text}");
    Some(text)
}

#[test]
fn an_alignment_probe_says_what_remains_of_a_difference() {
    let needed = ["clang-22", "ld.lld-22", "make"];
    if !needed.into_iter().all(has) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    tree(&root);
    let out = folder.path().join("out");
    let done = Command::new(env!("CARGO_BIN_EXE_planish"))
        .args(["kernel", "compare"])
        .arg(&root)
        .args(["--native", "--orders", "0", "--rounds", "6", "--format", "json"])
        .args(["--variant", "base", "--variant", "align16: KCFLAGS=-falign-functions=16"])
        .args(["--probe-align", "64", "--raw", "runs.jsonl", "--output-dir"])
        .arg(&out)
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 1 | 4)), "{said}");
    let told: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let rows = told["alignment"].as_array().unwrap();
    assert_eq!(rows.len(), told["comparisons"].as_array().unwrap().len(), "{told:#}");
    for row in rows {
        assert_eq!((row["variant"].as_str(), row["align"].as_u64()), (Some("align16"), Some(64)));
        assert!(row["sizes"][1]["text"].as_u64().unwrap() > 0, "{row:#}");
    }
    let kept = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    // The aligned kernels are told under the variants' own names.
    assert!(
        kept("runs.align64.jsonl").contains("\"align16\"")
            && !kept("runs.jsonl").contains("align64")
    );
    assert!(out.join("native/align16-align64").is_dir(), "{said}");
}

#[test]
fn align_compares_and_tells_how_far_orders_lie_apart() {
    let Some(text) = study("align", 3, 6) else { return };
    for part in [
        "| align32 |",
        "training sections",
        "held-out sections",
        "spread over orders",
        "| size in bytes |",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn ipa_compares_a_dozen_variants_of_gcc() {
    let Some(text) = study("ipa", 2, 6) else { return };
    for variant in ["no-ipa-pta", "no-ipa-vrp", "eleven", "live-patching"] {
        assert!(text.contains(&format!("| {variant} |")), "{variant}: {text}");
    }
}

#[test]
fn profile_records_rebuilds_and_lays_out() {
    let Some(text) = study("profile", 2, 6) else { return };
    for variant in ["| autofdo |", "| layout |"] {
        assert!(text.contains(variant), "{variant}: {text}");
    }
}

#[test]
fn record_counts_losses_and_costs_beside_perf() {
    if !has("perf") || !can_measure_recorders() {
        return println!(
            "skipped: recorders are measured by root, with the kernel's clock and context switches"
        );
    }
    let Some(text) = study("record", 2, 1) else { return };
    for part in
        ["## One node, beside perf", "| planish-threads-near |", "| perf-best |", "start-up"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn validity_counts_verdicts_whose_truth_is_known() {
    let Some(text) = study("validity", 12, 6) else { return };
    for part in [
        "10 comparisons",
        "Called different: ",
        "called layout luck in",
        "Medians over all orders, slow to base:",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The planted loop is there: the small kernel's section is short, so that it shows by far.
    let median: f64 = text
        .split_once("tcp_rr ")
        .map(|(_, rest)| rest)
        .and_then(|_| {
            text.split("slow to base: ").nth(1)?.split("tcp_rr ").nth(1)?.get(..5)?.parse().ok()
        })
        .unwrap();
    assert!(median > 1.05, "{median}: {text}");
}

#[test]
fn superpages_measures_a_compiler_three_times_over_and_tells_what_text_can_lie_on_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut probe = Command::new(env!("CARGO_BIN_EXE_planish"));
    let probed = probe.args(["pages", "probe", "--superpages", "1"]).arg(folder.path()).output();
    if probed.unwrap().status.code() != Some(0) {
        println!("skipped: no file-backed superpages here");
        return;
    }
    let Some(text) = study("superpages", 0, 6) else { return };
    for part in ["| aligned |", "| aligned-and-warm |", "| 32 KiB |", "| libLLVM"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
