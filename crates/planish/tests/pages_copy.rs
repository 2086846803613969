//! `planish pages run --copy` on a real program: its text lies on anonymous superpages, it prints
//! what it prints without, perf knows its functions, and what cannot be copied is said with exit
//! code 1.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// Text of 5.25 MiB, most of it filler, and a function `busy` in its middle, which a whole
/// superpage covers wherever the text begins. With an argument it runs until there is something to
/// read.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#define PAD(name) __attribute__((noinline)) int name(int x) { __asm__ volatile(".fill 0x150000, 1, 0x90"); return x + 1; }
PAD(f1) PAD(f2)
__attribute__((noinline)) unsigned busy(unsigned n) { unsigned s = 1; while (n--) s = s * 31 + n; return s; }
PAD(f3) PAD(f4)
int main(int count, char **words) {
  printf("%u %d\n", busy(100000), f1(f2(f3(f4(0)))));
  fflush(stdout);
  if (count > 1 && words[1][0] == 'c') return system("echo \"[$LD_PRELOAD] [$PLANISH_HUGETEXT_REQUEST]\"");
  if (count > 1) for (unsigned i = 0; i < 100000 && busy(1000000 + i); i++) {
    fd_set none;
    struct timeval now = {0, 0};
    FD_ZERO(&none);
    FD_SET(0, &none);
    if (select(1, &none, 0, 0, &now) > 0) return 0;
  }
  return 0;
}
"#;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// The program built with these flags; `None`, which is said, where it cannot be built or
    /// copied here.
    fn new(flags: &[&str]) -> Option<Place> {
        if library().is_none() {
            eprintln!("skipped: libplanish_hugetext.so is not built (cargo build -p hugetext)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("app.c"), PROGRAM).unwrap();
        let mut command = Command::new("gcc");
        command
            .args(["-O1", "-g", "-fno-toplevel-reorder", "-o", "app", "app.c"])
            .args(flags)
            .current_dir(folder.path());
        let done = command.output();
        let Ok(done) = done else {
            eprintln!("skipped: gcc is not installed");
            return None;
        };
        assert!(done.status.success(), "{}", text(&done.stderr));
        Some(Place { folder })
    }

    fn app(&self) -> PathBuf {
        self.folder.path().join("app")
    }

    fn run(&self, words: &[&str], command: &[&str]) -> Output {
        let mut all = planish();
        all.arg("run").args(words).arg("--").args(command).stdin(Stdio::null());
        finished(all)
    }

    /// Starts the program so that it runs until it is given input or dropped, and waits until it
    /// has printed.
    fn started(&self, words: &[&str]) -> Running {
        let mut command = planish();
        command.arg("run").args(words).arg("--").arg(self.app()).arg("on");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, EXPECTED);
        Running(child)
    }
}

const EXPECTED: &str = "2736152241 4\n";

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_file(format!("/tmp/perf-{}.map", self.0.id()));
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn library() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_BIN_EXE_planish")).parent().unwrap();
    let places = [folder.to_owned(), folder.join("deps")];
    places.map(|place| place.join("libplanish_hugetext.so")).into_iter().find(|path| path.is_file())
}

fn planish() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_planish"));
    command.arg("pages");
    command
}

/// Runs a command to its end, without leaving the names for perf behind.
fn finished(mut command: Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let names = format!("/tmp/perf-{}.map", child.id());
    let done = child.wait_with_output().unwrap();
    let _ = fs::remove_file(names);
    done
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether the program's text was copied; says so when memory gave no superpages.
fn copied(done: &Output) -> bool {
    let said = text(&done.stderr);
    let lacks = ["memory gave", "gives no anonymous superpages", "PR_SET_MDWE is set"];
    if lacks.iter().any(|lack| said.contains(lack)) {
        eprintln!("skipped: no anonymous superpages here: {said}");
        return false;
    }
    true
}

#[test]
fn the_text_lies_on_anonymous_superpages_and_perf_knows_its_functions() {
    let Some(place) = Place::new(&[]) else { return };
    let app = place.app();
    let app = app.to_str().unwrap();
    let done = place.run(&["--copy"], &[app]);
    if !copied(&done) {
        return;
    }
    assert_eq!(
        (done.status.code(), text(&done.stdout).as_str()),
        (Some(0), EXPECTED),
        "{}",
        text(&done.stderr)
    );
    let said = text(&done.stderr);
    for warning in
        ["uprobes", "PR_SET_MDWE", "perf attached", "MiB of text copied to anonymous superpages"]
    {
        assert!(said.contains(warning), "{warning}: {said}");
    }

    let running = place.started(&["--copy", "--strict"]);
    let pid = running.0.id();
    let smaps = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut huge = 0;
    let mut inside = false;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0].contains('-') {
            // No sixth word: memory without a file or name.
            inside = words[1] == "r-xp" && words.len() == 5;
        } else if inside && words[0] == "AnonHugePages:" {
            huge += words[1].parse::<u64>().unwrap();
        }
    }
    // Of 5.25 MiB at any page at least one whole superpage.
    assert!(huge >= 2 << 10, "{huge} KiB of anonymous superpages as text:\n{smaps}");
    let done = planish().args(["verify", &pid.to_string(), "--format", "json"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    assert!(report["superpage_bytes"].as_u64().unwrap() >= huge << 10, "{report}");

    let names = fs::read_to_string(format!("/tmp/perf-{pid}.map")).unwrap();
    let own = [" f1", " f2", " f3", " f4"];
    assert!(names.lines().any(|line| own.iter().any(|name| line.ends_with(name))), "{names}");
    let data = place.folder.path().join("perf.data");
    let words =
        ["record", "-q", "-e", "cpu-clock:u", "-p", &pid.to_string(), "-o", data.to_str().unwrap()];
    let recorded = Command::new("perf").args(words).args(["--", "sleep", "1"]).output();
    match recorded {
        Ok(done) if done.status.success() => {
            let report = Command::new("perf")
                .args(["report", "--stdio", "-F", "overhead,sym", "-i", data.to_str().unwrap()])
                .output()
                .unwrap();
            let report = text(&report.stdout);
            assert!(report.contains("busy"), "{report}");
        }
        Ok(done) => eprintln!("skipped: perf may not record here: {}", text(&done.stderr)),
        Err(_) => eprintln!("skipped: perf is not installed"),
    }
}

#[test]
fn programs_that_the_command_starts_are_left_alone_and_a_script_is_run_by_its_interpreter() {
    let Some(place) = Place::new(&[]) else { return };
    let app = place.app();
    // The shell has no text of 2 MiB, so there is nothing to copy and nothing is run.
    let done = place.run(&["--copy"], &["sh", "-c", "echo ran"]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("text for a superpage"), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "");
    // env is not the program that is meant.
    let script = place.folder.path().join("script");
    fs::write(&script, format!("#!/usr/bin/env -S {}\n", app.display())).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, mode).unwrap();
    for command in [script.as_path(), app.as_path()] {
        let done = place.run(&["--copy", "-q", "--strict"], &[command.to_str().unwrap()]);
        if !copied(&done) {
            return;
        }
        assert_eq!(text(&done.stdout), EXPECTED, "{}", text(&done.stderr));
        assert_eq!(text(&done.stderr), "", "nothing is said with -q");
        assert_eq!(done.status.code(), Some(0));
    }
}

#[test]
fn the_environment_of_what_the_program_starts_is_as_it_was() {
    let Some(place) = Place::new(&[]) else { return };
    let mut command = planish();
    // Something that is preloaded by the user stays so.
    let own = library().unwrap();
    command
        .args(["run", "--copy", "-q", "--"])
        .arg(place.app())
        .arg("child")
        .env("LD_PRELOAD", &own);
    let done = finished(command);
    if copied(&done) {
        assert_eq!(
            text(&done.stdout),
            format!("{EXPECTED}[{}] []\n", own.display()),
            "{}",
            text(&done.stderr)
        );
    }
}

#[test]
fn what_cannot_be_copied_is_refused_by_name_with_exit_code_1() {
    let Some(place) = Place::new(&["-static"]) else { return };
    let app = place.app();
    let done = place.run(&["--copy"], &[app.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("linked statically"), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "");

    let Some(place) = Place::new(&[]) else { return };
    let app = place.app();
    let reserved = fs::read_to_string("/proc/sys/vm/nr_hugepages").unwrap_or_default();
    if reserved.trim() == "0" {
        let done = place.run(&["--copy=hugetlb"], &[app.to_str().unwrap()]);
        assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains("vm.nr_hugepages"), "{}", text(&done.stderr));
    }
    fs::set_permissions(&app, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).unwrap();
    let done = place.run(&["--copy"], &[app.to_str().unwrap()]);
    assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
    assert!(text(&done.stderr).contains("set-user-id"), "{}", text(&done.stderr));
    let mut named = planish();
    named.args(["run", "--copy", "--"]).arg(&app).env("PLANISH_HUGETEXT", "/no/such/library.so");
    fs::set_permissions(&app, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let done = finished(named);
    if copied(&done) {
        assert_eq!(done.status.code(), Some(3));
        assert!(text(&done.stderr).contains("/no/such/library.so"), "{}", text(&done.stderr));
    }
}

#[test]
fn without_transparent_superpages_and_under_mdwe_nothing_is_run() {
    let Some(place) = Place::new(&[]) else { return };
    let app = place.app();
    // What a service manager sets before it starts a program: PR_SET_THP_DISABLE, PR_SET_MDWE.
    for (call, says) in
        [("41, 1", "transparent superpages are off"), ("65, 1", "PR_SET_MDWE is set")]
    {
        let code = format!(
            "import ctypes, os, sys\nif ctypes.CDLL(None).prctl({call}, 0, 0, 0): sys.exit(77)\n\
             os.execv(sys.argv[1], sys.argv[1:])"
        );
        let done = Command::new("python3")
            .args(["-c", &code, env!("CARGO_BIN_EXE_planish"), "pages", "run", "--copy", "--"])
            .arg(&app)
            .output();
        let Ok(done) = done else { return eprintln!("skipped: python3 is not installed") };
        if done.status.code() == Some(77) {
            eprintln!("skipped: this kernel has no prctl({call})");
            continue;
        }
        assert_eq!(done.status.code(), Some(1), "{}", text(&done.stderr));
        assert!(text(&done.stderr).contains(says), "{}", text(&done.stderr));
        assert_eq!(text(&done.stdout), "");
    }
}
