//! What does planish.toml say? How the program is built, what it is recorded and measured on.

use crate::Error;
pub use crate::commands::{Evaluate, Lines, Workload};
use crate::optimization::Optimize;
use crate::pages::Pages;
pub use crate::recording::{Record, StopBy};
use record::Branches;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A whole planish.toml.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How the program is built.
    pub build: Build,
    /// What it is recorded on.
    pub workload: Workload,
    /// What it is measured on.
    pub evaluate: Evaluate,
    /// How it is recorded.
    #[serde(default)]
    pub record: Record,
    /// Which way leads to the optimised program.
    #[serde(default)]
    pub optimize: Optimize,
    /// Read by `planish compare` only ([`crate::variants`]), like the three below.
    #[serde(default, skip_serializing)]
    compare: Option<toml::Value>,
    #[serde(default, skip_serializing)]
    variant: Option<toml::Value>,
    #[serde(default, skip_serializing)]
    benchmark: Option<toml::Value>,
    #[serde(default, skip_serializing)]
    matrix: Option<toml::Value>,
    /// Read by `planish kernel compare` only ([`crate::KernelTable`]).
    #[serde(default, skip_serializing)]
    kernel: Option<toml::Value>,
}

/// `[build]`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// A line for `sh -c`, or program and arguments. Runs in the directory of planish.toml.
    pub command: Command,
    /// The program that the command makes, relative to `$PLANISH_OUT`.
    pub binary: String,
    /// The project's own release build, in nothing like planish's: it makes the same files below
    /// `$PLANISH_OUT`, and the result is measured beside its program, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Command>,
    /// Shared libraries and further executables of the project that run with it, relative to
    /// `$PLANISH_OUT`: each is profiled, laid out and measured with the program.
    #[serde(default)]
    pub libraries: Vec<String>,
    /// Which compiler's flags are handed over.
    #[serde(default)]
    pub compiler: Compiler,
    /// The C compiler, when not the newest one found.
    pub cc: Option<String>,
    /// The C++ compiler, likewise.
    pub cxx: Option<String>,
    /// Optimisation flags of both builds.
    #[serde(default = "default_optimize")]
    pub optimize: String,
    /// Flags added to both builds.
    #[serde(default)]
    pub flags: String,
    /// Flags added to the rebuild only.
    #[serde(default)]
    pub profiled_flags: String,
    /// Whether both builds use ThinLTO (clang only).
    #[serde(default)]
    pub thinlto: bool,
    /// What is done so that the text of all builds can lie on superpages.
    #[serde(default)]
    pub pages: Pages,
    /// Files and directories whose change makes a new build necessary, relative to planish.toml.
    #[serde(default = "default_sources")]
    pub sources: Vec<String>,
}

/// The compiler family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compiler {
    /// clang and lld.
    #[default]
    Clang,
    /// GNU compilers.
    Gcc,
}

/// A line for the shell, or words.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(
    untagged,
    expecting = "expected a line for the shell (\"make\") or a list of words ([\"make\", \"-j2\"])"
)]
pub enum Command {
    /// Run by `sh -c`.
    Line(String),
    /// Program and arguments.
    Words(Vec<String>),
}

impl Command {
    /// Whether nothing would run.
    fn is_empty(&self) -> bool {
        match self {
            Command::Line(line) => line.trim().is_empty(),
            Command::Words(words) => words.is_empty(),
        }
    }

    /// The words that run it.
    pub(crate) fn words(&self) -> Vec<String> {
        match self {
            Command::Line(line) => vec!["sh".to_owned(), "-c".to_owned(), line.clone()],
            Command::Words(words) => words.clone(),
        }
    }
}

pub(crate) fn default_optimize() -> String {
    "-O2".into()
}

fn default_sources() -> Vec<String> {
    vec![".".into()]
}

/// Most bytes of a planish.toml; the parser needs a hundred times as many.
const MOST_BYTES: u64 = 1 << 20;

/// The text of a planish.toml.
///
/// # Errors
/// Where it cannot be read, is a device, or has over a megabyte.
pub(crate) fn read_text(path: &Path) -> Result<String, Error> {
    use std::io::{Error as Refused, ErrorKind, Read as _};
    use std::os::unix::fs::FileTypeExt as _;
    // A device gives text for ever; a pipe is fine.
    let read = || match std::fs::metadata(path)?.file_type() {
        kind if kind.is_char_device() || kind.is_block_device() => {
            Err(Refused::new(ErrorKind::InvalidInput, "not a regular file"))
        }
        _ => {
            let mut text = String::new();
            let read = std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text);
            // What is cut may end within a letter.
            if text.len() as u64 > MOST_BYTES
                || read.as_ref().is_ok_and(|&read| read as u64 > MOST_BYTES)
            {
                let why =
                    "more than 1 MiB, which no planish.toml has; `planish init` writes an example";
                return Err(Refused::new(ErrorKind::FileTooLarge, why));
            }
            read.map(|_| text)
        }
    };
    read().map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => Error::NoConfig { path: path.to_owned() },
        _ => Error::File { path: path.to_owned(), action: "cannot read", source },
    })
}

/// The tables of a planish.toml that `T` knows, when `check` has no objection; `path` is for
/// messages.
pub(crate) fn parse_checked<T: DeserializeOwned>(
    text: &str,
    path: &Path,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<T, Error> {
    let problem = |problem: String| Error::Config { path: path.to_owned(), problem };
    // The parser repeats the line, which may be the whole file.
    let told = |e: toml::de::Error| {
        crate::plain::plain(&e.to_string())
            .lines()
            .map(crate::bounded_log::shown)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let config: T = toml::from_str(text).map_err(|e| problem(told(e)))?;
    check(&config).map_err(problem)?;
    Ok(config)
}

impl Config {
    /// Reads and checks a file.
    pub fn read(path: &Path) -> Result<Config, Error> {
        Config::parse(&read_text(path)?, path)
    }

    /// Parses and checks text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Config, Error> {
        parse_checked(text, path, Config::check)
    }

    fn check(&self) -> Result<(), String> {
        if self.build.command.is_empty() {
            return Err("[build] command is empty".into());
        }
        if self.build.release.as_ref().is_some_and(Command::is_empty) {
            return Err("[build] release is empty; leave it out where the project has no release \
                        build of its own"
                .into());
        }
        let binary = Path::new(&self.build.binary);
        if binary.is_absolute() || self.build.binary.is_empty() || self.build.binary.contains("..")
        {
            return Err(format!(
                "[build] binary = {:?}: give the path below the directory $PLANISH_OUT that the \
                 build writes to",
                self.build.binary
            ));
        }
        crate::image_paths::check(&self.build.binary, &self.build.libraries)?;
        if self.build.thinlto && self.build.compiler == Compiler::Gcc {
            return Err("[build] thinlto = true is for compiler = \"clang\" only".into());
        }
        self.workload.check()?;
        self.evaluate.check()?;
        self.check_layouts()?;
        self.record.check()?;
        if let (Branches::Emulated, Some(line)) =
            (self.record.branches, self.workload.not_emulatable())
        {
            return Err(format!(
                "[record] branches = \"emulated\" is for commands that are {{bin}} with its \
                 arguments, without a server or a directory, since only the program itself is emulated; \
                 {line:?} is not: take \"auto\", \"software\" or \"hardware\""
            ));
        }
        self.optimize.check(&self.build)
    }

    /// Whether the programs can be measured in several layouts.
    pub fn can_be_in_layouts(&self) -> bool {
        self.no_layouts().is_none()
    }

    /// Why they cannot.
    fn no_layouts(&self) -> Option<&'static str> {
        let build = &self.build;
        let flags = [&build.optimize, &build.flags].map(|flags| flags.split_whitespace());
        let lto = || flags.into_iter().flatten().any(|flag| flag.starts_with("-flto"));
        match build.compiler {
            _ if !build.libraries.is_empty() => {
                Some("they are links of one program, and this project has libraries")
            }
            Compiler::Gcc if lto() => {
                Some("lld makes them, and it cannot read what gcc -flto writes")
            }
            Compiler::Clang | Compiler::Gcc => None,
        }
    }

    fn check_layouts(&self) -> Result<(), String> {
        match self.no_layouts().filter(|_| self.evaluate.layouts > 0) {
            None => Ok(()),
            Some(hindrance) => Err(format!(
                "[evaluate] layouts = {}: {hindrance}; leave the key out to measure the programs \
                 as built",
                self.evaluate.layouts
            )),
        }
    }

    /// Refuses `sources` and `inputs` that are not there, since what depends on them could never be made
    /// anew, and commands whose program is not there. `directory` is that of the file, `path` its name for messages.
    pub fn check_paths(&self, directory: &Path, path: &Path) -> Result<(), Error> {
        self.check_directory(directory)
            .map_err(|problem| Error::Config { path: path.to_owned(), problem })?;
        let lists = [
            ("[build] sources", &self.build.sources),
            ("[workload] inputs", &self.workload.inputs),
            ("[evaluate] inputs", &self.evaluate.inputs),
        ];
        for (key, names) in lists {
            if let Some(name) = names.iter().find(|name| !directory.join(name).exists()) {
                let problem = format!("{key}: there is no {name:?} in {}", directory.display());
                return Err(Error::Config { path: path.to_owned(), problem });
            }
        }
        let programs = std::env::var_os("PATH").unwrap_or_default();
        for (table, lines, around) in [
            ("[workload]", &self.workload.train, self.workload.around()),
            ("[evaluate]", &self.evaluate.command, self.evaluate.around()),
        ] {
            crate::startable::check(table, &lines.all(), &around, directory, &programs)
                .map_err(|problem| Error::Config { path: path.to_owned(), problem })?;
        }
        Ok(())
    }

    /// Refuses a directory whose name flags cannot hold.
    fn check_directory(&self, directory: &Path) -> Result<(), String> {
        let name = directory.to_string_lossy();
        let (what, way_out) = match self.build.compiler {
            Compiler::Clang if name.contains([',', '%']) => {
                ("a comma or a per cent sign, which clang and lld take for themselves", "")
            }
            _ if self.evaluate.layouts > 0 && crate::words::is_cut(&name) => (
                "a blank or a sign that shells take for themselves, and the links that [evaluate] layouts \
                 repeats are cut there",
                ", or leave that key out",
            ),
            _ => return Ok(()),
        };
        Err(format!("the path {name:?} has {what}; move or rename the directory{way_out}"))
    }

    /// The commented file that `planish init` writes.
    pub fn example() -> &'static str {
        include_str!("example.toml")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("planish.toml")).map_err(|e| e.to_string())
    }

    const SMALL: &str = "[build]\ncommand = 'make'\nbinary = 'app'\n[workload]\ntrain = '{bin} \
                         a'\n[evaluate]\ncommand = ['{bin} b', '{bin} c']\n";

    #[test]
    fn the_example_is_valid_and_says_its_defaults() {
        let example = parse(Config::example()).unwrap();
        let small = parse(SMALL).unwrap();
        assert_eq!(example.record, small.record);
        assert_eq!(example.optimize, small.optimize);
        assert_eq!(example.evaluate.rounds(), small.evaluate.rounds());
        assert_eq!(example.evaluate.layouts, small.evaluate.layouts);
        assert_eq!(example.build.sources, small.build.sources);
        assert_eq!(example.build.pages, small.build.pages);
        // Every key the file may have is in the example, commented out or not.
        for table in toml::Value::try_from(&small).unwrap().as_table().unwrap().values() {
            for key in table.as_table().unwrap().keys() {
                assert!(
                    Config::example().contains(&format!("{key} = ")),
                    "{key} is missing in the example"
                );
            }
        }
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_line_and_the_known_ones() {
        let message = parse(&SMALL.replace("binary", "binray")).unwrap_err();
        assert!(message.contains("planish.toml") && message.contains("binray"), "{message}");
        assert!(message.contains("line 3") && message.contains("`binary`"), "{message}");
    }

    #[test]
    fn sources_and_inputs_that_are_not_there_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = Path::new("planish.toml");
        let check =
            |text: &str| Config::parse(text, file).unwrap().check_paths(folder.path(), file);
        assert!(check(SMALL).is_ok());
        let wrong = SMALL.replace("[workload]", "sources = ['srx']\n[workload]");
        let message = check(&wrong).unwrap_err().to_string();
        assert!(message.contains("[build] sources: there is no \"srx\""), "{message}");
        let wrong = SMALL.replace("[evaluate]", "inputs = ['txain']\n[evaluate]");
        assert!(
            check(&wrong)
                .unwrap_err()
                .to_string()
                .contains("[workload] inputs: there is no \"txain\"")
        );
    }

    #[test]
    fn wrong_values_are_refused_with_the_way_out() {
        let wrong = |from: &str, to: &str| parse(&SMALL.replace(from, to)).unwrap_err();
        assert!(wrong("'app'", "'/tmp/app'").contains("$PLANISH_OUT"));
        let emulated = SMALL
            .replace("{bin} a", "sh run.sh {bin}")
            .replace("[evaluate]", "[record]\nbranches = 'emulated'\n[evaluate]");
        assert!(parse(&emulated).unwrap_err().contains("only the program itself is emulated"));
        assert!(wrong("{bin} a", "{bin} | cat").contains("needs a shell"));
        assert!(wrong("[evaluate]", "[evaluate]\nrounds = 3").contains("fewer than 6"));
        assert!(wrong("[evaluate]", "[evaluate]\nlayouts = 3").contains("fewer than 4"));
        let eight = SMALL.replace("command = [", "layouts = 8\ncommand = [");
        assert_eq!(parse(&eight).unwrap().evaluate.rounds(), 10);
        let of = |build: &str| parse(&eight.replace("[workload]", &format!("{build}\n[workload]")));
        let gcc = "compiler = 'gcc'\n[optimize]\nsteps = ['autofdo']";
        assert!(of(gcc).unwrap().can_be_in_layouts());
        let lto = gcc.replacen("\n", "\nflags = '-O2 -flto=auto'\n", 1);
        assert!(of(&lto).unwrap_err().contains("gcc -flto"));
        assert!(of("libraries = ['liba.so']").unwrap_err().contains("this project has libraries"));
        let record = |lines: &str| wrong("[evaluate]", &format!("[record]\n{lines}\n[evaluate]"));
        for (lines, expected) in [
            (
                "branches = 'emulated'\nbudget = 10",
                "[record] budget is for branches = \"software\"",
            ),
            ("branches = 'hardware'\nstop_by = 'clock'", "[record] stop_by is for"),
            ("branches = 'none'\nseconds = 5", "[record] seconds is for"),
            (
                "branches = 'software'\nemulate_below = 5",
                "[record] emulate_below is for branches = \"auto\"",
            ),
            ("period = 1000", "[record] period needs branches = "),
            ("branches = 'software'\nperiod = 1000\nbudget = 3", "exclude each other"),
            ("budget = 300", "per cent of CPU time"),
            ("seconds = -1", "[record] seconds: expected seconds"),
            ("stop_by = 'time'", "there is no `time`"),
        ] {
            assert!(record(lines).contains(expected), "{lines}: {}", record(lines));
        }
        let gcc = SMALL
            .replace("[workload]", "compiler = 'gcc'\n[record]\nsymbol_list = true\n[workload]");
        assert_eq!(parse(&gcc).unwrap().record.symbol_list, Some(true));
        let fine = "[record]\nbranches = 'software'\nbudget = 10\nstop_by = 'clock'\nseconds = \
                    0.5\n[evaluate]";
        let record = parse(&SMALL.replace("[evaluate]", fine)).unwrap().record;
        assert_eq!(
            (record.budget, record.stop_by, record.seconds),
            (Some(10.0), Some(StopBy::Clock), Some(0.5))
        );
        assert!(
            wrong("[workload]", "thinlto = true\ncompiler = 'gcc'\n[workload]").contains("clang")
        );
    }

    #[test]
    fn directories_that_flags_cannot_name_are_refused() {
        let said = |text: &str, directory: &str| {
            parse(text).unwrap().check_directory(Path::new(directory)).err().unwrap_or_default()
        };
        let clang = SMALL.replace("[workload]", "compiler = 'clang'\n[workload]");
        let gcc = SMALL.replace("[workload]", "compiler = 'gcc'\n[workload]");
        let links = "layouts = 8\n";
        assert!(said(&clang, "/src/a,b").contains("a comma"));
        assert!(said(&clang, "/src/100%").contains("per cent"));
        assert!(said(&(clang.clone() + links), "/my src").contains("leave that key out"));
        assert!(said(&(gcc.clone() + links), "/it's").contains("leave that key out"));
        for fine in
            [said(&gcc, "/src/a,b"), said(&clang, "/my src"), said(&(clang + links), "/src")]
        {
            assert_eq!(fine, "");
        }
    }
}
