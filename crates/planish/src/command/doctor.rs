//! `planish doctor`: what can this machine do, what can these binaries do, and what is the next
//! step where they cannot?
//!
//! Everything is tried rather than guessed: events are opened, compilers compile an empty function
//! with the flag in question, files are read by the same crate that later reads them. Nothing is
//! changed and nothing needs privilege.
//!
//! The cast: [`machine`] asks kernel and CPU, [`tools`] asks compilers, linkers and helpers,
//! [`binary`] asks each file. Each returns [`Finding`]s; this file prints them and chooses the exit
//! code.

mod binary;
mod machine;
mod sys;
mod tools;

use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::PathBuf;

use serde::Serialize;

use crate::cli::{FINE, Format, Global, NEGATIVE};
use crate::output;
use ::report::visible;

/// Arguments of `planish doctor`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Binaries to look at: what is missing in them for a profile
    pub files: Vec<PathBuf>,
    /// How to print the findings
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

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

    fn of(mut self, area: &str) -> Finding {
        self.area = area.to_owned();
        self
    }
}

/// All findings, as `--format json` prints them.
#[derive(Debug, Serialize)]
struct Report {
    /// What this object is, for readers that get several kinds.
    format: &'static str,
    /// Version of this object's shape.
    version: u32,
    /// Whether nothing that the main job needs is missing.
    ready: bool,
    findings: Vec<Finding>,
}

/// Looks, prints, and ends with 0 when nothing needed is missing, else 1.
pub fn run(args: &Args, global: &Global) -> anyhow::Result<u8> {
    let mut findings = examine(&args.files);
    let ready = findings.iter().all(|finding| finding.state != State::Missing);
    if global.quiet {
        findings.retain(|finding| finding.state == State::Missing);
    }
    let text = match args.format {
        Format::Json => {
            let report = Report { format: "planish doctor", version: 1, ready, findings };
            ::report::json(&serde_json::to_string_pretty(&report)?).into_owned() + "\n"
        }
        Format::Text if findings.is_empty() => String::new(),
        Format::Text => {
            let stdout_is_terminal = std::io::stdout().is_terminal();
            let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            render(&findings, stdout_is_terminal && !no_color)
        }
    };
    output::print(&text)?;
    Ok(if ready { FINE } else { NEGATIVE })
}

/// The machine and its tools always, then each file.
fn examine(files: &[PathBuf]) -> Vec<Finding> {
    let hardware = machine::branch_stacks();
    let tools = tools::examine();
    let mut findings = Vec::new();
    findings.extend(machine::examine().into_iter().map(|finding| finding.of("machine")));
    findings.extend(hardware.findings.into_iter().map(|finding| finding.of("machine")));
    let software = machine::software_branch_stacks();
    let works = software.state == State::Good;
    findings.push(software.of("machine"));
    findings.push(branch_stack_source(hardware.usable, works, tools.can_emulate).of("machine"));
    findings.extend(tools.findings.into_iter().map(|finding| finding.of("tools")));
    for path in files {
        let area = path.display().to_string();
        findings.extend(binary::examine(path).into_iter().map(|finding| finding.of(&area)));
    }
    findings
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
            "emulation: planish record --branches=emulated -- CMD (about 13 times slower than \
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

/// Lines for people: one block per area, one line per finding, the next step indented below it.
fn render(findings: &[Finding], color: bool) -> String {
    let width = findings.iter().map(|finding| finding.subject.len()).max().unwrap_or(0);
    let mut text = String::new();
    let mut area = None;
    for finding in findings {
        if area != Some(&finding.area) {
            let gap = if area.is_some() { "\n" } else { "" };
            area = Some(&finding.area);
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{gap}{}", visible(&finding.area));
        }
        let (word, paint) = match finding.state {
            State::Good => ("ok     ", "\x1b[32m"),
            State::Limited => ("limited", "\x1b[33m"),
            State::Missing => ("MISSING", "\x1b[31m"),
        };
        let (paint, plain) = if color { (paint, "\x1b[0m") } else { ("", "") };
        let _ = writeln!(
            text,
            "  {paint}{word}{plain}  {:width$}  {}",
            finding.subject,
            visible(&finding.found)
        );
        if let Some(next) = &finding.next {
            let _ = writeln!(text, "           {:width$}  next: {}", "", visible(next));
        }
    }
    let missing = findings.iter().filter(|finding| finding.state == State::Missing).count();
    let limited = findings.iter().filter(|finding| finding.state == State::Limited).count();
    let plural = if limited == 1 { "" } else { "s" };
    let verdict = match missing {
        0 => format!("ready; {limited} restriction{plural}"),
        1 => format!("not ready: 1 needed thing is missing, {limited} restriction{plural}"),
        _ => {
            format!("not ready: {missing} needed things are missing, {limited} restriction{plural}")
        }
    };
    let _ = writeln!(text, "\n{verdict}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_thing_is_named_with_its_next_step_and_no_colour_codes_when_plain() {
        let findings = vec![
            Finding::good("cpu", "2 CPUs").of("machine"),
            Finding::missing("debug info", "none", "build with -g").of("a.out"),
        ];
        let text = render(&findings, false);
        assert!(!text.contains('\x1b'), "{text}");
        assert!(text.starts_with("machine\n  ok       cpu         2 CPUs\n\na.out\n"), "{text}");
        assert!(text.contains("next: build with -g"), "{text}");
        assert!(text.ends_with("not ready: 1 needed thing is missing, 0 restrictions\n"), "{text}");
        assert!(render(&findings, true).contains("\x1b[31mMISSING"));
    }

    #[test]
    fn branch_stacks_from_anywhere_are_enough() {
        assert_eq!(branch_stack_source(true, false, false).state, State::Good);
        assert_eq!(branch_stack_source(false, true, false).state, State::Good);
        assert_eq!(branch_stack_source(false, false, true).state, State::Good);
        assert_eq!(branch_stack_source(false, false, false).state, State::Missing);
    }

    #[test]
    fn every_restriction_on_this_machine_comes_with_a_next_step() {
        for finding in examine(&[]) {
            assert!(finding.state == State::Good || finding.next.is_some(), "{finding:?}");
            assert!(!finding.found.is_empty(), "{finding:?}");
        }
    }
}
