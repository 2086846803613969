//! Where does an address of the kernel lie in the file of the kernel or of a module?
//!
//! The kernel's own map begins where a symbol of it lay (`_text`, or the one that the map's name
//! ends in), so that the distance from there leads to the address in vmlinux, whatever KASLR chose.
//! A module's map begins at the first of its executable sections.

use crate::files::Files;
use address_spaces::{FileId, KernelPart, MappedFile, Side, SpaceRef};
use image::module_layout::{self, PlacedSection};
use image::{Image, ImageAddr};
use perfdata::RuntimeAddr;

/// Said of a kernel whose place the recording does not tell.
pub(crate) const HIDDEN: &str = "the recording does not say where the kernel lay: record as root, \
                                 or with kernel.kptr_restrict=0";

/// What lies at the start of a map of the kernel's side.
#[derive(Debug)]
pub(crate) enum Begin {
    /// This address of vmlinux.
    Address(ImageAddr),
    /// The sections of a module.
    Sections(Vec<PlacedSection>),
}

impl Begin {
    /// That of a file; none where the recording or the file does not tell.
    pub(crate) fn of(file: &MappedFile, image: &Image) -> Option<Begin> {
        if KernelPart::of(&file.path) == KernelPart::Module {
            return Some(Begin::Sections(module_layout::placed_sections(image)));
        }
        if file.side == Side::HiddenKernel {
            return None;
        }
        let address = image
            .kernel_symbol(reference_symbol(&file.path))
            .or_else(|| image.kernel_symbol("_stext"))?;
        Some(Begin::Address(address))
    }
}

/// The symbol that lies at the start of the kernel's map.
pub(crate) fn reference_symbol(path: &str) -> &str {
    path.rsplit(']').next().filter(|name| name.starts_with('_')).unwrap_or("_text")
}

/// The file that an address lies in, and where.
pub(crate) fn place(
    files: &Files<'_>,
    kernel_space: SpaceRef<'_>,
    address: RuntimeAddr,
) -> Option<(FileId, ImageAddr)> {
    let mapping = kernel_space.find(address)?;
    let bytes = address.0.checked_sub(mapping.origin.0)?;
    let image = files.image(mapping.file)?;
    let at = match files.kernel_begin(mapping.file)? {
        Begin::Address(begin) => ImageAddr(begin.0.wrapping_add(bytes)),
        Begin::Sections(placed) => module_layout::image_address(placed, bytes)?,
    };
    image.is_executable_address(at).then_some((mapping.file, at))
}
