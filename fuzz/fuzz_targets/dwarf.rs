//! Whatever the debug information of a file says, resolving addresses ends in an answer, soon.
#![no_main]

use image::debug::DebugInfo;
use image::{DebugSearch, Image, ImageAddr};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::from_bytes("fuzzed", bytes.to_vec()) else { return };
    let search = DebugSearch { roots: Vec::new(), ..DebugSearch::default() };
    let Ok(debug) = DebugInfo::load(&image, &search) else { return };
    let mut addresses: Vec<ImageAddr> = image
        .code_ranges()
        .flat_map(|range| (range.start.0..range.end.0).step_by(13).take(512))
        .take(2048)
        .map(ImageAddr)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    let functions = debug.functions_at(&addresses, 1);
    assert_eq!(functions.of.len(), addresses.len());
    if let Ok(resolved) = debug.resolve(&addresses, 1) {
        assert_eq!(resolved.stacks.len(), addresses.len());
    }
    let lines = debug.source_lines(&addresses);
    assert_eq!(lines.lines.len(), addresses.len());
    let files = lines.lines.iter().flatten().map(|line| line.file.0 as usize);
    assert!(files.max().is_none_or(|most| most < lines.files.len()));
    debug.all_function_names(1);
    debug.source_files();
    debug.compiler_names(1);
    debug.main_unit(1);
    assert_eq!(debug.units_at(&addresses, 1).len(), addresses.len());
});
