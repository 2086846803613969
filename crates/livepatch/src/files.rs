//! One name for each source file: from the directory of the build, whatever directory a compiler
//! was started in.

use rustc_hash::FxHashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// What is known of files whatever the unit: most are headers that thousands of units name.
#[derive(Debug, Default)]
pub(crate) struct KnownFiles {
    /// By the compiler's name: the name from the root, and whether the file is there.
    from_root: FxHashMap<Arc<str>, (Arc<str>, bool)>,
}

/// The source files of a unit.
pub(crate) struct SourceFiles<'p> {
    root: &'p Path,
    /// Directory of the unit's object file, seen from the root.
    directory: PathBuf,
    known: &'p mut KnownFiles,
}

impl<'p> SourceFiles<'p> {
    pub(crate) fn new(root: &'p Path, object: &Path, known: &'p mut KnownFiles) -> SourceFiles<'p> {
        let directory = object.parent().and_then(|parent| parent.strip_prefix(root).ok());
        let directory = directory.unwrap_or(Path::new("")).to_owned();
        SourceFiles { root, directory, known }
    }

    /// The name of a file that a compiler calls `file`: relative to the root where it is found from
    /// there or from the object's directory; else as the compiler has it, without `.` and `..`.
    pub(crate) fn known_as(&mut self, file: &Arc<str>) -> Arc<str> {
        let path = Path::new(&**file);
        let (above, is_there) = self.seen_from_root(file);
        // A bare name is more likely one beside its object; a path starts where the build was
        // started.
        let is_bare = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
        if path.is_absolute() || (is_there && !is_bare) {
            return above;
        }
        let beside = plain(&self.directory.join(path));
        if self.root.join(&beside).is_file() { text(&beside) } else { above }
    }

    fn seen_from_root(&mut self, file: &Arc<str>) -> (Arc<str>, bool) {
        if let Some(known) = self.known.from_root.get(file) {
            return known.clone();
        }
        let path = Path::new(&**file);
        let path = plain(path.strip_prefix(self.root).unwrap_or(path));
        let found = (text(&path), self.root.join(&path).is_file());
        self.known.from_root.insert(file.clone(), found.clone());
        found
    }
}

fn text(path: &Path) -> Arc<str> {
    path.to_string_lossy().into()
}

/// A path without `.` and, where a directory stands before it, `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(plain.components().next_back(), Some(Component::Normal(_))) =>
            {
                plain.pop();
            }
            _ => plain.push(part),
        }
    }
    plain
}
