//! How many bytes of a recording are aggregated a second: `throughput PERF.DATA THREADS [BINARY…]`,
//! for profilers.

use counts::aggregate::{CountOptions, aggregate};
use counts::resolve::Rules;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: throughput PERF.DATA THREADS [BINARY…]")?;
    let threads = arguments.next().ok_or("how many threads?")?.parse()?;
    let images = arguments
        .map(|b| Ok(Arc::new(image::Image::open(Path::new(&b))?)))
        .collect::<Result<Vec<_>, image::Error>>()?;
    let began = Instant::now();
    let input = perfdata::Input::open(Path::new(&path))?;
    let options = CountOptions { rules: Rules::Auto, threads, pid: None, paths: false };
    let found = aggregate(Path::new(&path), &input, &images, options, &|_| {})?;
    let seconds = began.elapsed().as_secs_f64();
    let bytes = input.data_bytes() as f64;
    println!(
        "{seconds:.3} s, {:.2} GB/s, {} samples, {} images",
        bytes / seconds / 1e9,
        found.samples,
        found.counts.images.len()
    );
    for image in &found.counts.images {
        println!(
            "{} branches {} ranges {}",
            image.path,
            image.branches.len(),
            image.fall_throughs.len()
        );
    }
    Ok(())
}
