//! Whether any bytes make the ELF reader panic, hang or take memory without bound.
#![no_main]

use image::probes::{self, Probes};
use image::{Image, blocks, code, module_layout};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::from_bytes("fuzzed", bytes.to_vec()) else { return };
    // Callers ask for a handful of sections by name; all sections of a lying file may each unpack
    // to megabytes.
    for section in image.sections().iter().take(32) {
        let _ = image.section_name(section);
        let _ = image.section_bytes(section);
    }
    let mut writer = code::Disassembler::new(&image);
    for range in image.code_ranges().take(32) {
        let written = writer.as_mut().and_then(|writer| writer.text(range.start));
        assert!(written.is_none_or(|text| !text.contains(char::is_control)));
        assert!(image.stub_name(range.start).is_none_or(|name| name.ends_with("@plt")));
        let around = image.unwind_range(range.start);
        assert!(around.is_none_or(|around| around.contains(&range.start)));
        let walked: usize = code::instructions(&image, range.start)
            .map(|instruction| usize::from(instruction.len))
            .sum();
        assert!(walked <= bytes.len());
        // Segments of a lying file may overlap, so the two need not be each other's inverse.
        let _ = image.offset_of(range.start).and_then(|offset| image.address_of(offset));
    }
    let functions = image.functions();
    let mut last = None;
    for function in functions.iter() {
        assert!(last <= Some(function.address));
        assert!(image.is_executable_address(function.address));
        last = Some(function.address);
        if function.size != 0 {
            let found = functions.find(function.address).expect("an address inside a function");
            assert!(found.address <= function.address && function.address < found.end());
            let shown = functions.find_shown(function.address).expect("an alias of it");
            assert!(shown.address == found.address && function.address < shown.end());
        }
    }
    let _ = image.kernel_symbol("_text");
    if let Ok(maps) = blocks::read(&image) {
        assert!(maps.iter().all(|function| !function.ranges.is_empty()));
    }
    if let Ok(found) = Probes::read(&image) {
        let mut last = None;
        for probe in found.iter() {
            assert!(last <= Some(probe.address));
            last = Some(probe.address);
            assert!(found.inline_stack(probe).count() < probes::MAX_DEPTH);
        }
    }
    let placed = module_layout::placed_sections(&image);
    let _ = module_layout::image_address(&placed, 1);
});
