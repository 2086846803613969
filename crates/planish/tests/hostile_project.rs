//! Does looking at somebody's directory run anything of it or write anything there?
//!
//! The directory holds what tools obey: toolchain files, settings of cargo and git, hooks,
//! makefiles, programs under the names of all tools with PATH leading to them, links that lead out
//! and around, pipes, odd names. Each command that only reads is used in it. `hostile/commands.txt`
//! says which those are, and `cli.rs` that it names every command.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A command that takes longer waits for something; busy machines are slow, too.
const PATIENCE: Duration = Duration::from_secs(300);

const TOOLS: &[&str] = &[
    "rustc",
    "cargo",
    "rustup",
    "clang",
    "clang-22",
    "clang-23",
    "clang-40",
    "clang++-40",
    "gcc",
    "gcc-17",
    "g++",
    "cc",
    "ld",
    "ld.lld",
    "ld.lld-22",
    "ld.lld-40",
    "ld.gold",
    "ld.bfd",
    "mold",
    "git",
    "perf",
    "make",
    "sh",
    "bash",
    "env",
    "uname",
    "nm",
    "objdump",
    "readelf",
    "gdb",
    "addr2line",
    "debuginfod-find",
    "systemctl",
    "qemu-x86_64",
    "qemu-aarch64",
    "qemu-system-x86_64",
    "llvm-bolt",
    "llvm-bolt-40",
    "llvm-profdata",
    "llvm-profdata-23",
    "llvm-profgen-23",
    "llvm-readelf-23",
    "llvm-nm-40",
    "ar",
    "strip",
    "cat",
    "true",
];

fn fixture(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures")).join(name)
}

struct Hostile {
    folder: tempfile::TempDir,
    digest: BTreeMap<PathBuf, String>,
}

impl Hostile {
    fn new() -> Hostile {
        let hostile = Hostile { folder: tempfile::tempdir().unwrap(), digest: BTreeMap::new() };
        for directory in ["project", "ran", "out", "secret"] {
            fs::create_dir(hostile.at(directory)).unwrap();
        }
        fs::write(hostile.at("secret/file"), "not yours\n").unwrap();
        hostile.programs();
        hostile.settings();
        hostile.inputs();
        hostile.names();
        Hostile { digest: digest(&hostile.project()), ..hostile }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn project(&self) -> PathBuf {
        self.at("project")
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    /// A program that says that it ran.
    fn program(&self, name: &str) {
        let shell =
            format!("#!/bin/sh\necho \"$0 $*\" >> {}/marker\nexit 0\n", self.at("ran").display());
        let path = self.write(name, shell);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn programs(&self) {
        for tool in TOOLS {
            self.program(tool);
            self.program(&format!("bin/{tool}"));
            self.program(&format!("toolchain/bin/{tool}"));
        }
        for hook in [
            "post-checkout",
            "post-index-change",
            "reference-transaction",
            "pre-commit",
            "fsmonitor",
        ] {
            self.program(&format!(".git/hooks/{hook}"));
        }
        self.program("linux/scripts/config");
        self.program("linux/scripts/kconfig/merge_config.sh");
        self.program("ld.so");
        fs::create_dir_all(self.project().join("toolchain/lib")).unwrap();
    }

    fn settings(&self) {
        let evil = self.project().join("bin/rustc").display().to_string();
        self.write("rust-toolchain.toml", "[toolchain]\npath = \"toolchain\"\n");
        self.write(
            ".cargo/config.toml",
            format!(
                "[build]\nrustc = {evil:?}\nrustc-wrapper = {evil:?}\n[env]\nRUSTC_WRAPPER = {evil:?}\n\
                 [target.x86_64-unknown-linux-gnu]\nlinker = {evil:?}\nrunner = {evil:?}\n"
            ),
        );
        self.write(
            "Cargo.toml",
            "[package]\nname = \"x\"\nversion = \"0.1.0\"\nbuild = \"build.rs\"\n",
        );
        let marker = self.at("ran").join("build.rs").display().to_string();
        self.write(
            "build.rs",
            format!("fn main() {{ std::fs::write({marker:?}, \"ran\").unwrap(); }}\n"),
        );
        self.write("src/main.rs", "fn main() {}\n");
        let make =
            format!("$(shell touch {0}/make)\nall:\n\ttouch {0}/make\n", self.at("ran").display());
        for name in ["Makefile", "GNUmakefile", "linux/Makefile"] {
            self.write(name, format!("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 1\n{make}"));
        }
        self.write(
            "linux/Kconfig",
            format!("config X\n\tdef_bool $(shell,touch {}/kconfig)\n", self.at("ran").display()),
        );
        self.write("linux/.config", "CONFIG_CC_VERSION_TEXT=\"./bin/clang-40\"\n");
        self.write(".config", "CONFIG_CC_VERSION_TEXT=\"./bin/clang-40\"\n");
        self.write(".gdbinit", format!("shell touch {}/gdb\n", self.at("ran").display()));
        self.write(
            ".lldbinit",
            format!("platform shell touch {}/lldb\n", self.at("ran").display()),
        );
        self.write(".envrc", format!("touch {}/envrc\n", self.at("ran").display()));
        self.write("clang.cfg", "-load=./evil.so\n");
        self.write("specs", "*cc1:\n./bin/cc\n");
        self.write(".git/HEAD", "ref: refs/heads/main\n");
        self.write(
            ".git/config",
            format!(
                "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = {evil}\n\tpager = {evil}\n\thooksPath = .git/hooks\n\
                 \tsshCommand = {evil}\n[log]\n\tshowSignature = true\n[gpg]\n\tprogram = {evil}\n[diff]\n\
                 \texternal = {evil}\n[alias]\n\trev-parse = !{evil}\n"
            ),
        );
        fs::create_dir_all(self.project().join(".git/objects")).unwrap();
        fs::create_dir_all(self.project().join(".git/refs/heads")).unwrap();
        self.write(".git/index", "");
        let config = |compiler: &str| {
            format!(
                "[build]\ncommand = 'touch {0}/build'\nbinary = \"app\"\n{compiler}\n\
                 [workload]\ntrain = \"{{bin}} {0}/train\"\n[evaluate]\ncommand = \"{{bin}} {0}/evaluate\"\n\
                 [optimize]\nalso = [\"pgo\"]\n",
                self.at("ran").display()
            )
        };
        self.write("planish.toml", config("compiler = \"clang\""));
        self.write(
            "evil.toml",
            config("compiler = \"clang\"\ncc = \"./bin/clang\"\ncxx = \"./bin/clang\""),
        );
        self.write(".planish/state.json", "{}");
        self.write(".planish/report.json", "{\"schema\": \"planish-optimize\"}");
    }

    fn inputs(&self) {
        let app = fs::read(fixture("autofdo/test.binary")).unwrap();
        fs::copy(fixture("autofdo/test.lbr"), self.project().join("perf.data")).unwrap();
        self.write("app.text", "main:100:10\n 1: 100\n");
        self.write("cc.profile", "v1\nf main\nc0\n");
        self.write("runs.jsonl", "{}\n");
        self.write("app", &app);
        self.write("test.binary", &app);
        self.write("evil.so", &app);
        self.write("objects/main.o", &app);
        self.write("linux/vmlinux", &app);
        // A dynamic linker of its own, named as long as the system's; where the binary has another
        // it is left.
        let mut evil = app;
        let (old, new) = (b"/lib64/ld-linux-x86-64.so.2\0", b"./ld.so\0");
        if let Some(at) = evil.windows(old.len()).position(|part| part == old) {
            evil[at..at + new.len()].copy_from_slice(new);
        }
        let path = self.write("evil-interpreter", evil);
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Links out, around and to nothing, pipes, and names that look like something else.
    fn names(&self) {
        let link = |to: &Path, name: &str| symlink(to, self.project().join(name)).unwrap();
        link(&self.at("secret/file"), "out-link");
        link(&self.at("secret"), "objects/out-directory");
        link(Path::new("loop-b"), "loop-a");
        link(Path::new("loop-a"), "loop-b");
        link(Path::new("."), "objects/self");
        link(Path::new(".."), "objects/up");
        link(Path::new("nowhere"), "dangling");
        for name in ["objects/pipe.o", "linux/pipe", "objects/pipe.ipa-clones", "pipe.gcno"] {
            let made = Command::new("/usr/bin/mkfifo").arg(self.project().join(name)).status();
            assert!(made.unwrap().success());
        }
        for name in ODD {
            fs::write(self.project().join(OsStr::from_bytes(name)), "odd\n").unwrap();
            fs::write(self.project().join("objects").join(OsStr::from_bytes(name)), "odd\n")
                .unwrap();
        }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let own = [PathBuf::new(), ".".into(), "bin".into(), self.project().join("bin")];
        let given = std::env::var_os("PATH").unwrap();
        let path =
            std::env::join_paths(own.into_iter().chain(std::env::split_paths(&given))).unwrap();
        // cargo names the toolchain for the tests; a user's shell does not.
        command.env("PATH", path).env_remove("RUSTUP_TOOLCHAIN").env("RUSTUP_AUTO_INSTALL", "0");
        command
            .current_dir(self.project())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs planish and holds the directory against what it was.
    fn look(&self, words: &[OsString]) -> ExitStatus {
        let mut child = self.command(env!("CARGO_BIN_EXE_planish")).args(words).spawn().unwrap();
        let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let read = std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        let said =
            std::thread::spawn(move || std::io::read_to_string(&mut err).unwrap_or_default());
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("planish {words:?} waits for something");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        read.join().unwrap().unwrap();
        let said = said.join().unwrap();
        assert!(matches!(status.code(), Some(0..=2 | 4)), "planish {words:?}: {status}: {said}");
        assert_eq!(self.ran(), Vec::<String>::new(), "planish {words:?} ran something: {said}");
        let now = digest(&self.project());
        let differing = |(path, what): &(&PathBuf, &String)| self.digest.get(*path) != Some(*what);
        let changed: Vec<_> = now.iter().filter(differing).collect();
        assert!(
            changed.is_empty() && now.len() == self.digest.len(),
            "planish {words:?} wrote {changed:?}"
        );
        if status.code() != Some(0) {
            eprintln!("{words:?}: {status}: {}", said.lines().last().unwrap_or_default());
        }
        status
    }

    /// What ran.
    fn ran(&self) -> Vec<String> {
        let files = fs::read_dir(self.at("ran")).unwrap().map(|entry| entry.unwrap().path());
        files
            .flat_map(|path| {
                let text = fs::read_to_string(&path).unwrap_or_default();
                let lines: Vec<String> = text.lines().map(str::to_owned).collect();
                if lines.is_empty() { vec![path.display().to_string()] } else { lines }
            })
            .collect()
    }
}

/// Names that a terminal, a shell or an option parser takes for something else.
const ODD: &[&[u8]] = &[
    b"-x",
    b"--help",
    b"-o",
    b"\x1b[31mred\x1b[0m",
    b"two\nlines",
    b"bell\x07",
    b"\xff\xfe",
    b"$(touch ran)",
    b"`touch ran`",
    b"a;touch ran",
    b"@file",
    "\u{202e}txt.o".as_bytes(),
];

/// Every file and link of a directory, with what it holds, where it leads, mode and times.
fn digest(directory: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let about = path.symlink_metadata().unwrap();
        let kind = about.file_type();
        let holds = if kind.is_symlink() {
            format!("{:?}", fs::read_link(&path).unwrap())
        } else if kind.is_dir() {
            found.extend(digest(&path));
            String::new()
        } else if kind.is_fifo() {
            "pipe".to_owned()
        } else {
            format!(
                "{:?}",
                fs::read(&path)
                    .unwrap()
                    .iter()
                    .fold(0_u64, |sum, &b| sum.wrapping_mul(31) + u64::from(b))
            )
        };
        let what = format!(
            "{holds} {:o} {}.{} {}",
            about.mode(),
            about.mtime(),
            about.mtime_nsec(),
            about.ino()
        );
        found.insert(path, what);
    }
    found
}

/// The lines of the list: class, command, arguments.
fn commands() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let lines = include_str!("hostile/commands.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| {
        let mut parts = line.splitn(3, '|').map(str::trim);
        (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap())
    })
}

/// The planted directory does run things when it is used without care, so that the other tests see
/// something.
fn is_hostile(hostile: &Hostile) {
    let path = std::env::var_os("PATH").unwrap();
    let rustc = std::env::split_paths(&path).map(|at| at.join("rustc")).find(|file| file.is_file());
    if let Some(rustc) = rustc {
        hostile.command(rustc.to_str().unwrap()).arg("-Zhelp").output().unwrap();
    }
    if hostile.ran().iter().all(|line| !line.contains("toolchain/bin/rustc")) {
        eprintln!("skipped: rustc is not rustup's, so rust-toolchain.toml is not obeyed here");
    }
    hostile.command("/bin/sh").args(["-c", "ld.lld-40; make"]).output().unwrap();
    assert!(hostile.ran().len() >= 2, "{:?}", hostile.ran());
    for file in fs::read_dir(hostile.at("ran")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
}

#[test]
fn nothing_of_a_hostile_directory_runs_and_nothing_is_written_there() {
    let hostile = Hostile::new();
    is_hostile(&hostile);
    for (class, command, arguments) in commands() {
        if class != "reads" && class != "works" {
            continue;
        }
        let out = hostile.at("out").display().to_string();
        let arguments = arguments.replace("{out}", &out);
        let words: Vec<OsString> = command
            .split_whitespace()
            .chain(arguments.split_whitespace())
            .map(OsString::from)
            .collect();
        let status = hostile.look(&words);
        assert!(class != "works" || matches!(status.code(), Some(0 | 1)), "{words:?}: {status}");
    }
}

#[test]
fn planted_names_given_as_files_run_and_write_nothing() {
    let hostile = Hostile::new();
    let own = ["out-link", "loop-a", "dangling", "objects", "objects/self", ".git", "ld.so"];
    let names = ODD.iter().map(|name| OsStr::from_bytes(name)).chain(own.iter().map(OsStr::new));
    let names: Vec<&OsStr> = names.collect();
    let looks: [&[&str]; 9] = [
        &["doctor"],
        &["pages", "check"],
        &["profile", "show"],
        &["layout", "check"],
        &["report", "waits"],
        &["livepatch", "closure", "--function=main"],
        &["build", "--dry-run"],
        &["report"],
        &["kernel", "check"],
    ];
    for look in looks {
        for name in &names {
            let words = look.iter().map(OsString::from).chain(["--".into(), name.into()]);
            hostile.look(&words.collect::<Vec<_>>());
        }
    }
}
