//! The fixtures, compared with what the LLVM tools print about them.

use image::{Arch, Endian, FileOffset, Image, ImageAddr, ImageKind};

use crate::peers;

#[test]
fn every_instruction_of_the_fixture_is_the_one_llvm_objdump_shows() {
    let image = Image::open(&peers::fixture("autofdo/test.binary")).unwrap();
    let count = peers::assert_same_instructions(&image, ".text");
    assert!(count == 0 || count == 7701, "{count}");
    peers::assert_same_instructions(&image, ".plt");
    let image = Image::open(&peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    peers::assert_same_instructions(&image, ".text");
}

#[test]
fn the_fixture_has_the_segments_and_functions_that_llvm_readelf_lists() {
    let image = Image::open(&peers::fixture("autofdo/test.binary")).unwrap();
    assert_eq!((image.arch(), image.kind()), (Arch::X86_64, ImageKind::Executable));
    assert_eq!((image.is_64(), image.endian(), image.build_id()), (true, Endian::Little, None));
    let [text, data] = image.segments() else { panic!("{:?}", image.segments()) };
    assert_eq!(
        (text.address, text.offset, text.file_bytes),
        (ImageAddr(0x40_0000), FileOffset(0), 0x9f94)
    );
    assert!(text.executable && !data.executable);
    assert_eq!(
        (data.address, data.offset, data.memory_bytes),
        (ImageAddr(0x60_a000), FileOffset(0xa000), 0x51930)
    );
    peers::assert_same_functions(&image, ".symtab");
    assert_eq!(image.functions().find(ImageAddr(0x400b81)).unwrap().name, "main");
    assert_eq!(image.functions().find(ImageAddr(0x400ea9)).unwrap().end(), ImageAddr(0x400eaa));
    assert_eq!(image.kernel_symbol("longest_match"), Some(ImageAddr(0x401680)));
    assert_eq!(image.kernel_symbol("longest_matc"), None);
}

#[test]
fn addresses_and_file_offsets_of_a_pie_are_told_apart() {
    let image = Image::open(&peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    assert_eq!(image.kind(), ImageKind::PositionIndependent);
    assert_eq!(image.build_id().unwrap().to_string(), "1196848fa8e39e61");
    assert_eq!(image.address_of(FileOffset(0x6e0)), Some(ImageAddr(0x16e0)));
    assert_eq!(image.offset_of(ImageAddr(0x17d0)), Some(FileOffset(0x7d0)));
    assert_eq!(image.address_of(FileOffset(0x10)), Some(ImageAddr(0x10)));
    // The gap between two segments, and memory that has no file bytes.
    assert_eq!(image.address_of(FileOffset(0x6d8)), None);
    assert_eq!(image.offset_of(ImageAddr(0x3c2a)), None);
    assert!(image.is_executable_address(ImageAddr(0x16e0)));
    assert!(!image.is_executable_address(ImageAddr(0x16df)));
    assert!(!image.is_executable_address(ImageAddr(0x19c4 + 0x17)));
    assert_eq!(image.code_at(ImageAddr(0x19c4)).unwrap().len(), 0x17);
    assert_eq!(image.code_at(ImageAddr(0x2a10)), None);
    peers::assert_same_functions(&image, ".symtab");
}

#[test]
fn compressed_sections_read_like_those_llvm_objcopy_unpacks() {
    let directory = tempfile::tempdir().unwrap();
    let packed = peers::fixture("autofdo/propeller_sample.bin");
    let plain = directory.path().join("plain");
    let (from, to) = (packed.to_str().unwrap(), plain.to_str().unwrap());
    if peers::output_of("llvm-objcopy-22", &["--decompress-debug-sections", from, to]).is_none() {
        return;
    }
    let (packed, plain) = (Image::open(&packed).unwrap(), Image::open(&plain).unwrap());
    for name in [".debug_info", ".debug_str", ".debug_line", ".debug_loclists"] {
        let content = packed.try_section(name).unwrap().unwrap();
        assert_eq!(content, plain.section(name).unwrap(), "{name}");
        // Unpacked once, then lent.
        assert!(matches!(packed.section(name), Some(std::borrow::Cow::Borrowed(_))));
    }
    assert!(packed.section(".no_such_section").is_none());
    // The old form of GNU tools, in sections that have other names.
    let old = directory.path().join("old");
    let arguments = ["--compress-debug-sections=zlib-gnu", to, old.to_str().unwrap()];
    if peers::output_of("objcopy", &arguments).is_some() {
        let old = Image::open(&old).unwrap();
        assert!(old.section_by_name(".zdebug_info").is_some());
        assert_eq!(old.try_section(".debug_info").unwrap(), plain.section(".debug_info"));
    }
    // zstd, from the unpacked file.
    let zstd = directory.path().join("zstd");
    let arguments = ["--compress-debug-sections=zstd", to, zstd.to_str().unwrap()];
    if peers::output_of("llvm-objcopy-22", &arguments).is_some() {
        let zstd = Image::open(&zstd).unwrap();
        assert_eq!(zstd.try_section(".debug_str").unwrap(), plain.section(".debug_str"));
    }
}

#[test]
fn a_file_without_section_headers_still_has_code_and_a_build_id() {
    let mut bytes = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    // e_shoff, then e_shnum and e_shstrndx.
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
    let image = Image::from_bytes("stripped", bytes).unwrap();
    assert_eq!(image.build_id().unwrap().to_string(), "1196848fa8e39e61");
    assert!(image.sections().is_empty() && image.functions().is_empty());
    assert_eq!(image.code_at(ImageAddr(0x16e0)).unwrap().len(), 0x330);
    let kinds = image::code::instructions(&image, ImageAddr(0x17d0)).take(7).last().unwrap();
    assert_eq!(kinds.target, Some(ImageAddr(0x17f9)));
}

#[test]
fn what_is_no_elf_file_is_named_as_such() {
    let message = |bytes: &[u8]| Image::from_bytes("x", bytes.to_vec()).unwrap_err().to_string();
    assert!(message(b"#!/bin/sh\n").contains("not an ELF file"));
    assert!(message(b"").contains("not an ELF file"));
    assert!(message(b"\xfd7zXZ\0").contains("unpack it with unxz"));
    assert!(message(b"\x7fELF\x09").contains("found 9"));
    assert!(message(b"\x7fELF\x02\x01\x01").contains("the ELF header cannot be read"));
    assert!(
        Image::open(std::path::Path::new("/"))
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
}
