//! How is a file that the user names opened? One way for all commands: regular files, and pipes up
//! to a limit; a device gives bytes for ever. Files that are no input of their own but are found
//! through one are opened by [`beside::given`], which takes no pipes.

use anyhow::{Context, bail};
use beside::given::{self, Bounded};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// What a pipe may give to be held in memory: profiles, tables, reports.
pub const PIPE_BYTES: u64 = 1 << 30;
/// Most bytes of a file that is held in memory as a whole.
pub const FILE_BYTES: u64 = given::DATA;
/// Most bytes of settings and of reports.
pub const TEXT_BYTES: u64 = given::TEXT;
/// What a pipe may give of a recording or of counts, which are read piece by piece or laid on disk.
pub const STREAM_BYTES: u64 = 64 << 30;

/// Opens a regular file or a named pipe.
///
/// # Errors
/// With the path, where it cannot be opened or is something else.
pub fn open(path: &Path) -> anyhow::Result<File> {
    let shown = || path.display().to_string();
    // Asked before opening: to open a device may set it off.
    let is_pipe = std::fs::metadata(path).with_context(shown)?.file_type().is_fifo();
    if let Some(error) = given::check(path).err().filter(|_| !is_pipe) {
        bail!("{}: {error}; give a file, a pipe or `-`", path.display());
    }
    File::open(path).with_context(shown)
}

/// Opens a regular file: what another program is to read, too, perhaps more than once.
///
/// # Errors
/// With the path, where it cannot be opened or is something else.
pub fn regular(path: &Path) -> anyhow::Result<File> {
    given::open(path).with_context(|| path.display().to_string())
}

/// The bytes of a regular file, or of a pipe up to [`PIPE_BYTES`], as they come.
///
/// # Errors
/// With the path, where it cannot be opened or is something else.
pub fn stream(path: &Path) -> anyhow::Result<Bounded<File>> {
    let file = open(path)?;
    let is_file = file.metadata().with_context(|| path.display().to_string())?.is_file();
    Ok(Bounded::new(file, if is_file { u64::MAX } else { PIPE_BYTES }))
}

/// The content of a regular file up to [`FILE_BYTES`], or what a pipe gives, up to [`PIPE_BYTES`].
///
/// # Errors
/// With the path.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_up_to(path, FILE_BYTES)
}

/// The text of a regular file or a pipe up to [`TEXT_BYTES`]: settings, and results that people
/// also read.
///
/// # Errors
/// With the path; also where it is no UTF-8.
pub fn read_to_string(path: &Path) -> anyhow::Result<String> {
    let bytes = read_up_to(path, TEXT_BYTES)?;
    String::from_utf8(bytes).with_context(|| path.display().to_string())
}

fn read_up_to(path: &Path, most: u64) -> anyhow::Result<Vec<u8>> {
    let shown = || path.display().to_string();
    if path.is_file() {
        return given::read(path, most).with_context(shown);
    }
    let mut bytes = Vec::new();
    Bounded::new(open(path)?, most.min(PIPE_BYTES)).read_to_end(&mut bytes).with_context(shown)?;
    Ok(bytes)
}

/// What standard input gives, up to [`PIPE_BYTES`].
///
/// # Errors
/// Where it gives more, or cannot be read.
pub fn read_standard() -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut stdin = Bounded::new(io::stdin().lock(), PIPE_BYTES);
    stdin.read_to_end(&mut bytes).context("standard input")?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_directories_are_no_input() {
        for (path, what) in
            [("/dev/zero", "a device"), ("/dev/urandom", "a device"), ("/", "a directory")]
        {
            let said = read(Path::new(path)).unwrap_err().to_string();
            assert!(
                said.starts_with(path)
                    && said.contains("not a regular file")
                    && said.contains(what),
                "{said}"
            );
        }
    }
}
