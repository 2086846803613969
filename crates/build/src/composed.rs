//! Which configuration is meant, where a command line says some of it or all of it?
//!
//! It is written into the state directory, so that every step of the plan reads the same: a file
//! there speaks for the directory above.

use crate::plan::STATE_DIRECTORY;
use crate::recognise::{Kind, Recognised, Wish, Work, recognise};
use crate::{Config, Error};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// What a command line says of a project.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// The build system to ask.
    pub kind: Option<Kind>,
    /// The build command, where no build system is asked.
    pub build: Option<String>,
    /// The program: by its name, or by its path below `$PLANISH_OUT`.
    pub program: Option<String>,
    /// Training and evaluation.
    pub work: Work,
    /// `TABLE.KEY=VALUE`.
    pub settings: Vec<String>,
}

impl Said {
    /// Whether it describes a project by itself, without a file.
    pub fn describes(&self) -> bool {
        self.kind.is_some() || self.build.is_some()
    }

    /// What the files of a directory, and what is said, make of it.
    ///
    /// # Errors
    /// Where nothing is recognised, or no program.
    pub fn recognise(&self, directory: &Path) -> Result<Recognised, Error> {
        let program = self.program.as_deref();
        let Some(command) = &self.build else {
            return recognise(directory, &Wish { kind: self.kind, program });
        };
        let Some(binary) = program else {
            return Err(Error::Setting {
                setting: "build.command".into(),
                problem: "--build needs --program PATH, the program that the command makes below \
                          $PLANISH_OUT"
                    .into(),
            });
        };
        Ok(Recognised {
            kind: Kind::Make,
            command: command.clone(),
            release: None,
            optimize: None,
            binary: binary.to_owned(),
            program: binary.rsplit('/').next().unwrap_or(binary).to_owned(),
            others: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// A recognised project's text with the settings that are said; as it is where there are none.
    ///
    /// # Errors
    /// Where a setting is none.
    pub fn with_settings(&self, text: &str) -> Result<String, Error> {
        match self.settings.as_slice() {
            [] => Ok(text.to_owned()),
            settings => {
                merged(table(text, Path::new("planish.toml"))?, &Work::default(), settings, true)
            }
        }
    }

    /// The configuration that is meant: `file` as it is where nothing is said; else a copy of it,
    /// or of what is recognised, with all that is said. Nothing is written.
    ///
    /// # Errors
    /// Where the file cannot be read, nothing is recognised, or a setting is none.
    pub fn meant(&self, file: &Path) -> Result<Meant, Error> {
        let more = !self.work.train.is_empty() || !self.work.evaluate.is_empty();
        let file = if file.is_dir() { file.join("planish.toml") } else { file.to_owned() };
        if let (Some(program), false) = (&self.program, self.describes()) {
            return Err(Error::Setting {
                setting: format!("build.binary={program}"),
                problem: format!(
                    "--program goes with --cargo, --cmake and the like; which program {} builds is said by its \
                     [build] binary (and command): change them there, or by --set",
                    file.display()
                ),
            });
        }
        if !self.describes() && self.settings.is_empty() && !more {
            return Ok(Meant {
                config: Config::read(&file)?,
                said_in: file.clone(),
                path: file,
                text: None,
                notes: Vec::new(),
            });
        }
        let directory = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let mut notes = Vec::new();
        let text = if self.describes() {
            if self.work.train.is_empty() {
                return Err(Error::Setting {
                    setting: "workload.train".into(),
                    problem: "say what the program is recorded on: --train '{bin} ARGUMENTS' (and \
                              --evaluate '{bin} OTHER ARGUMENTS', what it is measured on)"
                        .into(),
                });
            }
            let found = self.recognise(&directory)?;
            notes.extend(found.notes.clone());
            if file.is_file() {
                notes.push(format!(
                    "{} is not read, since the command line describes the project",
                    file.display()
                ));
            }
            if let (None, false) = (&self.program, found.others.is_empty()) {
                notes.push(format!(
                    "the project makes several programs; this is about {}. --program NAME takes another: {}",
                    found.program,
                    some_of(&found.others)
                ));
            }
            found.toml(&self.work)
        } else {
            crate::config::read_text(&file)?
        };
        let work = if self.describes() { Work::default() } else { self.work.clone() };
        // What is wrong is said of what the user named.
        let said_in = if self.describes() { PathBuf::from("the command line") } else { file };
        let with = |settings: &[String]| {
            merged(table(&text, &said_in)?, &work, settings, self.describes())
        };
        let parse = |text: &str| Config::parse(text, &said_in);
        let text = with(&self.settings)?;
        let config = parse(&text).or_else(|error| {
            parse(&with(&[])?)?;
            let wrong = (1..=self.settings.len()).find_map(|count| {
                let some = self.settings.get(..count)?;
                let error = parse(&with(some).ok()?).err()?;
                Some(Error::Setting { setting: some.last()?.clone(), problem: bare(&error) })
            });
            Err(wrong.unwrap_or(error))
        })?;
        let path = directory.join(STATE_DIRECTORY).join("planish.toml");
        Ok(Meant { config, path, said_in, text: Some(text), notes })
    }
}

/// What is wrong with a configuration, without the place in a text that the user has not written.
fn bare(error: &Error) -> String {
    let said = match error {
        Error::Config { problem, .. } => problem.clone(),
        other => other.to_string(),
    };
    let lines: Vec<&str> = said.trim_end().lines().collect();
    let marked = lines.iter().rposition(|line| line.trim_start().starts_with("| "));
    lines.get(marked.map_or(0, |at| at + 1)..).unwrap_or_default().join(" ")
}

/// A few names, and how many more there are.
fn some_of(names: &[String]) -> String {
    const SHOWN: usize = 8;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A configuration, and where every step of its plan reads it.
#[derive(Clone, Debug)]
pub struct Meant {
    /// What it says.
    pub config: Config,
    /// Where it lies, or will.
    pub path: PathBuf,
    /// Who says it, as messages name it: the user's file, or the command line.
    pub said_in: PathBuf,
    /// Its text, where it is not there yet.
    pub text: Option<String>,
    /// What the user should know of how it came about.
    pub notes: Vec<String>,
}

impl Meant {
    /// Puts it where the steps read it.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&self) -> Result<(), Error> {
        let Some(text) = &self.text else { return Ok(()) };
        let failed =
            |source| Error::File { path: self.path.clone(), action: "cannot write", source };
        if let Some(directory) = self.path.parent() {
            std::fs::create_dir_all(directory).map_err(failed)?;
        }
        beside::write(&self.path, text).map_err(failed)
    }
}

/// The tables of a configuration's text; `path` is for messages.
fn table(text: &str, path: &Path) -> Result<Table, Error> {
    let wrong =
        |error: toml::de::Error| Error::Config { path: path.into(), problem: error.to_string() };
    text.parse().map_err(wrong)
}

/// A configuration's text with other work and other settings. Steps that only clang can take, and
/// that nobody asked for, are left out of a `recognised` one for another compiler.
fn merged(
    mut table: Table,
    work: &Work,
    settings: &[String],
    recognised: bool,
) -> Result<String, Error> {
    let failed =
        |setting: &str, problem: String| Error::Setting { setting: setting.into(), problem };
    let lines = |lines: &[String]| Value::Array(lines.iter().cloned().map(Value::String).collect());
    for (name, key, said) in
        [("workload", "train", &work.train), ("evaluate", "command", &work.evaluate)]
    {
        if !said.is_empty() {
            set(&mut table, name, key, lines(said)).map_err(|problem| failed(name, problem))?;
        }
    }
    for setting in settings {
        apply(&mut table, setting).map_err(|problem| failed(setting, problem))?;
    }
    let asked = settings.iter().filter_map(|setting| setting.split_once('='));
    let asked = asked.into_iter().any(|(path, _)| path.trim() == "optimize.steps");
    let compiler = table.get("build").and_then(|build| build.get("compiler"));
    let other = compiler.is_some_and(|compiler| compiler.as_str() != Some("clang"));
    let optimize = table.get_mut("optimize").and_then(Value::as_table_mut);
    if let Some(optimize) = optimize.filter(|_| recognised && other && !asked) {
        optimize.remove("steps");
    }
    toml::to_string(&table).map_err(|error| failed(&settings.join(" "), error.to_string()))
}

/// The directory that a configuration speaks for, and its name there.
pub(crate) fn place(full: &Path) -> Option<(&Path, PathBuf)> {
    let (directory, name) = (full.parent()?, full.file_name()?);
    match directory.file_name() {
        Some(own) if own == STATE_DIRECTORY => {
            Some((directory.parent()?, Path::new(own).join(name)))
        }
        _ => Some((directory, PathBuf::from(name))),
    }
}

/// Applies one `TABLE.KEY=VALUE`. What is no value of TOML is a string.
fn apply(table: &mut Table, setting: &str) -> Result<(), String> {
    let form = "expected TABLE.KEY=VALUE, as in evaluate.rounds=60";
    let (path, value) = setting.split_once('=').ok_or(form)?;
    let (name, key) = path.trim().split_once('.').ok_or(form)?;
    if name.is_empty() || key.is_empty() || key.contains('.') {
        return Err(form.into());
    }
    let parsed = format!("value = {value}").parse::<Table>().ok();
    let parsed = parsed.filter(|table| table.len() == 1).and_then(|mut t| t.remove("value"));
    set(table, name, key, parsed.unwrap_or_else(|| Value::String(value.to_owned())))
}

fn set(table: &mut Table, name: &str, key: &str, value: Value) -> Result<(), String> {
    let entry = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
    let Some(inside) = entry.as_table_mut() else {
        return Err(format!("{name} is no table with one value a key"));
    };
    inside.insert(key.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Compiler;

    fn said(settings: &[&str]) -> Said {
        Said {
            settings: settings.iter().map(|&setting| setting.to_owned()).collect(),
            ..Said::default()
        }
    }

    const FILE: &str = "[build]\ncommand = 'make'\nbinary = 'app'\n[workload]\ntrain = '{bin} \
                        a'\n[evaluate]\ncommand = '{bin} b'\n";

    #[test]
    fn settings_replace_what_the_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("planish.toml");
        std::fs::write(&file, FILE).unwrap();
        assert_eq!(said(&[]).meant(&file).unwrap().path, file);
        let all = ["evaluate.rounds=12", "build.compiler=gcc", "optimize.also=[\"pgo\"]"];
        let with = Said {
            work: Work { train: vec!["{bin} c".into()], evaluate: Vec::new() },
            ..said(&all)
        };
        let made = with.meant(&file).unwrap();
        assert_eq!(made.path, folder.path().join(".planish/planish.toml"));
        assert!(!made.path.exists(), "a dry run leaves nothing behind");
        made.write().unwrap();
        let config = Config::read(&made.path).unwrap();
        assert_eq!(config, made.config);
        assert_eq!((config.evaluate.rounds, config.build.compiler), (Some(12), Compiler::Gcc));
        assert_eq!(config.workload.train.all(), ["{bin} c"]);
        assert_eq!(config.evaluate.command.all(), ["{bin} b"]);
        assert_eq!(place(&made.path).unwrap().0, folder.path());
    }

    #[test]
    fn a_program_of_a_described_project_is_not_named_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("planish.toml");
        std::fs::write(&file, FILE).unwrap();
        let other = Said { program: Some("beta".into()), ..Said::default() };
        assert!(other.meant(&file).unwrap_err().to_string().contains("[build] binary"));
        let work = Work { train: vec!["{bin}".into()], evaluate: Vec::new() };
        let build = Some("make".to_owned());
        let notes = Said { build, work, ..other }.meant(&file).unwrap().notes.join(" ");
        assert!(notes.contains("planish.toml is not read"), "{notes}");
    }

    #[test]
    fn what_is_no_setting_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("planish.toml");
        std::fs::write(&file, FILE).unwrap();
        let refused = |setting: &str| said(&[setting]).meant(&file).unwrap_err().to_string();
        assert!(refused("rounds=3").contains("TABLE.KEY=VALUE"));
        assert!(refused("evaluate.rounds").contains("TABLE.KEY=VALUE"));
        assert!(refused("evaluate.rouds=30").contains("rouds"), "an unknown key is named");
        assert!(refused("evaluate.rounds=few").contains("rounds"));
        let all = ["evaluate.seed=2", "evaluate.rouds=30", "evaluate.rounds=3"];
        let said = said(&all).meant(&file).unwrap_err().to_string();
        assert!(said.contains("evaluate.rouds=30") && said.contains("unknown field"), "{said}");
        assert!(!said.contains("line") && !said.contains("seed=2"), "{said}");
        std::fs::write(&file, "[build").unwrap();
        let broken = refused("evaluate.rounds=9");
        assert!(broken.contains("planish.toml") && !broken.contains("--set"), "{broken}");
    }

    #[test]
    fn a_command_and_a_program_need_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("planish.toml");
        let mut wanted = Said { build: Some("./build.sh".into()), ..Said::default() };
        assert!(wanted.meant(&file).unwrap_err().to_string().contains("--train"));
        wanted.work.train.push("{bin} a".into());
        assert!(wanted.meant(&file).unwrap_err().to_string().contains("--program"));
        wanted.program = Some("bin/app".into());
        let config = wanted.meant(&file).unwrap().config;
        assert_eq!(config.build.binary, "bin/app");
        assert_eq!(config.evaluate.command.all(), ["{bin} a"]);
        wanted.work.train = vec!["{bin} 'a".into()];
        let wrong = wanted.meant(&file).unwrap_err().to_string();
        assert!(wrong.starts_with("the command line: [workload]"), "no file says it: {wrong}");
    }

    #[test]
    fn a_layout_that_nobody_asked_for_is_left_out_with_gcc() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("Makefile"), "all: app\napp:\n\ttouch app\n").unwrap();
        let meant = |settings: &[&str]| {
            let work = Work { train: vec!["{bin}".into()], evaluate: Vec::new() };
            Said { kind: Some(Kind::Make), work, ..said(settings) }
                .meant(&folder.path().join("planish.toml"))
        };
        assert!(meant(&[]).unwrap().config.optimize.lays_out());
        assert!(!meant(&["build.compiler=gcc"]).unwrap().config.optimize.lays_out());
        let asked = ["build.compiler=gcc", "optimize.steps=[\"autofdo\", \"propeller\"]"];
        assert!(meant(&asked).unwrap_err().to_string().contains("propeller"));
    }
}
