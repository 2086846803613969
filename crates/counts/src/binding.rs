//! Which ELF file a recorded mapping means, and where its addresses lie in that file.
//!
//! A recorded build ID decides alone: equal IDs bind whatever the file is called, different ones never bind. Only where
//! the recording or the file has no build ID does the file name decide. The kernel is known by its map's name.

use crate::model::base_name;
use crate::timeline::{FileId, MappedFile, Mapping};
use image::module_layout::{self, PlacedSection};
use image::{FileOffset, Image, ImageAddr, ImageKind, Segment};
use perfdata::RuntimeAddr;
use std::path::Path;
use std::sync::{Arc, OnceLock};

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
    /// Build IDs that the recording's header lists, by path.
    listed: Vec<(String, Vec<u8>)>,
    bound: Vec<OnceLock<Binding>>,
}

impl<'t> Bindings<'t> {
    /// Binds `files` to the images `asked_for`; where that is empty, to whatever lies at the recorded paths.
    /// `listed` are (path, build ID) pairs from the recording's header.
    pub fn new(files: &'t [MappedFile], asked_for: &'t [Arc<Image>], listed: Vec<(String, Vec<u8>)>) -> Self {
        Bindings { files, asked_for, listed, bound: files.iter().map(|_| OnceLock::new()).collect() }
    }

    /// What `file` is.
    pub fn get(&self, file: FileId) -> &Binding {
        const NONE: Binding = Binding::NoFile;
        match (self.bound.get(file.0 as usize), self.files.get(file.0 as usize)) {
            (Some(cell), Some(mapped)) => cell.get_or_init(|| self.bind(mapped)),
            _ => const { &NONE },
        }
    }

    /// All files with what they were bound to, where somebody asked.
    pub fn bound(&self) -> impl Iterator<Item = (&MappedFile, &Binding)> {
        self.files.iter().zip(&self.bound).filter_map(|(f, b)| Some((f, b.get()?)))
    }

    fn recorded_id<'f>(&'f self, file: &'f MappedFile) -> Option<&'f [u8]> {
        file.build_id
            .as_deref()
            .or_else(|| {
                self.listed.iter().find(|(path, _)| is_listed_as(file, path)).map(|(_, id)| id.as_slice())
            })
            .filter(|id| id.iter().any(|&b| b != 0))
    }

    fn bind(&self, file: &MappedFile) -> Binding {
        if self.asked_for.is_empty() {
            return self.bind_recorded_path(file);
        }
        let recorded = self.recorded_id(file);
        if let Some(id) = recorded {
            let same = |i: &&Arc<Image>| i.build_id().is_some_and(|own| own.matches_padded(id));
            if let Some(image) = self.asked_for.iter().find(same) {
                return bound(file, Arc::clone(image));
            }
        }
        let mut verdict =
            if is_file_name(&file.path) || file.kernel { Binding::Other } else { Binding::NoFile };
        for image in self.asked_for.iter().filter(|i| same_name(file, i)) {
            match (recorded, image.build_id()) {
                (Some(id), Some(own)) => verdict = Binding::BuildIdMismatch(hex(id), own.to_string()),
                _ => return bound(file, Arc::clone(image)),
            }
        }
        verdict
    }

    fn bind_recorded_path(&self, file: &MappedFile) -> Binding {
        if file.kernel && !is_file_name(&file.path) {
            return Binding::Unavailable("name the kernel's vmlinux with --binary".into());
        }
        if !is_file_name(&file.path) {
            return Binding::NoFile;
        }
        let path = file.path.strip_suffix(" (deleted)").unwrap_or(&file.path);
        let image = match Image::open(Path::new(path)) {
            Ok(image) => image,
            Err(error) => return Binding::Unavailable(error.to_string()),
        };
        match (self.recorded_id(file), image.build_id()) {
            (Some(id), Some(own)) if !own.matches_padded(id) => {
                Binding::BuildIdMismatch(hex(id), own.to_string())
            }
            (Some(id), None) => Binding::BuildIdMismatch(hex(id), "none".into()),
            _ => bound(file, Arc::new(image)),
        }
    }
}

/// Whether the list of build IDs means this file by `path`. The mapping of a kernel has the symbol at its begin behind the
/// name, `[kernel.kallsyms]_text`, where the list has the name alone.
fn is_listed_as(file: &MappedFile, path: &str) -> bool {
    let rest = file.path.strip_prefix(path);
    rest == Some("") || (file.kernel && !path.is_empty() && matches!(rest, Some("_text" | "_stext")))
}

/// An image with what it takes to find addresses of one mapped file in it.
#[derive(Clone, Debug)]
pub struct BoundImage {
    /// The image.
    pub image: Arc<Image>,
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

/// The kernel's own map starts at the run-time address of the symbol that its name ends in (`_text` or `_stext`), so
/// the difference to that symbol in vmlinux is the slide that KASLR chose. A module's map starts where the kernel put
/// the first of the module's executable sections.
fn bound(file: &MappedFile, image: Arc<Image>) -> Binding {
    let start = if !file.kernel {
        MappingStart::FileOffset
    } else if image.kind() == ImageKind::KernelModule {
        MappingStart::Module(module_layout::placed_sections(&image))
    } else {
        let symbol = file.path.rsplit(']').next().filter(|s| !s.is_empty()).unwrap_or("_text");
        let first_code = || image.segments().iter().find(|s| s.executable).map(|s| s.address);
        match image.kernel_symbol(symbol).or_else(|| image.kernel_symbol("_stext")).or_else(first_code) {
            Some(address) => MappingStart::Address(address),
            None => return Binding::Unavailable("no symbol _text, no _stext and no code in it".into()),
        }
    };
    Binding::Image(BoundImage { image, start })
}

impl BoundImage {
    /// Where `address`, inside `mapping`, lies in the image; `None` outside its executable segments.
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

/// The executable segment that holds a file offset. Where segments share a page of the file, each is mapped from the
/// page its own bytes begin on, so the right one is the one whose bytes, not only its pages, hold the offset.
fn executable_address(segments: &[Segment], mapping: &Mapping, offset: FileOffset) -> Option<ImageAddr> {
    let holds = |s: &&Segment| offset.0.checked_sub(s.offset.0).is_some_and(|into| into < s.file_bytes);
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
    if file.kernel {
        return match image.kind() {
            ImageKind::Kernel => file.path.starts_with("[kernel"),
            ImageKind::KernelModule => module_name(&file.path) == module_name(own),
            _ => false,
        };
    }
    base_name(file.path.strip_suffix(" (deleted)").unwrap_or(&file.path)) == own
}

/// `[snd_hda]`, `/lib/…/snd-hda.ko.xz` and `snd-hda.ko` are one module.
fn module_name(path: &str) -> String {
    let name = base_name(path).trim_start_matches('[').trim_end_matches(']');
    name.split(".ko").next().unwrap_or(name).replace('-', "_")
}

fn is_file_name(path: &str) -> bool {
    path.starts_with('/')
        && !path.starts_with("//anon")
        && !path.starts_with("/dev/zero")
        && !path.starts_with("/memfd:")
        && !path.starts_with("/SYSV")
        || (!path.is_empty() && !path.starts_with('[') && !path.starts_with('/') && !path.contains(':'))
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_listed_without_the_symbol_that_its_mapping_names() {
        let file = |path: &str, kernel| MappedFile { path: path.to_owned(), build_id: None, kernel };
        for begin in ["_text", "_stext", ""] {
            let kernel = file(&format!("[kernel.kallsyms]{begin}"), true);
            assert!(is_listed_as(&kernel, "[kernel.kallsyms]"), "{begin}");
            assert!(!is_listed_as(&kernel, "[kernel") && !is_listed_as(&kernel, ""), "{begin}");
        }
        assert!(!is_listed_as(&file("/bin/a_text", false), "/bin/a"));
        assert!(is_listed_as(&file("/bin/a", false), "/bin/a"));
    }
}
