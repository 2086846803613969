//! Which functions a patch touches: the old lines of its hunks, held against where functions begin.

use crate::graph::{Graph, NodeId};
use std::collections::BTreeMap;

/// Lines of an old file that a patch removes or puts something behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// Path of the old file as the patch names it, without `a/`.
    pub file: String,
    /// Old lines that go away, and the line before each insertion; sorted.
    pub lines: Vec<u32>,
}

/// What a patch touches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// Functions, in all units that hold them.
    pub functions: Vec<NodeId>,
    /// Places outside every known function: types, macros, data, or files that the build does not know.
    pub elsewhere: Vec<(String, u32)>,
}

/// The hunks of a unified diff.
///
/// # Errors
/// The number of the line, counted from 1, that does not belong there; 0 when there is no hunk at all.
pub fn hunks(text: &str) -> Result<Vec<Hunk>, usize> {
    let mut found: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut file: Option<String> = None;
    // Old lines and new lines that the hunk still has, and the number of the next old line.
    let (mut old_left, mut new_left, mut next) = (0u32, 0u32, 0u32);
    for (number, line) in text.lines().enumerate() {
        if old_left == 0 && new_left == 0 {
            if let Some(name) = line.strip_prefix("--- ") {
                file = Some(old_name(name));
            } else if let Some(header) = line.strip_prefix("@@ -") {
                let (start, old, new) = header_of(header).ok_or(number + 1)?;
                file.as_ref().ok_or(number + 1)?;
                (next, old_left, new_left) = (start, old, new);
                // `-5,0` inserts behind line 5.
                next += u32::from(old == 0);
            }
            continue;
        }
        let lines = found.entry(file.clone().unwrap_or_default()).or_default();
        match line.as_bytes().first() {
            Some(b'-') => {
                lines.push(next);
                (next, old_left) = (next + 1, old_left.checked_sub(1).ok_or(number + 1)?);
            }
            Some(b'+') => {
                lines.push(next.saturating_sub(1));
                new_left = new_left.checked_sub(1).ok_or(number + 1)?;
            }
            Some(b' ') | None => {
                old_left = old_left.checked_sub(1).ok_or(number + 1)?;
                new_left = new_left.checked_sub(1).ok_or(number + 1)?;
                next += 1;
            }
            Some(b'\\') => {}
            Some(_) => return Err(number + 1),
        }
    }
    if old_left != 0 || new_left != 0 {
        return Err(text.lines().count());
    }
    if found.is_empty() {
        return Err(0);
    }
    Ok(found
        .into_iter()
        .map(|(file, mut lines)| {
            lines.sort_unstable();
            lines.dedup();
            Hunk { file, lines }
        })
        .collect())
}

fn old_name(name: &str) -> String {
    // A date may follow after a tabulator.
    let name = name.split('\t').next().unwrap_or(name).trim();
    name.strip_prefix("a/").unwrap_or(name).to_owned()
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
    (start < u32::MAX - old.min(1 << 24)).then_some((start, old, new))
}

/// The functions that hunks touch: of those that begin in the file at or before a line, the last.
pub fn touched(graph: &Graph, hunks: &[Hunk]) -> Touched {
    let mut starts: BTreeMap<&str, BTreeMap<u32, Vec<NodeId>>> = BTreeMap::new();
    for (id, node) in graph.nodes() {
        // Copies and parts have the place of their original.
        if let Some(place) = node.place.as_ref().filter(|_| crate::symbols::origin(&node.name).is_none()) {
            starts.entry(&place.file).or_default().entry(place.line).or_default().push(id);
        }
    }
    let mut touched = Touched::default();
    for hunk in hunks {
        let files: Vec<_> = starts.iter().filter(|(file, _)| same_file(file, &hunk.file)).collect();
        for &line in &hunk.lines {
            let before = touched.functions.len();
            for (_, functions) in &files {
                let holds = functions.range(..=line).next_back();
                touched.functions.extend(holds.into_iter().flat_map(|(_, nodes)| nodes));
            }
            if touched.functions.len() == before {
                touched.elsewhere.push((hunk.file.clone(), line));
            }
        }
    }
    touched.functions.sort_unstable();
    touched.functions.dedup();
    touched
}

/// Whether one path ends with the other, at a directory's begin.
pub(crate) fn same_file(a: &str, b: &str) -> bool {
    let plain = |path: &str| {
        path.split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .rev()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (a, b) = (plain(a), plain(b));
    let shared = a.len().min(b.len());
    shared > 0 && a.get(..shared) == b.get(..shared)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    const DIFF: &str = "diff --git a/x.c b/x.c\n--- a/x.c\t2026\n+++ b/x.c\n@@ -3,4 +3,5 @@ int f\n same\n-old\n+new\n+more\n \
        same\n same\n";

    #[test]
    fn old_lines_are_counted() {
        assert_eq!(hunks(DIFF).unwrap(), [Hunk { file: "x.c".into(), lines: vec![4] }]);
        let insertion = "--- a/y.c\n+++ b/y.c\n@@ -7,0 +8,2 @@\n+a\n+b\n";
        assert_eq!(hunks(insertion).unwrap(), [Hunk { file: "y.c".into(), lines: vec![7] }]);
    }

    #[test]
    fn what_is_no_patch_is_refused_by_its_line() {
        assert_eq!(hunks(""), Err(0));
        assert_eq!(hunks("some text\n"), Err(0));
        assert_eq!(hunks("--- a/x.c\n+++ b/x.c\n@@ -x +1 @@\n"), Err(3));
        assert_eq!(hunks("--- a/x.c\n+++ b/x.c\n@@ -1,2 +1,2 @@\n same\n"), Err(4));
        assert!(hunks(&DIFF.replace("+more", "*more")).is_err());
    }

    #[test]
    fn paths_agree_from_their_end() {
        assert!(same_file("fs/inode.c", "./fs/inode.c") && same_file("/build/fs/inode.c", "fs/inode.c"));
        assert!(
            !same_file("fs/inode.c", "mm/inode.c")
                && !same_file("binode.c", "inode.c")
                && !same_file("", "a")
        );
    }
}
