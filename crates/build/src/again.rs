//! Why does a step run once more that was done before? Files changed that are not planish's own.

use crate::Step;
use crate::plan::STATE_DIRECTORY;
use crate::state::State;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files that are named; the rest is counted.
const MOST_NAMED: usize = 3;

/// The files as the last call left them. Each change is told once, by the first step that it
/// concerns.
pub(crate) struct Since {
    files: BTreeMap<PathBuf, String>,
}

impl Since {
    /// Before any step has looked at a file.
    pub(crate) fn of(state: &State) -> Since {
        let own = state.known().filter(|(path, _)| !path.starts_with(STATE_DIRECTORY));
        Since { files: own.map(|(path, sha256)| (path.to_owned(), sha256.to_owned())).collect() }
    }

    /// What changed of what a step is made from, in a line; `None` for one that was not done before, and
    /// where no such file changed. What the step is made from was just looked at.
    pub(crate) fn reason(
        &mut self,
        step: &Step,
        state: &mut State,
        directory: &Path,
    ) -> Option<String> {
        if !state.steps.contains_key(&step.name) {
            return None;
        }
        let named = step.named.iter().filter(|path| !state.is_written(path)).cloned();
        let outside = state.outside(step);
        let inputs: Vec<PathBuf> = step.inputs().into_iter().chain(named).collect();
        let is_below = |path: &Path| {
            outside.is_some_and(|files| files.contains_key(path))
                || inputs.iter().any(|input| {
                    (input == Path::new(".") && path.is_relative())
                        || path.starts_with(input)
                        || directory.join(path).starts_with(directory.join(input))
                })
        };
        let mut found: [Vec<PathBuf>; 3] = Default::default();
        let [changed, new, gone] = &mut found;
        for (path, sha256) in state.known() {
            let then = self.files.get(path).map(String::as_str);
            // Those that nobody changed are the most, and need no look at the disk.
            if then == Some(sha256)
                || path.starts_with(STATE_DIRECTORY)
                || !is_below(path)
                || !directory.join(path).exists()
            {
                continue;
            }
            if then.is_some() { &mut *changed } else { &mut *new }.push(path.to_owned());
            self.files.insert(path.to_owned(), sha256.to_owned());
        }
        let lost = |path: &&PathBuf| !directory.join(path).exists() && is_below(path);
        gone.extend(self.files.keys().filter(lost).cloned());
        for path in gone {
            self.files.remove(path);
            state.forget(path);
        }
        told(&found)
    }
}

/// `runs again because a.c and b.c changed and c.c is new`.
fn told([changed, new, gone]: &[Vec<PathBuf>; 3]) -> Option<String> {
    let part = |files: &[PathBuf], one: &str, several: &str| {
        let named: Vec<String> = files
            .iter()
            .take(MOST_NAMED)
            .map(|path| crate::bounded_log::shown(&path.to_string_lossy()))
            .collect();
        let names = match (&*named, files.len().saturating_sub(named.len())) {
            ([], _) => return None,
            ([only], 0) => only.clone(),
            ([first @ .., last], 0) => format!("{} and {last}", first.join(", ")),
            (all, more) => format!("{} and {more} more", all.join(", ")),
        };
        Some(format!("{names} {}", if files.len() == 1 { one } else { several }))
    };
    let parts = [
        part(changed, "changed", "changed"),
        part(new, "is new", "are new"),
        part(gone, "is gone", "are gone"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("runs again because {}", parts.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_files_are_named_and_the_rest_is_counted() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let line =
            told(&[files(&["a.c", "b.c"]), files(&["c.c"]), files(&["1", "2", "3", "4", "5"])]);
        let expected =
            "runs again because a.c and b.c changed and c.c is new and 1, 2, 3 and 2 more are gone";
        assert_eq!(line.as_deref(), Some(expected));
        assert_eq!(told(&Default::default()), None);
    }
}
