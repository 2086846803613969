//! Object files and kernel modules: file offsets as addresses, and debug information that agrees
//! with them.

use image::code::InstructionKind;
use image::{Image, ImageAddr, ImageKind, module_layout};

use crate::peers::{self, PROGRAM};

const MODULE: &str = "__attribute__((section(\".modinfo\"), used)) static const char license[] = \"license=GPL\";\n\
    __attribute__((section(\".init.text\"), noinline)) int start_module(int x) { return choose(x); }\n";

fn module(directory: &std::path::Path, name: &str, arguments: &[&str]) -> Option<Image> {
    let source = format!("{PROGRAM}{MODULE}");
    let path = peers::compile(
        directory,
        name,
        &source,
        &[&["-c", "-ffunction-sections"], arguments].concat(),
    )?;
    Some(Image::open(&path).unwrap())
}

#[test]
fn sections_of_a_module_stand_at_their_file_offsets() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in
        [&["-gdwarf-5"][..], &["-gdwarf-5", "--target=aarch64-linux-gnu"], &["-gdwarf-4", "-gz"]]
    {
        let Some(image) = module(directory.path(), "module.ko", arguments) else { return };
        assert_eq!(image.kind(), ImageKind::KernelModule);
        for segment in image.segments() {
            assert_eq!((segment.address.0, segment.executable), (segment.offset.0, true));
        }
        let choose = image.functions().iter().find(|function| function.name == "choose").unwrap();
        let section = image.section_by_name(".text.choose").unwrap();
        assert_eq!(choose.address, section.address);
        assert_eq!(image.code_at(choose.address).unwrap().len() as u64, section.size);
        assert_eq!(image.functions().find(ImageAddr(choose.address.0 + 3)).unwrap().name, "choose");
    }
}

#[test]
fn debug_addresses_of_a_module_agree_with_its_sections() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in
        [&["-gdwarf-5"][..], &["-gdwarf-5", "--target=aarch64-linux-gnu"], &["-gdwarf-5", "-gz"]]
    {
        let Some(image) = module(directory.path(), "module.ko", arguments) else { return };
        let table = image.try_section(".debug_addr").unwrap().unwrap();
        let addresses: Vec<u64> = table[8..]
            .chunks_exact(8)
            .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
            .collect();
        for name in ["choose", "cold", "indirect", "start_module"] {
            let function = image.functions().iter().find(|function| function.name == name).unwrap();
            assert!(
                addresses.contains(&function.address.0),
                "{name} {:?} {addresses:x?}",
                function.address
            );
        }
        // References between debug sections are offsets, not addresses.
        let offsets = image.section(".debug_str_offsets").unwrap();
        let strings = image.section(".debug_str").unwrap();
        let text = offsets[8..]
            .chunks_exact(4)
            .map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()) as usize);
        assert!(text.clone().any(|offset| strings[offset..].starts_with(b"choose\0")));
    }
}

#[test]
fn calls_between_sections_of_a_module_are_followed_through_relocations() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["-fno-pic"][..], &["--target=aarch64-linux-gnu"]] {
        let Some(image) = module(directory.path(), "module.ko", arguments) else { return };
        let find =
            |name: &str| image.functions().iter().find(|function| function.name == name).unwrap();
        let (cold, choose) = (find("cold"), find("choose"));
        let calls: Vec<_> = image::code::instructions(&image, cold.address)
            .take_while(|instruction| instruction.address < cold.end())
            .filter(|instruction| instruction.kind == InstructionKind::Call)
            .map(|instruction| instruction.target)
            .collect();
        assert!(calls.contains(&Some(choose.address)), "{calls:?}, expected {:?}", choose.address);
    }
}

#[test]
fn a_module_is_laid_out_as_the_kernel_does() {
    let directory = tempfile::tempdir().unwrap();
    let Some(image) = module(directory.path(), "module.ko", &[]) else { return };
    let placed = module_layout::placed_sections(&image);
    let mut end = 0;
    for section in &placed {
        let header =
            image.sections().iter().find(|other| other.address == section.addresses.start).unwrap();
        assert!(!image.section_name(header).starts_with(".init"));
        assert!(
            section.bytes_from_base >= end && section.bytes_from_base - end < header.align.max(1)
        );
        end = section.bytes_from_base + header.size;
        let middle = section.bytes_from_base + header.size / 2;
        let expected = ImageAddr(header.address.0 + header.size / 2);
        assert_eq!(module_layout::image_address(&placed, middle), Some(expected));
    }
    assert!(placed.len() >= 5, "{placed:?}");
    assert_eq!(module_layout::image_address(&placed, end), None);
    let program = Image::open(&peers::fixture("autofdo/test.binary")).unwrap();
    assert!(module_layout::placed_sections(&program).is_empty());
}

#[test]
fn address_maps_of_an_object_file_are_relocated() {
    let directory = tempfile::tempdir().unwrap();
    let Some(image) = module(directory.path(), "module.ko", &["-fbasic-block-address-map"]) else {
        return;
    };
    let functions = image::blocks::read(&image).unwrap();
    let addresses: Vec<_> = functions.iter().map(image::blocks::FunctionBlocks::address).collect();
    let choose = image.functions().iter().find(|function| function.name == "choose").unwrap();
    assert!(addresses.contains(&choose.address) && addresses.is_sorted());
}
