//! Which requests measure programs, and tell what all steps found?

use super::Bolt;
use crate::call::{Call, Input, Output};
use crate::files::Measured;
use crate::plan::STATE_DIRECTORY;
use compare::layouts::archive_beside;
use std::path::{Path, PathBuf};

/// Measure programs against the first of them, on one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Rounds: every program runs once in each.
    pub rounds: u32,
    /// Random layouts of each program; 0: none.
    pub layouts: u32,
    /// How each program comes by its layouts; none for those that are measured as built alone.
    pub again: Vec<Option<Again>>,
    /// Whether links of an earlier run are removed.
    pub fresh_layouts: bool,
    /// Seed of the schedule.
    pub seed: u64,
    /// What decides.
    pub metric: String,
    /// Claims of one run of planish, which are corrected together.
    pub among: usize,
    /// Whether programs may print what the first does not.
    pub ignore_output: bool,
    /// The CPU that everything runs on, if it is to be one.
    pub cpu: Option<u32>,
    /// Whether fixed work on that CPU is timed during each run.
    pub gauge: bool,
    /// The programs, and whether the rest is worth measuring without it: it may be missing, and
    /// may fail.
    pub programs: Vec<(Input, bool)>,
    /// The libraries of the project that the programs run with, in all variants that must be there.
    pub libraries: Vec<Input>,
    /// Where each program finds its own libraries, from the program's directory.
    pub library_path: Vec<PathBuf>,
    /// The command, `{bin}` standing for each program.
    pub command: Vec<String>,
    /// Every run.
    pub runs: Output,
    /// What they show.
    pub result: Output,
}

/// How a program comes by its layouts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Again {
    /// What its link reads, where that does not lie beside the program.
    objects: Option<PathBuf>,
    /// What makes the program of a link of it, as a line for `sh -c`.
    after: Option<String>,
    /// What decides its layouts.
    reads: Vec<Input>,
}

impl Again {
    /// By its own link alone.
    pub fn link(program: &Measured) -> Again {
        let archive = Input::from(&archive_beside(&program.path));
        Again { objects: None, after: None, reads: needed(program, vec![archive]) }
    }

    /// By the link of what BOLT makes it of.
    pub fn of(program: &Measured, bolt: &Bolt) -> Again {
        let archive = archive_beside(bolt.binary.as_ref());
        let (line, reads) = bolt.line().unzip();
        let mut all = vec![Input::from(&archive)];
        all.extend(reads.unwrap_or_default());
        Again { objects: Some(archive), after: line, reads: needed(program, all) }
    }
}

/// What an optional step reads need not be there.
fn needed(program: &Measured, reads: Vec<Input>) -> Vec<Input> {
    if program.optional { Vec::new() } else { reads }
}

impl Compare {
    pub(super) fn call(&self) -> Call {
        let optional = self.programs.iter().filter(|(_, optional)| *optional);
        let optional = optional.map(|(program, _)| program.as_ref());
        let mut call = Call::planish(["compare"])
            .with_json(&self.result)
            .with_option("--rounds", self.rounds)
            .with_option("--seed", self.seed)
            .with_option("--metric", &self.metric)
            .with_option("--among", self.among)
            // A claim that decides the exit code is measured twice.
            .with("--confirm")
            .with_if(self.ignore_output, "--ignore-output")
            .with_all(self.cpu.map(|cpu| format!("--cpu={cpu}")))
            .with_if(self.gauge, "--gauge")
            .with("--raw")
            .with(&self.runs)
            .with("--resume-if-same")
            // One that is not there is named, too: the comparison says that it goes without it.
            .with_all(self.programs.iter().map(|(program, _)| program));
        for program in optional {
            let name = program.file_name().unwrap_or_default();
            call = call.with_option("--optional", name.to_string_lossy());
        }
        for folder in &self.library_path {
            call = call.with("--library-path").with(folder.as_path());
        }
        if self.layouts > 0 {
            // Programs that differ by a profile have hardly a function at equal places.
            call = call.with_option("--layouts", self.layouts);
            call = call.with_option("--layout-mode", "independent");
            for ((program, _), again) in self.programs.iter().zip(&self.again) {
                let name = program.as_ref().file_name().unwrap_or_default().to_string_lossy();
                match again {
                    None => call = call.with_option("--as-built", name),
                    Some(again) => {
                        if let Some(objects) = &again.objects {
                            let given = format!("{name}={}", objects.display());
                            call = call.with_option("--objects", given);
                        }
                        if let Some(line) = &again.after {
                            call = call.with_option("--after-link", format!("{name}={line}"));
                        }
                        call.reads.extend(again.reads.iter().cloned());
                    }
                }
            }
        }
        call = call.with("--").with_all(&self.command);
        call.reads.extend(self.libraries.iter().cloned());
        if self.layouts > 0 && self.fresh_layouts {
            call.fresh_directories.push(Path::new(STATE_DIRECTORY).join("layouts"));
        }
        call.goes_on.push(self.runs.as_ref().to_owned());
        call.negative_is_fine = true;
        call.interactive = true;
        call
    }
}

/// Collect what all steps found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The planish.toml.
    pub config: Input,
    /// For people.
    pub markdown: Output,
    /// For programs.
    pub json: Output,
    /// For people, to look around in.
    pub page: Output,
}

impl Report {
    pub(super) fn call(&self) -> Call {
        Call::planish(["report", "--collect"])
            .with(&self.config)
            .with("-o")
            .with(&self.markdown)
            .with("--json")
            .with(&self.json)
            .with("--page")
            .with(&self.page)
    }
}
