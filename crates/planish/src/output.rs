//! Files that are either whole or not there: written beside their place, then renamed; removed on Ctrl-C. And what goes
//! to the standard streams.

use anyhow::{Context, anyhow, bail};
use std::collections::BTreeSet;
use std::io::{BufWriter, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Temporary files that an interrupt must remove.
static TEMPORARIES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn temporaries() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    TEMPORARIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes `path` through `fill`: beside it first, renamed when whole. `-` is standard output.
pub fn write_file(
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if path == Path::new("-") {
        let mut out = BufWriter::new(std::io::stdout());
        fill(&mut out)?;
        return out.flush().context("standard output");
    }
    if path.exists() && !path.is_file() {
        // A device or a pipe cannot be replaced by renaming.
        let mut out =
            BufWriter::new(std::fs::OpenOptions::new().write(true).open(path).with_context(|| shown(path))?);
        fill(&mut out)?;
        return out.flush().with_context(|| shown(path));
    }
    refuse_input(path)?;
    let directory = path.parent().filter(|d| !d.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = tempfile::Builder::new()
        .prefix(".planish-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(directory)
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::NotFound => {
                anyhow!("{}: there is no directory {}; create it first", path.display(), directory.display())
            }
            kind => anyhow!("{}: cannot be written in {}: {kind}", path.display(), directory.display()),
        })?;
    let name = beside.path().to_owned();
    temporaries().insert(name.clone());
    let done = fill_and_rename(beside, path, fill);
    temporaries().remove(&name);
    done
}

/// Programs and recordings are what planish reads, never what is written here: one that has the output's name was named
/// by mistake.
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

fn fill_and_rename(
    beside: tempfile::NamedTempFile,
    path: &Path,
    fill: impl FnOnce(&mut (dyn Write + Send)) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, beside);
    fill(&mut out)?;
    let beside = out.into_inner().map_err(|e| e.into_error()).with_context(|| shown(path))?;
    beside.persist(path).map_err(|e| e.error).with_context(|| shown(path))?;
    Ok(())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Writes to standard output; a reader that has gone away ends the program as other tools end.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output")
}

/// Colours on standard error where it is a terminal and the user does not object.
pub fn error_style() -> report::Style {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    report::Style { colour: !unwanted && std::io::stderr().is_terminal() }
}

/// Removes half-written files when the user presses Ctrl-C, then ends as the signal would have.
pub fn remove_temporaries_on_interrupt() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if crate::command::handles_interrupts() {
                continue;
            }
            for path in temporaries().iter().cloned().chain(superpages::unfinished()) {
                let _ = std::fs::remove_file(path);
            }
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    });
}

/// `planish … | head` ends quietly, as other tools do.
pub fn restore_broken_pipe() {
    // signal-hook offers the default action only after a handler; SIGPIPE's default is to end the process.
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
}
