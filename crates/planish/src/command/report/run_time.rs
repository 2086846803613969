//! Code without a file: the maps and dumps that programs write of the code they make, and the vdso.

use beside::given;
use calltrees::{JitDump, PerfMap};
use image::{BuildId, Image};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Most bytes of a map.
const MAP_BYTES: u64 = 256 << 20;
/// Most bytes of all maps of a recording.
const ALL_MAPS: u64 = 1 << 30;
/// Most bytes of a dump, most of which are code and passed over.
const DUMP_BYTES: u64 = 16 << 30;
/// Most bytes of the vdso; it has two or three pages.
const VDSO_BYTES: u64 = 1 << 20;

/// Where programs leave their maps.
pub struct Maps {
    directories: Vec<PathBuf>,
    sysroot: Option<PathBuf>,
    /// The user who made the recording.
    recorder: Option<u32>,
    left: Cell<u64>,
    used: RefCell<Vec<PathBuf>>,
}

impl Maps {
    /// Of the recording `input`; `directories` are the user's, looked into first, `sysroot` is the
    /// root of the recorded machine.
    pub fn new(directories: &[PathBuf], sysroot: Option<&Path>, input: &Path) -> Maps {
        let recorder = std::fs::metadata(input).ok().map(|metadata| metadata.uid());
        Maps {
            directories: directories.to_vec(),
            sysroot: sysroot.map(Path::to_owned),
            recorder,
            left: Cell::new(ALL_MAPS),
            used: RefCell::default(),
        }
    }

    /// The dump of a process, which it mapped from `recorded` if the recording says so; none if it
    /// wrote none.
    pub fn dump(&self, pid: i32, recorded: Option<&str>) -> Option<Result<JitDump, String>> {
        let recorded = recorded.map(Path::new);
        let own = format!("jit-{pid}.dump");
        let name = recorded.and_then(Path::file_name).unwrap_or(own.as_ref());
        let given = self.directories.iter().map(|directory| (directory.join(name), false));
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        // The program chose the place, and others may write there since.
        let there = recorded.filter(|path| path.is_absolute() && path.components().all(plain));
        let there = there.map(|path| match &self.sysroot {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        });
        for (path, is_shared) in given.chain(there.map(|path| (path, true))) {
            let opened = match is_shared {
                true => given::open_trusted(&path, self.recorder),
                false => given::open(&path),
            };
            let read = opened.and_then(|file| {
                JitDump::read(BufReader::with_capacity(1 << 18, file).take(DUMP_BYTES))
            });
            match read {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Some(Err(format!("{}: {error}", path.display()))),
                Ok(dump) => {
                    self.used.borrow_mut().push(path);
                    return Some(Ok(dump));
                }
            }
        }
        let gone = |path: &Path| format!("{}: it is gone (--symbols DIR)", path.display());
        recorded.map(|path| Err(gone(path)))
    }

    fn read(path: &Path, recorder: Option<Option<u32>>, most: u64) -> std::io::Result<Vec<u8>> {
        match recorder {
            Some(recorder) => given::read_trusted(path, most, recorder),
            None => given::read(path, most),
        }
    }

    /// The maps and dumps that were read.
    pub fn used(&self) -> Vec<PathBuf> {
        self.used.borrow().clone()
    }

    /// The map of a process; none if it wrote none.
    pub fn open(&self, pid: i32) -> Option<Result<PerfMap, String>> {
        let name = format!("perf-{pid}.map");
        let own = self.directories.iter().map(|directory| (directory.join(&name), None));
        // Anybody may write there, and a name that somebody else chose is worse than none.
        let shared = (Path::new("/tmp").join(&name), Some(self.recorder));
        for (path, recorder) in own.chain([shared]) {
            let most = MAP_BYTES.min(self.left.get());
            match Maps::read(&path, recorder, most) {
                Ok(text) => {
                    self.left.set(self.left.get().saturating_sub(text.len() as u64));
                    self.used.borrow_mut().push(path);
                    return Some(Ok(PerfMap::parse(text)));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Some(Err(format!("{}: {error}", path.display()))),
            }
        }
        None
    }
}

/// Whether the recording is of this machine under the kernel release that runs. It is all that
/// recordings without kernel samples say about the kernel.
pub fn is_this_machine(input: &perfdata::Input) -> bool {
    let now = |name: &str| {
        let text = given::read_text(&Path::new("/proc/sys/kernel").join(name), given::TEXT).ok()?;
        Some(text.trim_end().to_owned())
    };
    let features = input.features();
    let same = |recorded: &Option<String>, name| recorded.is_some() && *recorded == now(name);
    same(&features.os_release, "osrelease") && same(&features.hostname, "hostname")
}

/// The vdso that ran: this process has the same one if its build ID is the recorded one, or, where
/// none was recorded, if the recorded kernel runs.
///
/// # Errors
/// Why it is not known, in words.
pub fn vdso(kernel_runs: bool, id: Option<&BuildId>) -> Result<Image, String> {
    let none = |_| "the running kernel's cannot be read".to_owned();
    let bytes = own_vdso().map_err(none)?;
    let image = Image::from_bytes("[vdso]", bytes).map_err(|error| error.to_string())?;
    let same = match (id, image.build_id()) {
        (Some(recorded), Some(found)) => found.matches_padded(recorded.as_bytes()),
        _ => kernel_runs,
    };
    let other = "it is a part of the kernel, and the recorded kernel is not known to be running";
    same.then_some(image).ok_or_else(|| other.to_owned())
}

fn own_vdso() -> std::io::Result<Vec<u8>> {
    let maps = given::read(Path::new("/proc/self/maps"), given::TEXT)?;
    let maps = String::from_utf8_lossy(&maps);
    let range = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(|line| {
        let (start, end) = line.split_whitespace().next()?.split_once('-')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        Some((number(start)?, number(end)?))
    });
    let (start, end) = range.ok_or(ErrorKind::NotFound)?;
    let mut memory = File::open("/proc/self/mem")?;
    memory.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    memory.take(end.saturating_sub(start).min(VDSO_BYTES)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
