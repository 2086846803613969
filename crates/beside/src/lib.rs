//! How does a file get to its place, whoever else may write to the directory? New, under a random
//! name beside it, readable by its owner alone, and renamed when whole.
//!
//! Every file that a command of planish writes is made here. Invariant: nothing that already has a
//! name is opened and written to, but what is the caller's own (a log, a lock), or a device or pipe
//! that was named as the output. So a link, a fifo or a file that somebody else put where a file is
//! to be made gets neither followed nor waited for nor filled. Files are made with `O_EXCL` and
//! `O_NOFOLLOW`, and looked at once more when they are open.

pub mod given;
pub mod named;
pub mod scratch;

use rustix::fs::OFlags;
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Mode of what is not yet whole: its owner's alone.
pub const PRIVATE: u32 = 0o600;
/// What names begin with that nothing else looks for.
pub const PREFIX: &str = ".planish-";
/// Random letters and digits of a name.
pub const RANDOM: usize = 8;
/// Only the owners of files in a directory remove them; everybody writes there.
const STICKY: u32 = 0o1000;
const ALL_WRITE: u32 = 0o002;

/// Files that an interrupt must remove.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn list() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names of the files that are being written: what [`remove_unfinished`] would remove.
pub fn unfinished() -> Vec<PathBuf> {
    list().iter().cloned().collect()
}

/// Removes all files that are being written, for whoever ends the process now: from here on none
/// can be begun, and those who try wait for the end.
pub fn remove_unfinished() {
    let all = list();
    for name in &*all {
        let _ = std::fs::remove_file(name);
    }
    std::mem::forget(all);
}

/// A file on its way: under a random name beside its place until it is whole, removed when dropped
/// before.
#[derive(Debug)]
pub struct Unfinished {
    // None only while it is being finished.
    file: Option<tempfile::NamedTempFile<File>>,
    name: PathBuf,
    place: PathBuf,
    mode: u32,
}

impl Unfinished {
    /// Begins the file that is to lie at `place`.
    ///
    /// # Errors
    /// When no file can be made in that directory, or the name is a device's.
    pub fn at(place: &Path) -> io::Result<Unfinished> {
        replaceable(place)?;
        // On the list before anybody can look: an interrupt leaves nothing behind.
        let mut all = list();
        let file = named(directory_of(place), PREFIX, "", |name| exclusive(name, PRIVATE))?;
        let name = file.path().to_owned();
        all.insert(name.clone());
        Ok(Unfinished { file: Some(file), name, place: place.to_owned(), mode: usual_mode() })
    }

    /// Chooses another mode for when it is whole than that of any new file.
    pub fn with_mode(mut self, mode: u32) -> Unfinished {
        self.mode = mode & 0o7777;
        self
    }

    /// The open file.
    ///
    /// # Errors
    /// None: it is open for as long as this value lives.
    pub fn file(&self) -> io::Result<&File> {
        let file = self.file.as_ref().map(tempfile::NamedTempFile::as_file);
        file.ok_or_else(|| io::Error::other("the file is finished"))
    }

    /// Its name until it is whole.
    pub fn name(&self) -> &Path {
        &self.name
    }

    /// Gives it its mode and its name. What lay there is replaced, never followed. The result is
    /// still open.
    ///
    /// # Errors
    /// When the file cannot be renamed; it is then removed.
    pub fn finish(mut self) -> io::Result<File> {
        let Some(file) = self.file.take() else {
            return Err(io::Error::other("the file is finished"));
        };
        file.as_file().set_permissions(Permissions::from_mode(self.mode))?;
        file.persist(&self.place).map_err(|error| error.error)
    }
}

impl Write for Unfinished {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file()?.flush()
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The file first: a name that is off the list must be gone.
        self.file = None;
        list().remove(&self.name);
    }
}

/// Root could put a file in the place of `/dev/null`, and every program of the system would write
/// into it. A link to a device or to what a shell joined is as good as one, and so is
/// `/dev/stdout`, wherever that leads just now.
///
/// # Errors
/// When what has this name must stay.
pub fn replaceable(place: &Path) -> io::Result<()> {
    let Ok(found) = std::fs::symlink_metadata(place) else { return Ok(()) };
    let of_system = found.is_symlink()
        && std::fs::canonicalize(directory_of(place)).is_ok_and(|dir| {
            dir == Path::new("/dev") || dir == Path::new("/dev/fd") || dir.starts_with("/proc")
        });
    let through = if found.is_symlink() { std::fs::metadata(place).ok() } else { None };
    let device = |kind: std::fs::FileType| kind.is_char_device() || kind.is_block_device();
    let joined = |kind: std::fs::FileType| device(kind) || kind.is_fifo() || kind.is_socket();
    match of_system
        || device(found.file_type())
        || through.is_some_and(|found| joined(found.file_type()))
    {
        true => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "a device or pipe; this needs the name of a file",
        )),
        false => Ok(()),
    }
}

/// Writes a whole file at `place`.
///
/// # Errors
/// When it cannot be made, written or renamed; there is then what was there before.
pub fn write(place: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = Unfinished::at(place)?;
    file.write_all(bytes.as_ref())?;
    file.finish().map(|_| ())
}

/// Makes a file that is seen while it grows, such as a log, in the place of what has its name.
///
/// # Errors
/// When the old one cannot be removed or is a device, or none can be made.
pub fn fresh(place: &Path) -> io::Result<File> {
    replaceable(place)?;
    match std::fs::remove_file(place) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => exclusive(place, usual_mode()),
    }
}

/// Copies a file's content and mode to `place`.
///
/// # Errors
/// When one cannot be read or the other not be made.
pub fn copy(from: &Path, place: &Path) -> io::Result<()> {
    let mut input = File::open(from)?;
    let mode = input.metadata()?.mode();
    let mut file = Unfinished::at(place)?.with_mode(mode);
    // Files, not writers: the kernel copies what it can by itself.
    io::copy(&mut input, &mut file.file()?)?;
    file.flush()?;
    file.finish().map(|_| ())
}

/// Opens a file of the caller's to add to its end; makes it where there is none.
///
/// # Errors
/// When it is a link, no regular file, or somebody else's.
pub fn append(place: &Path) -> io::Result<File> {
    own(place, OpenOptions::new().append(true))
}

/// Opens a file of the caller's to read and write, such as a lock; makes it where there is none.
///
/// # Errors
/// As [`append`].
pub fn read_write(place: &Path) -> io::Result<File> {
    own(place, OpenOptions::new().read(true).write(true))
}

/// Opens a file of the caller's to read it, and waits for nothing.
///
/// # Errors
/// When there is none; else as [`append`].
pub fn read_own(place: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(place)?;
    check(&file.metadata()?)?;
    Ok(file)
}

fn own(place: &Path, how: &mut OpenOptions) -> io::Result<File> {
    // A fifo's other end is not waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = how.create(true).custom_flags(flags.bits() as i32).open(place)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Opens a device or a pipe that was named as the output. Where everybody may write to its
/// directory, a pipe must be the caller's or the directory's owner's, as the kernel has it for
/// files that may be made (`fs.protected_fifos`).
///
/// # Errors
/// When it cannot be opened, or is such a pipe of somebody else.
pub fn sink(place: &Path) -> io::Result<File> {
    let found = std::fs::metadata(place)?;
    let real = std::fs::canonicalize(place);
    let around =
        real.as_deref().ok().and_then(Path::parent).and_then(|dir| std::fs::metadata(dir).ok());
    if let Some(around) =
        around.filter(|around| around.mode() & STICKY != 0 && around.mode() & ALL_WRITE != 0)
    {
        let trusted = [rustix::process::geteuid().as_raw(), around.uid()].contains(&found.uid());
        if found.file_type().is_fifo() && !trusted {
            return Err(foreign(found.uid()));
        }
    }
    OpenOptions::new().write(true).open(place)
}

/// Makes a file of a random name between `prefix` and `suffix`, its owner's alone. It stays when
/// the process ends.
///
/// # Errors
/// When no file can be made there.
pub fn file_named(dir: &Path, prefix: &str, suffix: &str) -> io::Result<(PathBuf, File)> {
    let made = named(dir, prefix, suffix, |name| exclusive(name, PRIVATE))?;
    let (file, name) = made.keep().map_err(|error| error.error)?;
    Ok((name, file))
}

/// Makes a directory of a random name between `prefix` and `suffix`, its owner's alone. It stays
/// when the process ends.
///
/// # Errors
/// When none can be made there.
pub fn directory_named(dir: &Path, prefix: &str, suffix: &str) -> io::Result<PathBuf> {
    let made = named(dir, prefix, suffix, |name| {
        DirBuilder::new().mode(0o700).create(name)?;
        let found = std::fs::symlink_metadata(name)?;
        if found.is_dir() { check_owner(&found) } else { Err(not_regular()) }
    })?;
    // What was made is no file, so that its name alone is kept.
    made.into_temp_path().keep().map_err(|error| error.error)
}

fn named<T>(
    dir: &Path,
    prefix: &str,
    suffix: &str,
    make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<tempfile::NamedTempFile<T>> {
    tempfile::Builder::new().prefix(prefix).suffix(suffix).rand_bytes(RANDOM).make_in(dir, make)
}

/// Makes a file of exactly this name, which nothing may have yet.
///
/// # Errors
/// When something has it, or no file can be made.
pub fn exclusive(name: &Path, mode: u32) -> io::Result<File> {
    let mut how = OpenOptions::new();
    how.read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = how.open(name)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// What is open must be a file of the caller's.
fn check(found: &Metadata) -> io::Result<()> {
    if found.is_file() { check_owner(found) } else { Err(not_regular()) }
}

fn check_owner(found: &Metadata) -> io::Result<()> {
    if found.uid() == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(foreign(found.uid()))
    }
}

fn not_regular() -> io::Error {
    io::Error::new(
        ErrorKind::InvalidInput,
        "it is not a regular file; remove it, or name another place",
    )
}

fn foreign(owner: u32) -> io::Error {
    let own = rustix::process::geteuid().as_raw();
    let text = format!(
        "it belongs to user {owner}, and you are user {own}; name a place where files are yours"
    );
    io::Error::new(ErrorKind::PermissionDenied, text)
}

/// The mode of any new file: what the process's mask leaves.
fn usual_mode() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    let mask = mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok());
    0o666 & !mask.unwrap_or(0o022)
}

/// The directory that a file lies in.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
