//! Where the debug information of an image is when it is not in the image itself.

use std::path::PathBuf;

/// Where to look for separate debug files.
#[derive(Debug, Clone)]
pub struct DebugSearch {
    /// Directories with `.build-id/xx/yyyy.debug`; `/usr/lib/debug` by default.
    pub roots: Vec<PathBuf>,
    /// The debug file, when the user named it.
    pub debug_file: Option<PathBuf>,
    /// The DWARF package (`.dwp`), when the user named it.
    pub dwp: Option<PathBuf>,
}

impl Default for DebugSearch {
    fn default() -> Self {
        DebugSearch { roots: vec![PathBuf::from("/usr/lib/debug")], debug_file: None, dwp: None }
    }
}
