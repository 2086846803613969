//! What does a collector know over a restart? The number of the next window, and what was not
//! recorded and no shard has told of yet.

use crate::error::Error;
use fleet::Missed;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::Path;

/// The only version there is.
const VERSION: u64 = 1;
/// Larger files are none of ours.
const MOST_BYTES: u64 = 1 << 16;

/// The state, as it is kept in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    version: u64,
    /// Number of the next window.
    pub next: u64,
    /// Windows up to this one that gave nothing are counted in `missed`, or were.
    pub settled: u64,
    /// Where the last window ended, in nanoseconds since 1970.
    pub last_end: u64,
    /// Windows that gave nothing and of which no window tells.
    pub missed: Missed,
}

impl Default for State {
    fn default() -> State {
        State { version: VERSION, next: 1, settled: 0, last_end: 0, missed: Missed::default() }
    }
}

impl State {
    /// Reads it; what a spool without one has.
    pub(crate) fn read(path: &Path) -> Result<State, Error> {
        read_json(path, |state: &State| state.version).map(Option::unwrap_or_default)
    }

    /// Writes it, so that it is there after a loss of power.
    pub(crate) fn write(&self, path: &Path) -> Result<(), Error> {
        write_json(path, self)
    }
}

/// Reads a file of the spool; none where there is no such file.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(
    path: &Path,
    version: impl Fn(&T) -> u64,
) -> Result<Option<T>, Error> {
    let foreign = |why: String| Error::Foreign { path: path.to_owned(), why };
    let text = match beside::given::read_text(path, MOST_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            return Err(foreign(error.to_string()));
        }
        Err(source) => return Err(Error::Io { path: path.to_owned(), source }),
    };
    let read: T = serde_json::from_str(&text).map_err(|error| foreign(error.to_string()))?;
    match version(&read) {
        VERSION => Ok(Some(read)),
        other => Err(foreign(format!("expected version {VERSION}, found {other}"))),
    }
}

/// Writes a file of the spool.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(|error| Error::io(path)(error.into()))?;
    write_synced(path, text.as_bytes())
}

/// Writes a file beside its place, to the disk, and gives it its name.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let write = || {
        let mut file = beside::Unfinished::at(path)?;
        file.write_all(bytes)?;
        file.file()?.sync_all()?;
        file.finish().map(drop)
    };
    write().map_err(Error::io(path))?;
    sync_directory(beside::directory_of(path))
}

/// Lets the names in a directory get to the disk.
pub(crate) fn sync_directory(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn a_state_is_read_again_and_what_is_none_is_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert_eq!(State::read(&path).unwrap(), State::default());
        let missed = Missed { killed: 3, ..Missed::default() };
        let state = State { next: 8, settled: 5, last_end: 7, missed, ..State::default() };
        state.write(&path).unwrap();
        assert_eq!(State::read(&path).unwrap(), state);
        for bad in [
            "",
            "{}",
            "[1]",
            "\u{0}",
            r#"{"version":2,"next":1,"settled":0,"last_end":0,"missed":{}}"#,
        ] {
            std::fs::write(&path, bad).unwrap();
            let said = State::read(&path).unwrap_err().to_string();
            assert!(said.contains("state") && said.contains("remove it"), "{said}");
        }
        std::fs::write(&path, [0xff; 8]).unwrap();
        assert!(matches!(State::read(&path), Err(Error::Foreign { .. })));
    }
}
