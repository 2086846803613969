//! Invented counts of a program, and llvm-profgen's form of them, for tests that hold planish
//! against llvm-profgen.

use counts::{Branch, FallThrough, ImageCounts};
use image::code::instructions;
use image::{Image, ImageAddr};
use std::fmt::Write as _;

/// Every third straight line of `.text` ran; every direct branch in it was taken.
pub fn invent(image: &Image) -> ImageCounts {
    let mut counts = ImageCounts { path: "program".to_owned(), ..ImageCounts::default() };
    let text = image.section_by_name(".text").unwrap();
    let end = ImageAddr(text.address.0 + text.size);
    let (mut first, mut number) = (None, 0u64);
    for instruction in
        instructions(image, text.address).take_while(|instruction| instruction.address < end)
    {
        let begin = *first.get_or_insert(instruction.address);
        if !instruction.kind.is_transfer() {
            continue;
        }
        number += 1;
        if number % 3 != 0 {
            let count = number * 7919 % 1000 + 1;
            counts.fall_throughs.push(FallThrough {
                first: begin,
                last: instruction.address,
                count,
            });
            if let Some(to) = instruction.target.filter(|to| text.address <= *to && *to < end) {
                let from = Some(instruction.address);
                counts.branches.push(Branch {
                    from,
                    to: Some(to),
                    count: count / 2 + 1,
                    mispredicted: 0,
                });
            }
        }
        first = None;
    }
    counts.branches.sort_unstable();
    counts.fall_throughs.sort_unstable();
    counts
}

/// llvm-profgen's unsymbolised form.
pub fn raw(image: &Image, counts: &ImageCounts) -> String {
    let base =
        image.segments().iter().find(|segment| segment.executable).unwrap().address.0 & !0xfff;
    let mut text = format!("{}\n", counts.fall_throughs.len());
    for range in &counts.fall_throughs {
        writeln!(text, "{:x}-{:x}:{}", range.first.0 - base, range.last.0 - base, range.count)
            .unwrap();
    }
    writeln!(text, "{}", counts.branches.len()).unwrap();
    for branch in &counts.branches {
        let (from, to) = (branch.from.unwrap().0, branch.to.unwrap().0);
        writeln!(text, "{:x}->{:x}:{}", from - base, to - base, branch.count).unwrap();
    }
    text
}
