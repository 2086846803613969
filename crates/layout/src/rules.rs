//! How a graph is made: by which rules, of which functions.

use image::ImageAddr;

/// How branches are told from calls and returns, and frequencies from edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rules {
    /// By decoding the instruction that a branch comes from and the one before the address that a
    /// return goes to. The frequency of a block also knows control from and to code without
    /// blocks, and adds up what belongs to one call. Of functions with a common name, one with
    /// nine tenths of their weight is kept.
    #[default]
    Decoded,
    /// As llvm-propeller: by block flags and addresses alone; only edges make frequencies; all
    /// functions that share a name are dropped.
    Upstream,
}

/// Which functions may be laid out, by the name of their section.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sections {
    /// `.text` and `.text.*`.
    #[default]
    Text,
    /// Every section with code.
    All,
}

impl Sections {
    pub(crate) fn include(self, name: &str) -> bool {
        self == Sections::All || name == ".text" || name.starts_with(".text.")
    }
}

/// How a graph is made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BuildOptions {
    /// How branches are told apart.
    pub rules: Rules,
    /// Which sections are laid out.
    pub sections: Sections,
    /// Largest share of branches into the middle of a block, in percent; above it the image is
    /// held to be another one.
    pub largest_dubious_pct: f64,
}

impl Default for BuildOptions {
    fn default() -> Self {
        BuildOptions {
            rules: Rules::default(),
            sections: Sections::default(),
            // llvm-propeller's.
            largest_dubious_pct: 30.0,
        }
    }
}

/// The files of the compilation units that hold functions, by the addresses of these, ascending:
/// what a list of functions can tell two of one name apart by. See
/// [`image::debug::DebugInfo::unit_names_at`].
pub type Modules<'m> = &'m dyn Fn(&[ImageAddr]) -> Vec<Option<String>>;
