//! What lies in an archive of a recording or of symbols? Unpacked into a private directory for as
//! long as the command runs, by what the files are and not by what they are called.
//!
//! Of `perf archive`'s archives and planish's own, only what reports need is laid on disk: ELF
//! files under their own build IDs, lists of kernel symbols, maps of code made at run time, and the
//! recording. So links need not be followed, and no name of an archive becomes a name on disk, but
//! those of files without a build ID, below a directory of their own.

use archives::{Member, Packing};
use beside::scratch::Scratch;
use image::{BuildId, Image};
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use terminal::progress;

/// The recording in planish's archives; a directory where it is one.
pub const RECORDING: &str = "perf.data";
/// Below it lie files that have no build ID, by path.
pub const BY_PATH: &str = "files";
/// Most bytes of a compressed kernel module when it is unpacked.
const MODULE_BYTES: u64 = 256 << 20;

/// An archive, unpacked.
#[derive(Debug)]
pub struct Unpacked {
    scratch: Scratch,
    has_recording: bool,
}

/// Each archive is unpacked once; [`remove_all`] removes what no drop would.
static UNPACKED: Mutex<Vec<(PathBuf, Arc<Unpacked>)>> = Mutex::new(Vec::new());

/// Whether nothing is told while archives are unpacked.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Tells nothing while archives are unpacked.
pub fn be_quiet(quiet: bool) {
    QUIET.store(quiet, Ordering::Relaxed);
}

/// Removes what was unpacked.
pub fn remove_all() {
    UNPACKED.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// The archive that `path` names, unpacked; none where it is a directory or no archive.
///
/// # Errors
/// Where it is damaged or hostile.
pub fn archive(path: &Path) -> anyhow::Result<Option<Arc<Unpacked>>> {
    use anyhow::Context as _;
    let named = || path.display().to_string();
    if !path.is_file() {
        return Ok(None);
    }
    let mut known = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, found)) = known.iter().find(|(known, _)| known == path) {
        return Ok(Some(Arc::clone(found)));
    }
    let file = beside::given::open(path).with_context(named)?;
    let Some(packing) = packing_of(&file).with_context(named)? else { return Ok(None) };
    let unpacked = Arc::new(Unpacked::of(path, packing)?);
    known.push((path.to_owned(), Arc::clone(&unpacked)));
    Ok(Some(unpacked))
}

fn packing_of(file: &File) -> io::Result<Option<Packing>> {
    let mut head = Vec::new();
    file.take(Packing::HEAD as u64).read_to_end(&mut head)?;
    Ok(Packing::of(&head))
}

impl Unpacked {
    /// The directories, as `--symbols` takes them: of what has a build ID, and of what lies there
    /// by path.
    pub fn directories(&self) -> [PathBuf; 2] {
        [self.directory().to_owned(), self.by_path()]
    }

    fn directory(&self) -> &Path {
        self.scratch.path()
    }

    fn by_path(&self) -> PathBuf {
        self.scratch.path().join(BY_PATH)
    }

    /// The recording, if the archive holds one.
    pub fn recording(&self) -> Option<PathBuf> {
        self.has_recording.then(|| self.scratch.path().join(RECORDING))
    }

    fn of(path: &Path, packing: Packing) -> anyhow::Result<Unpacked> {
        use anyhow::Context as _;
        let named = || path.display().to_string();
        let file = beside::given::open(path).with_context(named)?;
        let bytes = file.metadata().with_context(named)?.len();
        let bar = progress::Bytes::new("unpack", bytes, QUIET.load(Ordering::Relaxed));
        let scratch = Scratch::new().context("a directory for what is unpacked")?;
        let mut unpacked = Unpacked { scratch, has_recording: false };
        let counted = Counted { stream: io::BufReader::new(file), count: &|bytes| bar.add(bytes) };
        archives::read(counted, packing, bytes, &mut |member, stream| {
            unpacked.lay(member, stream).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", member.path.display()))
            })
        })
        .with_context(named)?;
        Ok(unpacked)
    }

    /// Lays a file where reports look for it, if they do.
    fn lay(&mut self, member: &Member, stream: &mut dyn Read) -> io::Result<()> {
        let mut parts = member.path.iter();
        let (first, second, more) = (parts.next(), parts.next(), parts.next());
        if first.is_some_and(|name| name == RECORDING) && more.is_none() {
            let at = self.directory().join(RECORDING);
            self.has_recording = true;
            return match second {
                Some(part) => self.write(&at.join(part), stream),
                None => self.write(&at, stream),
            };
        }
        let name = member.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if is_map(name) || is_dump(name) {
            return self.write_once(&self.directory().join(name), stream);
        }
        if name == "kallsyms" {
            return match id_of_path(&member.path) {
                Some(id) => self.write_once(&self.id_directory(&id)?.join(name), stream),
                None => self.write_once(&self.directory().join(name), stream),
            };
        }
        self.lay_program(member, stream)
    }

    /// Lays a program, a library, a debug file or a module; what is none of these is left.
    fn lay_program(&self, member: &Member, stream: &mut dyn Read) -> io::Result<()> {
        let mut head = Vec::new();
        Read::take(&mut *stream, Packing::HEAD as u64).read_to_end(&mut head)?;
        let packing = Packing::of(&head).filter(|packing| *packing != Packing::Tar);
        if packing.is_none() && !head.starts_with(b"\x7fELF") {
            return Ok(());
        }
        let new = self.directory().join("new");
        let mut whole = head.as_slice().chain(stream);
        match packing {
            // Distributions compress modules, and perf's cache keeps them so.
            Some(packing) => {
                let unpacked = packing.unpack(&mut whole)?;
                let mut bounded = beside::given::Bounded::new(unpacked, MODULE_BYTES);
                self.write(&new, &mut bounded)?;
            }
            None => self.write(&new, &mut whole)?,
        }
        let place = match Image::open(&new) {
            Ok(image) => self.place_of(&image, member)?,
            // Whoever looks for it is told that it is not there.
            Err(_) => None,
        };
        match place {
            Some(place) if !place.exists() => std::fs::rename(&new, place),
            _ => std::fs::remove_file(&new),
        }
    }

    fn place_of(&self, image: &Image, member: &Member) -> io::Result<Option<PathBuf>> {
        // What the recording names by path alone is looked for there, even if it has a build ID.
        if let Ok(path) = member.path.strip_prefix(BY_PATH) {
            let place = self.by_path().join(path);
            std::fs::create_dir_all(beside::directory_of(&place))?;
            return Ok(Some(place));
        }
        // A file that is named by a build ID and has none is not that one.
        let Some(id) = image.build_id() else { return Ok(None) };
        if member.path.file_name().is_some_and(|name| name == "vdso") {
            return Ok(Some(self.directory().join("vdso")));
        }
        let has_code = image.sections().iter().any(image::Section::is_code);
        if has_code || image.sections().is_empty() {
            return Ok(Some(self.id_directory(id)?.join("elf")));
        }
        let below = self.id_directory(id)?;
        let mut name = below.into_os_string();
        name.push(".debug");
        Ok(Some(PathBuf::from(name)))
    }

    fn id_directory(&self, id: &BuildId) -> io::Result<PathBuf> {
        let place = super::id_paths::by_id(self.directory(), id);
        std::fs::create_dir_all(&place)?;
        Ok(place)
    }

    fn write_once(&self, place: &Path, stream: &mut dyn Read) -> io::Result<()> {
        if place.exists() { Ok(()) } else { self.write(place, stream) }
    }

    fn write(&self, place: &Path, stream: &mut dyn Read) -> io::Result<()> {
        std::fs::create_dir_all(beside::directory_of(place))?;
        let mut file = beside::exclusive(place, beside::PRIVATE)?;
        io::copy(stream, &mut file)?;
        file.flush()
    }
}

/// `perf-PID.map`.
fn is_map(name: &str) -> bool {
    is_numbered(name, "perf-", ".map")
}

/// `jit-PID.dump`.
fn is_dump(name: &str) -> bool {
    is_numbered(name, "jit-", ".dump")
}

fn is_numbered(name: &str, begin: &str, end: &str) -> bool {
    let number = name.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
    number.is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The build ID that the directories of a file state: `…/ID/FILE` or `.build-id/xx/yyyy/FILE`.
fn id_of_path(path: &Path) -> Option<BuildId> {
    let above = path.parent()?;
    let last = above.file_name()?.to_str()?;
    let before = above.parent()?;
    if before.parent().is_some_and(|root| root.ends_with(".build-id")) {
        return format!("{}{last}", before.file_name()?.to_str()?).parse().ok();
    }
    last.parse().ok()
}

/// Tells how much was read.
struct Counted<'c, R> {
    stream: R,
    count: &'c dyn Fn(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        (self.count)(read as u64);
        Ok(read)
    }
}

/// Opens an ELF file; a module may be compressed.
///
/// # Errors
/// Where it is none, in words.
pub fn open_image(path: &Path) -> Result<Image, String> {
    let fail = |error: io::Error| format!("{}: {error}", path.display());
    let is_module = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".ko"))
        || path.ends_with("elf");
    let file = beside::given::open(path).map_err(fail)?;
    let packing = packing_of(&file).map_err(fail)?;
    let Some(packing) = packing.filter(|packing| is_module && *packing != Packing::Tar) else {
        return Image::open(path).map_err(|error| error.to_string());
    };
    let packed = beside::given::open(path).map_err(fail)?;
    let mut bytes = Vec::new();
    let stream = packing.unpack(io::BufReader::new(packed)).map_err(fail)?;
    beside::given::Bounded::new(stream, MODULE_BYTES).read_to_end(&mut bytes).map_err(fail)?;
    Image::from_bytes(&path.display().to_string(), bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_state_build_ids_in_both_of_perfs_ways() {
        let id = |path: &str| id_of_path(Path::new(path)).map(|id| id.to_string());
        assert_eq!(id("[kernel.kallsyms]/abcdef/kallsyms").unwrap(), "abcdef");
        assert_eq!(id(".build-id/ab/cdef/kallsyms").unwrap(), "abcdef");
        assert_eq!(id("x/.build-id/ab/cdef/kallsyms").unwrap(), "abcdef");
        for other in ["kallsyms", "proc/kallsyms", ".build-id/zz/cd/kallsyms"] {
            assert_eq!(id(other), None, "{other}");
        }
        assert!(is_map("perf-12.map") && is_dump("jit-1.dump"));
        assert!(!is_map("perf-.map") && !is_map("perf-1a.map") && !is_map("perf-1.map.so"));
    }
}
