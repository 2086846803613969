//! The counts of one image as the pre-aggregated text that `perf2bolt -pa` and `llvm-bolt -pa` read.
//!
//! Branches become `B` lines, ranges `F` lines; `X:0` stands for outside. Counts without branches
//! become samples, `S` lines, for `-ba`. Source:
//! <https://github.com/llvm/llvm-project/blob/main/bolt/docs/profiles.md>.

use crate::Error;
use counts::ImageCounts;
use image::ImageAddr;
use std::io::Write;

/// Writes the counts of an image; says how many branches and ranges, or samples, these were.
///
/// # Errors
/// Where there are none, or `out` refuses.
pub fn bolt(image: &ImageCounts, out: &mut dyn Write) -> Result<usize, Error> {
    if image.is_empty() {
        let problem = format!("the counts have nothing in {}", image.path);
        return Err(Error::Nothing { problem });
    }
    if !image.has_branches() {
        writeln!(out, "E samples")?;
        for sample in &image.samples {
            writeln!(out, "S {:x} {}", sample.address.0, sample.count)?;
        }
        return Ok(image.samples.len());
    }
    let place = |address: Option<ImageAddr>| {
        address.map_or_else(|| "X:0".to_owned(), |address| format!("{:x}", address.0))
    };
    for branch in &image.branches {
        let (from, to) = (place(branch.from), place(branch.to));
        writeln!(out, "B {from} {to} {} {}", branch.count, branch.mispredicted)?;
    }
    for range in &image.fall_throughs {
        writeln!(out, "F {:x} {:x} {}", range.first.0, range.last.0, range.count)?;
    }
    Ok(image.branches.len().saturating_add(image.fall_throughs.len()))
}
