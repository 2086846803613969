//! Does each instruction get the block that the file's map has at its address, and what is told of
//! processors whose instructions have no text?

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use annotate::{Request, annotate};
use calltrees::Weight;
use image::{Image, ImageAddr, blocks};
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
            before: None,
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

#[test]
fn instructions_of_aarch64_have_addresses_and_no_text() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/image/aarch64");
    let image = Image::open(&file).unwrap();
    let function = image.functions().iter().find(|function| function.size > 0).unwrap();
    let sampled = ImageAddr(function.address.0 + 2);
    let outside = ImageAddr(u64::MAX);
    let weight = Weight { samples: 3, period: 30, heaviest: 10 };
    let found = annotate(&Request {
        image: &image,
        code: function.address..function.end(),
        samples: &[(sampled, weight), (outside, weight)],
        counts: None,
        debug: None,
        blocks: &[],
        before: None,
        threads: 1,
    });
    assert_eq!(found.instructions.len() as u64, function.size / 4, "{}", function.name);
    assert!(found.instructions.iter().all(|one| one.text.is_none() && one.size == 4));
    assert_eq!((found.instructions[0].weight, found.unplaced), (weight, weight));
}
