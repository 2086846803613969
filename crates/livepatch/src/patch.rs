//! Which functions a patch touches: the old lines of its hunks, held against where functions begin
//! and end.

use crate::Error;
use crate::extent;
use crate::graph::{Graph, NodeId};
use std::collections::BTreeMap;
use std::path::Path;

/// What a patch does to an old file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Path of the old file as the patch names it, without `a/`; of the new one where it adds a
    /// file.
    pub file: String,
    /// Old lines that go away; sorted.
    pub removed: Vec<u32>,
    /// Old lines behind which something is put, where nothing goes away; sorted.
    pub inserted_behind: Vec<u32>,
    /// Old lines as the patch quotes them, to see whether it fits.
    pub quoted: BTreeMap<u32, String>,
}

/// A line that a patch quotes and the file does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Misfit {
    /// The source file.
    pub file: String,
    /// Which line, from 1.
    pub line: u32,
    /// What the patch quotes.
    pub expected: String,
    /// What stands there; `None` behind the end of the file.
    pub found: Option<String>,
}

impl Hunk {
    /// The first line where the patch does not fit a file.
    pub fn misfit(&self, file: &str, source: &str) -> Option<Misfit> {
        let lines: Vec<&str> = source.lines().collect();
        let own = |line: u32| lines.get((line as usize).wrapping_sub(1)).copied();
        let differs =
            |line, text: &str| own(line).is_none_or(|own| own.trim_end() != text.trim_end());
        let (&line, expected) = self.quoted.iter().find(|(line, text)| differs(**line, text))?;
        let found = own(line).map(str::to_owned);
        Some(Misfit { file: file.to_owned(), line, expected: expected.clone(), found })
    }
}

/// What a patch touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Functions, in all units that hold them.
    pub functions: Vec<NodeId>,
    /// Places outside every known function: types, macros, data, or files that the build does not
    /// know.
    pub elsewhere: Vec<(String, u32)>,
    /// Files whose source could not be read: a line there counts for the function that begins last
    /// before it.
    pub unread: Vec<String>,
    /// The first line that the patch quotes otherwise than a source has it: it was made for
    /// another one.
    pub misfit: Option<Misfit>,
}

/// The hunks of a unified diff, joined by file.
///
/// # Errors
/// The number of the line, counted from 1, that does not belong there; 0 when there is no hunk at
/// all.
pub fn hunks(text: &str) -> Result<Vec<Hunk>, usize> {
    let mut found: BTreeMap<String, Hunk> = BTreeMap::new();
    let mut file: Option<String> = None;
    // Old lines and new lines that the hunk still has, the number of the next old line, and whether
    // a line just went.
    let (mut old_left, mut new_left, mut next, mut replaces) = (0u32, 0u32, 0u32, false);
    for (number, line) in text.lines().enumerate() {
        let bad = number + 1;
        if old_left == 0 && new_left == 0 {
            if let Some(name) = line.strip_prefix("--- ") {
                file = Some(bare_name(name, "a/"));
            } else if let (Some(name), Some("/dev/null")) =
                (line.strip_prefix("+++ "), file.as_deref())
            {
                file = Some(bare_name(name, "b/"));
            } else if let Some(header) = line.strip_prefix("@@ -") {
                let (start, old, new) = header_of(header).ok_or(bad)?;
                file.as_ref().ok_or(bad)?;
                // `-5,0` inserts behind line 5.
                (next, old_left, new_left, replaces) =
                    (start + u32::from(old == 0), old, new, false);
            }
            continue;
        }
        let name = file.clone().unwrap_or_default();
        let hunk =
            found.entry(name.clone()).or_insert_with(|| Hunk { file: name, ..Hunk::default() });
        match line.as_bytes().first() {
            Some(b'-') => {
                hunk.removed.push(next);
                hunk.quoted.insert(next, line.get(1..).unwrap_or_default().to_owned());
                (next, old_left, replaces) = (next + 1, old_left.checked_sub(1).ok_or(bad)?, true);
            }
            Some(b'+') => {
                if !replaces {
                    hunk.inserted_behind.push(next.saturating_sub(1));
                }
                new_left = new_left.checked_sub(1).ok_or(bad)?;
            }
            Some(b' ') | None => {
                hunk.quoted.insert(next, line.get(1..).unwrap_or_default().to_owned());
                old_left = old_left.checked_sub(1).ok_or(bad)?;
                new_left = new_left.checked_sub(1).ok_or(bad)?;
                (next, replaces) = (next + 1, false);
            }
            Some(b'\\') => {}
            Some(_) => return Err(bad),
        }
    }
    // A diff ends with a line end, so one without was cut.
    if old_left != 0 || new_left != 0 || (!found.is_empty() && !text.ends_with('\n')) {
        return Err(text.lines().count());
    }
    if found.is_empty() {
        return Err(0);
    }
    let sorted = |mut hunk: Hunk| {
        hunk.removed.sort_unstable();
        hunk.inserted_behind.sort_unstable();
        hunk.inserted_behind.dedup();
        hunk
    };
    Ok(found.into_values().map(sorted).collect())
}

fn bare_name(name: &str, side: &str) -> String {
    // A date may follow after a tabulator.
    let name = name.split('\t').next().unwrap_or(name).trim();
    name.strip_prefix(side).unwrap_or(name).to_owned()
}

/// Start and length of the old lines and length of the new ones: `12,7 +12,8 @@ …`.
fn header_of(text: &str) -> Option<(u32, u32, u32)> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let part = |text: &str| match text.split_once(',') {
        Some((start, count)) => Some((start.parse().ok()?, count.parse().ok()?)),
        None => Some((text.parse().ok()?, 1)),
    };
    let ((start, old), (_, new)): ((u32, u32), (u32, u32)) = (part(old)?, part(new)?);
    (start < u32::MAX - old.min(1 << 24) - 1).then_some((start, old, new))
}

/// The functions that hunks touch: those that hold a line, inner and outer ones. `source` gives the
/// text of a file of the graph; without it a line counts for the function that begins last before
/// it.
pub fn touched(graph: &Graph, hunks: &[Hunk], source: &dyn Fn(&str) -> Option<String>) -> Touched {
    let mut starts: BTreeMap<&str, BTreeMap<u32, Vec<NodeId>>> = BTreeMap::new();
    for (id, node) in graph.nodes() {
        // Copies and parts have the place of their original.
        if let Some(place) =
            node.place.as_ref().filter(|_| crate::symbols::origin(&node.name).is_none())
        {
            starts.entry(&place.file).or_default().entry(place.line).or_default().push(id);
        }
    }
    let mut touched = Touched::default();
    for hunk in hunks {
        let files: Vec<_> = starts.iter().filter(|(file, _)| same_file(file, &hunk.file)).collect();
        let mut held = vec![false; hunk.removed.len() + hunk.inserted_behind.len()];
        for (file, functions) in files {
            let text = source(file);
            match &text {
                Some(text) => touched.misfit = touched.misfit.or_else(|| hunk.misfit(file, text)),
                None => touched.unread.push((*file).to_owned()),
            }
            let lines = text.as_deref().map(extent::lines);
            for (slot, (line, removed)) in held.iter_mut().zip(changes(hunk)) {
                let found = holding(functions, lines.as_deref(), line, removed);
                *slot |= !found.is_empty();
                touched.functions.extend(found);
            }
        }
        let outside = changes(hunk).zip(held).filter(|(_, held)| !held);
        touched.elsewhere.extend(outside.map(|((line, _), _)| (hunk.file.clone(), line)));
    }
    touched.functions.sort_unstable();
    touched.functions.dedup();
    touched.elsewhere.sort();
    touched.elsewhere.dedup();
    touched
}

/// Changed lines, each with whether it goes away.
fn changes(hunk: &Hunk) -> impl Iterator<Item = (u32, bool)> {
    let removed = hunk.removed.iter().map(|line| (*line, true));
    removed.chain(hunk.inserted_behind.iter().map(|line| (*line, false)))
}

fn holding(
    functions: &BTreeMap<u32, Vec<NodeId>>,
    lines: Option<&[extent::Line]>,
    line: u32,
    removed: bool,
) -> Vec<NodeId> {
    let mut found = Vec::new();
    for (&start, nodes) in functions.range(..=line).rev() {
        match lines.and_then(|lines| extent::end(lines, start)) {
            // What is put behind the last line is outside.
            Some(end) if line < end || (removed && line == end) => found.extend(nodes),
            Some(_) => {}
            None => {
                found.extend(nodes);
                break;
            }
        }
    }
    // The type and attributes of a function may stand on the lines before its name.
    if let Some(lines) = lines
        && let Some((&start, nodes)) = functions.range(line + 1..).next()
        && extent::head(lines, start) <= line
        && (removed || extent::head(lines, start) < line + 1)
    {
        found.extend(nodes);
    }
    found
}

/// Whether one path ends with the other, at a directory's begin.
pub(crate) fn same_file(a: &str, b: &str) -> bool {
    let parts = |path: &'_ str| -> Vec<String> {
        let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.rev().map(str::to_owned).collect()
    };
    let (a, b) = (parts(a), parts(b));
    let shared = a.len().min(b.len());
    shared > 0 && a.get(..shared) == b.get(..shared)
}

/// The same of a unified diff, the text of the file `patch`.
///
/// # Errors
/// Where it is no unified diff, or does not fit the sources.
pub fn touched_by(
    graph: &Graph,
    patch: &Path,
    text: &str,
    source: &dyn Fn(&str) -> Option<String>,
) -> Result<Touched, Error> {
    let path = patch.to_owned();
    let hunks = match hunks(text) {
        Ok(hunks) => hunks,
        Err(0) => return Err(Error::NoHunk { path }),
        Err(line) => return Err(Error::Patch { path, line }),
    };
    let found = touched(graph, &hunks, source);
    match found.misfit {
        None => Ok(found),
        Some(Misfit { file, line, expected, found }) => {
            let found = found.unwrap_or_else(|| "the end of the file".to_owned());
            Err(Error::Misfit { path, file, line, expected, found })
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const DIFF: &str = "diff --git a/x.c b/x.c\n--- a/x.c\t2026\n+++ b/x.c\n@@ -3,4 +3,5 @@ int \
                        f\n same\n-old\n+new\n+more\n same\n same\n";

    #[test]
    fn old_lines_are_counted() {
        let hunk = &hunks(DIFF).unwrap()[0];
        assert_eq!(
            (hunk.file.as_str(), hunk.removed.as_slice(), hunk.inserted_behind.len()),
            ("x.c", &[4][..], 0)
        );
        let insertion = "--- a/y.c\n+++ b/y.c\n@@ -7,0 +8,2 @@\n+a\n+b\n";
        assert_eq!(hunks(insertion).unwrap()[0].inserted_behind, [7]);
        let new = "--- /dev/null\n+++ b/new.c\n@@ -0,0 +1 @@\n+a\n";
        assert_eq!(hunks(new).unwrap()[0].file, "new.c");
    }

    #[test]
    fn what_is_no_patch_is_refused_by_its_line() {
        assert_eq!(hunks(""), Err(0));
        assert_eq!(hunks("some text\n"), Err(0));
        assert_eq!(hunks("--- a/x.c\n+++ b/x.c\n@@ -x +1 @@\n"), Err(3));
        assert_eq!(hunks("--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n same\n"), Err(4));
        assert_eq!(hunks(DIFF.trim_end()), Err(10));
        assert!(hunks(&DIFF.replace("+more", "*more")).is_err());
    }

    #[test]
    fn a_patch_of_another_source_does_not_fit() {
        let hunk = &hunks(DIFF).unwrap()[0];
        let misfit = |source| hunk.misfit("x.c", source).map(|misfit| (misfit.line, misfit.found));
        assert_eq!(misfit("1\n2\nsame\nold\nsame\nsame\n"), None);
        assert_eq!(misfit("1\n2\nsame\nother\nsame\nsame\n"), Some((4, Some("other".into()))));
        assert_eq!(misfit("1\n"), Some((3, None)));
    }

    #[test]
    fn paths_agree_from_their_end() {
        assert!(
            same_file("fs/inode.c", "./fs/inode.c") && same_file("/build/fs/inode.c", "fs/inode.c")
        );
        assert!(
            !same_file("fs/inode.c", "mm/inode.c")
                && !same_file("binode.c", "inode.c")
                && !same_file("", "a")
        );
    }
}
