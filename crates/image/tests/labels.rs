//! Names that only people are shown: local labels of assembly, and names that are no UTF-8.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use image::{Image, ImageAddr};
use std::path::Path;
use std::process::Command;

fn shell(directory: &Path, command: &str) {
    let status = Command::new("sh").args(["-c", command]).current_dir(directory).status().unwrap();
    assert!(status.success(), "{command}");
}

fn assembled(directory: &Path, program: &str) -> Image {
    std::fs::write(directory.join("a.s"), program).unwrap();
    shell(directory, "gcc -nostdlib -static -Wl,-Ttext=0x401000,-e,typed -o a a.s");
    Image::open(&directory.join("a")).unwrap()
}

/// By address, the name shown and the name of a compiler's function.
fn names(image: &Image, offset: u64) -> (Option<&str>, Option<&str>) {
    let at = ImageAddr(0x40_1000 + offset);
    let functions = image.functions();
    (functions.find_shown(at).map(|found| found.name), functions.find(at).map(|found| found.name))
}

#[test]
fn local_labels_name_code_that_is_no_functions_and_are_no_functions() {
    let dir = tempfile::tempdir().unwrap();
    let program = "
        .text
        .globl typed, unsized
        .type typed, @function
        .type unsized, @function
        typed:
            nop
        within:
            nop
        .size typed, . - typed
        alone:
        also_alone:
            nop
            nop
        $mark:
        next:
            nop
        unsized:
            nop
        inside:
            nop
    ";
    let image = assembled(dir.path(), program);
    let found: Vec<_> = (0..7).map(|offset| names(&image, offset)).collect();
    let typed = (Some("typed"), Some("typed"));
    let expected = [
        typed,
        typed,
        // The longer of two names, as perf does.
        (Some("also_alone"), None),
        (Some("also_alone"), None),
        (Some("next"), None),
        (Some("unsized"), Some("unsized")),
        (Some("inside"), Some("unsized")),
    ];
    assert_eq!(found, expected);
    let labels: Vec<_> =
        image.functions().local_labels().map(|label| (label.name, label.size)).collect();
    assert_eq!(labels, [("alone", 2), ("also_alone", 2), ("next", 1), ("inside", 1)]);
    assert_eq!(image.functions().len(), 2);
}

#[test]
fn a_name_that_is_no_utf_8_is_shown_with_a_replacement_character() {
    let dir = tempfile::tempdir().unwrap();
    let program = "
        .text
        .globl typed
        .type typed, @function
        .type name_XY, @function
        typed:
            nop
        .size typed, . - typed
        name_XY:
            nop
        .size name_XY, . - name_XY
    ";
    assembled(dir.path(), program);
    shell(dir.path(), r"sed -i 's/name_XY/name_\xff\xfe/' a");
    let image = Image::open(&dir.path().join("a")).unwrap();
    assert_eq!(names(&image, 1), (Some("name_\u{fffd}\u{fffd}"), Some("name_\u{fffd}\u{fffd}")));
    assert_eq!(names(&image, 0).0, Some("typed"));
    assert_eq!(image.functions().unusable_symbols(), 0);
}
