//! Which ELF file a recorded mapping means, and where its addresses lie in that file.
//!
//! A recorded build ID decides alone: equal IDs bind whatever the file is called, different ones
//! never bind. Only where the recording or the file has no build ID does the file name decide, and
//! that is remembered. The kernel is known by its map's name; where the recording tells its build
//! ID, a file without one is not taken for it.

use crate::listed::{ListedId, ids_of, lasting};
use crate::model::base_name;
use address_spaces::{FileId, KernelPart, MappedFile, Mapping, Side, is_vmlinux, module_name};
use image::module_layout::{self, PlacedSection};
use image::{FileOffset, Image, ImageAddr, ImageKind, Segment};
use perfdata::RuntimeAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Number of an image among all that files are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ImageId(u32);

/// What a mapped file turned out to be.
#[derive(Clone, Debug)]
pub enum Binding {
    /// This image.
    Image(BoundImage),
    /// Not a file: vdso, JIT code, anonymous memory.
    NoFile,
    /// A file that was not asked for.
    Other,
    /// A file that is not there or no readable ELF file; the reason in words.
    Unavailable(String),
    /// A file of the right name and another build: recorded ID, ID found.
    BuildIdMismatch(String, String),
}

/// Bindings of all files of a timeline, made when first asked for.
pub struct Bindings<'t> {
    files: &'t [MappedFile],
    asked_for: &'t [Arc<Image>],
    /// Build IDs that the recording lists.
    listed: Vec<ListedId>,
    /// Where else a file may be that is not at its recorded path.
    elsewhere: Option<Elsewhere<'t>>,
    bound: Vec<OnceLock<Binding>>,
}

/// Finds a file that is not at its recorded path, such as one of another mount namespace.
pub type Elsewhere<'e> = &'e (dyn Fn(&MappedFile) -> Option<Image> + Sync);

impl<'t> Bindings<'t> {
    /// Binds `files` to the images `asked_for`; where that is empty, to whatever lies at the
    /// recorded paths. `listed` are the build IDs that the recording lists.
    pub fn new(
        files: &'t [MappedFile],
        asked_for: &'t [Arc<Image>],
        listed: Vec<ListedId>,
    ) -> Self {
        Bindings {
            files,
            asked_for,
            listed,
            elsewhere: None,
            bound: files.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// Also looks there.
    #[must_use]
    pub fn with_elsewhere(self, elsewhere: Option<Elsewhere<'t>>) -> Self {
        Bindings { elsewhere, ..self }
    }

    /// What `file` is.
    pub fn get(&self, file: FileId) -> &Binding {
        const NONE: Binding = Binding::NoFile;
        match (self.bound.get(file.0 as usize), self.files.get(file.0 as usize)) {
            (Some(cell), Some(mapped)) => cell.get_or_init(|| self.bind(file, mapped)),
            _ => const { &NONE },
        }
    }

    /// All files with what they were bound to, where somebody asked.
    pub fn bound(&self) -> impl Iterator<Item = (&MappedFile, &Binding)> {
        self.files.iter().zip(&self.bound).filter_map(|(f, b)| Some((f, b.get()?)))
    }

    fn bind(&self, id: FileId, file: &MappedFile) -> Binding {
        let recorded = ids_of(file, &self.listed);
        if self.asked_for.is_empty() {
            // Each file has an image of its own.
            let id = ImageId(id.0);
            let at_path = bind_recorded_path(id, file, &recorded);
            let lacks = matches!(&at_path, Binding::Unavailable(_) | Binding::BuildIdMismatch(..));
            let elsewhere = self.elsewhere.filter(|_| lacks);
            let found = elsewhere.and_then(|find| find(file));
            let known = found.filter(|image| recorded.is_empty() || has_any_id(image, &recorded));
            return known.map_or(at_path, |image| {
                let by_name =
                    recorded.is_empty().then(|| lacking(&recorded, image.build_id().is_some()));
                bound(file, id, Arc::new(image), by_name)
            });
        }
        let asked_for = || (0..).map(ImageId).zip(self.asked_for);
        if let Some((id, image)) = asked_for().find(|(_, image)| has_any_id(image, &recorded)) {
            return bound(file, id, Arc::clone(image), None);
        }
        let mut verdict = if is_file_name(&file.path) || file.side.is_kernel() {
            Binding::Other
        } else {
            Binding::NoFile
        };
        for (id, image) in asked_for().filter(|(_, image)| same_name(file, image)) {
            match image.build_id() {
                Some(own) if !recorded.is_empty() => {
                    verdict = Binding::BuildIdMismatch(hex_all(&recorded), own.to_string());
                }
                // Every kernel is linked with a build ID, so a file without one was made of it by
                // other means.
                None if !recorded.is_empty() && file.side.is_kernel() => {
                    verdict = Binding::BuildIdMismatch(hex_all(&recorded), "none".into());
                }
                own => {
                    let lacking = lacking(&recorded, own.is_some());
                    return bound(file, id, Arc::clone(image), Some(lacking));
                }
            }
        }
        verdict
    }
}

fn bind_recorded_path(id: ImageId, file: &MappedFile, recorded: &[&[u8]]) -> Binding {
    if file.side.is_kernel() && !is_file_name(&file.path) {
        return Binding::Unavailable("name the kernel's vmlinux with --binary".into());
    }
    if !is_file_name(&file.path) {
        return Binding::NoFile;
    }
    let image = match Image::open(Path::new(lasting(&file.path))) {
        Ok(image) => image,
        Err(error) => return Binding::Unavailable(error.to_string()),
    };
    if has_any_id(&image, recorded) {
        return bound(file, id, Arc::new(image), None);
    }
    match image.build_id() {
        _ if recorded.is_empty() => {
            let lacking = lacking(recorded, image.build_id().is_some());
            bound(file, id, Arc::new(image), Some(lacking))
        }
        Some(own) => Binding::BuildIdMismatch(hex_all(recorded), own.to_string()),
        None => Binding::BuildIdMismatch(hex_all(recorded), "none".into()),
    }
}

fn has_any_id(image: &Image, recorded: &[&[u8]]) -> bool {
    image.build_id().is_some_and(|own| recorded.iter().any(|id| own.matches_padded(id)))
}

/// Who has no build ID that could be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// The recording states none for the file.
    Recording,
    /// The file has none.
    File,
    /// Both.
    Both,
}

fn lacking(recorded: &[&[u8]], own: bool) -> Lacking {
    match (recorded.is_empty(), own) {
        (true, true) => Lacking::Recording,
        (false, _) => Lacking::File,
        (true, false) => Lacking::Both,
    }
}

/// An image with what it takes to find addresses of one mapped file in it.
#[derive(Clone, Debug)]
pub struct BoundImage {
    /// Its number: the same wherever it is the same image.
    pub id: ImageId,
    /// The image.
    pub image: Arc<Image>,
    /// Why nothing but its name says that it is the recorded file; `None` where a build ID does.
    pub by_name: Option<Lacking>,
    start: MappingStart,
}

/// What lies at the first address of a mapping.
#[derive(Clone, Debug)]
enum MappingStart {
    /// The byte of the file that the mapping record states.
    FileOffset,
    /// This address of the kernel.
    Address(ImageAddr),
    /// The first executable section of a module, as the kernel placed it.
    Module(Vec<PlacedSection>),
}

/// In the notes of files whose build ID is not the recorded one.
pub(crate) const ANOTHER_BUILD: &str = "recorded with build ID";
/// In the notes of kernels whose addresses were hidden.
pub(crate) const HIDDEN: &str = "the recording does not say where the kernel lay";

/// The kernel's own map starts at the run-time address of the symbol that its name ends in (`_text`
/// or `_stext`), so the difference to that symbol in vmlinux is the slide that KASLR chose. A
/// module's map starts where the kernel put the first of the module's executable sections.
fn bound(file: &MappedFile, id: ImageId, image: Arc<Image>, by_name: Option<Lacking>) -> Binding {
    let start = if !file.side.is_kernel() {
        MappingStart::FileOffset
    } else if image.kind() == ImageKind::KernelModule {
        MappingStart::Module(module_layout::placed_sections(&image))
    } else if file.side == Side::HiddenKernel {
        return Binding::Unavailable(format!(
            "{HIDDEN}: its addresses were hidden (kernel.kptr_restrict); record as root, or with \
             kernel.kptr_restrict=0"
        ));
    } else {
        let symbol = file.path.rsplit(']').next().filter(|s| s.starts_with('_')).unwrap_or("_text");
        let first_code = || image.segments().iter().find(|s| s.executable).map(|s| s.address);
        match image
            .kernel_symbol(symbol)
            .or_else(|| image.kernel_symbol("_stext"))
            .or_else(first_code)
        {
            Some(address) => MappingStart::Address(address),
            None => {
                return Binding::Unavailable("no symbol _text, no _stext and no code in it".into());
            }
        }
    };
    Binding::Image(BoundImage { id, image, by_name, start })
}

impl BoundImage {
    /// Where `address`, inside `mapping`, lies in the image; `None` outside its executable
    /// segments.
    pub fn address(&self, mapping: &Mapping, address: RuntimeAddr) -> Option<ImageAddr> {
        let into = address.0.checked_sub(mapping.origin.0)?;
        match &self.start {
            MappingStart::FileOffset => {
                let offset = FileOffset(into.checked_add(mapping.pgoff)?);
                executable_address(self.image.segments(), mapping, offset)
            }
            MappingStart::Address(start) => {
                let address = ImageAddr(into.wrapping_add(start.0));
                self.image.is_executable_address(address).then_some(address)
            }
            MappingStart::Module(placed) => module_layout::image_address(placed, into),
        }
    }
}

/// The executable segment that holds a file offset. Where segments share a page of the file, each
/// is mapped from the page its own bytes begin on, so the right one is the one whose bytes, not
/// only its pages, hold the offset.
fn executable_address(
    segments: &[Segment],
    mapping: &Mapping,
    offset: FileOffset,
) -> Option<ImageAddr> {
    let holds =
        |s: &&Segment| offset.0.checked_sub(s.offset.0).is_some_and(|into| into < s.file_bytes);
    let mapped = |s: &&Segment| {
        s.offset.0 < mapping.pgoff.saturating_add(mapping.origin_len)
            && s.offset.0.saturating_add(s.file_bytes) > mapping.pgoff
    };
    let segment = segments.iter().filter(|s| s.executable).filter(mapped).find(holds)?;
    Some(ImageAddr(segment.address.0.wrapping_add(offset.0 - segment.offset.0)))
}

fn same_name(file: &MappedFile, image: &Image) -> bool {
    let own = image.path().to_string_lossy();
    let own = base_name(&own);
    if !file.side.is_kernel() {
        return base_name(lasting(&file.path)) == own;
    }
    match (KernelPart::of(&file.path), image.kind()) {
        (KernelPart::Module, ImageKind::KernelModule) => {
            module_name(&file.path) == module_name(own)
        }
        (KernelPart::Core { .. }, ImageKind::Kernel) => true,
        (KernelPart::Core { .. }, ImageKind::Executable | ImageKind::PositionIndependent) => {
            is_vmlinux(own)
        }
        _ => false,
    }
}

fn is_file_name(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//anon")
        && !path.starts_with("/dev/zero")
        && !path.starts_with("/memfd:")
        && !path.starts_with("/SYSV")
        || (!path.is_empty()
            && !path.starts_with('[')
            && !path.starts_with('/')
            && !path.contains(':'))
}

fn hex_all(ids: &[&[u8]]) -> String {
    ids.iter().map(hex::encode).collect::<Vec<_>>().join(" or ")
}
