//! Where the files that a recording names are looked for: where they were recorded, below another
//! root, in directories of build IDs.

use super::doubts;
use super::id_paths::{by_id, by_id_all, with_suffix};
use super::kernel_files::{self, KernelPlaces};
use super::run_time;
use super::servers::Servers;
use super::unpacked::{self, Unpacked};
use address_spaces::{KernelPart, MappedFile};
use calltrees::{BuildIds, KernelSymbols, Opened, Wanted, is_anonymous};
use debuginfod::Kind;
use image::{BuildId, DebugSearch, Image};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Where to look.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Symbols {
    /// Look for the recorded files below this directory, the root of another machine's file system,
    /// instead of where they were recorded
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Look in this directory, too, for recorded files and debug files (by build ID in
    /// .build-id/xx/yyyy, with or without .debug, as in perf's cache; by path; by file name), for
    /// perf-PID.map and for jit-PID.dump; or in this archive, made by `perf archive` or `planish
    /// report archive`; repeatable
    #[arg(long, value_name = "DIR|ARCHIVE")]
    pub symbols: Vec<PathBuf>,
    /// Fetch files that are nowhere else from debuginfod servers (URL or, without it, those that
    /// DEBUGINFOD_URLS lists), and keep them in debuginfod's cache
    #[arg(long, value_name = "URL", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    pub debuginfod: Option<String>,
}

/// A file that the names of a recording came from.
#[derive(Clone, Debug)]
pub struct Used {
    /// Its path as recorded.
    pub recorded: String,
    /// The build ID that the recording has of it; none where it names it by path alone.
    pub id: Option<BuildId>,
    /// Where it lies; what is no file has only bytes.
    pub place: PathBuf,
    /// Its bytes, if it is no file.
    pub bytes: Option<Vec<u8>>,
}

/// The directories, in order, and what the recording says of its machine.
pub struct Finder {
    sysroot: Option<PathBuf>,
    /// Those of the recording's own archive, then the user's, then perf's cache.
    directories: Vec<PathBuf>,
    /// How many of them are the archive's, and how many are the archive's or the user's.
    own: usize,
    asked: usize,
    /// The build ID of the recorded kernel.
    kernel: Option<BuildId>,
    /// When the recording was written.
    written: Option<SystemTime>,
    debug: DebugSearch,
    /// Release of the recorded kernel.
    release: Option<String>,
    /// Whether the recording is of this machine and the kernel release that runs.
    same_machine: bool,
    servers: Option<Servers>,
    /// Whether debug information is wanted beside names.
    wants_lines: bool,
    /// Archives that lie unpacked for as long as this value lives.
    _unpacked: Vec<Arc<Unpacked>>,
    used: Mutex<Vec<Used>>,
}

/// A directory that an option names.
fn directory(path: &Path, option: &str) -> anyhow::Result<PathBuf> {
    if !path.is_dir() {
        anyhow::bail!("{option}: there is no directory {}", path.display());
    }
    Ok(path.to_owned())
}

impl Finder {
    /// Where to look for the files of `input`, which is at `path`.
    ///
    /// # Errors
    /// Where an archive is damaged, or no server is named.
    pub fn new(
        asked: &Symbols,
        path: &Path,
        input: &perfdata::Input,
        quiet: bool,
    ) -> anyhow::Result<Finder> {
        let mut kept: Vec<Arc<Unpacked>> = unpacked::archive(path)?.into_iter().collect();
        let mut directories: Vec<PathBuf> =
            kept.iter().flat_map(|archive| archive.directories()).collect();
        let own = directories.len();
        for symbols in &asked.symbols {
            match unpacked::archive(symbols)? {
                Some(archive) => {
                    directories.extend(archive.directories());
                    kept.push(archive);
                }
                None => directories.push(directory(symbols, "--symbols")?),
            }
        }
        let user = directories.len();
        // perf keeps a copy of what it recorded there.
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        directories.extend(home.map(|home| home.join(".debug")));
        let mut debug = DebugSearch::default();
        let below = asked.sysroot.iter().map(|root| root.join("usr/lib/debug"));
        let first = directories.iter().take(user).cloned();
        let cache = directories.iter().skip(user).cloned();
        debug.roots = first.chain(below).chain(debug.roots).chain(cache).collect();
        debug.by_name = directories.iter().take(user).cloned().collect();
        let servers =
            asked.debuginfod.as_deref().map(|url| Servers::new(url, quiet)).transpose()?;
        debug.roots.extend(servers.iter().map(|servers| servers.directory().to_owned()));
        let sysroot = asked.sysroot.as_deref().map(|root| directory(root, "--sysroot"));
        Ok(Finder {
            sysroot: sysroot.transpose()?,
            directories,
            own,
            asked: user,
            kernel: BuildIds::of(input).kernel(),
            written: doubts::written(path),
            debug,
            release: input.features().os_release.clone(),
            same_machine: run_time::is_this_machine(input),
            servers,
            wants_lines: false,
            _unpacked: kept,
            used: Mutex::default(),
        })
    }

    /// Looks for debug information too, where names alone would not need it.
    #[must_use]
    pub fn wanting_lines(mut self, wanted: bool) -> Finder {
        self.wants_lines = wanted;
        self
    }

    /// The user's directories, and those of archives.
    pub fn asked(&self) -> &[PathBuf] {
        self.directories.get(..self.asked).unwrap_or(&[])
    }

    /// The build ID of the recorded kernel.
    pub fn kernel_id(&self) -> Option<BuildId> {
        self.kernel
    }

    /// The list of symbols that names the recorded kernel's functions.
    pub fn kernel_list(&self) -> Option<PathBuf> {
        let places = self.sysroot.iter().chain(&self.directories).map(PathBuf::as_path);
        kernel_files::lists(self.kernel.as_ref(), places).into_iter().next()
    }

    /// The files that were opened.
    pub fn used(&self) -> Vec<Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where debug files are looked for.
    pub fn debug(&self) -> &DebugSearch {
        &self.debug
    }

    /// Names of kernels' functions that may be the recorded kernel's.
    pub fn kernels(&self) -> Vec<KernelSymbols> {
        let places = self.sysroot.iter().chain(&self.directories);
        kernel_files::symbols(self.kernel.as_ref(), places.map(PathBuf::as_path))
    }

    /// The file that ran, with the symbols of its separate debug file where its own are gone.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn open(&self, wanted: Wanted<'_>) -> Result<Opened, String> {
        let opened = self.find(wanted)?;
        let place = opened.image.path().to_owned();
        let doubt =
            wanted.id.is_none().then(|| self.doubt(&opened.image, &wanted.file.path)).flatten();
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(Used {
            recorded: wanted.file.path.clone(),
            id: wanted.id.copied(),
            bytes: (!place.is_file()).then(|| opened.image.bytes().to_vec()),
            place,
        });
        Ok(Opened { doubt, ..opened })
    }

    /// Why a file that was found by its path alone may be another build than the recorded one.
    fn doubt(&self, image: &Image, recorded: &str) -> Option<String> {
        let mut own = self.directories.iter().take(self.own);
        let packed = own.any(|own| image.path().starts_with(own));
        doubts::found_by_name(image, recorded, packed, self.written)
    }

    fn find(&self, wanted: Wanted<'_>) -> Result<Opened, String> {
        let (mapped, id) = (wanted.file, wanted.id);
        if mapped.side.is_kernel() {
            return self.open_kernel(mapped, id);
        }
        if mapped.path == "[vdso]" {
            let image = self.open_vdso(wanted.kernel_runs, id)?;
            return Ok(Opened::from(Arc::new(image)));
        }
        if is_anonymous(&mapped.path) {
            return Err("the program made this code while it ran, and no perf-PID.map in /tmp or \
                        in a directory of --symbols, nor a jit-PID.dump, names its functions"
                .to_owned());
        }
        let deleted = mapped.path.strip_suffix(" (deleted)");
        let path = Path::new(deleted.unwrap_or(&mapped.path));
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        // `[vdso]`, `//anon`, `/memfd:…` and the like are no files, and nobody's path goes up.
        if !path.is_absolute() || mapped.path.starts_with("//") || !path.components().all(plain) {
            return Err("it is no file".to_owned());
        }
        let found = self.first_of(self.candidates(path, id), id);
        let found = self.or_ask(found, id, &[Kind::Executable]);
        found.map(|image| self.with_symbols(image)).map_err(|reason| {
            let gone = match (&self.sysroot, deleted) {
                (None, _) if path.exists() && !path.is_file() => "it is not a regular file",
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

    /// Asks servers for what is not here.
    fn or_ask(
        &self,
        found: Result<Image, Option<String>>,
        id: Option<&BuildId>,
        kinds: &[Kind],
    ) -> Result<Image, Option<String>> {
        let (Err(reason), Some(servers), Some(id)) = (&found, &self.servers, id) else {
            return found;
        };
        let mut said = reason.clone();
        for kind in kinds {
            match servers.find(id, *kind) {
                Ok(path) => return opened(&path, Some(id)).map_err(Some),
                Err(why) => said = said.or(Some(why)),
            }
        }
        Err(said)
    }

    fn open_vdso(&self, kernel_runs: bool, id: Option<&BuildId>) -> Result<Image, String> {
        let own = run_time::vdso(kernel_runs || self.same_machine, id);
        let Err(why) = &own else { return own };
        let kept: Vec<PathBuf> = match id {
            Some(id) => {
                let below = |directory: &PathBuf| {
                    let below = by_id(directory, id);
                    [directory.join("vdso"), below.join("vdso"), below.join("elf")]
                };
                self.directories.iter().flat_map(below).collect()
            }
            // The recording's own archive has its own.
            None => self.directories.iter().take(self.own).map(|own| own.join("vdso")).collect(),
        };
        self.first_of(kept, id).map_err(|reason| reason.unwrap_or_else(|| why.clone()))
    }

    fn open_kernel(&self, mapped: &MappedFile, id: Option<&BuildId>) -> Result<Opened, String> {
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
        let kinds: &[Kind] = match part {
            KernelPart::Module => &[Kind::Executable, Kind::DebugInfo],
            // What servers have of a kernel is its vmlinux, as debug information.
            KernelPart::Core { .. } => &[Kind::DebugInfo, Kind::Executable],
        };
        let found = self.or_ask(found, id, kinds);
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
        let below = |directory: &PathBuf| {
            let mut all: Vec<PathBuf> = id.iter().flat_map(|id| by_id_all(directory, id)).collect();
            all.push(directory.join(inside));
            all.extend(path.file_name().map(|name| directory.join(name)));
            all
        };
        let recorded = match &self.sysroot {
            Some(root) => root.join(inside),
            None => path.to_owned(),
        };
        let (own, others) = self.directories.split_at(self.own.min(self.directories.len()));
        let mut all: Vec<PathBuf> = own.iter().flat_map(below).collect();
        all.push(recorded);
        all.extend(others.iter().flat_map(below));
        all
    }

    fn with_symbols(&self, image: Image) -> Opened {
        let find = || self.debug.find(&image).unwrap_or_default();
        let mut found = find();
        let stripped = image.has_only_dynamic_symbols();
        let lacks = found.image.is_none() && (stripped || self.wants_lines);
        let lacks = lacks && !image::debug_files::has_debug_information(&image);
        if let (true, Some(servers), Some(id)) = (lacks, &self.servers, image.build_id()) {
            // Where no server has it, the names stay those of the program itself.
            if servers.find(id, Kind::DebugInfo).is_ok() {
                found = find();
            }
        }
        let image = match found.image {
            Some(debug) => image.with_symbols_of(Arc::new(debug)),
            None => image,
        };
        let lacks =
            image.has_only_dynamic_symbols().then(|| doubts::lacks_symbols(&found.rejected));
        Opened { image: Arc::new(image), doubt: None, lacks }
    }
}

fn opened(path: &Path, id: Option<&BuildId>) -> Result<Image, String> {
    let image = unpacked::open_image(path)?;
    let other = |what: &str| Err(format!("{}: the file at hand {what}", path.display()));
    match (id, image.build_id()) {
        (Some(recorded), Some(found)) if !found.matches_padded(recorded.as_bytes()) => {
            other("is another build than the recorded one")
        }
        (Some(_), None) => other("has no build ID, so it is another build than the recorded one"),
        _ => Ok(image),
    }
}
