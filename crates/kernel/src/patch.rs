//! The changes of a tree as a unified diff, which `patch -p1` and `git apply` take.

use crate::prepare::FileChange;
use similar::{Algorithm, TextDiff};

/// Lines around a change.
const CONTEXT: usize = 3;

/// The diff of all changes, file by file in their order.
pub fn unified(changes: &[FileChange]) -> String {
    changes.iter().map(of_file).collect()
}

fn of_file(change: &FileChange) -> String {
    let before = change.before.as_deref().unwrap_or_default();
    let after = change.after.as_deref().unwrap_or_default();
    let name = |side: &Option<String>, letter: &str| match side {
        Some(_) => format!("{letter}/{}", change.path),
        None => "/dev/null".to_owned(),
    };
    // Without a deadline the diff depends on the texts alone.
    let diff = TextDiff::configure().algorithm(Algorithm::Myers).diff_lines(before, after);
    let kind = match (&change.before, &change.after) {
        (None, Some(_)) => "new file mode 100644\n",
        (Some(_), None) => "deleted file mode 100644\n",
        _ => "",
    };
    let hunks = diff
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&name(&change.before, "a"), &name(&change.after, "b"))
        .to_string();
    format!("diff --git a/{0} b/{0}\n{kind}{hunks}", change.path)
}
