//! What is a build step? A request with a name, and what is known of it before it runs.

use crate::call::Call;
use crate::request::Request;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// One step. All paths are relative to the directory of planish.toml.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// A short name, unique in its plan.
    pub name: String,
    /// What it asks for; what it reads and makes follows from that.
    pub request: Request,
    /// Files and directories besides those of the request whose content decides whether the step
    /// must run again.
    pub besides: Vec<PathBuf>,
    /// Files below directories among the inputs that decide nothing: the configuration (its values
    /// are in the request). The step's own outputs are left out as well.
    pub not_inputs: Vec<PathBuf>,
    /// What may be files that a command of the user's names. Where they are, and the commands do not
    /// write them, their content decides, too.
    pub named: Vec<PathBuf>,
    /// True when the rest is worth doing without this step's outputs.
    pub optional: bool,
}

impl Step {
    /// A step that reads nothing besides what its request names.
    pub fn new(name: impl Into<String>, request: Request) -> Step {
        let name = name.into();
        let (besides, not_inputs, named) = (Vec::new(), Vec::new(), Vec::new());
        Step { name, request, besides, not_inputs, named, optional: false }
    }

    /// The same, for commands of the user's that run in `folder`.
    pub(crate) fn naming(mut self, commands: &[Vec<String>], folder: Option<&str>) -> Step {
        for word in commands.iter().flatten() {
            // `--input=FILE` names a file, too.
            let value = word.split_once('=').map(|(_, value)| value);
            for name in [Some(word.as_str()), value].into_iter().flatten() {
                let path = Path::new(folder.unwrap_or("")).join(name);
                if !name.is_empty() && !name.contains("{bin}") && !self.named.contains(&path) {
                    self.named.push(path);
                }
            }
        }
        self
    }

    /// The same, which reads these too.
    pub(crate) fn besides(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Step {
        self.besides.extend(paths);
        self
    }

    /// The same, which the rest can do without.
    pub(crate) fn optional(mut self) -> Step {
        self.optional = true;
        self
    }

    /// The request as a process.
    pub fn call(&self) -> Call {
        self.request.call()
    }

    /// Files and directories whose content decides whether the step must run again.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> = self.call().inputs().into_iter().map(Path::to_owned).collect();
        all.extend(self.besides.iter().cloned());
        all
    }

    /// Files the step makes.
    pub fn outputs(&self) -> Vec<PathBuf> {
        self.call().outputs().into_iter().map(Path::to_owned).collect()
    }

    /// What other steps may read of it: its outputs, and the directories that it fills.
    pub(crate) fn made(&self) -> Vec<PathBuf> {
        let mut all = self.outputs();
        all.extend(self.call().fresh_directories);
        all
    }

    /// The command as a shell would take it, without the environment.
    pub fn command_line(&self) -> String {
        self.call().command_line()
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
                write!(f, " (only if step {} gives another result)", first + 1)
            }
            Outlook::UpToDate => f.write_str(" (up to date)"),
        }
    }
}

/// Steps in the order they run; each may use outputs of the ones before.
#[derive(Clone, Debug, Default, PartialEq)]
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
        let made: Vec<Vec<PathBuf>> = self.steps.iter().map(Step::made).collect();
        for (step, done) in self.steps.iter().zip(up_to_date) {
            let inputs = step.inputs();
            let mut before = made.iter().zip(&known).enumerate();
            let remade = before.find_map(|(number, (made, outlook))| {
                let read = inputs.iter().any(|input| made.contains(input));
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
            step.call().describe(f)?;
            let list = |paths: &[PathBuf]| {
                paths.iter().map(|p| p.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
            };
            writeln!(
                f,
                "#   reads {}\n#   makes {}\n",
                list(&step.inputs()),
                list(&step.outputs())
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Input, Output};
    use crate::request::Aggregate;

    #[test]
    fn what_an_earlier_step_makes_anew_is_not_called_up_to_date() {
        let step = |name: &str, input: &str, output: &str| {
            let (recordings, counts) = (vec![Input::from(input)], Output::from(output));
            let (binary, found) = (Input::from("app"), Output::from("found"));
            let (libraries, weights) = Default::default();
            let request =
                Aggregate { recordings, binary, libraries, weights, paths: false, counts, found };
            Step::new(name, Request::Aggregate(request))
        };
        let plan =
            Plan { steps: vec![step("a", "in", "x"), step("b", "x", "y"), step("c", "y", "z")] };
        let all = |done: [bool; 3]| plan.outlook(&done);
        let maybe = Outlook::RunsIfChanged(0);
        assert_eq!(all([false, true, true]), [Outlook::Runs, maybe, maybe]);
        assert_eq!(all([true, false, false]), [Outlook::UpToDate, Outlook::Runs, Outlook::Runs]);
    }
}
