//! `planish kernel record --counts`: every taken branch of a kernel, counted while it runs under
//! emulation.

use super::machine::{is_interrupted, watcher};
use crate::cli::{FINE, Format, Global};
use crate::command::{INTERRUPTED, aggregate};
use crate::output;
use anyhow::{Context, bail};
use counts::artefact;
use counts::kernel::KernelText;
use counts::traces::{Trace, TraceCount};
use image::Image;
use record::kernel::{Counted, MAP_NAME, Options};
use record::machine::Guest;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The kernel with symbols that belongs to what is booted: the one named, or that of the build's
/// directory.
pub fn vmlinux(kernel: &Path, named: Option<&Path>) -> anyhow::Result<PathBuf> {
    match named {
        Some(path) => Ok(path.to_owned()),
        None if kernel.is_dir() => Ok(kernel.join("vmlinux")),
        None => bail!(
            "--counts: addresses are counted in the kernel's vmlinux, and none is known beside \
             {}; name it with --binary",
            kernel.display()
        ),
    }
}

/// What is counted, and where it goes.
pub struct Wanted<'a> {
    /// The machine.
    pub guest: &'a Guest,
    /// How to record it.
    pub options: &'a Options,
    /// The kernel with symbols.
    pub vmlinux: &'a Path,
    /// The counts file.
    pub output: &'a Path,
    /// How to print the result.
    pub format: Format,
}

/// Boots the kernel, and writes the counts.
pub fn run(wanted: &Wanted<'_>, global: &Global) -> anyhow::Result<u8> {
    let Wanted { guest, options, output, .. } = wanted;
    let image = Arc::new(Image::open(wanted.vmlinux)?);
    crate::command::handle_interrupts();
    let mut watch = watcher("count", global.quiet);
    let counted = record::kernel::count(&guest.argv(), output, options, &mut watch);
    drop(watch);
    if is_interrupted(counted.as_ref().err()) {
        eprintln!("planish: interrupted; the machine was ended and nothing is written");
        return Ok(INTERRUPTED);
    }
    let counted = counted.with_context(|| format!("counting {}", guest.kernel.display()))?;
    let (text, traces) = (text_of(&counted), counted.traces.iter().map(trace));
    let found = counts::kernel::aggregate(output, &text, traces, &image)?;
    output::write_file(output, |out| Ok(artefact::write(output, &found.counts, out)?))?;
    let sections = &counted.transcript.sections;
    match wanted.format {
        Format::Json => {
            let bytes =
                std::fs::metadata(output).with_context(|| output.display().to_string())?.len();
            let object = json!({
                "schema": "planish-kernel-record",
                "version": 1,
                "output": output.display().to_string(),
                "bytes": bytes,
                "samples": null,
                "branch_entries": null,
                "lost_samples": null,
                "taken_branches": counted.taken_branches,
                "traces": counted.traces.len(),
                "ledger": aggregate::ledger_json(&found.counts.ledger),
                "seconds": counted.elapsed.as_secs_f64(),
                "sections": sections.iter().map(|section| &section.name).collect::<Vec<_>>(),
            });
            output::print_json(&object)?;
        }
        Format::Text if !global.quiet => {
            eprintln!(
                "{}: {} taken branches of the kernel, each counted, in {} sections, {:.1} s",
                output.display(),
                counted.taken_branches,
                sections.len(),
                counted.elapsed.as_secs_f64()
            );
            aggregate::print_ledger(&found, global);
        }
        Format::Text => {}
    }
    Ok(FINE)
}

fn text_of(counted: &Counted) -> KernelText {
    let (start, end) = counted.text;
    KernelText { start, end, name: MAP_NAME.to_owned(), build_id: counted.build_id.clone() }
}

fn trace(counted: &record::kernel::TraceCount) -> TraceCount {
    let next_from = counted.next_from.unwrap_or(Trace::NONE);
    let trace = Trace { from: counted.from, to: counted.to, next_from };
    TraceCount { trace, count: counted.count, mispredicted: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vmlinux_is_that_of_the_build_or_the_one_named() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(vmlinux(dir.path(), None).unwrap(), dir.path().join("vmlinux"));
        assert_eq!(vmlinux(dir.path(), Some(Path::new("x"))).unwrap(), Path::new("x"));
        let error = vmlinux(&dir.path().join("bzImage"), None).unwrap_err().to_string();
        assert!(error.contains("bzImage") && error.contains("--binary"), "{error}");
    }
}
