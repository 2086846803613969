//! What is done to a program after its link, as llvm-bolt does: repeated for each of its layouts.

use crate::Error;
use sha2::{Digest, Sha256};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Stands for the linked program.
const LINKED: &str = "{in}";
/// Stands for the program that the command makes.
const MADE: &str = "{out}";
/// Lines of a failing command that are repeated.
const LINES: usize = 15;

/// A line for `sh -c` that makes a program from a linked one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AfterLink(String);

impl AfterLink {
    /// Reads `NAME=LINE`, as the option `--after-link` has it: the program's name, and its line.
    ///
    /// # Errors
    /// Where it is none.
    pub fn parse(given: &str) -> Result<(String, AfterLink), Error> {
        let wrong = || {
            Error::Design(format!(
                "--after-link {given:?}: expected NAME=COMMAND with {LINKED} for the linked program and {MADE} \
                 for what is made of it, for example app.bolt='llvm-bolt {LINKED} -o {MADE} -data=app.yaml'"
            ))
        };
        let (name, line) = given.split_once('=').ok_or_else(wrong)?;
        if name.is_empty() || !line.contains(LINKED) || !line.contains(MADE) {
            return Err(wrong());
        }
        Ok((name.to_owned(), AfterLink(line.to_owned())))
    }

    /// The line.
    pub fn line(&self) -> &str {
        &self.0
    }

    /// Makes the program of a linked one, beside it. It runs each time: what the command reads may
    /// have changed.
    ///
    /// # Errors
    /// Where the command fails, or makes nothing.
    pub fn apply(&self, linked: &Path) -> Result<PathBuf, Error> {
        let digest = hex::encode(Sha256::digest(self.0.as_bytes()));
        let beside = |ending: &str| {
            let mut name = linked.as_os_str().to_owned();
            name.push(format!("-{}{ending}", digest.get(..16).unwrap_or_default()));
            PathBuf::from(name)
        };
        let (made, unfinished) = (beside(""), beside(".unfinished"));
        let line = self.0.replace(LINKED, "\"$1\"").replace(MADE, "\"$2\"");
        let ran = Command::new("sh")
            .args(["-c", &line, "sh"])
            .args([linked, &unfinished])
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Error::System { action: "cannot start sh", source })?;
        let failed = |why: String| Error::Design(format!("--after-link: {} {why}", self.0));
        if !ran.status.success() {
            let _ = std::fs::remove_file(&unfinished);
            let said = [ran.stdout, ran.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let lines: Vec<&str> = said.lines().collect();
            let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
            return Err(failed(format!("failed ({}):\n{}", ran.status, last.join("\n"))));
        }
        match std::fs::rename(&unfinished, &made) {
            Ok(()) => Ok(made),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(failed(format!("ended well but made no {MADE}")))
            }
            Err(error) => Err(Error::file(&made)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_made_of_a_linked_one_whatever_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let linked = folder.path().join("a 'b'");
        std::fs::write(&linked, "text").unwrap();
        let (name, after) = AfterLink::parse("app.bolt=cat {in} {in} >{out}").unwrap();
        assert_eq!((name.as_str(), after.line()), ("app.bolt", "cat {in} {in} >{out}"));
        let made = after.apply(&linked).unwrap();
        assert_eq!(std::fs::read(&made).unwrap(), b"texttext");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn what_fails_or_makes_nothing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let linked = folder.path().join("a");
        let said = |given: &str| {
            let (_, after) = AfterLink::parse(given).unwrap();
            after.apply(&linked).unwrap_err().to_string()
        };
        assert!(said("a=: {in} {out}").contains("made no {out}"));
        let failed = said("a=echo half >{out}; echo why >&2; test -e {in}");
        assert!(failed.contains("why") && failed.contains("exit status: 1"), "{failed}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        for wrong in ["a", "a=b {in}", "a=b {out}", "={in} {out}"] {
            let message = AfterLink::parse(wrong).unwrap_err().to_string();
            assert!(message.contains("expected NAME=COMMAND"), "{message}");
        }
    }
}
