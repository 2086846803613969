//! Files that are either whole or not there: written beside their place, then renamed; removed on
//! Ctrl-C. And what goes to the standard streams.

#[macro_use]
mod streams;
mod sys;

pub use streams::{Stream, error_text, finish, print, print_json, raw, say_line, say_text, text};

use anyhow::{Context, anyhow, bail};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Writes `path` through `fill`: beside it first, renamed when whole. `-` is standard output.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if path == Path::new("-") {
        let mut out = BufWriter::with_capacity(1 << 16, raw());
        fill(&mut out)?;
        return Ok(out.flush()?);
    }
    if is_sink(path) {
        let mut out = BufWriter::new(beside::sink(path).with_context(|| shown(path))?);
        fill(&mut out)?;
        return out.flush().with_context(|| shown(path));
    }
    renamed(write_beside(path, fill)?, path)
}

/// Writes text files that belong together: all beside their places first, then all renamed. Where
/// one cannot be renamed, those before it are put back as they were.
///
/// # Errors
/// At the first file that cannot be written; the message says what became of the others.
pub fn write_together(files: &[(PathBuf, &str)]) -> anyhow::Result<()> {
    let mut whole = Vec::with_capacity(files.len());
    for (path, text) in files {
        // A pipe or a device takes the text at the end and has no name to change.
        if is_sink(path) && !path.is_dir() {
            continue;
        }
        whole.push((path, write_beside(path, |out| Ok(out.write_all(text.as_bytes())?))?));
    }
    let mut replaced: Vec<Replaced<'_>> = Vec::with_capacity(whole.len());
    for (path, beside) in whole {
        let done = Replaced::keep(path).and_then(|before| renamed(beside, path).map(|()| before));
        match done {
            Ok(before) => replaced.push(before),
            Err(error) => {
                let others: Vec<String> =
                    replaced.into_iter().rev().map(|before| before.put_back()).collect();
                let told = if others.is_empty() {
                    String::new()
                } else {
                    format!("; {}", others.join("; "))
                };
                bail!("{error:#}{told}");
            }
        }
    }
    for (path, text) in files {
        if is_sink(path) && !path.is_dir() {
            write_file(path, |out| Ok(out.write_all(text.as_bytes())?))?;
        }
    }
    Ok(())
}

/// Is this a device, a pipe, or `/dev/stdout`, which cannot be replaced by renaming?
fn is_sink(path: &Path) -> bool {
    path.exists() && (!path.is_file() || beside::replaceable(path).is_err())
}

/// A file that another one took the place of, and what it held before.
struct Replaced<'p> {
    path: &'p Path,
    /// A second name of the file that was there; removed in the end.
    before: Option<tempfile::TempPath>,
}

impl<'p> Replaced<'p> {
    /// Keeps what is at `path` under another name beside it.
    fn keep(path: &'p Path) -> anyhow::Result<Replaced<'p>> {
        if !path.is_file() {
            return Ok(Replaced { path, before: None });
        }
        let before = tempfile::Builder::new()
            .prefix(".planish-")
            .make_in(beside::directory_of(path), |name| std::fs::hard_link(path, name))
            .or_else(|_| {
                // A file system without hard links.
                let copy = tempfile::Builder::new()
                    .prefix(".planish-")
                    .tempfile_in(beside::directory_of(path))?;
                std::fs::copy(path, copy.path())?;
                let (_, name) = copy.into_parts();
                Ok::<_, std::io::Error>(tempfile::NamedTempFile::from_parts((), name))
            })
            .with_context(|| shown(path))?;
        let (_, before) = before.into_parts();
        Ok(Replaced { path, before: Some(before) })
    }

    /// Puts back what was there, and says so.
    fn put_back(self) -> String {
        let path = self.path.display();
        let (done, was) = match self.before {
            Some(before) => {
                (before.persist(self.path).map_err(|error| error.error), "was put back as it was")
            }
            None => (std::fs::remove_file(self.path), "was removed again"),
        };
        match done {
            Ok(()) => format!("{path} {was}, since it belongs with the former"),
            Err(error) => {
                format!("{path} is of this run and does not belong with the former: {error}")
            }
        }
    }
}

/// Writes a file beside its place.
fn write_beside(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<beside::Unfinished> {
    refuse_input(path)?;
    let directory = beside::directory_of(path);
    let beside = beside::Unfinished::at(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            anyhow!(
                "{}: there is no directory {}; create it first",
                path.display(),
                directory.display()
            )
        }
        kind => anyhow!("{}: cannot be written in {}: {kind}", path.display(), directory.display()),
    })?;
    filled(beside, path, fill)
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

/// Programs and recordings are what planish reads, never what is written here: one that has the
/// output's name was named by mistake.
fn refuse_input(path: &Path) -> anyhow::Result<()> {
    let mut start = [0; 8];
    let known = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok();
    let what = match &start {
        _ if !known => return Ok(()),
        [0x7f, b'E', b'L', b'F', ..] => "a program",
        b"PERFILE2" | b"2ELIFREP" => "a recording",
        _ => return Ok(()),
    };
    bail!(
        "{}: it is {what}, which would be replaced; name another output, or remove it first",
        path.display()
    )
}

fn filled(
    beside: beside::Unfinished,
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<beside::Unfinished> {
    let mut out = BufWriter::with_capacity(1 << 16, beside);
    fill(&mut out)?;
    out.into_inner().map_err(|e| e.into_error()).with_context(|| shown(path))
}

fn renamed(beside: beside::Unfinished, path: &Path) -> anyhow::Result<()> {
    beside.finish().with_context(|| shown(path))?;
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
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
        || error.is::<code_metrics::Error>()
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
    fn a_program_or_a_recording_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let write = || write_file(&path, |out| Ok(out.write_all(b"text")?));
        for (content, what) in
            [(&b"\x7fELF\x02\x01\x01\0"[..], "a program"), (b"PERFILE2rest", "a recording")]
        {
            std::fs::write(&path, content).unwrap();
            let refused = write().unwrap_err().to_string();
            assert!(refused.contains(what) && refused.contains("another output"), "{refused}");
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        for content in [&b""[..], b"short", b"an older text"] {
            std::fs::write(&path, content).unwrap();
            write().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"text");
        }
    }

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

    #[test]
    fn files_that_belong_together_are_all_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let names = || {
            let mut names: Vec<_> = std::fs::read_dir(folder.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            names
        };
        write_together(&[(at("a"), "1"), (at("b"), "2")]).unwrap();
        assert_eq!(std::fs::read(at("b")).unwrap(), b"2");
        write_together(&[(at("a"), "3"), (at("b"), "4")]).unwrap();
        assert_eq!(
            (std::fs::read(at("a")).unwrap(), names().len()),
            (b"3".to_vec(), 2),
            "{:?}",
            names()
        );

        // A directory with a file in it cannot be replaced.
        std::fs::create_dir_all(at("full/inside")).unwrap();
        let refused =
            write_together(&[(at("a"), "5"), (at("new"), "6"), (at("full"), "7")]).unwrap_err();
        let refused = format!("{refused:#}");
        assert!(
            refused.contains("full")
                && refused.contains("put back")
                && refused.contains("removed again"),
            "{refused}"
        );
        assert_eq!(std::fs::read(at("a")).unwrap(), b"3");
        assert_eq!(names(), ["a", "b", "full"]);
    }
}
