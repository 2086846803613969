//! What does a run say besides its numbers: what of the configuration did nothing, and what the
//! compiler could not do?

use crate::Finished;
use build::plan::{self, STATE_DIRECTORY};
use build::reuse::CRASHED;
use std::io::{BufRead, BufReader};
use std::path::Path;

impl Finished<'_> {
    /// Which build left its files where all builds put them.
    pub(crate) fn last_build(&self) -> &'static str {
        if self.project.config.build.release.is_some() {
            "the project's own release build"
        } else {
            "the last build"
        }
    }

    /// What of the configuration has no effect, or could not be made, and objects that the compiler
    /// could not compile with their profile as it is.
    pub(crate) fn notes(&self) -> Vec<String> {
        let project = self.project;
        let mut notes = plan::notes(&project.config, &project.tools, project.rust.used);
        let rebuilds = ["rebuild", "second-rebuild"];
        for name in rebuilds.into_iter().take(project.config.optimize.profile_rounds()) {
            let log = Path::new(STATE_DIRECTORY).join(format!("log/{name}.log"));
            let Ok(file) = std::fs::File::open(project.directory.join(log)) else { continue };
            for crash in crashes(BufReader::new(file)) {
                // A build that was done twice says it twice.
                if !notes.contains(&crash) {
                    notes.push(crash);
                }
            }
        }
        notes
    }
}

/// What a build's log tells of crashes.
fn crashes(log: impl BufRead) -> Vec<String> {
    let lines = log.split(b'\n').map_while(Result::ok);
    let text = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    text.filter_map(|line| line.strip_prefix("planish: warning: ").map(str::to_owned))
        .filter(|line| line.contains(CRASHED))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_found_in_a_log_of_other_lines() {
        let told = format!("gcc {CRASHED}: a.c is compiled without it");
        let log = format!("$ make\nplanish: warning: {told}\nplanish: warning: other\n{CRASHED}\n");
        assert_eq!(crashes(log.as_bytes()), [told]);
    }
}
