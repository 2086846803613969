//! Times the resolution of every instruction of a file: `resolve_time FILE [THREADS] [EVERY]`.

use std::time::Instant;

use image::debug::DebugInfo;
use image::{DebugSearch, Image};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("which file?")?;
    let threads = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let every = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let image = Image::open(path.as_ref())?;
    let start = Instant::now();
    let mut addresses: Vec<_> = image
        .code_ranges()
        .flat_map(|range| image::code::instructions(&image, range.start))
        .map(|instruction| instruction.address)
        .step_by(every)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    eprintln!("decode: {:?}", start.elapsed());
    for _ in 0..3 {
        let start = Instant::now();
        let debug = DebugInfo::load(&image, &DebugSearch::default())?;
        let loaded = start.elapsed();
        let functions = debug.functions_at(&addresses, threads);
        let with_functions = start.elapsed();
        let resolved = debug.resolve(&addresses, threads)?;
        let empty =
            resolved.stacks.iter().filter(|stack| resolved.stack(**stack).is_empty()).count();
        println!(
            "load {loaded:?}, functions {with_functions:?}, resolve {:?}: {} addresses, {empty} without stack, {} functions, {} stacks, {} names",
            start.elapsed(),
            addresses.len(),
            functions.functions.len(),
            resolved.stack_count(),
            resolved.names.len(),
        );
    }
    Ok(())
}
