//! Counts as text, in the three blocks that autofdo's sample_merger prints, one set per image.
//!
//! Source of the format: <https://github.com/google/autofdo>.

use crate::model::{Counts, ImageCounts};
use image::ImageAddr;
use std::fmt::Write;

/// `# image BUILD_ID PATH`, then ranges, sampled addresses and branches, each block led by its
/// number of lines. Where paths were counted, a fourth block has them. Addresses are image
/// addresses in hex; an end outside the image is written `external`.
pub fn render(counts: &Counts) -> String {
    let mut out = String::new();
    for image in &counts.images {
        // Writing to a String cannot fail.
        let _ = render_image(&mut out, image);
    }
    out
}

fn render_image(out: &mut String, image: &ImageCounts) -> std::fmt::Result {
    let id = image.build_id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    writeln!(out, "# image {id} {}", image.path)?;
    writeln!(out, "{}", image.fall_throughs.len())?;
    for r in &image.fall_throughs {
        writeln!(out, "{:x}-{:x}:{}", r.first.0, r.last.0, r.count)?;
    }
    writeln!(out, "{}", image.samples.len())?;
    for s in &image.samples {
        writeln!(out, "{:x}:{}", s.address.0, s.count)?;
    }
    writeln!(out, "{}", image.branches.len())?;
    for b in &image.branches {
        writeln!(out, "{}->{}:{}", end(b.from), end(b.to), b.count)?;
    }
    if !image.paths.is_empty() {
        writeln!(out, "{}", image.paths.len())?;
        for p in &image.paths {
            writeln!(
                out,
                "{}->{:x}-{:x}->{}:{}",
                end(p.from),
                p.first.0,
                p.last.0,
                end(p.to),
                p.count
            )?;
        }
    }
    Ok(())
}

fn end(address: Option<ImageAddr>) -> String {
    address.map_or_else(|| "external".to_owned(), |a| format!("{:x}", a.0))
}
