//! Which inlined functions and source lines an address belongs to (DWARF 2 to 5).
//!
//! [`DebugInfo::load`] finds the files; [`DebugInfo::resolve`] turns a sorted list of addresses
//! into inline stacks. Only units that an address of the list falls into are read:
//! 1. `index`: which unit claims an address (`.debug_aranges`, else the units' root entries);
//! 2. `functions`: the functions of a unit and their ranges;
//! 3. `tree`: the inlined calls of those functions that an address falls into;
//! 4. `lines`: the unit's line program, run once beside the addresses;
//! 5. `names`: what the functions are called, through abstract origins in whatever unit or file
//!    they stand.
//!
//! Steps 2, 3 and 5, and step 4, are separate jobs for any number of threads; the answer does not
//! depend on it.
//!
//! Sections, indexed forms, range lists and line programs are gimli's. Entries and attributes are
//! read here, since that takes 0.83 of the CPU time and 0.67 to 0.85 of the memory of gimli's for
//! equal answers (`measurements/2026-11-23-dwarf.md`, `scripts/bench-dwarf.sh`).

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

mod abbreviation;
mod compiled;
mod damage;
pub mod discriminator;
mod dwo;
mod form;
mod function_list;
mod functions;
mod index;
mod lines;
mod names;
mod resolve;
mod resolved;
mod sections;
mod source_files;
mod source_frames;
mod source_lines;
mod sources;
mod tree;
mod unit;

pub use compiled::{CompiledUnit, Language};
pub use function_list::{DwarfFunction, FunctionsAt};
pub use resolved::{DebugProblems, Frame, NameId, NameTable, Resolved, StackId};
pub use source_frames::{SourceFrame, SourceFrames};
pub use source_lines::{SourceFile, SourceLine, SourceLines};
pub use sources::{InlinedCall, SourceFunction, SourceFunctions};

use crate::debug_files::Rejected;
use crate::{DebugSearch, Error, Image};
use index::UnitIndex;
use sections::{DebugFile, Holder};
use unit::Dwarf;

/// The debug information of an image, opened; nothing of it is read before somebody asks.
#[derive(Debug)]
pub struct DebugInfo<'i> {
    image: &'i Image,
    file: DebugFile<'i>,
    supplement: Option<DebugFile<'static>>,
    package: Option<DebugFile<'static>>,
    search: DebugSearch,
    rejected: Vec<Rejected>,
    /// Lowest address of code; debug information below it is of functions that the linker dropped.
    floor: u64,
    index: OnceLock<UnitIndex>,
    fs_discriminators: OnceLock<bool>,
    supplement_units: OnceLock<Vec<usize>>,
}

impl<'i> DebugInfo<'i> {
    /// Finds and opens the debug information: in the image, in a separate debug file, with dwz's
    /// shared file, and with the package of split-off units.
    ///
    /// An image without any gives a [`DebugInfo`] that is [empty](Self::is_empty), not an error.
    ///
    /// # Errors
    /// When a file that the user named is unusable, or a debug section is compressed and damaged.
    pub fn load(image: &'i Image, search: &DebugSearch) -> Result<DebugInfo<'i>, Error> {
        let found = search.find(image)?;
        let mut rejected = found.rejected;
        let separate = found.image.map(Arc::new);
        let holder = separate.clone().map_or(Holder::Caller(image), Holder::Own);
        let file = DebugFile::load(holder, false)?;
        let mut other = |image: Option<Image>, others: Vec<Rejected>, split: bool| {
            rejected.extend(others);
            image.map(|image| DebugFile::load(Holder::Own(Arc::new(image)), split)).transpose()
        };
        let shared = search.find_supplementary(file.image());
        let supplement = other(shared.image, shared.rejected, false)?;
        let packaged = search.find_package(image, separate.as_deref())?;
        let package = other(packaged.image, packaged.rejected, true)?;
        let floor = image.code_ranges().map(|range| range.start.0).min().unwrap_or(0);
        Ok(DebugInfo {
            image,
            file,
            supplement,
            package,
            search: search.clone(),
            rejected,
            floor,
            index: OnceLock::new(),
            fs_discriminators: OnceLock::new(),
            supplement_units: OnceLock::new(),
        })
    }

    /// Whether there is no debug information at all.
    pub fn is_empty(&self) -> bool {
        !self.file.has_entries()
    }

    /// The file with the debug information: the image itself or its separate debug file.
    pub fn path(&self) -> PathBuf {
        self.file.image().path().to_owned()
    }

    /// Candidate files that exist but were not taken, for messages.
    pub fn rejected(&self) -> &[Rejected] {
        &self.rejected
    }

    /// Whether the program was built with flow-sensitive discriminators, so that they must be taken
    /// whole: LLVM then defines the variable `__llvm_fs_discriminator__`.
    pub fn uses_fs_discriminators(&self) -> bool {
        *self.fs_discriminators.get_or_init(|| {
            let file = self.file.image();
            let defines =
                |image: &Image| image.kernel_symbol("__llvm_fs_discriminator__").is_some();
            defines(file) || (!std::ptr::eq(file, self.image) && defines(self.image))
        })
    }

    fn index(&self, dwarf: &Dwarf<'_>) -> &UnitIndex {
        self.index.get_or_init(|| UnitIndex::build(dwarf, self.floor))
    }

    fn supplement_units(&self, dwarf: Option<&Dwarf<'_>>) -> &[usize] {
        self.supplement_units
            .get_or_init(|| dwarf.map(|dwarf| unit::unit_offsets(dwarf).0).unwrap_or_default())
    }
}
