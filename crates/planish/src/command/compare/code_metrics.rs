//! Noise-free metrics of the code, beside time.

use crate::cli::Global;
use anyhow::{Context, bail};
use compare::{Design, bind};
use record::code_metrics;

/// Runs every variant once under emulation on every benchmark and notes the figures.
pub fn add(design: &mut Design, global: &Global) -> anyhow::Result<()> {
    // The C library looks at the program's path while it starts, so all variants get paths of one
    // length.
    let folder = tempfile::tempdir().context("no directory for links to the programs")?;
    for benchmark in design.benchmarks.clone() {
        if benchmark.command.first().is_some_and(|word| word == build::around::PLANISH) {
            bail!(
                "--code-metrics: only the program itself is emulated, and {} starts it by something \
                 else, or with something around it; leave --code-metrics out",
                benchmark.name
            );
        }
        for (index, variant) in design.variants.iter_mut().enumerate() {
            let Some(binary) = variant.binaries.first() else { continue };
            if !global.quiet {
                eprintln!(
                    "planish: counting instructions and branches of {} under emulation",
                    variant.name
                );
            }
            let own = folder.path().join(format!("{index:04}"));
            std::fs::create_dir_all(&own)?;
            let link = own.join("program");
            if !link.exists() {
                std::os::unix::fs::symlink(std::path::absolute(binary)?, &link)
                    .with_context(|| link.display().to_string())?;
            }
            let options =
                code_metrics::MetricsOptions { name: Some("program".into()), ..Default::default() };
            let found = code_metrics::measure(&bind(&benchmark.command, &link), &options)
                .with_context(|| {
                    format!("--code-metrics: {} on {}", variant.name, benchmark.name)
                })?;
            let figures = found.figures().into_iter().map(|f| (f.key.to_owned(), f.value));
            variant.code_metrics.insert(benchmark.name.clone(), figures.collect());
            for remark in found.remarks().iter().filter(|_| !global.quiet) {
                eprintln!("planish: {}: {remark}", variant.name);
            }
        }
    }
    Ok(())
}
