//! Noise-free metrics of the code, beside time.

use crate::cli::Global;
use compare::{Design, bind};

/// Runs every variant once under emulation on every benchmark and notes the figures.
pub fn add(design: &mut Design, global: &Global) -> anyhow::Result<()> {
    for benchmark in design.benchmarks.clone() {
        for variant in &mut design.variants {
            let Some(binary) = variant.binaries.first() else { continue };
            if !global.quiet {
                eprintln!("planish: counting instructions and branches of {} under emulation", variant.name);
            }
            let command = bind(&benchmark.command, binary);
            // The same name for all: its length is part of the stack, and some programs look at it.
            let options = code_metrics::Options { name: Some("program".into()), ..Default::default() };
            let found = code_metrics::measure(&command, &options)?;
            let figures = found.figures().into_iter().map(|f| (f.key.to_owned(), f.value));
            variant.code_metrics.insert(benchmark.name.clone(), figures.collect());
        }
    }
    Ok(())
}
