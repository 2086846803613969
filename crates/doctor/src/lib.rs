//! What can this machine do, what can these binaries do, and what is the next step where they
//! cannot?
//!
//! Everything is tried rather than guessed: events are opened, compilers compile an empty function
//! with the flag in question, files are read by the same crate that later reads them. Nothing is
//! changed and nothing needs privilege.
//!
//! The cast: [`machine`] asks kernel and CPU, [`tools`] asks compilers, linkers and helpers,
//! [`binary`] asks each file. Each returns [`Finding`]s, which [`examine`] puts together.

mod binary;
mod machine;
mod sys;
mod tools;

use serde::Serialize;
use std::path::PathBuf;

/// How good a finding is for the main job: record, profile, rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// There and usable.
    Good,
    /// Usable with a restriction, or good to have and absent.
    Limited,
    /// Absent, and without it the main job cannot be done.
    Missing,
}

/// One thing the doctor looked at.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// What it belongs to: `machine`, `tools`, or the path of a file.
    pub area: String,
    /// What was looked at.
    pub subject: &'static str,
    /// How good it is.
    pub state: State,
    /// What was found, with numbers and versions.
    pub found: String,
    /// What to do about it; absent when nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Finding {
    fn new(subject: &'static str, state: State, found: impl Into<String>) -> Finding {
        Finding { area: String::new(), subject, state, found: found.into(), next: None }
    }

    /// A finding that needs no step.
    pub fn good(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding::new(subject, State::Good, found)
    }

    /// A finding that restricts, with the step that lifts the restriction.
    pub fn limited(
        subject: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding { next: Some(next.into()), ..Finding::new(subject, State::Limited, found) }
    }

    /// A finding that stops the main job, with the step that cures it.
    pub fn missing(
        subject: &'static str,
        found: impl Into<String>,
        next: impl Into<String>,
    ) -> Finding {
        Finding { next: Some(next.into()), ..Finding::new(subject, State::Missing, found) }
    }

    /// The same finding, belonging to an area.
    pub fn of(self, area: &str) -> Finding {
        Finding { area: area.to_owned(), ..self }
    }
}

/// All findings, as `--format json` prints them.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What this object is, for readers that get several kinds.
    pub schema: &'static str,
    /// Version of this object's shape.
    pub version: u32,
    /// Whether nothing that the main job needs is missing.
    pub ready: bool,
    /// What was looked at, area by area.
    pub findings: Vec<Finding>,
}

/// Looks at the machine and its tools always, then at each file.
pub fn examine(files: &[PathBuf]) -> Report {
    let hardware = machine::branch_stacks();
    let tools = tools::examine();
    let software = machine::software_branch_stacks();
    let works = software.state == State::Good;
    let source = branch_stack_source(hardware.usable, works, tools.can_emulate);
    let machine = machine::examine().into_iter().chain(hardware.findings).chain([software, source]);
    let mut findings: Vec<Finding> = machine.map(|finding| finding.of("machine")).collect();
    findings.extend(tools.findings.into_iter().map(|finding| finding.of("tools")));
    for path in files {
        let area = path.display().to_string();
        findings.extend(binary::examine(path).into_iter().map(|finding| finding.of(&area)));
    }
    let ready = findings.iter().all(|finding| finding.state != State::Missing);
    Report { schema: "planish-doctor", version: 1, ready, findings }
}

/// The one thing every profile starts from: is there any way at all to get branch stacks?
fn branch_stack_source(hardware: bool, software: bool, emulated: bool) -> Finding {
    let subject = "where branch stacks come from";
    match (hardware, software, emulated) {
        (true, _, _) => Finding::good(subject, "hardware: planish record -- CMD"),
        (false, true, true) => Finding::good(
            subject,
            "software: planish record -- CMD (native speed); emulation for short programs: \
             --branches=emulated",
        ),
        (false, true, false) => {
            Finding::good(subject, "software: planish record -- CMD (native speed)")
        }
        (false, false, true) => Finding::good(
            subject,
            "emulation: planish record --branches=emulated -- CMD (5 to 25 times slower than \
             native while recording)",
        ),
        (false, false, false) => Finding::missing(
            subject,
            "neither hardware nor software branch stacks nor emulation work here",
            "apt-get install qemu-user and build the plugin (make build); plain clock samples \
             work but gain far less",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_stacks_from_anywhere_are_enough() {
        assert_eq!(branch_stack_source(true, false, false).state, State::Good);
        assert_eq!(branch_stack_source(false, true, false).state, State::Good);
        assert_eq!(branch_stack_source(false, false, true).state, State::Good);
        assert_eq!(branch_stack_source(false, false, false).state, State::Missing);
    }

    #[test]
    fn every_restriction_on_this_machine_comes_with_a_next_step() {
        for finding in examine(&[]).findings {
            assert!(finding.state == State::Good || finding.next.is_some(), "{finding:?}");
            assert!(!finding.found.is_empty(), "{finding:?}");
        }
    }
}
