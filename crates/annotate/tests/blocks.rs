//! Does each instruction get the block that the file's map has at its address?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use annotate::{Request, annotate};
use image::{Image, blocks};
use std::path::Path;

#[test]
fn instructions_are_in_the_blocks_of_the_files_map() {
    let fixture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/autofdo/propeller_sample.bin");
    let image = Image::open(&fixture).unwrap();
    let blocks = blocks::read(&image).unwrap();
    let (mut told, mut functions) = (0, 0);
    for function in &blocks {
        let Some(symbol) = image.functions().find(function.address()) else { continue };
        functions += 1;
        let found = annotate(&Request {
            image: &image,
            code: symbol.address..symbol.end(),
            samples: &[],
            counts: None,
            debug: None,
            blocks: &blocks,
            threads: 1,
        });
        assert!(found.branches.is_empty() && found.loops.is_empty(), "{}", symbol.name);
        for one in &found.instructions {
            let block = function
                .blocks()
                .find(|block| block.address <= one.address && one.address < block.end());
            assert_eq!(one.block, block.map(|block| block.id), "{} {}", symbol.name, one.address);
            told += usize::from(one.block.is_some());
        }
    }
    assert!(functions >= 3 && told >= 50, "{functions} functions, {told} instructions");
}
