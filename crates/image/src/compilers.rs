//! Which compilers made an ELF file?
//!
//! Compilers leave a line in the section `.comment` of each object, and the linker keeps each
//! distinct one: `Debian clang version 22.1.8`, `GCC: (Debian 12.2.0-14) 12.2.0`. Linkers add one
//! of their own.

use std::collections::BTreeSet;

use crate::Image;

/// How the lines of linkers begin: lld's and Wild's, and mold's. GNU ld and gold leave none.
const LINKERS: [&str; 2] = ["Linker: ", "mold "];

impl Image {
    /// The releases of the compilers as they state them in `.comment`, sorted, each once. Empty
    /// where the section is missing or cannot be read: what it says is not needed to use the
    /// file.
    ///
    /// A program linked with the C library's start files also names the compiler of these.
    pub fn compilers(&self) -> BTreeSet<String> {
        let section = self.section(".comment").unwrap_or_default();
        let lines = section
            .split(|&byte| byte == 0)
            .map(|line| String::from_utf8_lossy(line).trim().to_owned());
        lines
            .filter(|line| {
                !line.is_empty() && !LINKERS.iter().any(|linker| line.starts_with(linker))
            })
            .collect()
    }

    /// Whether rustc made some of it, as `.comment` says: the one sign of the language that a
    /// stripped file keeps.
    pub fn has_code_of_rustc(&self) -> bool {
        self.compilers().iter().any(|compiler| compiler.starts_with("rustc "))
    }
}
