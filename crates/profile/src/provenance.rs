//! Which programs does a profile speak of, and which compilers made them?
//!
//! LLVM's formats have no place for it, but leave room: a section of a kind that LLVM's reader does
//! not know and skips (extbinary), comments (text). Both hold the lines that [`Provenance::lines`]
//! gives.

use std::collections::BTreeSet;

use image::{BuildId, Image};

/// A compiler's release is cut to this many characters.
const MOST_CHARACTERS: usize = 256;

const COMPILER: &str = "compiler: ";
const BUILD_ID: &str = "build ID: ";

/// The programs that were counted: their build IDs, and the releases of the compilers that they
/// state. No paths and no times, so that the same counts of the same program always give the same
/// profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    compilers: BTreeSet<String>,
    build_ids: BTreeSet<BuildId>,
}

impl Provenance {
    /// What a program says of itself; empty where it has neither a build ID nor a `.comment`.
    pub fn of(image: &Image) -> Provenance {
        let mut found = Provenance::default();
        for release in image.compilers() {
            found.add_compiler(&release);
        }
        found.build_ids.extend(image.build_id());
        found
    }

    /// Adds the release of a compiler, such as `Debian clang version 22.1.8`. White space and
    /// control characters become single blanks and the end is cut, so that it fits on a line.
    /// False where nothing is left.
    pub fn add_compiler(&mut self, release: &str) -> bool {
        let words = release
            .split(|c: char| c.is_whitespace() || c.is_control())
            .filter(|word| !word.is_empty());
        let line: String =
            words.collect::<Vec<_>>().join(" ").chars().take(MOST_CHARACTERS).collect();
        let kept = line.trim_end();
        if !kept.is_empty() {
            self.compilers.insert(kept.to_owned());
        }
        !kept.is_empty()
    }

    /// Adds a build ID.
    pub fn add_build_id(&mut self, id: BuildId) {
        self.build_ids.insert(id);
    }

    /// Adds all of another one.
    pub fn add(&mut self, other: &Provenance) {
        self.compilers.extend(other.compilers.iter().cloned());
        self.build_ids.extend(other.build_ids.iter().copied());
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.compilers.is_empty() && self.build_ids.is_empty()
    }

    /// The releases of the compilers, sorted.
    pub fn compilers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.compilers.iter().map(String::as_str)
    }

    /// The build IDs, sorted.
    pub fn build_ids(&self) -> impl ExactSizeIterator<Item = &BuildId> {
        self.build_ids.iter()
    }

    /// All of it in lines: `compiler: RELEASE`, then `build ID: HEX`.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let compilers = self.compilers().map(|release| format!("{COMPILER}{release}"));
        compilers.chain(self.build_ids().map(|id| format!("{BUILD_ID}{id}")))
    }

    /// Adds what one line says; false where it is none of those that [`Provenance::lines`] gives.
    pub(crate) fn take_line(&mut self, line: &str) -> bool {
        if let Some(release) = line.strip_prefix(COMPILER) {
            return self.add_compiler(release);
        }
        let id: Option<BuildId> =
            line.strip_prefix(BUILD_ID).and_then(|id| id.trim_end().parse().ok());
        self.build_ids.extend(id);
        id.is_some()
    }
}
