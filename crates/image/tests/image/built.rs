//! Programs built on the spot: every linker layout that samples have to be mapped through.

use std::path::Path;

use image::{Arch, Image, ImageAddr, ImageKind};

use crate::peers::{self, PROGRAM};

/// Segments as llvm-readelf lists them: address, offset, file size, memory size, executable,
/// alignment.
fn listed_segments(path: &Path) -> Vec<(u64, u64, u64, u64, bool, u64)> {
    let text =
        peers::output_of("llvm-readelf-22", &["-lW", path.to_str().unwrap()]).unwrap_or_default();
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&"LOAD") {
            return None;
        }
        let number =
            |index: usize| u64::from_str_radix(words[index].trim_start_matches("0x"), 16).unwrap();
        let executable = words[6..words.len() - 1].iter().any(|flags| flags.contains('E'));
        let align =
            u64::from_str_radix(words[words.len() - 1].trim_start_matches("0x"), 16).unwrap();
        Some((number(2), number(1), number(4), number(5), executable, align))
    };
    let mut list: Vec<_> = text.lines().filter_map(row).collect();
    list.sort_unstable();
    list
}

#[track_caller]
fn check(name: &str, arguments: &[&str], kind: ImageKind, arch: Arch) -> Option<Image> {
    let directory = tempfile::tempdir().unwrap();
    let path = peers::compile(directory.path(), name, PROGRAM, arguments)?;
    let image = Image::open(&path).unwrap();
    assert_eq!((image.kind(), image.arch()), (kind, arch));
    let own = image.segments().iter().map(|segment| {
        let (address, offset) = (segment.address.0, segment.offset.0);
        (
            address,
            offset,
            segment.file_bytes,
            segment.memory_bytes,
            segment.executable,
            segment.align,
        )
    });
    assert_eq!(own.collect::<Vec<_>>(), listed_segments(&path));
    peers::assert_same_functions(&image, ".symtab");
    for section in image.sections().iter().filter(|section| section.is_code()) {
        peers::assert_same_instructions(&image, image.section_name(section));
    }
    for function in image.functions().iter() {
        let offset = image.offset_of(function.address).unwrap();
        assert_eq!(image.address_of(offset), Some(function.address), "{}", function.name);
        let code = image.code_at(function.address).unwrap();
        assert_eq!(code.first(), image.bytes().get(offset.0 as usize), "{}", function.name);
    }
    let aliases: Vec<&str> = image
        .functions()
        .at(image.kernel_symbol("twice").unwrap())
        .map(|function| function.name)
        .collect();
    assert_eq!(aliases, ["alias_of_twice", "twice"]);
    assert_eq!(
        image.functions().find(image.kernel_symbol("raw_entry").unwrap()).unwrap().name,
        "raw_entry"
    );
    Some(image)
}

const LLD: &[&str] = &["-nostdlib", "-fuse-ld=lld"];

#[test]
fn static_and_position_independent_programs_are_mapped() {
    let arguments = [LLD, &["-static", "-Wl,--build-id=sha1"]].concat();
    if let Some(image) = check("static", &arguments, ImageKind::Executable, Arch::X86_64) {
        assert_eq!(image.build_id().unwrap().as_bytes().len(), 20);
    }
    check("pie", &[LLD, &["-static-pie"]].concat(), ImageKind::PositionIndependent, Arch::X86_64);
    check(
        "bfd",
        &["-nostdlib", "-static", "-Wl,-z,noseparate-code"],
        ImageKind::Executable,
        Arch::X86_64,
    );
}

#[test]
fn layouts_for_64_kib_pages_and_separate_segments_are_mapped() {
    let pages = [LLD, &["-static-pie", "-Wl,-z,max-page-size=65536"]].concat();
    if let Some(image) = check("pages", &pages, ImageKind::PositionIndependent, Arch::X86_64) {
        assert!(image.segments().iter().all(|segment| segment.align == 0x10000));
    }
    let separate = [LLD, &["-static-pie", "-Wl,-z,separate-loadable-segments"]].concat();
    check("separate", &separate, ImageKind::PositionIndependent, Arch::X86_64);
}

#[test]
fn aarch64_programs_are_mapped_and_decoded() {
    let target = ["--target=aarch64-linux-gnu", "-mbranch-protection=standard", "-static"];
    let arguments = [LLD, &target, &["-Wl,-z,max-page-size=65536"]].concat();
    check("arm", &arguments, ImageKind::Executable, Arch::Aarch64);
}

#[test]
fn thirty_two_bit_programs_are_mapped_and_decoded() {
    let arguments = [LLD, &["-m32", "-static", "-fno-pic"]].concat();
    check("small", &arguments, ImageKind::Executable, Arch::Other(3));
}

#[test]
fn big_endian_programs_are_mapped() {
    let arguments = [LLD, &["--target=aarch64_be-linux-gnu", "-static"]].concat();
    let Some(image) = check("big", &arguments, ImageKind::Executable, Arch::Aarch64) else {
        return;
    };
    assert_eq!(image.endian(), image::Endian::Big);
}

#[test]
fn several_executable_segments_in_any_order_are_mapped() {
    let directory = tempfile::tempdir().unwrap();
    // The headers list the later address first, and a data segment stands between the two.
    let script = "PHDRS { cold PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); text PT_LOAD FLAGS(5); } \
                  SECTIONS { . = 0x600000; .text.unlikely : { *(.text.unlikely) } :cold \
                  . = 0x500000; .data : { *(.data*) *(.bss) *(.rodata*) } :data \
                  . = 0x400000; .text : { *(.text) } :text }";
    let path = directory.path().join("script");
    std::fs::write(&path, script).unwrap();
    let script = format!("-Wl,-T,{}", path.display());
    let arguments = [LLD, &["-static", "-Wl,--build-id=none", &script]].concat();
    let Some(image) = check("several", &arguments, ImageKind::Executable, Arch::X86_64) else {
        return;
    };
    assert_eq!(image.segments().iter().filter(|segment| segment.executable).count(), 2);
    let ranges: Vec<ImageAddr> = image.code_ranges().map(|range| range.start).collect();
    assert!(ranges.is_sorted() && ranges.len() == 2, "{ranges:?}");
}

#[test]
fn a_kernel_is_recognised_and_its_slide_marks_are_found() {
    let source = format!(
        "{PROGRAM}\n__attribute__((section(\"__ksymtab\"))) int exported = 1;\n\
         __asm__(\".section .head.text, \\\"ax\\\"\\n.globl _text\\n_text: nop\\n.globl _stext\\n_stext: nop\\n\");"
    );
    let directory = tempfile::tempdir().unwrap();
    // As on x86-64: file offsets begin at 2 MiB, addresses in the top two gigabytes.
    let script = "PHDRS { text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); } SECTIONS { . = 0xffffffff81000000; \
                  .text : { *(.head.text) *(.text*) } :text . = ALIGN(0x200000); .data : { *(.data*) *(.bss) *(.rodata*) } :data \
                  __ksymtab : { *(__ksymtab) } :data }";
    let path = directory.path().join("script");
    std::fs::write(&path, script).unwrap();
    let script = format!("-Wl,-T,{}", path.display());
    let arguments =
        [LLD, &["-static", "-mcmodel=kernel", "-Wl,-z,max-page-size=0x200000", &script]].concat();
    let Some(path) = peers::compile(directory.path(), "vmlinux", &source, &arguments) else {
        return;
    };
    let image = Image::open(&path).unwrap();
    assert_eq!(image.kind(), ImageKind::Kernel);
    assert_eq!(image.kernel_symbol("_text"), Some(ImageAddr(0xffff_ffff_8100_0000)));
    assert_eq!(image.kernel_symbol("_stext"), Some(ImageAddr(0xffff_ffff_8100_0001)));
    let text = image.segments().iter().find(|segment| segment.executable).unwrap();
    assert_eq!(text.address, ImageAddr(0xffff_ffff_8100_0000));
    assert_eq!(image.address_of(text.offset), Some(text.address));
    peers::assert_same_instructions(&image, ".text");
}

#[test]
fn opening_a_file_of_a_gigabyte_reads_only_its_headers() {
    let resident = || {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("huge");
    // The fixture, with its section headers moved behind a gigabyte of zeros.
    let mut bytes = std::fs::read(peers::fixture("autofdo/propeller_sample.bin")).unwrap();
    let headers = bytes.split_off(0x1af8);
    bytes[0x28..0x30].copy_from_slice(&(1u64 << 30).to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &headers, 1 << 30).unwrap();
    let before = resident();
    let image = Image::open(&path).unwrap();
    assert_eq!(image.functions().find(ImageAddr(0x1820)).unwrap().name, "main");
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes were loaded");
}

#[test]
fn the_compilers_of_a_program_are_named_and_its_linker_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(file("a.c"), "int a(void) { return 1; }\n").unwrap();
    std::fs::write(file("b.c"), "int a(void); int b(void) { return a(); }\n").unwrap();
    let (a, b, program) = (file("a.o"), file("b.o"), file("program"));
    let compiled = peers::output_of("clang-22", &["-c", "-o", &a, &file("a.c")]).is_some()
        && peers::output_of("gcc", &["-c", "-o", &b, &file("b.c")]).is_some();
    let link = ["-nostdlib", "-fuse-ld=lld", "-shared", "-o", &program, &a, &b];
    if !compiled || peers::output_of("clang-22", &link).is_none() {
        return;
    }
    let compilers = |path: &str| {
        Image::open(Path::new(path)).unwrap().compilers().into_iter().collect::<Vec<_>>()
    };
    let version = peers::output_of("clang-22", &["--version"]).unwrap();
    let (clang, gcc) = (compilers(&a), compilers(&b));
    assert_eq!(clang, [version.lines().next().unwrap()]);
    assert!(gcc.len() == 1 && gcc[0].starts_with("GCC: ("), "{gcc:?}");
    let comment = std::fs::read(&program).unwrap();
    assert!(comment.windows(8).any(|bytes| bytes == b"Linker: "), "lld left no line of its own");
    let mut both = [clang, gcc].concat();
    both.sort_unstable();
    assert_eq!(compilers(&program), both);
    if peers::output_of("llvm-objcopy-22", &["--remove-section=.comment", &program]).is_some() {
        assert!(compilers(&program).is_empty());
    }
}
