//! A directory to build, record and profile small programs in; tools that are not installed skip
//! the test.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A temporary directory and what runs in it.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// Flags that clang wants for a binary to be profiled.
pub const CLANG_FLAGS: &[&str] =
    &["-O2", "-gmlt", "-fdebug-info-for-profiling", "-funique-internal-linkage-names"];

/// The path of a file under `fixtures/`.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

/// Whether `tool` is installed; says so on stderr when it is not.
pub fn has(tool: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').any(|d| Path::new(d).join(tool).is_file());
    if !found {
        eprintln!("skipped: {tool} is not installed");
    }
    found
}

/// Whether programs can be recorded under emulation. The plugin lies beside the command once it was
/// built.
pub fn has_emulation() -> bool {
    let beside =
        Path::new(env!("CARGO_BIN_EXE_planish")).with_file_name("libplanish_qemu_branches.so");
    let found = beside.is_file() || std::env::var_os("PLANISH_QEMU_PLUGIN").is_some();
    if !found {
        eprintln!("skipped: the emulation plugin is not built (cargo build -p qemu-plugin)");
    }
    found && has("qemu-x86_64")
}

/// Whether `perf record` may open a clock event here.
pub fn has_perf() -> bool {
    if !has("perf") {
        return false;
    }
    let probe = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"])
        .output();
    let works = probe.is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("skipped: perf record does not work here");
    }
    works
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard error of a run that must succeed.
#[track_caller]
pub fn succeeds(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", output.status, text(&output.stderr));
    text(&output.stderr)
}

/// The message of a run that must end with one error and exit code 2.
#[track_caller]
pub fn refuses(output: &Output, parts: &[&str]) -> String {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    assert_eq!(message.lines().filter(|l| l.starts_with("planish:")).count(), 1, "{message}");
    for part in parts {
        assert!(message.contains(part), "no `{part}` in: {message}");
    }
    message
}

impl Bench {
    pub fn new() -> Bench {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        std::fs::write(self.at(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The names of all files here.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Puts one of the programs beside this file into the directory.
    pub fn source(&self, name: &str) {
        let path =
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/programs")).join(name);
        std::fs::copy(path, self.at(name)).unwrap();
    }

    /// A command that runs here.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).stdin(Stdio::null()).env("LC_ALL", "C");
        command
    }

    /// Runs planish.
    pub fn planish(&self, words: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_planish")).args(words).output().unwrap()
    }

    /// Runs planish with `input` on standard input.
    pub fn planish_reading(&self, words: &[&str], input: &Path) -> Output {
        let input = std::fs::File::open(input).unwrap();
        self.command(env!("CARGO_BIN_EXE_planish")).args(words).stdin(input).output().unwrap()
    }

    /// Runs a tool that must succeed; everything that it printed.
    #[track_caller]
    pub fn tool(&self, program: &str, words: &[&str]) -> String {
        let output =
            self.command(program).args(words).output().unwrap_or_else(|e| panic!("{program}: {e}"));
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{program} {words:?}: {said}");
        said
    }

    /// Records `command` under emulation into `perf.data`.
    #[track_caller]
    pub fn emulate(&self, command: &[&str]) {
        let mut words =
            vec!["record", "-q", "--branches=emulated", "-c", "200", "-o", "perf.data", "--"];
        words.extend(command);
        succeeds(&self.planish(&words));
    }

    /// Makes a profile of `perf.data`; what planish said of it.
    #[track_caller]
    pub fn profile(&self, binary: &str, format: &str, output: &str) -> String {
        succeeds(&self.planish(&[
            "profile",
            "perf.data",
            "--binary",
            binary,
            "--emit",
            format,
            "-o",
            output,
        ]))
    }
}
