//! Files that lie: every truncation and many changed bytes end quickly, in a result or an error.

use image::{FileOffset, Image, ImageAddr, blocks, code, module_layout, probes};
use proptest::prelude::*;

use crate::peers::{self, PROGRAM};

/// Asks an image everything it can be asked; returns how much it answered, so that nothing is
/// optimised away.
fn exercise(bytes: Vec<u8>) -> usize {
    let Ok(image) = Image::from_bytes("changed", bytes) else { return 0 };
    let mut answers =
        image.segments().len() + image.sections().len() + usize::from(image.build_id().is_some());
    for section in image.sections() {
        answers += image.section_name(section).len();
        answers += image.section_bytes(section).ok().flatten().map_or(0, |bytes| bytes.len());
    }
    for range in image.code_ranges() {
        answers += code::instructions(&image, range.start).take(100).count();
        answers +=
            image.offset_of(range.start).and_then(|offset| image.address_of(offset)).is_some()
                as usize;
    }
    for function in image.functions().iter().take(1000) {
        answers += image.functions().find(function.address).map_or(0, |found| found.name.len());
        answers += image.functions().at(function.address).count();
    }
    answers += image.functions().find(ImageAddr(u64::MAX)).is_some() as usize;
    answers += image.address_of(FileOffset(u64::MAX)).is_some() as usize;
    answers += image.kernel_symbol("_text").is_some() as usize;
    answers += blocks::read(&image).map_or(0, |functions| functions.len());
    answers += probes::Probes::read(&image).map_or(0, |probes| probes.iter().count());
    answers + module_layout::placed_sections(&image).len()
}

fn object() -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let source = "int f(int x) { return x ? f(x - 1) * 2 : 1; }\n\
                  __attribute__((section(\".modinfo\"), used)) static const char m[] = \"license=GPL\";";
    let arguments = ["-c", "-gz", "-fbasic-block-address-map", "-fpseudo-probe-for-profiling"];
    let path = peers::compile(directory.path(), "small.ko", source, &arguments)?;
    Some(std::fs::read(path).unwrap())
}

fn change_every_byte(original: &[u8], step: usize) -> usize {
    let mut answers = 0;
    for offset in (0..original.len()).step_by(step) {
        for mask in [0x01, 0x80, 0xff] {
            let mut bytes = original.to_vec();
            bytes[offset] ^= mask;
            answers += exercise(bytes);
        }
    }
    answers
}

#[test]
fn every_truncation_of_an_image_ends_in_a_result_or_an_error() {
    let original = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    assert!(exercise(original.clone()) > 5000);
    for length in 0..original.len() {
        assert!(
            Image::from_bytes("cut", original[..length].to_vec()).is_err()
                || exercise(original[..length].to_vec()) > 0
        );
    }
    let Some(object) = object() else { return };
    for length in 0..object.len() {
        exercise(object[..length].to_vec());
    }
}

#[test]
fn every_changed_byte_of_a_small_image_ends_in_a_result_or_an_error() {
    // Headers completely, the rest sampled: most of it is code and debug information that is only
    // copied.
    let original = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    change_every_byte(&original, 5);
    for offset in (0..64 + 11 * 56).chain(0x1af8..original.len()) {
        let mut bytes = original.clone();
        bytes[offset] = 0xff;
        exercise(bytes);
    }
    if let Some(object) = object() {
        change_every_byte(&object, 1);
    }
}

#[test]
fn a_larger_program_with_changed_headers_ends_in_a_result_or_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let arguments =
        ["-nostdlib", "-static", "-fuse-ld=lld", "-fbasic-block-address-map", "-Wl,--build-id"];
    let Some(path) = peers::compile(directory.path(), "program", PROGRAM, &arguments) else {
        return;
    };
    change_every_byte(&std::fs::read(path).unwrap(), 37);
}

#[test]
fn a_section_that_claims_to_unpack_to_terabytes_is_refused() {
    let mut bytes = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    // ch_size of .debug_info.
    bytes[0xc28 + 8..0xc28 + 16].copy_from_slice(&(1u64 << 42).to_le_bytes());
    let image = Image::from_bytes("bomb", bytes).unwrap();
    let message = image.try_section(".debug_info").unwrap_err().to_string();
    assert!(message.contains(".debug_info") && message.contains("is not believed"), "{message}");
    assert!(image.section(".debug_info").is_none());
}

#[test]
fn header_tables_with_huge_counts_are_refused_at_once() {
    let original = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    let refused = |changes: &[(usize, &[u8])]| {
        let mut bytes = original.clone();
        changes.iter().for_each(|(offset, value)| {
            bytes[*offset..offset + value.len()].copy_from_slice(value)
        });
        Image::from_bytes("huge", bytes).map(|_| ()).unwrap_err().to_string()
    };
    let huge = (1u64 << 60).to_le_bytes();
    // e_shnum 0 means: the number stands in sh_size of section 0.
    let message = refused(&[(0x3c, &[0, 0]), (0x1af8 + 32, &huge)]);
    assert!(
        message.contains("section header table cannot be read") && message.contains("9656 bytes"),
        "{message}"
    );
    // e_phnum 0xffff means: the number stands in sh_info of section 0.
    assert!(
        refused(&[(0x38, &[0xff, 0xff]), (0x1af8 + 44, &[0xff; 4])])
            .contains("program header table")
    );
    assert!(refused(&[(0x28, &huge)]).contains("section header table"));
    // A symbol table larger than the file leaves the image with what the dynamic one has.
    let mut bytes = original.clone();
    bytes[0x1af8 + 40 * 64 + 32..][..8].copy_from_slice(&huge);
    let image = Image::from_bytes("huge", bytes).unwrap();
    assert!(image.has_only_dynamic_symbols());
    assert_eq!(
        image.functions().iter().map(|function| function.name).collect::<Vec<_>>(),
        ["_init", "_fini"]
    );
}

#[test]
fn address_maps_that_claim_the_same_bytes_again_are_refused() {
    let mut bytes = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    let map = 0x1af8 + 37 * 64;
    let header: [u8; 64] = bytes[map..map + 64].try_into().unwrap();
    for section in 27..37 {
        bytes[0x1af8 + section * 64..][..64].copy_from_slice(&header);
        bytes[0x1af8 + section * 64 + 32..][..8].copy_from_slice(&4000u64.to_le_bytes());
    }
    let message =
        blocks::read(&Image::from_bytes("twice", bytes).unwrap()).unwrap_err().to_string();
    assert!(message.contains("11 sections claim 40089 bytes"), "{message}");
}

#[test]
fn overlapping_functions_are_found_by_their_innermost() {
    // A thousand nested functions: each look-up must stay a binary search.
    let Some(path) = nested() else { return };
    let image = Image::from_bytes("nested", path).unwrap();
    let functions = image.functions();
    assert_eq!(
        functions.find(ImageAddr(image.kernel_symbol("f500").unwrap().0)).unwrap().name,
        "f500"
    );
    let outermost = functions.iter().next().unwrap();
    assert_eq!(outermost.name, "f0");
    assert_eq!(functions.find(ImageAddr(outermost.end().0 - 1)).unwrap().name, "f0");
    assert_eq!(functions.find(outermost.end()).map(|function| function.name), Some("_start"));
}

fn nested() -> Option<Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let mut text = String::from("__asm__(\".text\\n\"\n");
    for index in 0..1000 {
        text += &format!("\".type f{index},@function\\n.globl f{index}\\nf{index}: nop\\n\"\n");
    }
    for index in (0..1000).rev() {
        text += &format!("\"nop\\n.size f{index}, .-f{index}\\n\"\n");
    }
    text += ");void _start(void) {}";
    let arguments = ["-nostdlib", "-static", "-fuse-ld=lld"];
    let path = peers::compile(directory.path(), "nested", &text, &arguments)?;
    Some(std::fs::read(path).unwrap())
}

proptest! {
    #[test]
    fn any_bytes_after_an_elf_magic_end_in_a_result_or_an_error(
        class in 1u8..3, order in 1u8..3, tail in proptest::collection::vec(any::<u8>(), 0..400)
    ) {
        let mut bytes = vec![0x7f, b'E', b'L', b'F', class, order, 1, 0];
        bytes.extend(tail);
        exercise(bytes);
    }

    #[test]
    fn any_run_of_bytes_put_into_an_image_ends_in_a_result_or_an_error(
        offset in 0usize..9600, run in proptest::collection::vec(any::<u8>(), 1..24)
    ) {
        let mut bytes = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
        let end = (offset + run.len()).min(bytes.len());
        bytes[offset..end].copy_from_slice(&run[..end - offset]);
        exercise(bytes);
    }
}
