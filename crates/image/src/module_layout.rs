//! Where the kernel puts the executable sections of a module.
//!
//! The kernel loads a `.ko` by itself: it strings the executable sections together in the order of
//! their headers, each at its own alignment, beginning at the module's address; sections whose name
//! begins with `.init` go elsewhere and are thrown away. A mapping event for a module therefore
//! does not cover file bytes, although it looks like one. Source: Linux, `kernel/module/main.c`,
//! `layout_sections` and `module_get_offset_and_type`.
//!
//! Not known from the file: on AArch64 the loader enlarges `.plt` when the module needs veneers;
//! sections that follow `.plt` then stand further on. Modules put `.plt` before `.text` only when
//! linked by hand.

use std::ops::Range;

use crate::{Image, ImageAddr, ImageKind};

/// An executable section of a module in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedSection {
    /// Its image addresses, which are file offsets.
    pub addresses: Range<ImageAddr>,
    /// Where it begins, in bytes from the module's address.
    pub bytes_from_base: u64,
}

/// The executable sections of a kernel module that stay loaded, in the order of their places. Empty
/// for other images.
pub fn placed_sections(image: &Image) -> Vec<PlacedSection> {
    let mut placed = Vec::new();
    let mut end = 0u64;
    if image.kind() != ImageKind::KernelModule {
        return placed;
    }
    for section in image.sections().iter().filter(|section| section.is_executable()) {
        if image.section_name(section).starts_with(".init") {
            continue;
        }
        let Some(start) = end.checked_next_multiple_of(section.align.max(1)) else { break };
        let last = section.address.checked_add(section.size);
        let (Some(last), Some(next)) = (last, start.checked_add(section.size)) else { break };
        if section.is_code() {
            placed.push(PlacedSection { addresses: section.address..last, bytes_from_base: start });
        }
        end = next;
    }
    placed
}

/// The image address of the byte that stands `bytes_from_base` after the module's address.
pub fn image_address(placed: &[PlacedSection], bytes_from_base: u64) -> Option<ImageAddr> {
    let after = placed.partition_point(|section| section.bytes_from_base <= bytes_from_base);
    let section = placed.get(after.checked_sub(1)?)?;
    let address = section
        .addresses
        .start
        .checked_add(bytes_from_base.checked_sub(section.bytes_from_base)?)?;
    section.addresses.contains(&address).then_some(address)
}
