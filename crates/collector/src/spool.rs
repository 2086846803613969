//! Who has the spool, how large is it, and what was left in it?

use crate::error::Error;
use crate::state::State;
use crate::window::{Note, Stage, Window};
use fleet::Missed;
use rustix::fs::{FlockOperation, flock, statvfs};
use std::fs::{DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// What is the collector's own: windows on their way, and the two files below; hidden, so that
/// nobody takes it for shards.
const OPEN: &str = ".collector";
const STATE: &str = "state.json";
const LOCK: &str = "lock";
/// What files are called before they are whole.
const UNFINISHED: &str = ".planish-";
/// Directories of a spool are not deeper.
const MOST_DEEP: usize = 8;

/// A spool that this process alone writes to.
pub struct Spool {
    pub(crate) dir: PathBuf,
    pub(crate) state: State,
    open: PathBuf,
    /// Held as long as this lives.
    _lock: File,
}

impl Spool {
    /// Takes a directory, which is made where there is none.
    ///
    /// # Errors
    /// Where it is none, or another collector has it.
    pub fn take(dir: &Path) -> Result<Spool, Error> {
        std::fs::create_dir_all(dir).map_err(Error::io(dir))?;
        let open = dir.join(OPEN);
        match DirBuilder::new().mode(0o700).create(&open) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::io(&open))?,
        }
        let path = open.join(LOCK);
        let lock = beside::read_write(&path).map_err(Error::io(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                return Err(Error::InUse { path: dir.to_owned() });
            }
            // A file system without locks has at most a user who looks after that.
            _ => {}
        }
        remove_unfinished(&open)?;
        Window::remove_gone(&open)?;
        let state = State::read(&open.join(STATE))?;
        Ok(Spool { dir: dir.to_owned(), state, open, _lock: lock })
    }

    /// Windows that a killed collector left. Those that it had not yet written down to have begun
    /// are none, and removed.
    pub(crate) fn left(&self) -> Result<Vec<Window>, Error> {
        let (begun, not): (Vec<_>, Vec<_>) = Window::left_in(&self.open)?
            .into_iter()
            .partition(|window| window.number < self.state.next);
        not.into_iter().try_for_each(Window::remove)?;
        Ok(begun)
    }

    /// Bytes of all files in it.
    pub(crate) fn bytes(&self) -> u64 {
        bytes_in(&self.dir, 0)
    }

    /// Bytes that its file system has room for; as many as there can be where it does not tell.
    pub(crate) fn room(&self) -> u64 {
        statvfs(&self.dir).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Begins a window, which tells of all that was missed so far.
    pub(crate) fn begin(&mut self, mut note: Note) -> Result<Window, Error> {
        let number = self.state.next;
        if let Some(collected) = &mut note.recording.collected {
            (collected.window, collected.missed) = (number, self.state.missed);
        }
        let window = Window::begin(&self.open, number, &note)?;
        let before = self.state;
        self.state.next = number.saturating_add(1);
        self.state.missed = Missed::default();
        match self.save() {
            Ok(()) => Ok(window),
            Err(error) => {
                self.state = before;
                drop(window.remove());
                Err(error)
            }
        }
    }

    /// Gives a window up: what it was to tell is to be told by the next one, with what it missed
    /// itself.
    pub(crate) fn give_up(
        &mut self,
        window: Window,
        told: &Missed,
        own: &Missed,
    ) -> Result<(), Error> {
        if window.number > self.state.settled {
            self.state.settled = window.number;
            self.state.missed.add(told);
            self.state.missed.add(own);
        }
        match self.save() {
            // Its own files may be what takes the room.
            Err(error) if error.is_no_room() => window.remove().and_then(|()| self.save()),
            Err(error) => Err(error),
            Ok(()) => window.remove(),
        }
    }

    /// Moves the shards of windows into the spool for which there was no room before.
    pub(crate) fn publish_left(&self) -> Result<u64, Error> {
        let mut published = 0;
        for window in self.left()? {
            if matches!(window.stage(), Stage::Counted) {
                published += window.publish(&self.dir)?;
            }
        }
        Ok(published)
    }

    /// Counts a window that was not even begun. It may be told of later than now.
    pub(crate) fn miss(&mut self, missed: &Missed) {
        self.state.missed.add(missed);
        self.state.next = self.state.next.saturating_add(1);
        self.state.settled = self.state.settled.max(self.state.next.saturating_sub(1));
        // Where there is no room now, the next window writes it down.
        drop(self.save());
    }

    /// Writes the state down.
    pub(crate) fn save(&self) -> Result<(), Error> {
        self.state.write(&self.open.join(STATE))
    }
}

/// Removes what a collector was writing when it was killed.
fn remove_unfinished(open: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(open).map_err(Error::io(open))? {
        let entry = entry.map_err(Error::io(open))?;
        if entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes()) {
            std::fs::remove_file(entry.path()).map_err(Error::io(&entry.path()))?;
        }
    }
    Ok(())
}

fn bytes_in(dir: &Path, depth: usize) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let one = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() && depth < MOST_DEEP => bytes_in(&entry.path(), depth + 1),
        Ok(found) => found.len(),
        Err(_) => 0,
    };
    entries.map(one).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::*;
    use fleet::{Collected, Recording};

    fn note() -> Note {
        let collected = Some(Collected::default());
        Note::new("a".to_owned(), 5, Recording { collected, ..Recording::default() })
    }

    #[test]
    fn a_spool_has_one_collector_and_what_is_missed_is_told_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::take(dir.path()).unwrap();
        assert!(matches!(Spool::take(dir.path()), Err(Error::InUse { .. })));
        let idle = Missed { idle: 1, ..Missed::default() };
        spool.miss(&idle);
        let first = spool.begin(note()).unwrap();
        assert_eq!((first.number, spool.state.missed), (2, Missed::default()));
        drop(spool);
        let unfinished = dir.path().join(".collector/.planish-12345678");
        std::fs::write(&unfinished, "{").unwrap();
        let mut spool = Spool::take(dir.path()).unwrap();
        assert!(!unfinished.exists());
        let killed = Missed { killed: 1, ..Missed::default() };
        let left = spool.left().unwrap();
        assert_eq!(left.len(), 1);
        for window in left {
            spool.give_up(window, &idle, &killed).unwrap();
        }
        assert_eq!(spool.state.missed, Missed { idle: 1, killed: 1, ..Missed::default() });
        // Where it was killed before the window was removed, it is not counted again.
        let again = Window::begin(&dir.path().join(OPEN), 2, &note()).unwrap();
        spool.give_up(again, &idle, &killed).unwrap();
        assert_eq!(spool.state.missed.total(), 2);
        assert_eq!(spool.begin(note()).unwrap().number, 3);
        assert!(spool.bytes() > 100 && spool.room() > 0);
    }
}
