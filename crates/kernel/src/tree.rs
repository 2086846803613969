//! Which kernel tree is this, and does it have the options already?

use crate::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// The option for AutoFDO.
pub const AUTOFDO: &str = "AUTOFDO_CLANG";
/// The option for Propeller.
pub const PROPELLER: &str = "PROPELLER_CLANG";

/// What every tree has at its top; the edits need more, but a tree without these is something else.
const LANDMARKS: &[&str] =
    &["Makefile", "Kbuild", "Kconfig", "arch/Kconfig", "scripts/Makefile.lib"];

/// A version, as the top Makefile states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 6 of 6.12.117.
    pub major: u32,
    /// 12 of 6.12.117.
    pub minor: u32,
    /// 117 of 6.12.117.
    pub stable: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.stable)
    }
}

/// What we know of a series of stable releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// The edits were tried on Debian's tree of it.
    Tried,
    /// The edits should fit; no tree was tried.
    Untried,
}

impl Version {
    /// Whether there are edits for this version.
    pub fn known(self) -> Option<Known> {
        match (self.major, self.minor) {
            (6, 1 | 12) => Some(Known::Tried),
            (6, 6) => Some(Known::Untried),
            _ => None,
        }
    }
}

/// A kernel tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Its top directory.
    pub root: PathBuf,
    /// Its version.
    pub version: Version,
    /// The text of `arch/Kconfig`.
    kconfig: String,
}

impl Tree {
    /// Recognises a tree by its landmarks and its version.
    pub fn open(root: &Path) -> Result<Tree, Error> {
        if let Some(missing) = LANDMARKS.iter().find(|landmark| !root.join(landmark).is_file()) {
            return Err(Error::NotATree { tree: root.to_owned(), missing });
        }
        let makefile = root.join("Makefile");
        let version = version(&read(&makefile)?).map_err(|found| Error::NoVersion {
            path: makefile,
            found: crate::shortened(&found),
        })?;
        let kconfig = read(&root.join("arch/Kconfig"))?;
        Ok(Tree { root: root.to_owned(), version, kconfig })
    }

    /// Refuses a tree without one of the options.
    ///
    /// # Errors
    /// Where one is missing.
    pub fn has_options(&self) -> Result<(), Error> {
        match [AUTOFDO, PROPELLER].iter().find(|option| !self.offers(option)) {
            Some(lacking) => Err(Error::Wanted(format!(
                "{0}: has no option {lacking}; run first: planish kernel prepare {0}",
                self.root.display()
            ))),
            None => Ok(()),
        }
    }

    /// Whether the tree offers an option.
    pub fn offers(&self, option: &str) -> bool {
        let entry = format!("config {option}");
        self.kconfig.lines().any(|line| line.trim_end() == entry)
    }
}

/// The text of a file of a tree.
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    let bytes = beside::given::read(path, beside::given::TEXT).map_err(Error::io(path))?;
    String::from_utf8(bytes).map_err(|_| Error::NotText { path: path.to_owned() })
}

/// The version in the first lines of a top Makefile; else what stands there.
fn version(makefile: &str) -> Result<Version, String> {
    let number = |name: &str| {
        let line = makefile.lines().take(16).find_map(|line| {
            line.strip_prefix(name).and_then(|rest| rest.trim_start().strip_prefix('='))
        });
        line.and_then(|value| value.trim().parse::<u32>().ok())
    };
    match (number("VERSION"), number("PATCHLEVEL"), number("SUBLEVEL")) {
        (Some(major), Some(minor), stable) => {
            Ok(Version { major, minor, stable: stable.unwrap_or(0) })
        }
        _ => Err(makefile
            .lines()
            .find(|line| !line.trim().is_empty())
            .unwrap_or("nothing")
            .to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_from_the_head_of_the_makefile() {
        let text = "# SPDX\nVERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 117\nEXTRAVERSION =\n";
        assert_eq!(version(text).map(|version| version.to_string()), Ok("6.12.117".to_owned()));
        assert_eq!(version("all:\n\tcc\n"), Err("all:".to_owned()));
        assert_eq!(version(""), Err("nothing".to_owned()));
    }

    #[test]
    fn only_three_series_are_known_and_one_of_them_untried() {
        let known = |minor| Version { major: 6, minor, stable: 1 }.known();
        assert_eq!([known(1), known(12)], [Some(Known::Tried); 2]);
        assert_eq!(known(6), Some(Known::Untried));
        assert_eq!([known(2), known(11), known(13)], [None; 3]);
        assert_eq!(Version { major: 5, minor: 12, stable: 0 }.known(), None);
    }
}
