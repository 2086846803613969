//! The lines of a cc profile that are about some functions. Grammar: clang's basic block sections
//! profile, version 1.

use super::store::Store;
use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A cc profile cut at its functions.
pub(super) struct CcText {
    path: PathBuf,
    /// All of it.
    pub whole: String,
    /// The lines of each function, in the order of the file; none where the version is not 1.
    entries: Option<Vec<String>>,
    /// Positions in `entries` by name; several static functions may have one name.
    by_name: BTreeMap<String, Vec<usize>>,
}

impl CcText {
    pub(super) fn read(path: &Path) -> Result<CcText, Error> {
        let whole = beside::given::read_text(path, beside::given::DATA).map_err(|source| {
            Error::File { path: path.to_owned(), action: "cannot read", source }
        })?;
        Ok(CcText::parse(path, whole))
    }

    fn parse(path: &Path, whole: String) -> CcText {
        let mut text =
            CcText { path: path.to_owned(), whole, entries: None, by_name: BTreeMap::new() };
        let mut lines = text.whole.lines();
        if lines.next().map(str::trim_end) != Some("v1") {
            return text;
        }
        let mut entries: Vec<String> = Vec::new();
        // A module line belongs to the function line after it.
        let mut module = String::new();
        for line in lines.filter(|line| !line.starts_with(['#', '@']) && !line.trim().is_empty()) {
            match line.split_whitespace().next() {
                Some("m") => module = format!("{line}\n"),
                Some("f") => {
                    for name in line.split_whitespace().skip(1) {
                        text.by_name.entry(name.to_owned()).or_default().push(entries.len());
                    }
                    entries.push(format!("{}{line}\n", std::mem::take(&mut module)));
                }
                _ => {
                    if let Some(entry) = entries.last_mut() {
                        entry.push_str(line);
                        entry.push('\n');
                    }
                }
            }
        }
        text.entries = Some(entries);
        text
    }

    /// A profile of these functions alone; `None` when it is about none of them.
    pub(super) fn about(&self, functions: &[String]) -> Option<String> {
        let Some(entries) = &self.entries else { return Some(self.whole.clone()) };
        let named = functions.iter().filter_map(|name| self.by_name.get(name)).flatten();
        let wanted: BTreeSet<usize> = named.copied().collect();
        let lines: String =
            wanted.iter().filter_map(|&n| entries.get(n)).map(String::as_str).collect();
        (!lines.is_empty()).then(|| format!("v1\n{lines}"))
    }

    /// Arguments of a link in which the profile's name is one with its hash.
    pub(super) fn renamed(
        &self,
        arguments: &[OsString],
        store: &Store,
    ) -> Result<Vec<OsString>, Error> {
        let swap = |argument: &OsString| match self.named_in(argument) {
            Some(flag) => {
                let mut word = OsString::from(flag);
                word.push(store.list(&self.whole)?);
                Ok(word)
            }
            None => Ok(argument.clone()),
        };
        arguments.iter().map(swap).collect()
    }

    /// Whether the linker is told to apply it.
    pub(super) fn is_named_in(&self, arguments: &[OsString]) -> bool {
        arguments.iter().any(|argument| self.named_in(argument).is_some())
    }

    /// The flag with which an argument hands it to the linker.
    fn named_in<'a>(&self, argument: &'a OsString) -> Option<&'a str> {
        let flag = argument.to_str()?.strip_suffix(&*self.path.to_string_lossy())?;
        flag.ends_with("--lto-basic-block-sections=").then_some(flag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_gets_the_lines_about_its_functions_alone() {
        let text =
            "v1\n#a remark\nm a.c\nf one alias\np 1 2\nc0 1\nf two\nc0\nm b.c\nf one\nc0 3\n";
        let text = CcText::parse(Path::new("x"), text.into());
        let about =
            |names: &[&str]| text.about(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(about(&["two", "three"]).unwrap(), "v1\nf two\nc0\n");
        assert_eq!(about(&["alias"]).unwrap(), "v1\nm a.c\nf one alias\np 1 2\nc0 1\n");
        assert!(about(&["one"]).unwrap().ends_with("c0 1\nm b.c\nf one\nc0 3\n"));
        assert_eq!(about(&["three"]), None);
    }

    #[test]
    fn another_version_is_given_whole() {
        let text = CcText::parse(Path::new("x"), "!one\n!!0 1\n".into());
        assert_eq!(text.about(&["two".into()]).unwrap(), "!one\n!!0 1\n");
    }
}
