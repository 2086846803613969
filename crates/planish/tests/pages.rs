//! `planish pages` on real programs and libraries: the machine's large libraries are rewritten,
//! programs run from them, what is missing is named, exit codes say what was found.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn planish(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_planish"))
        .arg("pages")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text(&done.stdout), text(&done.stderr)))
}

/// Whether file-backed text can get superpages in a folder; says so when not.
fn possible(folder: &Path) -> bool {
    let done = planish(&["probe", "--superpages", "1", folder.to_str().unwrap()]);
    if done.status.code() != Some(0) {
        eprintln!("skipped: no file-backed superpages here: {}", text(&done.stdout));
    }
    done.status.code() == Some(0)
}

/// A library by the start of its name.
fn library(folder: &Path, start: &str) -> Option<PathBuf> {
    let listing = fs::read_dir(folder).ok()?;
    let fits = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with(start)
            && name.contains(".so")
            && fs::metadata(path).is_ok_and(|about| about.len() > 8 << 20)
    };
    listing.filter_map(|entry| Some(entry.ok()?.path())).find(fits)
}

fn sysroot() -> Option<PathBuf> {
    let done = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    Some(PathBuf::from(text(&done.stdout).trim()))
}

fn which(program: &str) -> Option<String> {
    let folders = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file());
    found.map(|path| path.to_string_lossy().into_owned())
}

fn succeeds(program: &str, arguments: &[&str], folders: &[&Path]) -> Option<String> {
    let done = Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap())
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = text(&done.stdout) + &text(&done.stderr);
    assert!(done.status.success(), "{program} {arguments:?}: {said}");
    Some(said)
}

/// Aligns a large library of the machine into a folder and holds the result against what was
/// promised.
fn aligned(input: &Path, folder: &Path) -> PathBuf {
    let output = folder.join(input.file_name().unwrap());
    let done = planish(&[
        "align",
        "--format",
        "json",
        input.to_str().unwrap(),
        "-o",
        output.to_str().unwrap(),
    ]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let report = json(&done);
    assert_eq!(report["schema"], "planish-pages-align");
    let name = input.display();
    assert!(report["eligible_pct"].as_f64().unwrap() >= 95.0, "{name}: {report}");
    assert!(report["growth_bytes"].as_i64().unwrap() <= 16 << 10, "{name}: {report}");
    let checked = json(&planish(&["check", "--format", "json", output.to_str().unwrap()]));
    assert_eq!(checked["eligible_bytes"], report["eligible_bytes"], "{name}");
    if let Some(said) =
        succeeds("readelf", &["-hlSnW", output.to_str().unwrap()], &[Path::new("/")])
    {
        assert!(!said.contains("Warning") && !said.contains("Error"), "{name}: {said}");
        let notes =
            |path: &Path| succeeds("readelf", &["-nW", path.to_str().unwrap()], &[Path::new("/")]);
        let id = |said: Option<String>| {
            said.and_then(|said| Some(said.split("Build ID: ").nth(1)?.lines().next()?.to_owned()))
        };
        assert_eq!(id(notes(input)), id(notes(&output)), "{name}");
    }
    output
}

#[test]
fn the_large_libraries_of_clang_are_aligned_and_clang_runs_from_them_warm() {
    let Some(list) = which("clang-22").and_then(|path| succeeds("ldd", &[&path], &[Path::new("")]))
    else {
        return eprintln!("skipped: clang-22 is not installed");
    };
    let place = |name: &str| {
        Some(PathBuf::from(
            list.lines().find(|line| line.contains(name))?.split_whitespace().nth(2)?,
        ))
    };
    let (Some(llvm), Some(clang)) = (place("libLLVM.so"), place("libclang-cpp.so")) else {
        return eprintln!("skipped: clang-22 has no libLLVM and libclang-cpp");
    };
    let folder = tempfile::tempdir().unwrap();
    let outputs = [&llvm, &clang].map(|input| aligned(input, folder.path()));
    let source = folder.path().join("a.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 0; }\n")
        .unwrap();
    let program = folder.path().join("a");
    let arguments = ["-O1", "-o", program.to_str().unwrap(), source.to_str().unwrap()];
    succeeds("clang-22", &arguments, &[folder.path()]).unwrap();
    assert_eq!(succeeds(program.to_str().unwrap(), &[], &[folder.path()]).unwrap(), "ran\n");
    let list = succeeds("ldd", &[&which("clang-22").unwrap()], &[folder.path()]).unwrap();
    assert!(outputs.iter().all(|output| list.contains(output.to_str().unwrap())), "{list}");
    let steps = [
        "set debuginfod enabled off",
        "set breakpoint pending on",
        "tbreak __libc_start_main",
        "run",
        "x/1i LLVMCreateMessage",
        "info sharedlibrary libLLVM",
        "kill",
    ];
    let mut words = vec!["-batch"];
    steps.iter().for_each(|step| words.extend(["-ex", step]));
    words.extend(["--args", "clang-22", "--version"]);
    match succeeds("gdb", &words, &[folder.path()]) {
        Some(said) => {
            assert!(said.contains("<LLVMCreateMessage>:"), "{said}");
            assert!(said.contains(folder.path().to_str().unwrap()), "{said}");
        }
        None => eprintln!("skipped: gdb is not installed"),
    }
    if possible(folder.path()) {
        let paths = outputs.each_ref().map(|output| output.to_str().unwrap());
        let done = planish(&["warm", "--alone", "--format", "json", paths[0], paths[1]]);
        let report = json(&done);
        assert_eq!(report["schema"], "planish-pages-warm");
        if done.status.code() != Some(0) {
            return eprintln!("skipped: memory gave no superpages: {report}");
        }
        for file in report["files"].as_array().unwrap() {
            let (after, all) =
                (file["after_bytes"].as_f64().unwrap(), file["text_bytes"].as_f64().unwrap());
            assert!(after >= 0.95 * all, "{file}");
        }
    }
    let stripped = folder.path().join("stripped");
    fs::create_dir(&stripped).unwrap();
    for output in &outputs {
        let copy = stripped.join(output.file_name().unwrap());
        let said = succeeds(
            "strip",
            &["-o", copy.to_str().unwrap(), output.to_str().unwrap()],
            &[Path::new("/")],
        );
        if said.is_none() {
            return eprintln!("skipped: strip is not installed");
        }
        let pct = |path: &Path| {
            json(&planish(&["check", "--format", "json", path.to_str().unwrap()]))["eligible_pct"]
                .as_f64()
                .unwrap()
        };
        assert_eq!(pct(&copy), pct(output), "{}", copy.display());
    }
    assert!(
        succeeds("clang-22", &["--version"], &[&stripped]).unwrap().contains("clang version 22")
    );
}

#[test]
fn the_compiler_library_of_rustc_is_aligned_and_rustc_runs_from_it() {
    let found =
        sysroot().and_then(|root| Some((library(&root.join("lib"), "librustc_driver")?, root)));
    let Some((input, root)) = found else {
        return eprintln!("skipped: rustc is not installed with its library");
    };
    let folder = tempfile::tempdir().unwrap();
    aligned(&input, folder.path());
    // rustc finds its library by RUNPATH, which LD_LIBRARY_PATH precedes; that one needs others
    // beside it.
    let rustc = root.join("bin/rustc");
    let said =
        succeeds(rustc.to_str().unwrap(), &["-vV"], &[folder.path(), &root.join("lib")]).unwrap();
    assert!(said.contains("LLVM version"), "{said}");
}

#[test]
fn planish_aligns_the_file_it_runs_from_and_the_new_one_runs() {
    let folder = tempfile::tempdir().unwrap();
    let own = folder.path().join("planish");
    fs::copy(env!("CARGO_BIN_EXE_planish"), &own).unwrap();
    let path = own.to_str().unwrap();
    let done = Command::new(&own)
        .args(["pages", "align", path, "-o", path])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let done =
        Command::new(&own).args(["pages", "check", "--format", "json", path]).output().unwrap();
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    assert!(json(&done)["eligible_bytes"].as_u64().unwrap() > 0);
    if possible(folder.path()) {
        let done = planish(&["run", "--", path, "--version"]);
        assert!(text(&done.stdout).starts_with("planish "), "{}", text(&done.stderr));
    }
}

#[test]
fn a_share_that_is_not_reached_is_exit_code_1_and_a_missing_process_2() {
    let mut sleeper = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeper.id().to_string();
    // Once it sleeps, its own text has run and is in memory.
    let sleeps = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains("(sleep) S ");
    while !sleeps() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let found = planish(&["verify", &pid, "--format", "json"]);
    let missed = planish(&["verify", &pid, "--min", "50"]);
    let other = planish(&["verify", &pid, "--file", "no such library"]);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    let report = json(&found);
    assert_eq!(report["schema"], "planish-pages-verify");
    assert!(report["resident_bytes"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(missed.status.code(), Some(1), "{}", text(&missed.stdout));
    assert!(text(&missed.stderr).contains("50 % are wanted"), "{}", text(&missed.stderr));
    assert_eq!(other.status.code(), Some(2));
    assert!(text(&other.stderr).contains("no such library"));
    assert_eq!(planish(&["verify", "4294967295"]).status.code(), Some(2));
}

#[test]
fn small_programs_have_nothing_to_warm_and_that_is_exit_code_1() {
    let Some(sleep) =
        ["/usr/bin/sleep", "/bin/sleep"].into_iter().find(|path| Path::new(path).exists())
    else {
        return;
    };
    let done = planish(&["warm", "--alone", sleep]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stdout));
    assert!(text(&done.stderr).contains("pages check"), "{}", text(&done.stderr));
    let done = planish(&["run", "--strict", "--", sleep, "0"]);
    assert_eq!(done.status.code(), Some(1));
    let done = planish(&["run", "-q", "--", "sh", "-c", "exit 7"]);
    assert_eq!(done.status.code(), Some(7));
    let done = planish(&["check", "--min", "50", sleep]);
    assert_eq!(done.status.code(), Some(1));
    let done = planish(&["check", "--system", "--format", "json", "/usr/bin"]);
    let report = json(&done);
    let files = report["files"].as_array().unwrap();
    let sum: u64 = files.iter().map(|file| file["text_bytes"].as_u64().unwrap()).sum();
    assert_eq!(report["text_bytes"].as_u64(), Some(sum));
}

#[test]
fn a_unit_names_absolute_files_and_the_limit_it_needs() {
    let done = planish(&["keep", "--unit", "--alone", "/bin/sh"]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let unit = text(&done.stdout);
    assert!(
        unit.contains("LimitMEMLOCK=infinity") && unit.contains(" pages keep --alone /"),
        "{unit}"
    );
    assert_eq!(planish(&["keep", "--unit", "/no/such/file"]).status.code(), Some(2));
    // What is no program would be tried for ever.
    assert_eq!(planish(&["keep", "--unit", "/etc/passwd"]).status.code(), Some(2));
    let folder = tempfile::tempdir().unwrap();
    let odd = folder.path().join("it's 100 % $odd");
    fs::copy("/bin/sh", &odd).unwrap();
    let done = planish(&["keep", "--unit", "--alone", odd.to_str().unwrap()]);
    let unit = folder.path().join("held.service");
    fs::write(&unit, &done.stdout).unwrap();
    match Command::new("systemd-analyze").arg("verify").arg(&unit).output() {
        Ok(found) => {
            let said = text(&found.stdout) + &text(&found.stderr);
            let own: Vec<&str> =
                said.lines().filter(|line| line.contains("held.service")).collect();
            assert!(own.is_empty(), "{said}{}", text(&done.stdout));
        }
        Err(_) => eprintln!("skipped: systemd-analyze is not installed"),
    }
}

#[test]
fn an_experiment_compares_three_ways_of_one_program() {
    let folder = tempfile::tempdir().unwrap();
    if !possible(folder.path()) {
        return;
    }
    let own = env!("CARGO_BIN_EXE_planish");
    let place = folder.path().to_str().unwrap();
    let done = planish(&[
        "experiment",
        "--rounds",
        "6",
        "--format",
        "json",
        "--folder",
        place,
        "--",
        own,
        "--version",
    ]);
    if text(&done.stderr).contains("cannot be warmed") {
        return eprintln!("skipped: memory gave no superpages: {}", text(&done.stderr));
    }
    let report = json(&done);
    assert_eq!(report["schema"], "planish-compare");
    let names: Vec<&str> = report["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["as-built", "aligned", "aligned-and-warm"]);
    assert_eq!(report["comparisons"].as_array().unwrap().len(), 2, "{report}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the copies are removed");
}

#[test]
fn a_file_that_cannot_be_read_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let own = env!("CARGO_BIN_EXE_planish");
    let done = planish(&["check", own, empty.to_str().unwrap(), "--format", "json"]);
    assert_eq!(done.status.code(), Some(2));
    let found = json(&done);
    assert_eq!((found["files"].as_array().unwrap().len(), &found["unreadable"]), (1, &1.into()));
    assert!(text(&done.stderr).contains("empty"), "{}", text(&done.stderr));
}

#[test]
fn an_interrupted_rewrite_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let mut interrupted = 0;
    for wait in 1..40 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_planish"))
            .args(["pages", "align", env!("CARGO_BIN_EXE_planish"), "-o"])
            .arg(&output)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(wait * 3));
        let _ = Command::new("kill")
            .args(["-INT", &child.id().to_string()])
            .stderr(Stdio::null())
            .status();
        interrupted += usize::from(!child.wait().unwrap().success());
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.iter().all(|path| *path == output), "{left:?}");
    }
    assert!(interrupted > 0, "no signal came in time");
}
