//! How does the workload become a guest that runs it? Its sources, the configuration of a small
//! kernel for it, and the initramfs with the program as `/init`.
//!
//! The program is linked statically, so the archive needs nothing else: no distribution, no block
//! device.

use crate::architecture::Architecture;
use crate::error::Error;
use crate::initrd::Archive;
use crate::packages::{self, GuestFile, PROGRAMS};
use crate::requirements::{Purpose, fragment};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Options of a small kernel that boots and runs the workload, for `make KCONFIG_ALLCONFIG=…
/// allnoconfig` for any [`Architecture`]: Kconfig leaves out what others have.
pub const SMALL_CONFIG: &str = include_str!("../../../kernel/small.config");

/// A whole small configuration, which profiles work with; Kconfig warns of what stands there twice.
pub fn small_config(purpose: Purpose, architecture: Architecture) -> String {
    let fragment = fragment(purpose, architecture);
    let stands_there = |line: &&str| !line.is_empty() && fragment.lines().any(|one| one == *line);
    let small = SMALL_CONFIG.lines().filter(|line| !stands_there(line));
    small.map(|line| format!("{line}\n")).collect::<String>() + "\n" + &fragment
}

/// Name of the archive that [`build`] writes.
pub const INITRD: &str = "initrd.cpio";

/// The sources of the workload, by file name.
pub const SOURCES: &[(&str, &str)] = &[
    ("commands.c", include_str!("../../../kernel/workload/commands.c")),
    ("held_file.c", include_str!("../../../kernel/workload/held_file.c")),
    ("held_memory.c", include_str!("../../../kernel/workload/held_memory.c")),
    ("held_net.c", include_str!("../../../kernel/workload/held_net.c")),
    ("held_process.c", include_str!("../../../kernel/workload/held_process.c")),
    ("init.c", include_str!("../../../kernel/workload/init.c")),
    ("marker.h", include_str!("../../../kernel/workload/marker.h")),
    ("odd.c", include_str!("../../../kernel/workload/odd.c")),
    ("runner.c", include_str!("../../../kernel/workload/runner.c")),
    ("sections.h", include_str!("../../../kernel/workload/sections.h")),
    ("stacks.c", include_str!("../../../kernel/workload/stacks.c")),
    ("support.c", include_str!("../../../kernel/workload/support.c")),
    ("train_event.c", include_str!("../../../kernel/workload/train_event.c")),
    ("train_file.c", include_str!("../../../kernel/workload/train_file.c")),
    ("train_memory.c", include_str!("../../../kernel/workload/train_memory.c")),
    ("train_net.c", include_str!("../../../kernel/workload/train_net.c")),
    ("train_pipe.c", include_str!("../../../kernel/workload/train_pipe.c")),
    ("train_process.c", include_str!("../../../kernel/workload/train_process.c")),
    ("train_unix.c", include_str!("../../../kernel/workload/train_unix.c")),
    ("workload.h", include_str!("../../../kernel/workload/workload.h")),
];

/// Flags of the compilation; the sources follow.
const FLAGS: &[&str] =
    &["-std=gnu11", "-O2", "-Wall", "-Wextra", "-static", "-pthread", "-o", "init"];

/// The list of commands in a guest (`kernel/workload/commands.c`).
const LIST: &str = "planish/commands";
/// Most commands of a kind: `commands.c` has that many markers.
const MOST_COMMANDS: usize = 20;
/// The first number of a held-out section.
const FIRST_HELD: usize = 101;

/// A command that is a section of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestCommand {
    /// What the section is called.
    pub name: String,
    /// Program and arguments.
    pub words: Vec<String>,
}

/// Programs of Debian's packages in place of planish's own sections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// The packages that the programs are in.
    pub packages: Vec<String>,
    /// Commands to train with.
    pub train: Vec<GuestCommand>,
    /// Commands that are held out.
    pub held: Vec<GuestCommand>,
}

impl Commands {
    /// The list as the guest reads it, and the files that it needs.
    fn files(&self, architecture: Architecture) -> Result<(String, Vec<GuestFile>), Error> {
        let mut list = String::new();
        let mut names = BTreeSet::new();
        for (first, commands) in [(1, &self.train), (FIRST_HELD, &self.held)] {
            if commands.len() > MOST_COMMANDS {
                return Err(Error::Wanted(format!(
                    "{} commands to train with or held out: {MOST_COMMANDS} of a kind are the most",
                    commands.len()
                )));
            }
            for (number, command) in (first..).zip(commands) {
                let line = command.line(number)?;
                if !names.insert(&command.name) {
                    return Err(Error::Wanted(format!(
                        "two commands are called {}; give each a name of its own",
                        command.name
                    )));
                }
                list += &line;
            }
        }
        if list.is_empty() && self.packages.is_empty() {
            return Ok((list, Vec::new()));
        }
        if list.is_empty() || self.packages.is_empty() {
            return Err(Error::Wanted(
                "packages and commands belong together: give --package NAME, and --train or --held 'NAME: COMMAND'"
                    .to_owned(),
            ));
        }
        let files = packages::files(&self.packages, architecture)?;
        for command in self.train.iter().chain(&self.held) {
            command.is_in(&files)?;
        }
        Ok((list, files))
    }
}

/// Values of a parameter by its name, in the order in which they are tried.
pub type Parameter = (String, Vec<String>);

/// Every command with every combination of the parameters that its words name as `{NAME}`: the name
/// of each says which (`groups g=2 l=100`), as those of benchmarks of programs do.
///
/// # Errors
/// Where no command names a parameter, or one names a parameter without values.
pub fn over(
    commands: [Vec<GuestCommand>; 2],
    parameters: &[Parameter],
) -> Result<[Vec<GuestCommand>; 2], Error> {
    let mark = |name: &str| format!("{{{name}}}");
    for (name, _) in parameters {
        let named = |command: &GuestCommand| command.words.iter().any(|w| w.contains(&mark(name)));
        if !commands.iter().flatten().any(named) {
            let mark = mark(name);
            return Err(Error::Wanted(format!("no command names the parameter {name}, as {mark}")));
        }
    }
    for word in commands.iter().flatten().flat_map(|command| &command.words) {
        let known = |name: &str| parameters.iter().any(|(own, _)| own == name);
        if let Some(name) = compare::names_in_braces(word).find(|name| !known(name)) {
            return Err(Error::Wanted(format!(
                "{word}: {{{name}}} has no values; give --parameter {name}=A,B"
            )));
        }
    }
    // As benchmarks of programs have them: by name.
    let mut sorted: Vec<&Parameter> = parameters.iter().collect();
    sorted.sort();
    let expanded = |command: GuestCommand| {
        let mut all = vec![command];
        for (name, values) in &sorted {
            let with = |command: GuestCommand| -> Vec<GuestCommand> {
                if !command.words.iter().any(|word| word.contains(&mark(name))) {
                    return vec![command];
                }
                let one = |value: &String| GuestCommand {
                    name: format!("{} {name}={value}", command.name),
                    words: command.words.iter().map(|w| w.replace(&mark(name), value)).collect(),
                };
                values.iter().map(one).collect()
            };
            // More than can be named are refused by the caller; so many are not made.
            all = all.into_iter().flat_map(with).take(MOST_COMMANDS + 1).collect();
        }
        all
    };
    Ok(commands.map(|kind| kind.into_iter().flat_map(expanded).collect()))
}

impl GuestCommand {
    fn line(&self, number: usize) -> Result<String, Error> {
        const MOST_LINE: usize = 4000;
        const MOST_WORDS: usize = 128;
        let wrong = |what: &str| Err(Error::Wanted(format!("command {}: {what}", self.name)));
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-+= ".contains(c);
        if self.name.is_empty() || !self.name.chars().all(plain) {
            return wrong("a name has letters, digits, blanks and . _ - + = alone");
        }
        if self.words.is_empty() || self.words.len() > MOST_WORDS {
            return wrong("it has no words, or more than 128");
        }
        let line = format!("{number}\t{}\t{}\n", self.name, self.words.join("\t"));
        if self.words.iter().any(|word| word.is_empty() || word.contains(['\t', '\n', '\0'])) {
            return wrong("a word is empty, or has a tab or a new line in it");
        }
        if line.len() > MOST_LINE {
            return wrong("it is longer than 4,000 bytes");
        }
        Ok(line)
    }

    /// Refuses a command whose program the guest would not find.
    fn is_in(&self, files: &[GuestFile]) -> Result<(), Error> {
        let Some(program) = self.words.first() else { return Ok(()) };
        let there = |path: &str| files.iter().any(|file| file.path == path);
        let found = match program.strip_prefix('/') {
            Some(path) => there(path),
            None => PROGRAMS.iter().any(|directory| there(&format!("{directory}/{program}"))),
        };
        if found {
            return Ok(());
        }
        let programs = files.iter().filter_map(|file| {
            let (directory, name) = file.path.rsplit_once('/')?;
            PROGRAMS.contains(&directory).then_some(name)
        });
        let names = programs.take(20).collect::<Vec<_>>().join(", ");
        Err(Error::Wanted(format!(
            "command {}: {program} is in none of the packages; their programs are: {names}",
            self.name
        )))
    }
}

/// Compiles the workload and writes `dir/initrd.cpio`, beside and renamed; `dir` is made if it is
/// missing. Gives its path. The same compiler and C library give the same bytes. A compiler that is
/// named makes programs for this architecture by itself.
///
/// # Errors
/// When there is no compiler, it cannot compile or link the sources statically, or the archive
/// cannot be written.
pub fn build(
    architecture: Architecture,
    compiler: Option<&OsStr>,
    dir: &Path,
) -> Result<PathBuf, Error> {
    build_with(architecture, compiler, dir, &Commands::default())
}

/// The same, where commands of packages are the sections, if there are any.
///
/// # Errors
/// As [`build`], and where packages cannot be had, or a command's program is in none of them.
pub fn build_with(
    architecture: Architecture,
    compiler: Option<&OsStr>,
    dir: &Path,
    commands: &Commands,
) -> Result<PathBuf, Error> {
    std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
    let path = dir.join(INITRD);
    let program = program(architecture, compiler)?;
    let (list, files) = commands.files(architecture)?;
    let bytes = archive(&program, &list, &files).map_err(Error::io(&path))?;
    let mut file = beside::Unfinished::at(&path).map_err(Error::io(dir))?.with_mode(0o644);
    file.write_all(&bytes).and_then(|()| file.finish()).map_err(Error::io(&path))?;
    Ok(path)
}

/// Compiles the workload; gives the program's bytes.
///
/// # Errors
/// As [`build`].
pub fn program(architecture: Architecture, compiler: Option<&OsStr>) -> Result<Vec<u8>, Error> {
    let scratch =
        TempDir::with_prefix("planish-workload-").map_err(Error::io(std::env::temp_dir()))?;
    for (name, text) in SOURCES {
        let path = scratch.path().join(name);
        beside::write(&path, text).map_err(Error::io(&path))?;
    }
    let tried: Vec<(&OsStr, &[&str])> = match compiler {
        Some(name) => vec![(name, &[])],
        None => {
            let usual = architecture.compilers().iter();
            usual.map(|compiler| (OsStr::new(compiler.name), compiler.flags)).collect()
        }
    };
    for (compiler, flags) in &tried {
        if compile(compiler, flags, architecture, scratch.path())? {
            let path = scratch.path().join("init");
            return std::fs::read(&path).map_err(Error::io(path));
        }
    }
    let names: Vec<_> = tried.iter().map(|(name, _)| name.to_string_lossy()).collect();
    Err(Error::NoCompiler { tried: names.join(", ") })
}

/// Whether this compiler is there; if it is, it has compiled `init` in the directory.
fn compile(
    compiler: &OsStr,
    flags: &[&str],
    architecture: Architecture,
    directory: &Path,
) -> Result<bool, Error> {
    // Names without a directory, so that the program does not say where it was compiled.
    let sources = SOURCES.iter().map(|(name, _)| name).filter(|name| name.ends_with(".c"));
    let mut command = Command::new(compiler);
    command
        .args(flags)
        .args(FLAGS)
        .args(sources)
        .current_dir(directory)
        .stdin(Stdio::null())
        .env("LC_ALL", "C");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(Error::Io { path: compiler.into(), source }),
    };
    if output.status.success() {
        return Ok(true);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let telling = |line: &&str| line.contains("error") || line.contains("cannot find");
    let line = said.lines().find(telling).or(said.lines().last()).unwrap_or("nothing");
    Err(Error::Workload {
        compiler: compiler.to_string_lossy().into_owned(),
        status: output.status.to_string(),
        // Paths come first in it.
        said: crate::shortened_to(line, 200),
        c_library: architecture.c_library(),
    })
}

/// The initramfs: `/init`, the directories it mounts on, and the devices it needs where there is no
/// devtmpfs; the list of commands, and files of packages by path, if there are any.
fn archive(program: &[u8], list: &str, files: &[GuestFile]) -> std::io::Result<Vec<u8>> {
    let mut archive = Archive::default();
    let mut directories: BTreeSet<String> = ["dev", "proc", "sys", "tmp"].map(str::to_owned).into();
    // The kernel makes no directory that the archive does not name before what lies in it.
    for file in files {
        let parents = file.path.match_indices('/').filter_map(|(at, _)| file.path.get(..at));
        directories.extend(parents.map(str::to_owned));
    }
    if !list.is_empty() {
        directories.insert("planish".to_owned());
    }
    for directory in &directories {
        archive.directory(directory);
    }
    // Numbers: Documentation/admin-guide/devices.txt.
    archive.device("dev/console", 5, 1);
    archive.device("dev/null", 1, 3);
    archive.program("init", program)?;
    if !list.is_empty() {
        archive.program(LIST, list.as_bytes())?;
    }
    for file in files {
        archive.program(&file.path, &file.contents)?;
    }
    Ok(archive.finish())
}
