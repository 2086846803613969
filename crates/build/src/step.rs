//! What is a build step? A value that says everything about a process before there is one.

use crate::pages::Pages;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Which program a step runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Program {
    /// This planish itself.
    Planish,
    /// A program found through PATH.
    Named(String),
}

/// One step. All paths are relative to the directory of planish.toml.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// A short name, unique in its plan.
    pub name: String,
    /// The program.
    pub program: Program,
    /// Its arguments. An argument that equals an output is replaced by a name beside it while the
    /// step runs.
    pub arguments: Vec<String>,
    /// Variables added to the environment.
    pub environment: BTreeMap<String, String>,
    /// Files and directories whose content decides whether the step must run again.
    pub inputs: Vec<PathBuf>,
    /// Files below directories among the inputs that decide nothing: the configuration (its values
    /// are in the step). The step's own outputs are left out as well.
    #[serde(skip)]
    pub not_inputs: Vec<PathBuf>,
    /// Files the step makes.
    pub outputs: Vec<PathBuf>,
    /// The output that takes standard output, if one does.
    pub stdout: Option<PathBuf>,
    /// Directories emptied before the step runs.
    pub fresh_directories: Vec<PathBuf>,
    /// Files copied to outputs when the program has ended well: (made, output).
    pub collect: Vec<(PathBuf, PathBuf)>,
    /// The output that is a program, and how it is written so that its text can lie on superpages;
    /// absent where it is copied as it is.
    pub kept_program: Option<(PathBuf, Pages)>,
    /// Exit codes besides 0 that are no failure (1 is a negative finding).
    pub also_fine: Vec<i32>,
    /// True when the step draws its own progress on the terminal.
    pub interactive: bool,
    /// True when the rest is worth doing without this step's outputs.
    pub optional: bool,
    /// Inputs that optional steps make: an argument that is one of them is left out when there is
    /// no such file.
    pub not_there: Vec<PathBuf>,
    /// The file that the step's command is told to put the output of a recorded program into.
    #[serde(skip)]
    pub program_log: Option<PathBuf>,
    /// Scripts written before the step runs, that stand in the place of compilers.
    pub wrappers: Vec<Wrapper>,
}

/// A script that runs a compiler through `planish compiler` ([`crate::reuse`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wrapper {
    /// Where it lies.
    pub path: PathBuf,
    /// The compiler that it runs.
    pub compiler: String,
}

impl Step {
    /// A step of `program` with nothing but a name.
    pub fn new(name: impl Into<String>, program: Program) -> Step {
        Step {
            name: name.into(),
            program,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            inputs: Vec::new(),
            not_inputs: Vec::new(),
            outputs: Vec::new(),
            stdout: None,
            fresh_directories: Vec::new(),
            collect: Vec::new(),
            kept_program: None,
            also_fine: Vec::new(),
            interactive: false,
            optional: false,
            not_there: Vec::new(),
            program_log: None,
            wrappers: Vec::new(),
        }
    }

    /// A call of planish itself with these words, which reads and writes nothing yet.
    pub fn planish(name: impl Into<String>, words: &[&str]) -> Step {
        let mut step = Step::new(name, Program::Planish);
        step.arguments = words.iter().map(|&word| word.to_owned()).collect();
        step
    }

    /// How an output is written.
    pub(crate) fn pages_of(&self, output: &Path) -> Pages {
        let program = self.kept_program.as_ref().filter(|(kept, _)| kept == output);
        program.map_or(Pages::Off, |(_, pages)| *pages)
    }

    /// The command as a shell would take it, without the environment.
    pub fn command_line(&self) -> String {
        let program = match &self.program {
            Program::Planish => "planish",
            Program::Named(name) => name,
        };
        let words = std::iter::once(program).chain(self.arguments.iter().map(String::as_str));
        let line = words.map(quoted).collect::<Vec<_>>().join(" ");
        let mut line = line.replace(crate::around::PLANISH, "planish");
        if let Some(path) = &self.stdout {
            line.push_str(&format!(" > {}", quoted(&path.to_string_lossy())));
        }
        line
    }
}

/// A word as a shell takes it literally.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=,:+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Whether a step will run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// It will.
    Runs,
    /// It is up to date, but the step at this position (from 0) comes first and may change what it
    /// reads.
    RunsIfChanged(usize),
    /// It will not.
    UpToDate,
}

impl fmt::Display for Outlook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outlook::Runs => Ok(()),
            Outlook::RunsIfChanged(first) => {
                write!(f, " (after step {}, if its result is another)", first + 1)
            }
            Outlook::UpToDate => f.write_str(" (up to date)"),
        }
    }
}

/// Steps in the order they run; each may use outputs of the ones before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
}

impl Plan {
    /// What `--dry-run` prints, with what is known of the steps.
    pub fn describe(&self, outlook: &[Outlook]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, outlook);
        text
    }

    /// What is known of every step before anything runs, given which steps are up to date as things
    /// are.
    pub fn outlook(&self, up_to_date: &[bool]) -> Vec<Outlook> {
        let mut known: Vec<Outlook> = Vec::new();
        for (step, done) in self.steps.iter().zip(up_to_date) {
            let mut before = self.steps.iter().zip(&known).enumerate();
            let remade = before.find_map(|(number, (earlier, outlook))| {
                let made = |input: &PathBuf| {
                    earlier.outputs.contains(input) || earlier.fresh_directories.contains(input)
                };
                let read = step.inputs.iter().any(made);
                match outlook {
                    Outlook::Runs if read => Some(number),
                    Outlook::RunsIfChanged(first) if read => Some(*first),
                    _ => None,
                }
            });
            known.push(match remade {
                _ if !done => Outlook::Runs,
                Some(number) => Outlook::RunsIfChanged(number),
                None => Outlook::UpToDate,
            });
        }
        known
    }

    fn write(&self, f: &mut String, outlook: &[Outlook]) -> fmt::Result {
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(
                f,
                "# step {} of {}: {}{}",
                number + 1,
                self.steps.len(),
                step.name,
                outlook.get(number).copied().unwrap_or(Outlook::Runs)
            )?;
            for directory in &step.fresh_directories {
                writeln!(f, "rm -rf {0}; mkdir -p {0}", quoted(&directory.to_string_lossy()))?;
            }
            for Wrapper { path, compiler } in &step.wrappers {
                writeln!(f, "# {} runs {compiler} through `planish compiler`", path.display())?;
            }
            for (name, value) in &step.environment {
                writeln!(f, "export {name}={}", quoted(value))?;
            }
            writeln!(f, "{}", step.command_line())?;
            for (made, output) in &step.collect {
                let (made, kept) =
                    (quoted(&made.to_string_lossy()), quoted(&output.to_string_lossy()));
                writeln!(f, "{}", step.pages_of(output).command(&made, &kept))?;
            }
            let written = |(kept, _): &&(PathBuf, Pages)| {
                !step.collect.iter().any(|(_, output)| output == kept)
            };
            if let Some((kept, pages)) = step.kept_program.as_ref().filter(written) {
                let kept = quoted(&kept.to_string_lossy());
                writeln!(f, "{}", pages.command(&kept, &kept))?;
            }
            let list = |paths: &[PathBuf]| {
                paths.iter().map(|p| p.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
            };
            writeln!(f, "#   reads {}\n#   makes {}\n", list(&step.inputs), list(&step.outputs))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_step_makes_anew_is_not_called_up_to_date() {
        let step = |name: &str, input: &str, output: &str| {
            let mut step = Step::new(name, Program::Planish);
            (step.inputs, step.outputs) = (vec![input.into()], vec![output.into()]);
            step
        };
        let plan =
            Plan { steps: vec![step("a", "in", "x"), step("b", "x", "y"), step("c", "y", "z")] };
        let all = |done: [bool; 3]| plan.outlook(&done);
        let maybe = Outlook::RunsIfChanged(0);
        assert_eq!(all([false, true, true]), [Outlook::Runs, maybe, maybe]);
        assert_eq!(all([true, false, false]), [Outlook::UpToDate, Outlook::Runs, Outlook::Runs]);
    }

    #[test]
    fn a_command_line_can_be_pasted_into_a_shell() {
        let mut step = Step::new("x", Program::Named("sh".into()));
        step.arguments = vec!["-c".into(), "echo it's".into(), "".into()];
        step.stdout = Some("out file".into());
        assert_eq!(step.command_line(), r"sh -c 'echo it'\''s' '' > 'out file'");
    }
}
