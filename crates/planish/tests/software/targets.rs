//! Who can be recorded: running processes, threads and users' processes, children, short-lived and
//! foreign programs.

use super::{Recorded, compile, has, kinds, planish, record, said, skipped, works};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A program that runs until the test ends, however it ends.
struct Running(Child);

impl Running {
    fn start(dir: &Path, words: &[&str]) -> Running {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
        Running(command.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// It runs, and nobody traces it.
    fn is_free(&self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
        assert!(!status.contains("State:\tt") && !status.contains("State:\tT"), "{status}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Long enough to outlast the test.
const ENDLESS: &str = "1000000000000";
/// A recording of what runs already, for so long.
const A_SECOND: [&str; 2] = ["sleep", "1"];

#[test]
fn running_processes_and_threads_are_recorded_and_then_let_go() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if kinds(dir.path()).is_none() {
        return;
    }
    let checked = ["--check-stacks", "1", "--depth", "32", "-c", "4000000"];
    let program = Running::start(dir.path(), &["./kinds", "jumps", ENDLESS]);
    let recorded = record(dir.path(), &[&checked[..], &["-p", &program.pid()]].concat(), &A_SECOND);
    assert!(recorded.number("stops") > 5, "{}", recorded.notes());
    assert_eq!(
        (recorded.number("mismatches"), recorded.number("threads")),
        (0, 1),
        "{}",
        recorded.notes()
    );
    program.is_free();

    let program = Running::start(dir.path(), &["./kinds", "threads", ENDLESS]);
    let tasks = format!("/proc/{}/task", program.0.id());
    let begun = Instant::now();
    let threads = loop {
        let names = std::fs::read_dir(&tasks).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.retain(|name| *name != program.pid());
        if names.len() == 4 {
            break names;
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(10));
    };
    let recorded =
        record(dir.path(), &["--depth", "32", "-c", "4000000", "-t", &threads[2]], &A_SECOND);
    assert_eq!(recorded.number("threads"), 1, "{}", recorded.notes());
    assert!(recorded.number("stops") > 0);
    program.is_free();
    let recorded =
        record(dir.path(), &["--depth", "32", "-c", "4000000", "-p", &program.pid()], &A_SECOND);
    assert_eq!(recorded.number("threads"), 5, "{}", recorded.notes());
    program.is_free();
}

/// Numbers of users who have no processes.
const RECORDED: &str = "61234";
const RECORDING: &str = "61235";

/// Makes a directory that other users can reach and write to, with what they need in it; `None`,
/// with a note, without the right to become somebody else.
fn for_others(dir: &Path) -> Option<()> {
    use std::os::unix::fs::PermissionsExt;
    let root = Command::new("id").arg("-u").output().is_ok_and(|done| done.stdout == b"0\n");
    if !root || !has("setpriv") {
        return skipped("becoming another user needs root and setpriv");
    }
    std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o777)).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_planish"), dir.join("planish")).unwrap();
    Some(())
}

/// A command as another user.
fn as_other<'w>(user: &'w str, words: &[&'w str]) -> Vec<&'w str> {
    let become_other = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"];
    [&become_other, words].concat()
}

#[test]
fn a_users_processes_are_recorded() {
    let dir = tempfile::tempdir().unwrap();
    if !works() || for_others(dir.path()).is_none() || kinds(dir.path()).is_none() {
        return;
    }
    let program = Running::start(dir.path(), &as_other(RECORDED, &["./kinds", "jumps", ENDLESS]));
    // It is another user's from its exec on.
    std::thread::sleep(Duration::from_millis(300));
    let options = ["--depth", "32", "-c", "4000000", "-u", RECORDED];
    let recorded = record(dir.path(), &options, &A_SECOND);
    assert_eq!(recorded.number("threads"), 1, "{}", recorded.notes());
    assert!(recorded.number("stops") > 5, "{}", recorded.notes());
    program.is_free();
}

#[test]
fn an_ordinary_user_records_programs_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    if !works() || for_others(dir.path()).is_none() || kinds(dir.path()).is_none() {
        return;
    }
    let words =
        ["./planish", "record", "--branches=software", "--check-stacks", "1", "--depth", "32"];
    let words =
        [&words[..], &["-c", "2000000", "--format", "json", "--", "./kinds", "jumps", "300000"]]
            .concat();
    let words = as_other(RECORDING, &words);
    let done = Command::new(words[0]).args(&words[1..]).current_dir(dir.path()).output().unwrap();
    if !done.status.success() {
        assert!(
            said(&done).contains("paranoid") || said(&done).contains("ptrace"),
            "{}",
            said(&done)
        );
        return skipped(&said(&done)).unwrap_or_default();
    }
    let recorded = Recorded { json: serde_json::from_slice(&done.stdout).unwrap(), done };
    recorded.adds_up();
    assert_eq!(recorded.number("mismatches"), 0, "{}", recorded.notes());
    assert!(recorded.number("stops") > 5, "{}", recorded.notes());
}

#[test]
fn children_and_what_they_become_are_followed_unless_told_not_to() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    if kinds(dir.path()).is_none() {
        return;
    }
    let command = ["./kinds", "children", "2"];
    let options = ["--depth", "32", "-c", "100000"];
    let followed = record(dir.path(), &options, &command);
    // The program, and in each round a shell by system(), one by vfork(), and a fork.
    assert_eq!(followed.number("threads"), 7, "{}", followed.notes());
    let alone = record(dir.path(), &[&options[..], &["-i"]].concat(), &command);
    assert_eq!(alone.number("threads"), 1, "{}", alone.notes());
    let printed =
        |recorded: &Recorded| said(&recorded.done).lines().next().unwrap_or_default().to_owned();
    assert_eq!(printed(&followed), printed(&alone));
    if has("perf") {
        record(dir.path(), &options, &command);
        let words = ["script", "-i", "perf.data", "-F", "comm"];
        let done = Command::new("perf").current_dir(dir.path()).args(words).output().unwrap();
        let names = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(names.lines().any(|name| name.trim() == "sh"), "{names}");
        assert!(names.lines().any(|name| name.trim() == "kinds"), "{names}");
    }
}

#[test]
fn a_program_that_exits_at_once_is_no_recording_and_said_to_be_short() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let done: Output =
            planish(dir.path(), &["record", "--branches=software", "--", "true"]).output().unwrap();
        let said = said(&done);
        if !done.status.success() {
            assert_eq!(done.status.code(), Some(2), "{said}");
            assert!(said.contains("too short"), "{said}");
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_32_bit_program_runs_on_unrecorded_and_that_is_said() {
    if !works() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let flags =
        ["-m32", "-nostdlib", "-static", "-O1", "-fno-stack-protector", "-fno-pic", "-no-pie"];
    let bare = compile(dir.path(), "cc", "bare32.c", "bare32", &flags).or_else(|| {
        let flags = [&flags[..], &["-fuse-ld=lld"]].concat();
        compile(dir.path(), "clang-22", "bare32.c", "bare32", &flags)
    });
    let Some(bare) = bare else { return };
    if !Command::new(&bare).status().is_ok_and(|status| status.code() == Some(7)) {
        return skipped("this kernel runs no 32-bit programs").unwrap_or_default();
    }
    let busy = "./bare32; echo ended $?; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let recorded = record(dir.path(), &["--depth", "32", "-c", "1000000"], &["sh", "-c", busy]);
    assert!(said(&recorded.done).contains("ended 7"), "{}", recorded.notes());
    assert!(recorded.json["notes"].to_string().contains("32-bit"), "{}", recorded.notes());
}
