//! What does planish.toml say of kernels that are compared? `[kernel]` and `[kernel.variants]`.
//!
//! A file may say this alone, without a program.

use crate::Error;
use crate::config::{parse_checked, read_text};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// `[kernel]`. Paths are relative to the file until [`KernelTable::read`] has put its directory
/// before them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelTable {
    /// The top directory of the Linux sources.
    pub tree: Option<PathBuf>,
    /// Where to put everything that is made.
    pub output_dir: Option<PathBuf>,
    /// Random orders of each variant.
    pub orders: Option<u32>,
    /// What decides.
    pub metric: Option<String>,
    /// CPU times of kernels that are processes, in place of counts.
    #[serde(default)]
    pub native: bool,
    /// Rounds of those.
    pub rounds: Option<u32>,
    /// Per cent that count as none.
    pub margin: Option<f64>,
    /// The configuration that all variants begin with.
    pub config: Option<PathBuf>,
    /// The initrd to boot.
    pub initrd: Option<PathBuf>,
    /// The variant that the others are compared with; `base` where absent.
    pub base: Option<String>,
    /// Names, and options of the configuration and variables of make as `--variant` takes them
    /// behind its colon.
    #[serde(default)]
    pub variants: BTreeMap<String, String>,
}

/// A file as far as kernels are concerned.
#[derive(Deserialize)]
struct File {
    kernel: Option<KernelTable>,
}

impl KernelTable {
    /// Reads the table of a file.
    ///
    /// # Errors
    /// Where the file cannot be read, has no such table, or says in it what nobody knows.
    pub fn read(path: &Path) -> Result<KernelTable, Error> {
        let wrong = |problem: String| Error::Config { path: path.to_owned(), problem };
        let found: File = parse_checked(&read_text(path)?, path, |_| Ok(()))?;
        let Some(mut table) = found.kernel else {
            return Err(wrong(
                "it has no [kernel], which says what tree is built (tree = \"linux-6.12\") and, in \
                 [kernel.variants], how (align32 = \"KCFLAGS=-falign-functions=32\")"
                    .into(),
            ));
        };
        let directory = path.parent().unwrap_or(Path::new(""));
        let paths = [&mut table.tree, &mut table.output_dir, &mut table.config, &mut table.initrd];
        for path in paths.into_iter().flatten() {
            *path = directory.join(&*path);
        }
        if let Some(base) = table.base.as_ref().filter(|base| !table.variants.contains_key(*base)) {
            let there = table.variants.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(wrong(format!(
                "[kernel] base: {base:?} is none of [kernel.variants]; there are: {there}"
            )));
        }
        Ok(table)
    }

    /// The variants as `--variant` takes them, the base first, the others by name.
    pub fn lines(&self) -> Vec<String> {
        let base = self.base.as_deref().unwrap_or("base");
        let line = |(name, words): (&String, &String)| format!("{name}: {words}");
        let of = |wanted: bool| {
            self.variants.iter().filter(move |(name, _)| (*name == base) == wanted).map(line)
        };
        of(true).chain(of(false)).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<KernelTable, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("planish.toml");
        std::fs::write(&file, text).unwrap();
        let table = KernelTable::read(&file).map_err(|error| error.to_string())?;
        // Relative to the file, wherever that lies.
        let here = |path: PathBuf| path.strip_prefix(folder.path()).unwrap().to_owned();
        Ok(KernelTable { tree: table.tree.map(here), ..table })
    }

    #[test]
    fn the_base_comes_first() {
        let variants = "[kernel.variants]\na = \"CC=gcc\"\nbase = \"\"\nz = \"CONFIG_X=y\"\n";
        let table = read(&format!("[kernel]\ntree = \"linux\"\norders = 3\n{variants}")).unwrap();
        assert_eq!((table.tree.as_deref(), table.orders), (Some(Path::new("linux")), Some(3)));
        assert_eq!(table.lines(), ["base: ", "a: CC=gcc", "z: CONFIG_X=y"]);
        let other = read(&format!("[kernel]\nbase = \"z\"\n{variants}")).unwrap();
        assert_eq!(other.lines(), ["z: CONFIG_X=y", "a: CC=gcc", "base: "]);
    }

    #[test]
    fn what_nobody_knows_is_refused_by_name() {
        for (text, why) in [
            ("[build]\n", "it has no [kernel]"),
            ("[kernel]\ntrees = 1\n", "unknown field `trees`"),
            ("[kernel]\nbase = \"b\"\n[kernel.variants]\na = \"\"\n", "there are: a"),
            ("[kernel]\norders = \"many\"\n", "orders"),
            ("[kernel\n", "planish.toml"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
