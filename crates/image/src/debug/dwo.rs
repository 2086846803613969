//! Where the entries of a unit are when the compiler split them off (`-gsplit-dwarf`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::damage::Reading;
use super::sections::{DebugFile, Holder};
use super::unit::{Dwarf, Unit, unit_of};
use crate::{DebugSearch, Image};

/// The split-off part of a unit.
#[derive(Debug)]
pub(super) enum Dwo {
    /// The unit is complete in itself.
    None,
    /// A `.dwo` file.
    File(Box<DebugFile<'static>>),
    /// In the package of the whole program.
    Package,
    /// It has been split off, but this file (first candidate) is not there or is another build's.
    Missing(PathBuf),
}

/// Where to look for split-off parts.
pub(super) struct DwoSearch<'a> {
    /// The package, when there is one.
    pub(super) package: Option<&'a DebugFile<'static>>,
    pub(super) search: &'a DebugSearch,
    /// The file with the skeleton units.
    pub(super) image: &'a Image,
}

impl<'a> DwoSearch<'a> {
    /// Finds the part of a unit; the answer is kept.
    fn find(&self, main: &Dwarf<'a>, kept: &'a OnceLock<Dwo>, skeleton: &Unit<'a>) -> &'a Dwo {
        kept.get_or_init(|| {
            let (Some(id), Some((name, directory))) =
                (skeleton.root.dwo_id, skeleton.root.dwo_file(main))
            else {
                return Dwo::None;
            };
            if self
                .package
                .is_some_and(|package| matches!(package.package_unit(id, main), Ok(Some(_))))
            {
                return Dwo::Package;
            }
            let candidates = self.search.split_unit_paths(self.image, path(directory), path(name));
            for candidate in &candidates {
                let Ok(image) = Image::open(candidate) else { continue };
                let Ok(file) = DebugFile::load(Holder::Own(Arc::new(image)), true) else {
                    continue;
                };
                if unit_of(&file.dwarf(), id).is_some() {
                    return Dwo::File(Box::new(file));
                }
            }
            Dwo::Missing(candidates.into_iter().next().unwrap_or_default())
        })
    }

    /// The unit whose entries describe the code: the split-off one where it can be found, else
    /// `skeleton` itself.
    pub(super) fn full(
        &self,
        main: &Dwarf<'a>,
        kept: &'a OnceLock<Dwo>,
        skeleton: Unit<'a>,
    ) -> Reading<(Option<Dwarf<'a>>, Unit<'a>)> {
        let dwarf = match self.find(main, kept, &skeleton) {
            Dwo::None | Dwo::Missing(_) => return Ok((None, skeleton)),
            Dwo::Package => match (self.package, skeleton.root.dwo_id) {
                (Some(package), Some(id)) => package.package_unit(id, main)?,
                _ => None,
            },
            Dwo::File(file) => {
                let mut dwarf = file.dwarf();
                dwarf.make_dwo(main);
                Some(dwarf)
            }
        };
        let Some(dwarf) = dwarf else { return Ok((None, skeleton)) };
        let Some(offset) = skeleton.root.dwo_id.and_then(|id| unit_of(&dwarf, id)) else {
            return Ok((None, skeleton));
        };
        let unit = Unit::open(&dwarf, offset, Some(skeleton.root.inherited()))?;
        Ok((Some(dwarf), unit))
    }
}

fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
