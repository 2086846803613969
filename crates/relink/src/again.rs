//! How is a program linked again in a layout of its basic blocks, from the archive of its link?
//!
//! Only where the linker makes the code, of bitcode: machine code has its blocks where the compiler
//! put them.

use std::fmt;
use std::fs;
use std::path::Path;

use beside::scratch::Scratch;
use beside::{directory_of, given};

use crate::error::Error;
use crate::inputs::Work;
use crate::kept::Kept;
use crate::layout::place;

/// A link that can be repeated.
pub struct Again(Kept);

/// The layout that a link gets.
#[derive(Debug, Clone, Copy)]
pub struct Blocks<'a> {
    /// The cc profile (`--lto-basic-block-sections`).
    pub clusters: &'a Path,
    /// The ld profile (`--symbol-ordering-file`).
    pub order: &'a Path,
}

impl fmt::Debug for Again {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Again").field("linker", &self.0.linker).finish_non_exhaustive()
    }
}

impl Again {
    /// Opens an archive that lld wrote with `--reproduce`. The lld that compiles its bitcode again
    /// must be the one that did before: the numbers of blocks in a layout are those of its code.
    ///
    /// # Errors
    ///
    /// [`Error::Archive`], [`Error::Option`], [`Error::NoLinker`], [`Error::Relocatable`],
    /// [`Error::File`]; [`Error::OtherLinker`].
    pub fn open(archive: &Path) -> Result<Again, Error> {
        let kept = Kept::open(archive)?;
        let (wrote, found) = (kept.written_by(), kept.linker.version());
        if !wrote.is_empty() && !found.starts_with(&wrote) {
            let (path, found) = (archive.to_owned(), found.to_owned());
            return Err(Error::OtherLinker { path, wrote, found });
        }
        Ok(Again(kept))
    }

    /// The bytes of the objects that it reads; other files may be among them.
    #[must_use]
    pub fn objects(&self) -> Vec<&[u8]> {
        self.0.objects()
    }

    /// Links the program to `out`. What is unpacked lies below `directory` meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Link`] when lld refuses, [`Error::File`].
    pub fn link(self, blocks: Blocks<'_>, directory: &Path, out: &Path) -> Result<(), Error> {
        let absolute = |path: &Path| std::path::absolute(path).map_err(Error::file(path, "find"));
        let (directory, clusters) = (absolute(directory)?, absolute(blocks.clusters)?);
        let order = given::read(blocks.order, given::DATA);
        let order = order.map_err(Error::file(blocks.order, "read"))?;
        fs::create_dir_all(&directory).map_err(Error::file(&directory, "create"))?;
        let home = Scratch::within(&directory);
        let home = home.map_err(Error::file(&directory, "make a directory in"))?;
        self.0.unpack(home.path())?;
        // Not held in memory while lld runs.
        let Kept { linker, response, .. } = self.0;
        let work = Work::new(home.path())?;
        work.write("order", &order)?;
        let options = [
            format!("--lto-basic-block-sections={}", clusters.display()),
            format!("--symbol-ordering-file={}", work.seen_from_root("order")),
            // Names of functions that the linker removed are no reason for a warning each.
            "--no-warn-symbol-ordering".to_owned(),
            "-o".to_owned(),
            work.seen_from_root("out"),
        ];
        let response = response.without_profile_order().without_relocations();
        let response = response.render(&[], &options);
        let response = work.write("response.txt", response.as_bytes())?;
        linker.link(&home.path().join("root"), &response)?;
        // Where a build would have made it.
        let folder = directory_of(out);
        fs::create_dir_all(folder).map_err(Error::file(folder, "create"))?;
        place(&work.path().join("out"), out)
    }
}
