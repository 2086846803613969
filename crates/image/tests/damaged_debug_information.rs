//! Damaged debug information ends in an answer or an error, soon and without a panic.

#![allow(clippy::unwrap_used)]

use image::debug::DebugInfo;
use image::{DebugSearch, Image, ImageAddr};

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/autofdo/test.binary");

fn no_search() -> DebugSearch {
    DebugSearch { roots: Vec::new(), ..DebugSearch::default() }
}

/// Reads everything that can be read; the answers may be wrong but must exist.
fn exercise(bytes: Vec<u8>, addresses: &[ImageAddr]) -> Option<usize> {
    let image = Image::from_bytes("damaged", bytes).ok()?;
    let debug = DebugInfo::load(&image, &no_search()).ok()?;
    let functions = debug.functions_at(addresses, 1);
    assert_eq!(functions.of.len(), addresses.len());
    let resolved = debug.resolve(addresses, 2).ok()?;
    assert_eq!(resolved.stacks.len(), addresses.len());
    debug.all_function_names(1);
    debug.compiler_names(1);
    debug.main_unit(1);
    assert_eq!(debug.units_at(addresses, 1).len(), addresses.len());
    Some((0..addresses.len()).map(|position| resolved.frames(position).len()).sum())
}

/// Where the debug sections of a file stand in it.
fn debug_sections(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let image = Image::from_bytes("whole", bytes.to_vec()).unwrap();
    let is_debug = |section: &&image::Section| image.section_name(section).starts_with(".debug");
    let place = |section: &image::Section| {
        section.offset.0 as usize..(section.offset.0 + section.size) as usize
    };
    image.sections().iter().filter(is_debug).map(place).collect()
}

/// Changes one byte at a time, `runs` places in each debug section, to several values each.
fn change_bytes(bytes: &[u8], runs: usize) {
    let image = Image::from_bytes("whole", bytes.to_vec()).unwrap();
    let addresses: Vec<ImageAddr> = image
        .code_ranges()
        .flat_map(|range| (range.start.0..range.end.0).step_by(61))
        .map(ImageAddr)
        .collect();
    assert!(exercise(bytes.to_vec(), &addresses).is_some_and(|frames| frames > 0));
    for section in debug_sections(bytes) {
        let step = (section.len() / runs).max(1);
        for place in section.clone().take(300).step_by(step.min(7)).chain(section.step_by(step)) {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut damaged = bytes.to_vec();
                damaged[place] = value;
                exercise(damaged, &addresses);
            }
        }
    }
}

#[test]
fn single_changed_bytes_of_dwarf_2_do_no_harm() {
    change_bytes(&std::fs::read(FIXTURE).unwrap(), 40);
}

#[test]
fn single_changed_bytes_of_dwarf_5_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/other.cc");
    let flags =
        ["-O2", "-g", "-gdwarf-5", "-fdebug-info-for-profiling", "-shared", "-fPIC", "-nostdlib"];
    let compiled = std::process::Command::new("clang++-22")
        .args(flags)
        .args([source, "-o", "other.so"])
        .current_dir(directory.path())
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: clang++-22 is not installed");
        return;
    }
    change_bytes(&std::fs::read(directory.path().join("other.so")).unwrap(), 200);
}

#[test]
fn truncated_files_do_no_harm() {
    let bytes = std::fs::read(FIXTURE).unwrap();
    for length in (0..bytes.len()).step_by(1999) {
        exercise(bytes[..length].to_vec(), &[ImageAddr(0x40_1680)]);
    }
}
