//! What goes to the standard streams, and to files that users name: whole or not at all, and
//! removed on Ctrl-C.

#[macro_use]
mod streams;
mod sys;

pub use streams::{Stream, error_text, finish, print, print_json, raw, say_line, say_text, text};

use anyhow::bail;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes `path` through `fill`: beside it first, renamed when whole. `-` is standard output.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if path != Path::new("-") {
        return beside::named::write(path, fill);
    }
    let mut out = BufWriter::with_capacity(1 << 16, raw());
    fill(&mut out)?;
    Ok(out.flush()?)
}

/// Refuses an output that is one of the inputs, by whatever name: what is read would be lost.
///
/// # Errors
/// Naming both.
pub fn refuse_inputs<'p>(
    outputs: impl IntoIterator<Item = &'p Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> anyhow::Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some((found.dev(), found.ino()))
    };
    let inputs: Vec<(&Path, _)> =
        inputs.into_iter().filter_map(|path| Some((path, identity(path)?))).collect();
    for output in outputs.into_iter().filter(|path| *path != Path::new("-")) {
        let Some(own) = identity(output) else { continue };
        if let Some((input, _)) = inputs.iter().find(|(_, input)| *input == own) {
            bail!(
                "{}: is the input {}, which would be replaced; name another output",
                output.display(),
                input.display()
            );
        }
    }
    Ok(())
}

/// Whether an error shows lines of a file or of another program, which stand below it.
pub fn has_lines(error: &(dyn std::error::Error + 'static)) -> bool {
    use build::Error::{Config, Step};
    error
        .downcast_ref::<build::Error>()
        .is_some_and(|error| matches!(error, Config { .. } | Step { .. }))
        || error
            .downcast_ref::<relink::Error>()
            .is_some_and(|error| matches!(error, relink::Error::Link { .. }))
        || error.is::<record::code_metrics::Error>()
        || error.is::<workload::Error>()
        || error
            .downcast_ref::<kernel::Error>()
            .is_some_and(|error| matches!(error, kernel::Error::Make { .. }))
}

/// Colours on standard error where it is a terminal and the user does not object.
pub fn error_style() -> report::Style {
    Stream::Error.style()
}

/// Removes half-written files when the user presses Ctrl-C, then ends as the signal would have.
pub fn remove_temporaries_on_interrupt() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if crate::command::handles_interrupts() {
                continue;
            }
            for path in beside::unfinished() {
                let _ = std::fs::remove_file(path);
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

/// `planish … | head` ends quietly, as other tools do.
pub fn restore_broken_pipe() {
    // signal-hook offers the default action only after a handler; SIGPIPE's default is to end the
    // process.
    let _ = signal_hook::flag::register_conditional_default(
        signal_hook::consts::SIGPIPE,
        std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_never_the_output_under_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("in"), "text").unwrap();
        std::fs::write(at("other"), "text").unwrap();
        std::fs::hard_link(at("in"), at("hard")).unwrap();
        std::os::unix::fs::symlink("in", at("soft")).unwrap();
        let check = |output: &str| {
            refuse_inputs([at(output).as_path()], [at("other").as_path(), at("in").as_path()])
        };
        for output in ["in", "hard", "soft"] {
            let refused = check(output).unwrap_err().to_string();
            assert!(
                refused.contains("is the input") && refused.contains("another output"),
                "{refused}"
            );
        }
        check("new").unwrap();
        let nothing = Path::new("-");
        refuse_inputs([nothing], [nothing]).unwrap();
    }
}
