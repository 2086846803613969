//! The files that a recording names, opened when they are first needed, and which of their bytes
//! lies where.

use crate::build_ids::BuildIds;
use crate::kernel_code::Begin;
use address_spaces::{FileId, MappedFile, SpaceRef, Timeline};
use image::{BuildId, FileOffset, Image, ImageAddr};
use perfdata::RuntimeAddr;
use std::sync::{Arc, OnceLock};

/// A file that is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'f> {
    /// What the recording says of it.
    pub file: &'f MappedFile,
    /// The build ID that the recording states for it, in the mapping or in its list.
    pub id: Option<&'f BuildId>,
    /// Whether the recorded kernel is the running one and was not started again since.
    pub kernel_runs: bool,
}

/// A file that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// It.
    pub image: Arc<Image>,
    /// Why it may be another build than the recorded one.
    pub doubt: Option<String>,
    /// Why some of its functions have no names.
    pub lacks: Option<String>,
}

impl From<Arc<Image>> for Opened {
    fn from(image: Arc<Image>) -> Opened {
        Opened { image, doubt: None, lacks: None }
    }
}

/// Opens the file that ran, or gives one that is open; says why it cannot.
pub type Opener<'o> = dyn Fn(Wanted<'_>) -> Result<Opened, String> + Sync + 'o;

/// Whether a path stands for memory that is no file's, where programs put the code that they make.
/// Source: `is_anon_memory` and `is_no_dso_memory` in Linux's `tools/perf/util/map.h`.
pub fn is_anonymous(path: &str) -> bool {
    const BEGINS: [&str; 8] =
        ["//anon", "[anon", "[heap]", "[stack", "/dev/zero", "/anon_hugepage", "/SYSV", "/memfd:"];
    BEGINS.iter().any(|begin| path.starts_with(begin))
}

/// Where an address of a process lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// In an image, at an address of its own.
    In(FileId, ImageAddr),
    /// At an offset of a file that is not there, or that has no code there.
    At(FileId, FileOffset),
    /// Nothing is known to be mapped there.
    Nowhere,
}

/// The files.
pub(crate) struct Files<'f> {
    timeline: &'f Timeline,
    open: &'f Opener<'f>,
    kernel_runs: bool,
    ids: BuildIds,
    images: Vec<OnceLock<Result<Opened, String>>>,
    /// Of the kernel's side.
    begins: Vec<OnceLock<Option<Begin>>>,
}

impl<'f> Files<'f> {
    pub(crate) fn new(
        timeline: &'f Timeline,
        open: &'f Opener<'f>,
        kernel_runs: bool,
        ids: BuildIds,
    ) -> Files<'f> {
        let images = timeline.files().iter().map(|_| OnceLock::new()).collect();
        let begins = timeline.files().iter().map(|_| OnceLock::new()).collect();
        Files { timeline, open, kernel_runs, ids, images, begins }
    }

    /// What the recording says of a file.
    pub(crate) fn mapped(&self, file: FileId) -> Option<&'f MappedFile> {
        self.timeline.files().get(file.0 as usize)
    }

    /// The build ID that the recording states for a file.
    pub(crate) fn id(&self, file: FileId) -> Option<BuildId> {
        self.ids.id_of(self.mapped(file)?)
    }

    /// Whether it stands for memory that is no file's.
    pub(crate) fn is_anonymous(&self, file: FileId) -> bool {
        self.mapped(file).is_some_and(|mapped| is_anonymous(&mapped.path))
    }

    /// The image of a file, if it is there.
    pub(crate) fn image(&self, file: FileId) -> Option<&Image> {
        let slot = self.images.get(file.0 as usize)?;
        if let Some(known) = slot.get() {
            return known.as_ref().ok().map(|opened| &*opened.image);
        }
        let (mapped, id) = (self.mapped(file)?, self.id(file));
        let wanted = Wanted { file: mapped, id: id.as_ref(), kernel_runs: self.kernel_runs };
        slot.get_or_init(|| (self.open)(wanted)).as_ref().ok().map(|opened| &*opened.image)
    }

    /// The image of a file that was opened before.
    pub(crate) fn opened(&self, file: FileId) -> Option<&Image> {
        self.images.get(file.0 as usize)?.get()?.as_ref().ok().map(|opened| &*opened.image)
    }

    /// Where an address lies in the file that is mapped there.
    pub(crate) fn offset(&self, space: SpaceRef<'_>, address: RuntimeAddr) -> Option<FileOffset> {
        let mapping = space.find(address)?;
        let distance = address.0.saturating_sub(mapping.origin.0);
        Some(FileOffset(distance.saturating_add(mapping.pgoff)))
    }

    /// What lies at the start of the map of a file of the kernel's side.
    pub(crate) fn kernel_begin(&self, file: FileId) -> Option<&Begin> {
        let slot = self.begins.get(file.0 as usize)?;
        slot.get_or_init(|| Begin::of(self.mapped(file)?, self.image(file)?)).as_ref()
    }

    /// Files that were asked for: what was opened, or why it could not be.
    pub(crate) fn asked_for(&self) -> impl Iterator<Item = (FileId, &Result<Opened, String>)> {
        (0u32..).zip(&self.images).filter_map(|(number, slot)| Some((FileId(number), slot.get()?)))
    }

    /// Where an address lies.
    pub(crate) fn place(&self, space: SpaceRef<'_>, address: RuntimeAddr) -> Place {
        let Some(mapping) = space.find(address) else { return Place::Nowhere };
        let distance = address.0.saturating_sub(mapping.origin.0);
        let offset = FileOffset(distance.saturating_add(mapping.pgoff));
        match self.image(mapping.file).and_then(|image| image.address_of(offset)) {
            Some(at) => Place::In(mapping.file, at),
            None => Place::At(mapping.file, offset),
        }
    }
}
