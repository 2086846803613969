//! Where source files are looked for, and which of their lines are read.

use report::calls::lines::SourceText;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Nobody writes a larger source file.
const MOST_BYTES: u64 = 16 << 20;
/// What is kept of a line.
const LONGEST_LINE: usize = 1000;

/// The places to look in.
pub struct SourceFinder<'a> {
    directories: &'a [PathBuf],
    sysroot: Option<&'a Path>,
}

impl<'a> SourceFinder<'a> {
    /// In `directories` by the end of the path, then below `sysroot`, or, without one, where the
    /// debug information says.
    pub fn new(directories: &'a [PathBuf], sysroot: Option<&'a Path>) -> SourceFinder<'a> {
        SourceFinder { directories, sysroot }
    }

    /// The `wanted` lines of each of `files`; files of which none is wanted are not opened.
    pub fn read_all(
        &self,
        files: &[String],
        wanted: &BTreeMap<usize, Vec<u32>>,
    ) -> Vec<SourceText> {
        let read = |(index, file): (usize, &String)| match wanted.get(&index) {
            Some(lines) => self.read(file, lines),
            None => SourceText::default(),
        };
        files.iter().enumerate().map(read).collect()
    }

    fn read(&self, recorded: &str, wanted: &[u32]) -> SourceText {
        let lacking = |problem: String| SourceText { problem: Some(problem), ..Default::default() };
        let candidates = self.candidates(recorded);
        let Some(path) = candidates.iter().find(|path| path.exists()) else {
            return lacking("the file is not there (--source DIR)".to_owned());
        };
        let shown = path.display().to_string();
        let bytes = match beside::given::read(path, MOST_BYTES) {
            Ok(bytes) => bytes,
            Err(error) => return lacking(format!("{shown}: {error}")),
        };
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.lines().collect();
        let line = |&number: &u32| {
            let line = all.get(usize::try_from(number.checked_sub(1)?).ok()?)?;
            Some((number, line.chars().take(LONGEST_LINE).collect()))
        };
        let lines: BTreeMap<u32, String> = wanted.iter().filter_map(line).collect();
        let beyond = wanted.iter().any(|number| !lines.contains_key(number));
        let problem = beyond.then(|| {
            format!("{shown}: it has {} lines, and the program was built from more", all.len())
        });
        SourceText { path: Some(shown), problem, lines }
    }

    fn candidates(&self, recorded: &str) -> Vec<PathBuf> {
        let parts = plain_parts(Path::new(recorded));
        let mut all = Vec::new();
        for directory in self.directories {
            for begin in 0..parts.len() {
                let end: PathBuf = parts.get(begin..).into_iter().flatten().collect();
                all.push(directory.join(end));
            }
        }
        let whole: PathBuf = parts.iter().collect();
        match self.sysroot {
            Some(root) => all.push(root.join(whole)),
            // What is no whole path would be looked for wherever planish happens to run.
            None if recorded.starts_with('/') => all.push(Path::new("/").join(whole)),
            None => {}
        }
        all
    }
}

/// The parts of a path, those that go up taken back, so that it never leaves where it is put.
fn plain_parts(path: &Path) -> Vec<PathBuf> {
    let mut parts: Vec<PathBuf> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.into()),
            Component::ParentDir => {
                parts.pop();
            }
            _ => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_found_by_the_end_of_their_path_and_never_above_it() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        std::fs::create_dir_all(root.join("src/deep")).unwrap();
        std::fs::write(root.join("src/deep/one.c"), b"first\nsecond \x1b[2J\xff\n").unwrap();
        std::fs::write(root.join("secret"), "secret\n").unwrap();
        let below = [root.join("src")];
        let finder = SourceFinder::new(&below, None);
        let wanted = BTreeMap::from([(0, vec![1, 2, 9])]);
        let read = |path: &str| finder.read_all(&[path.to_owned()], &wanted).remove(0);
        let found = read("/build/elsewhere/src/../deep/one.c");
        assert_eq!(found.lines.get(&1).map(String::as_str), Some("first"));
        assert!(found.problem.unwrap().contains("it has 2 lines"), "line 9 is told");
        for lost in ["/none/../../secret", "secret", "../secret", "/build/deep", "", "/", "\0"] {
            let found = read(lost);
            assert!(found.lines.is_empty() && found.problem.is_some(), "{lost}: {found:?}");
        }
    }

    #[test]
    fn only_regular_files_of_sensible_size_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let large = std::fs::File::create(directory.path().join("large.c")).unwrap();
        large.set_len(MOST_BYTES + 1).unwrap();
        let below = [directory.path().to_owned(), PathBuf::from("/")];
        let finder = SourceFinder::new(&below, None);
        let wanted = BTreeMap::from([(0, vec![1])]);
        let read = |path: &str| finder.read_all(&[path.to_owned()], &wanted).remove(0).problem;
        assert!(read("/x/large.c").unwrap().contains("more than the 16 MiB"));
        assert!(read("/dev/zero").unwrap().contains("a device"));
    }
}
