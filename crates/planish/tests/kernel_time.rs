//! `planish kernel time` on kernels of a few instructions, which state made-up times: in
//! what order they boot, what is compared, kept and refused. qemu is the real one; with
//! `PLANISH_KERNEL_IMAGE` a real kernel runs the workload too.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn skipped<T>(why: &str) -> Option<T> {
    eprintln!("skipped: {why}");
    None
}

/// Whether the program starts.
fn has(program: &str) -> Option<()> {
    let started =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if started.is_ok_and(|status| status.success()) {
        Some(())
    } else {
        skipped(&format!("no {program}"))
    }
}

/// A directory with the boot image `base`, an initrd, and qemu to boot them; `None`, with a note,
/// without the tools.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Option<Desk> {
        has("qemu-system-x86_64")?;
        let desk = Desk(tempfile::tempdir().unwrap());
        std::fs::write(desk.0.path().join("initrd"), "none").unwrap();
        desk.kernel("base", &[]).then_some(desk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Assembles a boot image with other times than the base's, or one that fails.
    fn kernel(&self, name: &str, defines: &[&str]) -> bool {
        let has = |define: &str| defines.iter().any(|given| given.starts_with(define));
        let link = "-Wl,--image-base=0,-Ttext=0,--oformat=binary,--build-id=none";
        let mut clang = Command::new("clang-22");
        clang
            .args(["-m16", "-nostdlib", "-static", "-fuse-ld=lld", link, "-o"])
            .arg(self.path(name));
        for (define, value) in
            [("-DOPERATIONS", "200"), ("-DTRAIN", "500000"), ("-DHELD", "700000")]
        {
            if !has(define) {
                clang.arg(format!("{define}=\"{value}\""));
            }
        }
        clang
            .args(defines)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernel_time/boot.S"));
        match clang.output() {
            Ok(done) if done.status.success() => true,
            Ok(done) => panic!("{}", text(&done.stderr)),
            Err(error) => skipped::<()>(&format!("clang-22: {error}")).is_some(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
        planish.current_dir(self.0.path()).args(["kernel", "time", "--initrd", "initrd"]);
        // Far longer than it takes, lest a machine that hangs keeps the tests waiting for ever.
        if !words.iter().any(|word| word.starts_with("--timeout")) {
            planish.arg("--timeout=300");
        }
        planish.args(words).stdin(Stdio::null());
        planish
    }

    /// Compares by the emulator's time.
    fn measure(&self, words: &[&str]) -> Output {
        self.command(&[&["--emulated"], words].concat()).output().unwrap()
    }

    /// Round and kernel of each boot that a file of runs holds, in the order of time.
    fn boots(&self, name: &str) -> Vec<(u64, u64)> {
        let file = std::fs::read_to_string(self.path(name)).unwrap();
        let runs = file.lines().skip(1).map(|line| serde_json::from_str::<Value>(line).unwrap());
        let first = runs.filter(|run| run["benchmark"] == 0);
        first
            .map(|run| (run["round"].as_u64().unwrap(), run["variant"].as_u64().unwrap()))
            .collect()
    }
}

#[track_caller]
fn ends(output: &Output, code: i32) -> String {
    assert_eq!(
        output.status.code(),
        Some(code),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[track_caller]
fn refuses(output: &Output, parts: &[&str]) {
    ends(output, 2);
    let message = text(&output.stderr);
    for part in parts {
        assert!(
            message.contains(part) && !message.contains("panicked"),
            "no `{part}` in: {message}"
        );
    }
}

/// The comparison of a benchmark.
fn row<'v>(found: &'v Value, benchmark: &str) -> &'v Value {
    let rows = found["comparison"]["comparisons"].as_array().unwrap();
    rows.iter().find(|row| row["benchmark"] == benchmark).unwrap()
}

#[test]
fn sections_and_sums_get_verdicts_and_a_slower_kernel_is_told_by_the_exit_code() {
    let Some(desk) = Desk::new() else { return };
    // 20 % more in training, 10 % less in what is held out.
    desk.kernel("mixed", &["-DTRAIN=\"600000\"", "-DHELD=\"630000\""]);
    let words =
        ["base=base", "mixed=mixed", "--rounds", "20", "--raw", "runs.jsonl", "--format", "json"];
    let found: Value = serde_json::from_str(&ends(&desk.measure(&words), 1)).unwrap();
    assert_eq!((&found["schema"], &found["version"]), (&"planish-kernel-time".into(), &1.into()));
    assert_eq!((&found["emulated_time"], &found["rounds"]), (&true.into(), &20.into()));
    assert!(found["emulator"].as_str().unwrap().contains("QEMU"), "{found}");
    let document = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/kernel.md"),
    )
    .unwrap();
    let form = document.lines().find(|line| line.starts_with("| `planish-kernel-time` |")).unwrap();
    let keys = [&found, &found["sections"][0]]
        .map(|value| value.as_object().unwrap().keys())
        .into_iter()
        .flatten();
    for key in keys.filter(|key| !["schema", "version"].contains(&key.as_str())) {
        assert!(
            form.contains(&format!("`{key}`")) || form.contains(&format!("`{key}[]`")),
            "{key} is not told of"
        );
    }
    let section = |at: usize| &found["sections"][at];
    assert_eq!(section(0)["name"], "calls");
    assert_eq!((&section(0)["number"], &section(0)["operations"]), (&1.into(), &200.into()));
    assert_eq!((&section(1)["number"], &section(1)["held_out"]), (&101.into(), &true.into()));
    let close = |value: &Value, to: f64| (value.as_f64().unwrap() - to).abs() < 1e-6;
    for (benchmark, verdict, effect) in [
        ("calls", "slower", 1.2),
        ("training sections", "slower", 1.2),
        ("loops", "faster", 0.9),
        ("held-out sections", "faster", 0.9),
    ] {
        let row = row(&found, benchmark);
        assert_eq!(
            (&row["verdict"], &row["metric"]),
            (&verdict.into(), &"emulated-time".into()),
            "{row}"
        );
        assert!(close(&row["effect"], effect) && row["n"] == 20, "{row}");
    }
    assert!(!found.to_string().contains("--layouts"), "advice for programs only: {found}");
    // What was kept is read by compare, which also knows whose time it is.
    let mut again = Command::new(env!("CARGO_BIN_EXE_planish"));
    again.current_dir(desk.0.path()).args(["compare", "show", "runs.jsonl", "--format", "json"]);
    let again: Value = serde_json::from_str(&ends(&again.output().unwrap(), 1)).unwrap();
    let rows = again["comparisons"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["benchmark"].as_str().unwrap()).collect();
    assert_eq!((names, &rows[0]["metric"]), (vec!["calls", "loops"], &"emulated-time".into()));
    let told = ends(&desk.measure(&["a=base", "b=mixed", "--rounds=1", "--quiet"]), 4);
    for part in [
        "EMULATED TIME",
        "says nothing about",
        "b against a",
        "training sections",
        "2.500 µs",
        "+20 %",
    ] {
        assert!(told.contains(part), "no `{part}` in: {told}");
    }
}

#[test]
fn kernels_boot_in_the_order_in_which_compare_runs_programs() {
    let Some(desk) = Desk::new() else { return };
    let words =
        ["a=base", "b=base", "c=base", "--rounds", "4", "--seed", "7", "--raw", "kernels.jsonl"];
    let said = desk.measure(&words);
    // Four rounds show nothing.
    ends(&said, 4);
    assert!(
        text(&said.stderr).contains("4 rounds cannot show a difference in any of 8 rows"),
        "{said:?}"
    );
    let program = desk.path("program");
    std::fs::write(&program, "#!/bin/sh\necho same\n").unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut compare = Command::new(env!("CARGO_BIN_EXE_planish"));
    compare.current_dir(desk.0.path()).args([
        "compare",
        "a=program",
        "b=program",
        "c=program",
        "--rounds",
        "4",
    ]);
    compare.args(["--seed", "7", "--metric", "wall", "--raw", "programs.jsonl", "--", "{bin}"]);
    assert!(matches!(compare.output().unwrap().status.code(), Some(0 | 1 | 4)));
    let boots = desk.boots("kernels.jsonl");
    assert_eq!(boots, desk.boots("programs.jsonl"));
    assert!(boots.iter().take(3).all(|boot| boot.0 == 0), "one round warms up: {boots:?}");
    let sorted: Vec<_> =
        (0..=4).flat_map(|round| (0..3).map(move |kernel| (round, kernel))).collect();
    assert!(boots.len() == 15 && boots != sorted, "{boots:?}");
}

#[test]
fn a_kernel_that_hangs_fails_or_does_other_work_ends_it_and_the_boots_before_are_kept() {
    let Some(desk) = Desk::new() else { return };
    desk.kernel("hangs", &["-DHANGS"]);
    let hangs = ["base=base", "new=hangs", "--rounds", "3", "--raw", "runs.jsonl"];
    let said = desk.measure(&[&hangs[..], &["--timeout=20"]].concat());
    refuses(&said, &["new, round 0", "after 20 s", "kept in runs.jsonl", "--resume"]);
    assert_eq!(desk.boots("runs.jsonl"), [(0, 0)]);
    // Mended, it is another kernel.
    desk.kernel("hangs", &[]);
    refuses(
        &desk.measure(&[&hangs[..], &["--resume"]].concat()),
        &["runs.jsonl", "another measurement"],
    );

    desk.kernel("fails", &["-DFAILS"]);
    refuses(&desk.measure(&["a=base", "b=fails"]), &["b, round 0", "section 1: no such thing"]);
    desk.kernel("fewer", &["-DOPERATIONS=\"100\""]);
    let said = desk.measure(&["a=base", "b=fewer"]);
    refuses(
        &said,
        &["b, round 0", "section 1 (calls) did 100 operations", "200", "not the same work"],
    );
    desk.kernel("silent", &["-DSILENT"]);
    let said = desk.measure(&["a=silent", "b=silent", "--rounds=1"]);
    ends(&said, 4);
    assert!(
        text(&said.stderr).contains("section 102 (silence) states no time"),
        "{}",
        text(&said.stderr)
    );
}

#[test]
fn a_measurement_goes_on_where_it_ended() {
    let Some(desk) = Desk::new() else { return };
    let words = |rounds: &'static str, file: &'static str| {
        ["base=base", "same=base", "--format=json", "--rounds", rounds, "--raw", file]
    };
    ends(&desk.measure(&words("1", "parts.jsonl")), 4);
    // The last boot was cut off in the middle, and its last line torn.
    let kept = std::fs::read_to_string(desk.path("parts.jsonl")).unwrap();
    let cut = kept.rfind("{\"sequence\"").unwrap() + 30;
    std::fs::write(desk.path("parts.jsonl"), &kept[..cut]).unwrap();
    let resumed = desk.measure(&[&words("3", "parts.jsonl")[..], &["--resume"]].concat());
    let found: Value = serde_json::from_str(&ends(&resumed, 4)).unwrap();
    assert_eq!(row(&found, "held-out sections")["n"], 3);
    ends(&desk.measure(&words("3", "whole.jsonl")), 4);
    assert_eq!(desk.boots("parts.jsonl"), desk.boots("whole.jsonl"));
    let other = ["--memory=600", "--resume"];
    let refused = desk.measure(&[&words("3", "parts.jsonl")[..], &other].concat());
    refuses(&refused, &["parts.jsonl", "other machines"]);
}

#[test]
fn a_signal_ends_the_machine_and_what_was_measured_is_told() {
    let Some(desk) = Desk::new() else { return };
    let words =
        ["a=base", "b=base", "--rounds=100000", "--raw=runs.jsonl", "--format=json", "--emulated"];
    let mut planish = desk.command(&words);
    let child = planish.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Until the first rounds are there.
    let whole = || {
        std::fs::read_to_string(desk.path("runs.jsonl")).is_ok_and(|file| file.lines().count() > 20)
    };
    for _ in 0..3000 {
        if whole() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let found: Value =
        serde_json::from_str(&ends(&child.wait_with_output().unwrap(), 130)).unwrap();
    assert_eq!(found["comparison"]["interrupted"], true);
    assert!(row(&found, "calls")["n"].as_u64().unwrap() >= 2, "{found}");
}

#[test]
fn what_time_needs_is_said_before_anything_boots() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk(dir);
    std::fs::write(desk.path("initrd"), "none").unwrap();
    let mut image = vec![0; 4096];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    std::fs::write(desk.path("image"), &image).unwrap();
    refuses(&desk.measure(&["a=image"]), &["at least two", "under two names"]);
    refuses(&desk.measure(&["a=image", "b=image", "--margin=0"]), &["--margin 0"]);
    refuses(&desk.measure(&["a=image", "b=image", "--raw=image"]), &["image", "is the input"]);
    assert_eq!(std::fs::read(desk.path("image")).unwrap(), image);
    refuses(&desk.measure(&["a=image", "b=image", "--resume"]), &["--raw"]);
    refuses(&desk.measure(&["a=image", "b=image", "--cpu-model=host"]), &["--emulated"]);
    refuses(&desk.measure(&["a=image", "b=image", "--cpus=9"]), &["1..=8"]);
    let mut counts = Command::new(env!("CARGO_BIN_EXE_planish"));
    counts
        .current_dir(desk.0.path())
        .args(["kernel", "measure", "a=image", "b=image", "--rounds", "3"]);
    refuses(&counts.output().unwrap(), &["--rounds"]);
    if std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok() {
        return eprintln!("skipped: time without KVM is refused, as KVM is here");
    }
    let refused = desk.command(&["a=image", "b=image"]).output().unwrap();
    ends(&refused, 3);
    let said = text(&refused.stderr);
    assert!(said.contains("/dev/kvm") && said.contains("--emulated"), "{said}");
}

/// A kernel of the developer's own with planish's workload, or one that is fit for it.
#[test]
fn a_real_kernel_states_the_time_of_every_section() {
    let Some(kernel) = std::env::var_os("PLANISH_KERNEL_IMAGE") else {
        return eprintln!("skipped: PLANISH_KERNEL_IMAGE names no kernel to boot");
    };
    if has("qemu-system-x86_64").is_none() {
        return;
    }
    let kernel = kernel.to_string_lossy();
    let mut planish = Command::new(env!("CARGO_BIN_EXE_planish"));
    planish.args(["kernel", "time", "--emulated", "--rounds=1", "--format=json"]);
    planish.args([format!("a={kernel}"), format!("b={kernel}")]).arg("--append=PLANISH_ROUNDS=5");
    let said = planish.output().unwrap();
    let found: Value = serde_json::from_str(&ends(&said, 4)).unwrap();
    let sections = found["sections"].as_array().unwrap();
    assert!(
        sections.len() > 40 && sections.iter().any(|section| section["held_out"] == true),
        "{found}"
    );
    let rows = found["comparison"]["comparisons"].as_array().unwrap();
    assert_eq!(rows.len(), sections.len() + 2);
    assert!(rows.iter().all(|row| row["base_median"].as_f64().unwrap() > 0.0), "{found}");
}
