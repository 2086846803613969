//! Where the files that a recording names are looked for: where they were recorded, below another
//! root, in directories of build IDs.

use super::kernel_files::{self, KernelPlaces};
use super::listed::Listed;
use super::run_time;
use address_spaces::{KernelPart, MappedFile};
use calltrees::{KernelSymbols, Wanted, is_anonymous};
use image::{BuildId, DebugSearch, Image};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Where to look.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Symbols {
    /// Look for the recorded files below this directory instead of where they were recorded: the
    /// root of another machine's file system
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Look here too for the recorded files, for debug files, and for perf-PID.map: by build ID (.build-id/xx/yyyy,
    /// with or without .debug; as perf's cache has them), by path, by file name; repeatable
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
}

/// The directories, in order, and the IDs that the recording lists beside its mappings.
pub struct Finder {
    sysroot: Option<PathBuf>,
    directories: Vec<PathBuf>,
    listed: Listed,
    debug: DebugSearch,
    /// Release of the recorded kernel.
    release: Option<String>,
    /// Whether the recording is of this machine and the kernel release that runs.
    same_machine: bool,
}

impl Finder {
    /// Where to look for the files of `input`.
    pub fn new(asked: &Symbols, input: &perfdata::Input) -> Finder {
        let mut directories = asked.symbols.clone();
        // perf keeps a copy of what it recorded there.
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        directories.extend(home.map(|home| home.join(".debug")));
        let mut debug = DebugSearch::default();
        let below = asked.sysroot.iter().map(|root| root.join("usr/lib/debug"));
        debug.roots = asked.symbols.iter().cloned().chain(below).chain(debug.roots).collect();
        Finder {
            sysroot: asked.sysroot.clone(),
            directories,
            listed: Listed::of(input),
            debug,
            release: input.features().os_release.clone(),
            same_machine: run_time::is_this_machine(input),
        }
    }

    /// Where debug files are looked for.
    pub fn debug(&self) -> &DebugSearch {
        &self.debug
    }

    /// Names of kernels' functions that may be the recorded kernel's.
    pub fn kernels(&self) -> Vec<KernelSymbols> {
        let places = self.sysroot.iter().chain(&self.directories);
        kernel_files::symbols(self.listed.kernel().as_ref(), places.map(PathBuf::as_path))
    }

    /// The file that ran, with the symbols of its separate debug file where its own are gone.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn open(&self, wanted: Wanted<'_>) -> Result<Image, String> {
        let mapped = wanted.file;
        let id = self.listed.id_of(mapped);
        if mapped.side.is_kernel() {
            return self.open_kernel(mapped, id.as_ref());
        }
        if mapped.path == "[vdso]" {
            return self.open_vdso(wanted.kernel_runs, id.as_ref());
        }
        if is_anonymous(&mapped.path) {
            return Err("the program made this code while it ran, and no perf-PID.map in /tmp or \
                        in a directory of --symbols names its functions"
                .to_owned());
        }
        let deleted = mapped.path.strip_suffix(" (deleted)");
        let path = Path::new(deleted.unwrap_or(&mapped.path));
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        // `[vdso]`, `//anon`, `/memfd:…` and the like are no files, and nobody's path goes up.
        if !path.is_absolute() || mapped.path.starts_with("//") || !path.components().all(plain) {
            return Err("it is no file".to_owned());
        }
        let found = self.first_of(self.candidates(path, id.as_ref()), id.as_ref());
        found.map(|image| self.with_symbols(image)).map_err(|reason| {
            let gone = match (&self.sysroot, deleted) {
                (Some(_), _) => "it is not there (--sysroot, --symbols)",
                (None, Some(_)) => {
                    "it was deleted or replaced before the recording ended; --symbols names \
                     another place"
                }
                (None, None) => "it is gone; --sysroot or --symbols name another place",
            };
            reason.unwrap_or_else(|| gone.to_owned())
        })
    }

    /// The first candidate that is the recorded file, or why the first that is there is not.
    fn first_of(
        &self,
        candidates: Vec<PathBuf>,
        id: Option<&BuildId>,
    ) -> Result<Image, Option<String>> {
        let mut reason = None;
        for candidate in candidates.into_iter().filter(|candidate| candidate.is_file()) {
            match opened(&candidate, id) {
                Ok(image) => return Ok(image),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        Err(reason)
    }

    fn open_vdso(&self, kernel_runs: bool, id: Option<&BuildId>) -> Result<Image, String> {
        let own = run_time::vdso(kernel_runs || self.same_machine, id);
        // Nothing but the build ID tells whose it is.
        let (Err(why), Some(id)) = (&own, id) else { return own };
        let kept = self.directories.iter().flat_map(|directory| {
            let below = by_id(directory, id);
            [below.join("vdso"), below.join("elf")]
        });
        self.first_of(kept.collect(), Some(id)).map_err(|reason| reason.unwrap_or(why.clone()))
    }

    fn open_kernel(&self, mapped: &MappedFile, id: Option<&BuildId>) -> Result<Image, String> {
        let part = KernelPart::of(&mapped.path);
        if part == (KernelPart::Core { guest: true }) {
            return Err("it is the kernel of a virtual machine".to_owned());
        }
        let places = KernelPlaces {
            sysroot: self.sysroot.as_deref(),
            directories: &self.directories,
            release: self.release.as_deref(),
        };
        let mut candidates = Vec::new();
        if let Some(id) = id {
            candidates.extend(self.directories.iter().flat_map(|below| by_id_all(below, id)));
            let debug = self.debug.roots.iter();
            candidates.extend(debug.map(|root| with_suffix(&by_id(root, id), ".debug")));
        }
        match part {
            KernelPart::Module => candidates.extend(places.module(&mapped.path)),
            KernelPart::Core { .. } => candidates.extend(places.vmlinux()),
        }
        let found = self.first_of(candidates, id);
        found.map(|image| self.with_symbols(image)).map_err(|reason| {
            let gone = match part {
                KernelPart::Module => {
                    "the module's file is not at hand; --symbols or --sysroot name another place"
                }
                KernelPart::Core { .. } => {
                    "the recorded kernel does not run, or hides its symbols \
                     (kernel.kptr_restrict), and no vmlinux of it is at hand; --symbols names \
                     where one is"
                }
            };
            reason.unwrap_or_else(|| gone.to_owned())
        })
    }

    fn candidates(&self, path: &Path, id: Option<&BuildId>) -> Vec<PathBuf> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let mut all = vec![match &self.sysroot {
            Some(root) => root.join(inside),
            None => path.to_owned(),
        }];
        for directory in &self.directories {
            all.extend(id.iter().flat_map(|id| by_id_all(directory, id)));
            all.push(directory.join(inside));
            all.extend(path.file_name().map(|name| directory.join(name)));
        }
        all
    }

    fn with_symbols(&self, image: Image) -> Image {
        let debug = self.debug.find(&image).ok().and_then(|found| found.image);
        match debug {
            Some(debug) => image.with_symbols_of(Arc::new(debug)),
            None => image,
        }
    }
}

/// `.build-id/xx/yyyy` below a directory.
pub(super) fn by_id(directory: &Path, id: &BuildId) -> PathBuf {
    let digits = id.to_string();
    let (first, rest) = digits.split_at_checked(2).unwrap_or((&digits, ""));
    directory.join(".build-id").join(first).join(rest)
}

/// The files that may be the program of a build ID below a directory.
fn by_id_all(directory: &Path, id: &BuildId) -> [PathBuf; 2] {
    let below = by_id(directory, id);
    [below.join("elf"), below]
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn opened(path: &Path, id: Option<&BuildId>) -> Result<Image, String> {
    let image = Image::open(path).map_err(|error| error.to_string())?;
    let other = |what: &str| Err(format!("{}: the file at hand {what}", path.display()));
    match (id, image.build_id()) {
        (Some(recorded), Some(found)) if !found.matches_padded(recorded.as_bytes()) => {
            other("is another build than the recorded one")
        }
        (Some(_), None) => other("has no build ID, so it is another build than the recorded one"),
        _ => Ok(image),
    }
}
