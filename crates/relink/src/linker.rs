//! Which lld is there, and what did it say? Finds and runs it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::Error;

/// How many of a failed link's last lines are kept.
const SAID_LINES: usize = 12;

/// Highest LLVM release that is looked for by name.
const NEWEST: u32 = 40;

/// An installed lld.
#[derive(Debug, Clone)]
pub struct Linker {
    path: PathBuf,
    version: String,
}

impl Linker {
    /// Finds lld: the file that `PLANISH_LLD` names, else the newest `ld.lld-N` in PATH, else
    /// `ld.lld`.
    ///
    /// # Errors
    ///
    /// [`Error::NoLinker`] when none is there or none runs.
    pub fn find() -> Result<Linker, Error> {
        if let Some(named) = std::env::var_os("PLANISH_LLD") {
            let path = PathBuf::from(named);
            let looked = path.display().to_string();
            return Linker::at(path).ok_or(Error::NoLinker { looked });
        }
        let around = programs::Surroundings::running();
        let names = (11..=NEWEST)
            .rev()
            .map(|release| format!("ld.lld-{release}"))
            .chain(["ld.lld".to_owned()]);
        for name in names {
            let directories = around.directories().iter();
            let candidates =
                directories.map(|directory| directory.join(&name)).filter(|path| path.is_file());
            if let Some(linker) = candidates.filter_map(Linker::at).next() {
                return Ok(linker);
            }
        }
        Err(Error::NoLinker { looked: format!("ld.lld-{NEWEST} to ld.lld-11 and ld.lld in PATH") })
    }

    /// The lld at a path, if it runs.
    fn at(path: PathBuf) -> Option<Linker> {
        // lld takes its role from its name, so symbolic links must stay as they are.
        let path = std::path::absolute(path).ok()?;
        let output = programs::Surroundings::running().ask(&path).arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let version =
            said.lines().next().filter(|line| output.status.success() && line.contains("LLD"))?;
        Some(Linker { version: version.trim().to_owned(), path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it says of itself, such as `LLD 22.1.8`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Does it choose between algorithms for the order of functions by calls? Since LLVM 18.
    pub(crate) fn sorts_in_several_ways(&self) -> bool {
        let behind = self.version.split_once("LLD ").map_or("", |(_, behind)| behind);
        let digits = behind.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse::<u32>().map_or(true, |major| major >= 18)
    }

    /// Links as a response file says, in `directory`, which its relative paths start from.
    pub(crate) fn link(&self, directory: &Path, response: &Path) -> Result<(), Error> {
        let mut command = Command::new(&self.path);
        let mut argument = OsString::from("@");
        argument.push(response);
        command.current_dir(directory).arg(argument);
        run(command)
    }
}

/// Runs a command to its end; an error holds its last lines.
pub(crate) fn run(mut command: Command) -> Result<(), Error> {
    // Variables that make lld write another archive, or order and word its messages otherwise.
    command.env_remove("LLD_REPRODUCE").env("LC_ALL", "C").stdin(Stdio::null());
    let shown = shown(&command);
    let program = PathBuf::from(command.get_program());
    let output = command.output().map_err(Error::file(&program, "run"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(SAID_LINES)..).unwrap_or_default();
    let said = last.iter().map(|line| format!("  {line}\n")).collect();
    Err(Error::Link { command: shown, status: output.status.to_string(), said })
}

/// A command for a message: its start when it is long.
fn shown(command: &Command) -> String {
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(300) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Which part a link command's program has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Driver {
    /// clang, gcc and their like, which run the linker.
    Compiler,
    /// ld itself.
    Linker,
}

/// Whether a program of this name compiles C and C++ and runs the linker, as clang and gcc do.
#[must_use]
pub fn is_compiler(program: &str) -> bool {
    driver(program) == Some(Driver::Compiler)
}

fn driver(program: &str) -> Option<Driver> {
    let name = program.rsplit('/').next().unwrap_or(program);
    // "x86_64-linux-gnu-gcc-12": neither the target before nor the release after matters.
    let name = name
        .trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.' || letter == '-');
    let ends = |names: &[&str]| {
        names.iter().any(|&end| {
            name == end || name.strip_suffix(end).is_some_and(|rest| rest.ends_with('-'))
        })
    };
    if ends(&["clang", "clang++", "gcc", "g++", "cc", "c++"]) {
        Some(Driver::Compiler)
    } else if ends(&["ld", "ld.lld", "lld", "ld.bfd", "ld.gold"]) {
        Some(Driver::Linker)
    } else {
        None
    }
}

/// Runs a link command once, with its output in `scratch`, so that lld writes `archive`.
pub(crate) fn reproduce(
    linker: &Linker,
    command: &[String],
    directory: &Path,
    scratch: &Path,
    archive: &Path,
) -> Result<(), Error> {
    let wrong =
        |found: &str| Error::Command { command: command.join(" "), found: found.to_owned() };
    let Some((program, arguments)) = command.split_first() else {
        return Err(wrong("it is empty"));
    };
    let Some(driver) = driver(program) else {
        return Err(wrong("its program is neither clang, gcc nor ld"));
    };
    let mut kept: Vec<OsString> = Vec::new();
    let mut output = false;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "-o" || argument == "--output" {
            output = rest.next().is_some();
        } else if argument == "-c"
            || argument == "-E"
            || (argument == "-S" && driver == Driver::Compiler)
        {
            return Err(wrong("it compiles only and links nothing"));
        } else if argument.starts_with("-fuse-ld=") || argument.starts_with("--ld-path=") {
            continue;
        } else {
            kept.push(argument.into());
        }
    }
    if !output {
        return Err(wrong("it names no output (-o PROGRAM)"));
    }
    let mut reproduce = OsString::from(if driver == Driver::Compiler {
        "-Wl,--reproduce="
    } else {
        "--reproduce="
    });
    reproduce.push(archive);
    let out = scratch.join(output_name(arguments));
    let mut run_it = match driver {
        Driver::Linker => Command::new(linker.path()),
        Driver::Compiler => {
            // Drivers look for a program called ld.lld below the directories that -B names.
            let link = scratch.join("ld.lld");
            std::os::unix::fs::symlink(linker.path(), &link).map_err(Error::file(&link, "link"))?;
            let mut prefix = OsString::from("-B");
            prefix.push(scratch);
            prefix.push("/");
            kept.extend(["-fuse-ld=lld".into(), prefix]);
            Command::new(program)
        }
    };
    run_it.current_dir(directory).args(kept).arg(reproduce).arg("-o").arg(&out);
    run(run_it)?;
    if archive.is_file() { Ok(()) } else { Err(wrong("it ended well, but lld was not run")) }
}

/// The file name of the output that a command names.
fn output_name(arguments: &[String]) -> &str {
    let place = arguments.iter().position(|argument| argument == "-o" || argument == "--output");
    let path = place.and_then(|place| arguments.get(place + 1)).map_or("a.out", String::as_str);
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("a.out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_chosen_since_18() {
        let of = |version: &str| {
            Linker { path: PathBuf::new(), version: version.to_owned() }.sorts_in_several_ways()
        };
        assert!(!of("LLD 14.0.6 (compatible with GNU linkers)") && !of("Debian LLD 17.0.1"));
        assert!(of("Debian LLD 22.1.8 (compatible with GNU linkers)") && of("LLD 18.1.3"));
        assert!(of("LLD of a vendor"));
    }

    #[test]
    fn drivers_are_known_by_their_names() {
        for name in [
            "clang",
            "/usr/bin/clang++-22",
            "gcc-12",
            "x86_64-linux-gnu-gcc-12",
            "cc",
            "aarch64-g++",
        ] {
            assert_eq!(driver(name), Some(Driver::Compiler), "{name}");
        }
        for name in ["ld", "ld.lld-22", "/opt/bin/ld.lld", "x86_64-linux-gnu-ld.bfd"] {
            assert_eq!(driver(name), Some(Driver::Linker), "{name}");
        }
        for name in ["make", "ccache", "sh", "rustc", ""] {
            assert_eq!(driver(name), None, "{name}");
        }
    }
}
