//! Which build system does a directory have, and what would planish.toml say of it?
//!
//! Decided from text alone: nothing of the project is run. What a file of another build system
//! leaves open (variables, generated names) is left out rather than guessed, and the caller is told
//! which programs were found.

mod autotools;
mod cargo;
mod cmake;
mod files;
mod make;
mod meson;
mod rustflags;

use crate::Error;
use std::fmt;
use std::path::Path;

/// A build system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rust's cargo.
    Cargo,
    /// Meson.
    Meson,
    /// CMake.
    Cmake,
    /// A `configure` script that autoconf made, and make.
    Autotools,
    /// make alone.
    Make,
}

impl Kind {
    /// In the order in which they are looked for: where a project has several, the ones that others
    /// are generated from or wrap come first.
    pub const ALL: [Kind; 5] = [Kind::Cargo, Kind::Meson, Kind::Cmake, Kind::Autotools, Kind::Make];

    /// The files that show it.
    fn shown_by(self) -> &'static [&'static str] {
        match self {
            Kind::Cargo => &["Cargo.toml"],
            Kind::Meson => &["meson.build"],
            Kind::Cmake => &["CMakeLists.txt"],
            Kind::Autotools => &["configure", "configure.ac", "configure.in"],
            Kind::Make => &["GNUmakefile", "makefile", "Makefile"],
        }
    }

    fn find(self, directory: &Path) -> Option<Found> {
        let file = self.shown_by().iter().find(|name| directory.join(name).is_file())?;
        match self {
            Kind::Cargo => Some(cargo::found(directory)),
            Kind::Meson => Some(meson::found(directory)),
            Kind::Cmake => Some(cmake::found(directory)),
            Kind::Autotools => autotools::found(directory),
            Kind::Make => Some(make::found(directory, file)),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Cargo => "cargo",
            Kind::Meson => "Meson",
            Kind::Cmake => "CMake",
            Kind::Autotools => "autotools",
            Kind::Make => "make",
        })
    }
}

/// A program that a project makes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    /// What its build system calls it.
    name: String,
    /// Where it lies below `$PLANISH_OUT`.
    binary: String,
}

/// What one build system says of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    /// The programs, the likeliest first.
    programs: Vec<Made>,
    /// The build command; `@PROGRAM@` is where the program's name goes.
    command: String,
    /// The same for the project's own release build, as its users type it.
    release: String,
    /// `[build] optimize`, where the project's release builds have another level than -O2.
    optimize: Option<&'static str>,
    /// Whether a program that was not found may be asked for by its path below `$PLANISH_OUT`.
    takes_paths: bool,
    /// What the user should know, a sentence each.
    notes: Vec<String>,
}

/// A project as far as its files tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Its build system.
    pub kind: Kind,
    /// `[build] command`.
    pub command: String,
    /// `[build] release`.
    pub release: Option<String>,
    /// `[build] optimize`, where it is not what is usual.
    pub optimize: Option<&'static str>,
    /// `[build] binary`.
    pub binary: String,
    /// The name of the program.
    pub program: String,
    /// Names of the other programs that the project makes.
    pub others: Vec<String>,
    /// What the user should know, a sentence each.
    pub notes: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct Wish<'a> {
    /// The build system; any where absent.
    pub kind: Option<Kind>,
    /// The program, by its name or by its path below `$PLANISH_OUT`.
    pub program: Option<&'a str>,
}

/// Looks at a directory.
///
/// # Errors
/// Where it shows no build system, not the one that is asked for, or not the program.
pub fn recognise(directory: &Path, wish: &Wish) -> Result<Recognised, Error> {
    let mut kinds = wish.kind.map_or(Kind::ALL.to_vec(), |kind| vec![kind]);
    if kinds.len() > 1 && autotools::is_released(directory) {
        // Who releases a configure script builds with it; a CMakeLists.txt beside it is for others.
        kinds.sort_by_key(|kind| *kind != Kind::Cargo && *kind != Kind::Autotools);
    }
    let found = kinds.iter().find_map(|kind| Some((*kind, kind.find(directory)?)));
    let Some((kind, mut found)) = found else {
        // One that is written by hand may not be able to build elsewhere.
        let told = |name: &'static str| match name {
            "configure" => "configure made by autoconf",
            other => other,
        };
        let looked = kinds.iter().flat_map(|kind| kind.shown_by()).map(|name| told(name));
        return Err(Error::NoBuildSystem {
            directory: directory.to_owned(),
            looked_for: looked.collect::<Vec<_>>().join(", "),
            next: files::hint(directory),
        });
    };
    // All others compile elsewhere than here, so that no path in the flags can be relative to here.
    if kind != Kind::Cargo {
        let full = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
        if crate::words::is_cut(&full.to_string_lossy()) {
            return Err(Error::Path(full));
        }
    }
    prefer_named(directory, &mut found.programs);
    let made = choose(kind, &mut found, wish.program, directory)?;
    let names = found.programs.iter().map(|other| other.name.clone());
    let named = |command: &str| command.replace("@PROGRAM@", &crate::quoted(&made.name));
    Ok(Recognised {
        kind,
        command: named(&found.command),
        release: Some(named(&found.release)),
        others: names.filter(|name| *name != made.name).collect(),
        optimize: found.optimize,
        binary: made.binary,
        program: made.name,
        notes: [found.notes, files::debian_notes(directory)].concat(),
    })
}

/// Whether a directory is named after a program (`xz-5.4.1` after `xz`).
fn is_named_after(directory: &Path, program: &str) -> bool {
    let full = directory.canonicalize().unwrap_or_default();
    let folder = full.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let after = folder.strip_prefix(&program.to_lowercase());
    program.len() > 1
        && after.is_some_and(|after| after.chars().next().is_none_or(|c| !c.is_alphabetic()))
}

/// Puts the program first that the directory is named after.
fn prefer_named(directory: &Path, programs: &mut [Made]) {
    let Some(own) = programs.iter().position(|made| is_named_after(directory, &made.name)) else {
        return;
    };
    if let Some(up_to) = programs.get_mut(..=own) {
        up_to.rotate_right(1);
    }
}

/// The program that is asked for, else the likeliest.
fn choose(
    kind: Kind,
    found: &mut Found,
    wanted: Option<&str>,
    directory: &Path,
) -> Result<Made, Error> {
    let there = || found.programs.iter().map(|made| made.name.as_str()).collect::<Vec<_>>();
    let missing = |wanted: Option<&str>| Error::NoSuchProgram {
        directory: directory.to_owned(),
        kind,
        wanted: wanted.map(|name| format!(" {name:?}")).unwrap_or_default(),
        there: match there() {
            names if names.is_empty() => "none that its files name".to_owned(),
            names => names.join(", "),
        },
    };
    let Some(wanted) = wanted else {
        return found.programs.first().cloned().ok_or_else(|| missing(None));
    };
    let same = |made: &&Made| made.name == wanted || made.binary == wanted;
    let file = |made: &&Made| made.binary.rsplit('/').next() == Some(wanted);
    match found.programs.iter().find(same).or(found.programs.iter().find(file)) {
        Some(made) => Ok(made.clone()),
        None if found.takes_paths => {
            let name = wanted.rsplit('/').next().unwrap_or(wanted).to_owned();
            let named = there().join(", ");
            if !named.is_empty() {
                found.notes.push(format!(
                    "The project's files name no program {wanted:?}, so it is looked for under this path below \
                     $PLANISH_OUT; they name {named}."
                ));
            }
            Ok(Made { name, binary: wanted.to_owned() })
        }
        None => Err(missing(Some(wanted))),
    }
}

/// What stands in `[workload]` for programs that a script starts or a client drives.
const AROUND: &str = "\
# A script may start the program: './run.sh {bin}'; it may take it from $PLANISH_BIN, too.
# Around each run, here and in [evaluate]: environment, directory, exit_codes, set_up, tear_down.
# For a server, in place of train (and of command in [evaluate]):
#   start = '{bin} --port {port}'          # {port} is one that is free
#   ready = 'tcp:127.0.0.1:{port}'         # or 'line:PATTERN', 'file:PATH'
#   drive = 'client --port {port}'         # what is recorded and measured is the server meanwhile
#   stop = 'client --port {port} shutdown' # without it SIGTERM
";

/// What a planish.toml says besides how the program is built.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// The training commands; where there are none, the user has to fill them in.
    pub train: Vec<String>,
    /// The evaluation commands; those of the training where there are none.
    pub evaluate: Vec<String>,
}

impl Recognised {
    /// A planish.toml that builds the program.
    pub fn toml(&self, work: &Work) -> String {
        let list = |lines: &[String]| match lines {
            [] => "\"{bin}\"".to_owned(),
            [one] => quoted(one),
            many => {
                let lines = many.iter().map(|line| format!("  {},\n", quoted(line)));
                format!("[\n{}]", lines.collect::<String>())
            }
        };
        let fill_in = |what: &str, lines: &[String]| match lines {
            [] => format!("# FILL IN: {what}\n"),
            _ => String::new(),
        };
        let evaluate = if work.evaluate.is_empty() { &work.train } else { &work.evaluate };
        let others = match self.others.as_slice() {
            [] => String::new(),
            others => format!(
                "# The project makes other programs too; `planish init --program NAME` takes \
                 another one:\n{}",
                others.iter().map(|name| format!("#   {name}\n")).collect::<String>()
            ),
        };
        let notes: String = self.notes.iter().map(|note| format!("# {note}\n")).collect();
        let optimize = self.optimize.map_or_else(String::new, |level| {
            format!("# As in the project's own release builds.\noptimize = {}\n", quoted(level))
        });
        let release = self.release.as_ref().map_or_else(String::new, |command| {
            format!(
                "# The project's own release build: the result is measured beside it, too. Change it to \
                 what you ship.\nrelease = {}\n",
                quoted(command)
            )
        });
        format!(
            "# How planish builds, records and measures {}: made from the files of {}.\n\
             # `planish init --example` writes a file with every key and its meaning.\n\n\
             [build]\n{notes}{others}\
             # Runs for each variant, in this directory; all of it must go to $PLANISH_OUT.\n\
             command = {}\nbinary = {}\n{optimize}{release}\n\
             [workload]\n\
             # What the program is recorded on: a command or a list. {{bin}} is the program.\n\
             {}train = {}\n\
             {AROUND}\n\
             [evaluate]\n\
             # What all variants are measured on. Take another input than for training, else the \
             gain is overstated.\n\
             {}command = {}\n\n\
             [optimize]\n\
             # A profile and a rebuild with it; then a layout of its code, by a relink (clang).\n\
             steps = [\"autofdo\", \"propeller\"]\n",
            self.program.replace(char::is_control, " "),
            self.kind,
            quoted(&self.command),
            quoted(&self.binary),
            fill_in("arguments and input that are like the program's daily work", &work.train),
            list(&work.train),
            fill_in("the same kind of work on other input", evaluate),
            list(evaluate),
        )
    }
}

/// A string as TOML takes it: literal where it can be, so that shell commands stay legible.
fn quoted(text: &str) -> String {
    if text.contains('\'') || text.chars().any(|c| c.is_control()) {
        toml::Value::String(text.to_owned()).to_string()
    } else {
        format!("'{text}'")
    }
}

#[cfg(test)]
mod tests;
