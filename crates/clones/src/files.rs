//! One name for each source file: from the directory of the build, whatever directory a compiler was started in.

use rustc_hash::FxHashMap;
use std::path::{Component, Path, PathBuf};

/// The source files of a unit.
pub(crate) struct SourceFiles<'p> {
    root: &'p Path,
    /// Directory of the unit's object file, seen from the root.
    directory: PathBuf,
    known: FxHashMap<String, String>,
}

impl<'p> SourceFiles<'p> {
    pub(crate) fn new(root: &'p Path, object: &Path) -> SourceFiles<'p> {
        let directory = object.parent().and_then(|parent| parent.strip_prefix(root).ok());
        let directory = directory.unwrap_or(Path::new("")).to_owned();
        SourceFiles { root, directory, known: FxHashMap::default() }
    }

    /// The name of a file that a compiler calls `file`: relative to the root where it is found from there or from the
    /// object's directory; else as the compiler has it, without `.` and `..`.
    pub(crate) fn known_as(&mut self, file: &str) -> String {
        if let Some(known) = self.known.get(file) {
            return known.clone();
        }
        let path = Path::new(file);
        let found = if path.is_absolute() {
            plain(path.strip_prefix(self.root).unwrap_or(path))
        } else {
            let (above, beside) = (plain(path), plain(&self.directory.join(path)));
            // A bare name is more likely one beside its object; a path starts where the build was started.
            let bare = path.parent().is_none_or(|parent| parent.as_os_str().is_empty());
            let order = if bare { [&beside, &above] } else { [&above, &beside] };
            order.into_iter().find(|path| self.root.join(path).is_file()).unwrap_or(&above).clone()
        };
        let found = found.display().to_string();
        self.known.insert(file.to_owned(), found.clone());
        found
    }
}

/// A path without `.` and, where a directory stands before it, `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if matches!(plain.components().next_back(), Some(Component::Normal(_))) => {
                plain.pop();
            }
            _ => plain.push(part),
        }
    }
    plain
}
