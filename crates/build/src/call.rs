//! What is a request as a process: which program, which words, and which files go in and come out?
//!
//! Files are words of their own kinds, so nothing has to look for them in strings: what a step
//! reads and makes is what its words say.

use crate::around::PLANISH;
use crate::described::Described;
use crate::pages::Pages;
use crate::request::LibraryRule;
use crate::words::quoted;
use serde::Serialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Which program a call runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Program {
    /// This planish itself.
    Planish,
    /// A program found through PATH.
    Named(String),
}

/// A file or directory whose content decides what a request makes; relative to the directory of
/// planish.toml, or absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input(PathBuf);

/// A file that a request makes; relative to the directory of planish.toml, or absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Output(PathBuf);

impl<P: AsRef<Path> + ?Sized> From<&P> for Input {
    fn from(path: &P) -> Input {
        Input(path.as_ref().to_owned())
    }
}

impl<P: AsRef<Path> + ?Sized> From<&P> for Output {
    fn from(path: &P) -> Output {
        Output(path.as_ref().to_owned())
    }
}

impl AsRef<Path> for Input {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for Output {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

/// A word of a command line, or where its standard output goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Word {
    /// A word that names no file of the plan.
    Plain(String),
    /// A path that is neither read nor made: a prefix, a log, a directory to work in.
    Path(PathBuf),
    /// An input.
    Input(Input),
    /// A word that has an input's name somewhere in it.
    Naming(String, Input),
    /// An output that the program makes under this name.
    Output(Output),
    /// No word: the output that takes standard output.
    Stdout(Output),
}

impl Word {
    /// As the program gets it; none for [`Word::Stdout`].
    fn argument(&self) -> Option<OsString> {
        Some(match self {
            Word::Plain(text) | Word::Naming(text, _) => text.into(),
            Word::Path(path) => path.into(),
            Word::Input(Input(path)) => path.into(),
            Word::Output(Output(path)) => path.into(),
            Word::Stdout(_) => return None,
        })
    }

    fn input(&self) -> Option<&Input> {
        match self {
            Word::Input(input) | Word::Naming(_, input) => Some(input),
            _ => None,
        }
    }

    fn output(&self) -> Option<&Output> {
        match self {
            Word::Output(output) | Word::Stdout(output) => Some(output),
            _ => None,
        }
    }
}

impl From<&str> for Word {
    fn from(text: &str) -> Word {
        Word::Plain(text.to_owned())
    }
}

impl From<String> for Word {
    fn from(text: String) -> Word {
        Word::Plain(text)
    }
}

impl From<&String> for Word {
    fn from(text: &String) -> Word {
        Word::Plain(text.clone())
    }
}

impl From<&Path> for Word {
    fn from(path: &Path) -> Word {
        Word::Path(path.to_owned())
    }
}

impl From<&Input> for Word {
    fn from(input: &Input) -> Word {
        Word::Input(input.clone())
    }
}

impl From<&Output> for Word {
    fn from(output: &Output) -> Word {
        Word::Output(output.clone())
    }
}

/// A script that runs a compiler through `planish compiler` ([`crate::reuse`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrapper {
    /// Where it lies.
    pub path: PathBuf,
    /// The compiler that it runs, with the arguments that come first.
    pub compiler: Vec<String>,
}

/// A process before it is one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Call {
    /// The program.
    pub program: Program,
    /// Its arguments, and where its standard output goes.
    pub words: Vec<Word>,
    /// Variables added to the environment.
    pub environment: BTreeMap<String, String>,
    /// Inputs that no word names.
    pub reads: Vec<Input>,
    /// Directories emptied before it runs.
    pub fresh_directories: Vec<PathBuf>,
    /// Files by which the program goes on where an earlier run of it was interrupted: they stay, also
    /// when it fails, as long as it is made from the same.
    pub goes_on: Vec<PathBuf>,
    /// Files copied to outputs when the program has ended well: (made, output).
    pub collect: Vec<(PathBuf, Output)>,
    /// What of that is kept only if it is of the linked program ([`crate::reuse::link::made`]), else an
    /// empty file.
    pub may_lack: Vec<PathBuf>,
    /// The output that is a program, and how it is written so that its text can lie on superpages;
    /// absent where it is copied as it is.
    pub kept_program: Option<(Output, Pages)>,
    /// The program that the build leaves, and which libraries of the same build it may run with.
    pub linked_program: Option<(PathBuf, LibraryRule)>,
    /// What that program must say of itself.
    pub described: Described,
    /// Scripts written before it runs, that stand in the place of compilers.
    pub wrappers: Vec<Wrapper>,
    /// The file that the command is told to put the output of a recorded program into.
    pub program_log: Option<PathBuf>,
    /// True where exit codes 1 and 4, a finding that is negative or undecided, are no failure.
    pub negative_is_fine: bool,
    /// True when it draws its own progress on the terminal.
    pub interactive: bool,
}

impl Call {
    /// A call of a program without words.
    pub fn new(program: Program) -> Call {
        Call {
            program,
            words: Vec::new(),
            environment: BTreeMap::new(),
            reads: Vec::new(),
            fresh_directories: Vec::new(),
            goes_on: Vec::new(),
            collect: Vec::new(),
            may_lack: Vec::new(),
            kept_program: None,
            linked_program: None,
            described: Described::default(),
            wrappers: Vec::new(),
            program_log: None,
            negative_is_fine: false,
            interactive: false,
        }
    }

    /// A call of planish itself: the words of its command.
    pub(crate) fn planish<const N: usize>(words: [&str; N]) -> Call {
        Call::new(Program::Planish).with_all(words)
    }

    /// A call of a program found through PATH.
    pub(crate) fn named(program: &str) -> Call {
        Call::new(Program::Named(program.to_owned()))
    }

    /// The same with a word more.
    pub(crate) fn with(mut self, word: impl Into<Word>) -> Call {
        self.words.push(word.into());
        self
    }

    /// The same with words more.
    pub(crate) fn with_all<W: Into<Word>>(mut self, words: impl IntoIterator<Item = W>) -> Call {
        self.words.extend(words.into_iter().map(Into::into));
        self
    }

    /// The same with a word more where that is wanted.
    pub(crate) fn with_if(self, wanted: bool, word: &str) -> Call {
        if wanted { self.with(word) } else { self }
    }

    /// The same with an option and its value, two words.
    pub(crate) fn with_option(self, key: &str, value: impl fmt::Display) -> Call {
        self.with(key).with(value.to_string())
    }

    /// The same with the result as JSON on standard output, which goes to `output`.
    pub(crate) fn with_json(self, output: &Output) -> Call {
        self.with_all(["--format", "json"]).with(Word::Stdout(output.clone()))
    }

    /// The same, whose output `program` is written so that its text can lie on superpages.
    pub(crate) fn with_pages(mut self, program: &Output, pages: Pages) -> Call {
        self.kept_program = (pages != Pages::Off).then(|| (program.clone(), pages));
        self
    }

    /// The same with a file for what a recorded program prints.
    pub(crate) fn with_program_output(mut self, log: &Path) -> Call {
        self.program_log = Some(log.to_owned());
        self.with("--program-output").with(log)
    }

    /// Everything it reads, each once.
    pub fn inputs(&self) -> Vec<&Path> {
        let mut all: Vec<&Path> = Vec::new();
        for input in self.reads.iter().chain(self.words.iter().filter_map(Word::input)) {
            if !all.contains(&input.as_ref()) {
                all.push(input.as_ref());
            }
        }
        all
    }

    /// Everything it makes.
    pub fn outputs(&self) -> Vec<&Path> {
        let collected = self.collect.iter().map(|(_, output)| output);
        let named = self.words.iter().filter_map(Word::output);
        collected.chain(named).map(AsRef::as_ref).collect()
    }

    /// The outputs that the program makes by itself, under their names.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Path> {
        self.words.iter().filter_map(|word| match word {
            Word::Output(Output(path)) => Some(path.as_path()),
            _ => None,
        })
    }

    /// Those whose places are free before it runs.
    pub(crate) fn written_anew(&self) -> impl Iterator<Item = &Path> {
        self.written().filter(|path| !self.goes_on.iter().any(|kept| kept == path))
    }

    /// The output that takes standard output, if one does.
    pub fn stdout(&self) -> Option<&Path> {
        self.words.iter().find_map(|word| match word {
            Word::Stdout(Output(path)) => Some(path.as_path()),
            _ => None,
        })
    }

    /// The arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        self.words.iter().filter_map(Word::argument).collect()
    }

    /// How an output is written.
    pub(crate) fn pages_of(&self, output: &Output) -> Pages {
        let program = self.kept_program.as_ref().filter(|(kept, _)| kept == output);
        program.map_or(Pages::Off, |(_, pages)| *pages)
    }

    /// The program that it makes by itself, without being collected, and how it is then written.
    pub(crate) fn rewritten(&self) -> Option<&(Output, Pages)> {
        let collected = |kept: &Output| self.collect.iter().any(|(_, output)| output == kept);
        self.kept_program.as_ref().filter(|(kept, _)| !collected(kept))
    }

    /// The command as a shell would take it, without the environment.
    pub fn command_line(&self) -> String {
        let program = match &self.program {
            Program::Planish => "planish",
            Program::Named(name) => name,
        };
        let mut line = quoted(program);
        for word in self.arguments() {
            line.push(' ');
            line.push_str(&quoted(&word.to_string_lossy()));
        }
        if let Some(path) = self.stdout() {
            line.push_str(&format!(" > {}", quoted_path(path)));
        }
        line.replace(PLANISH, "planish")
    }

    /// All that a shell would do, line by line: what `--dry-run` prints.
    pub(crate) fn describe(&self, f: &mut String) -> fmt::Result {
        for directory in &self.fresh_directories {
            writeln!(f, "rm -rf {0}; mkdir -p {0}", quoted_path(directory))?;
        }
        for Wrapper { path, compiler } in &self.wrappers {
            let compiler = compiler.join(" ");
            writeln!(f, "# {} runs {compiler} through `planish compiler`", path.display())?;
        }
        for (name, value) in &self.environment {
            writeln!(f, "export {name}={}", quoted(value))?;
        }
        writeln!(f, "{}", self.command_line())?;
        for (made, output) in &self.collect {
            let kept = quoted_path(output.as_ref());
            let line = self.pages_of(output).command(&quoted_path(made), &kept);
            match &self.linked_program {
                Some((program, _)) if self.may_lack.contains(made) => {
                    let test = crate::reuse::link::test(made, program);
                    writeln!(f, "if {test}; then {line}; else : > {kept}; fi")?;
                }
                _ => writeln!(f, "{line}")?,
            }
        }
        if let Some((kept, pages)) = self.rewritten() {
            let kept = quoted_path(kept.as_ref());
            writeln!(f, "{}", pages.command(&kept, &kept))?;
        }
        Ok(())
    }
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let call = Call::named("sh")
            .with_all(["-c", "echo it's", ""])
            .with(Word::Stdout(Output::from("out file")));
        assert_eq!(call.command_line(), r"sh -c 'echo it'\''s' '' > 'out file'");
    }

    #[test]
    fn what_goes_in_and_out_is_told_by_the_kinds_of_words() {
        let (a, b) = (Input::from("a"), Input::from("b"));
        let mut call = Call::planish(["compare"])
            .with("a")
            .with(&a)
            .with(&b)
            .with(Word::Naming("x=b".into(), b.clone()))
            .with(Path::new("prefix"))
            .with("-o")
            .with(&Output::from("made"))
            .with_json(&Output::from("told"));
        call.reads = vec![Input::from("source"), a.clone()];
        call.collect = vec![("build/app".into(), Output::from("app"))];
        assert_eq!(call.inputs(), ["source", "a", "b"].map(Path::new));
        assert_eq!(call.outputs(), ["app", "made", "told"].map(Path::new));
        assert_eq!(call.written().collect::<Vec<_>>(), [Path::new("made")]);
        let line = "planish compare a a b x=b prefix -o made --format json > told";
        assert_eq!(call.command_line(), line);
        assert_eq!(
            call.arguments().join(std::ffi::OsStr::new(" ")),
            "compare a a b x=b prefix -o made --format json"
        );
    }
}
