//! How short can the paths of source files be written and still be told apart?

use calltrees::{Line, Names};
use std::collections::BTreeMap;

/// The files of a recording: each by its name alone, or by its path if another has the name too.
pub(super) struct SourceNames(Vec<String>);

impl SourceNames {
    pub(super) fn of(names: &Names) -> SourceNames {
        let base = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for path in names.sources() {
            *seen.entry(base(path)).or_default() += 1;
        }
        let shown = |path: &String| {
            let name = base(path);
            if seen.get(&name) == Some(&1) { name } else { path.clone() }
        };
        SourceNames(names.sources().iter().map(shown).collect())
    }

    /// A line as people write it: `?` stands for the number of code that belongs to none.
    pub(super) fn line(&self, line: Line) -> String {
        let file = self.0.get(line.file.0 as usize).map_or("", String::as_str);
        match line.number {
            0 => format!("{file}:?"),
            number => format!("{file}:{number}"),
        }
    }
}
