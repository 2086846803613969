//! Where is a window on its way, and what is left of it where its collector was killed?
//!
//! A window has a directory of its own in the spool, `.collector/NUMBER`. Begun, it has a note of what its
//! shards are to say; recorded, its recording; counted, its shards under names that nobody takes
//! for shards, and then a mark. Only then are they renamed into the spool. So a window without the
//! mark has no shard in the spool and can be counted from its recording, and one with it is never
//! counted again.

use crate::error::Error;
use crate::state::{read_json, sync_directory, write_json, write_synced};
use fleet::Recording;
use serde::{Deserialize, Serialize};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

const VERSION: u64 = 1;
const NOTE: &str = "window.json";
const DATA: &str = "perf.data";
const COUNTED: &str = "counted";
/// What names of windows that are being removed begin with.
const GONE: &str = "gone-";
/// How a shard is called before the window is counted.
const ENDING: &str = "shard";

/// What is known of a window when it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    version: u64,
    /// What the IDs of its shards begin with.
    pub stem: String,
    /// When it began, in nanoseconds since 1970.
    pub begin: u64,
    /// What its shards are to say of it, as far as it is known.
    pub recording: Recording,
}

impl Note {
    pub(crate) fn new(stem: String, begin: u64, recording: Recording) -> Note {
        Note { version: VERSION, stem, begin, recording }
    }
}

/// A window on its way.
#[derive(Debug)]
pub(crate) struct Window {
    dir: PathBuf,
    pub number: u64,
}

/// How far a window got.
#[derive(Debug)]
pub(crate) enum Stage {
    /// No whole recording is there; the note where that is.
    Begun(Option<Note>),
    /// The recording is whole.
    Recorded(Note),
    /// Its shards are whole, and some may be in the spool.
    Counted,
}

impl Window {
    /// Begins one in the directory of open windows.
    pub(crate) fn begin(open: &Path, number: u64, note: &Note) -> Result<Window, Error> {
        let dir = open.join(format!("{number:010}"));
        let failed = Error::io(&dir);
        let make = || DirBuilder::new().mode(0o700).create(&dir);
        match make() {
            // What lies there was settled before.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Window { dir: dir.clone(), number }.remove()?;
                make().map_err(&failed)?;
            }
            made => made.map_err(&failed)?,
        }
        let window = Window { dir, number };
        write_json(&window.dir.join(NOTE), note)?;
        sync_directory(open)?;
        Ok(window)
    }

    /// Those that are there, by number.
    pub(crate) fn left_in(open: &Path) -> Result<Vec<Window>, Error> {
        let entries = std::fs::read_dir(open).map_err(Error::io(open))?;
        let mut windows = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::io(open))?;
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(number) =
                number.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            {
                windows.push(Window { dir: entry.path(), number });
            }
        }
        windows.sort_by_key(|window| window.number);
        Ok(windows)
    }

    /// How far it got.
    pub(crate) fn stage(&self) -> Stage {
        if self.dir.join(COUNTED).is_file() {
            return Stage::Counted;
        }
        // A note that cannot be read is one that was not written to its end.
        let note = read_json(&self.dir.join(NOTE), |note: &Note| note.version).ok().flatten();
        match note {
            // It gets its name when it is whole.
            Some(note) if self.data().exists() => Stage::Recorded(note),
            note => Stage::Begun(note),
        }
    }

    /// Where its recording is.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.join(DATA)
    }

    /// Removes shards of a count that was not finished.
    pub(crate) fn forget_shards(&self) -> Result<(), Error> {
        for path in self.shards()? {
            std::fs::remove_file(&path).map_err(Error::io(&path))?;
        }
        Ok(())
    }

    /// Adds a shard.
    pub(crate) fn add(&self, id: &str, bytes: &[u8]) -> Result<(), Error> {
        write_synced(&self.dir.join(format!("{id}.{ENDING}")), bytes)
    }

    /// Says that all shards are there.
    pub(crate) fn counted(&self) -> Result<(), Error> {
        write_synced(&self.dir.join(COUNTED), b"")
    }

    /// Moves the shards into the spool, and removes the window; how many there were.
    pub(crate) fn publish(self, spool: &Path) -> Result<u64, Error> {
        let mut published = 0;
        for path in self.shards()? {
            let Some(id) = path.file_stem() else { continue };
            let mut name = id.to_owned();
            name.push(".");
            name.push(fleet::inputs::ENDING);
            std::fs::rename(&path, spool.join(name)).map_err(Error::io(&path))?;
            published += 1;
        }
        sync_directory(spool)?;
        self.remove()?;
        Ok(published)
    }

    /// Removes it with all that is in it. It is no window any more before the first of its files is
    /// gone: half of one would be taken for an earlier stage.
    pub(crate) fn remove(self) -> Result<(), Error> {
        let gone = self.dir.with_file_name(format!("{GONE}{}", self.number));
        std::fs::rename(&self.dir, &gone).map_err(Error::io(&self.dir))?;
        std::fs::remove_dir_all(&gone).map_err(Error::io(&gone))
    }

    /// Removes what is left of windows that were being removed.
    pub(crate) fn remove_gone(open: &Path) -> Result<(), Error> {
        for entry in std::fs::read_dir(open).map_err(Error::io(open))? {
            let entry = entry.map_err(Error::io(open))?;
            if entry.file_name().as_encoded_bytes().starts_with(GONE.as_bytes()) {
                std::fs::remove_dir_all(entry.path()).map_err(Error::io(&entry.path()))?;
            }
        }
        Ok(())
    }

    fn shards(&self) -> Result<Vec<PathBuf>, Error> {
        let entries = std::fs::read_dir(&self.dir).map_err(Error::io(&self.dir))?;
        let mut paths = Vec::new();
        for entry in entries {
            let path = entry.map_err(Error::io(&self.dir))?.path();
            if path.extension().is_some_and(|ending| ending == ENDING) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;

    #[test]
    fn a_window_goes_from_stage_to_stage_and_its_shards_appear_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let (spool, open) = (dir.path(), dir.path().join("open"));
        std::fs::create_dir(&open).unwrap();
        let note = Note::new("a".to_owned(), 5, Recording::default());
        let stage = |window: &Window| window.stage();
        let window = Window::begin(&open, 3, &note).unwrap();
        assert!(matches!(stage(&window), Stage::Begun(Some(found)) if found == note));
        std::fs::write(window.data(), "").unwrap();
        assert!(matches!(stage(&window), Stage::Recorded(_)));
        window.add("a-x", b"one").unwrap();
        window.forget_shards().unwrap();
        window.add("a-y", b"two").unwrap();
        window.add("a-z", b"three").unwrap();
        assert!(matches!(stage(&window), Stage::Recorded(_)));
        window.counted().unwrap();
        // As if it had been killed after the first.
        std::fs::rename(open.join("0000000003/a-y.shard"), spool.join("a-y.counts")).unwrap();
        let left = Window::left_in(&open).unwrap();
        assert!(left.len() == 1 && matches!(stage(&left[0]), Stage::Counted));
        assert_eq!(left.into_iter().next().unwrap().publish(spool).unwrap(), 1);
        assert_eq!(std::fs::read(spool.join("a-z.counts")).unwrap(), b"three");
        assert!(!spool.join("a-x.counts").exists());
        assert!(Window::left_in(&open).unwrap().is_empty());
        std::fs::write(open.join("0000000003"), "").unwrap();
        // As if it had been killed while one was removed, its mark first.
        std::fs::create_dir(open.join("gone-2")).unwrap();
        std::fs::write(open.join("gone-2/perf.data"), "").unwrap();
        assert!(Window::left_in(&open).unwrap().is_empty());
        Window::remove_gone(&open).unwrap();
        assert!(!open.join("gone-2").exists());
    }

    #[test]
    fn a_note_that_is_cut_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let note = Note::new("a".to_owned(), 5, Recording::default());
        let window = Window::begin(dir.path(), 3, &note).unwrap();
        let path = dir.path().join("0000000003").join(NOTE);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert!(matches!(window.stage(), Stage::Begun(None)));
        // Begun anew, it has nothing of before.
        std::fs::write(window.data(), "").unwrap();
        let again = Window::begin(dir.path(), 3, &note).unwrap();
        assert!(matches!(again.stage(), Stage::Begun(Some(_))));
    }
}
