//! Where the files that a recording names are looked for: where they were recorded, below another
//! root, in directories of build IDs.

use super::run_time;
use address_spaces::MappedFile;
use calltrees::{Wanted, is_anonymous};
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
    /// Look here too for the recorded files, for debug files, for perf-PID.map and jit-PID.dump: by build ID (.build-id/xx/yyyy,
    /// with or without .debug; as perf's cache has them), by path, by file name; repeatable
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
}

/// The directories, in order, and the IDs that the recording lists beside its mappings.
pub struct Finder {
    sysroot: Option<PathBuf>,
    directories: Vec<PathBuf>,
    listed: Vec<(String, Vec<u8>)>,
    debug: DebugSearch,
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
        let listed = input.features().build_ids.iter();
        let listed = listed.map(|entry| (entry.path.clone(), entry.build_id.clone())).collect();
        let same_machine = run_time::is_this_machine(input);
        Finder { sysroot: asked.sysroot.clone(), directories, listed, debug, same_machine }
    }

    /// Where debug files are looked for.
    pub fn debug(&self) -> &DebugSearch {
        &self.debug
    }

    /// The file that ran, with the symbols of its separate debug file where its own are gone.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn open(&self, wanted: Wanted<'_>) -> Result<Image, String> {
        let mapped = wanted.file;
        if mapped.path == "[vdso]" {
            return run_time::vdso(
                wanted.kernel_runs || self.same_machine,
                self.id_of(mapped).as_ref(),
            );
        }
        if is_anonymous(&mapped.path) {
            return Err("the program made this code while it ran, and no perf-PID.map in /tmp or \
                        in a directory of --symbols, nor a jit-PID.dump, names its functions"
                .to_owned());
        }
        let path = Path::new(&mapped.path);
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        // `[vdso]`, `//anon`, `/memfd:…` and the like are no files, and nobody's path goes up.
        if !path.is_absolute() || mapped.path.starts_with("//") || !path.components().all(plain) {
            return Err("it is no file".to_owned());
        }
        let id = self.id_of(mapped);
        let mut reason = None;
        for candidate in self.candidates(path, id.as_ref()) {
            if !candidate.is_file() {
                continue;
            }
            match opened(&candidate, id.as_ref()) {
                Ok(image) => return Ok(self.with_symbols(image)),
                Err(why) => reason = reason.or(Some(why)),
            }
        }
        Err(reason.unwrap_or_else(|| match self.sysroot {
            Some(_) => "it is not there (--sysroot, --symbols)".to_owned(),
            None => "it is gone; --sysroot or --symbols name another place".to_owned(),
        }))
    }

    fn id_of(&self, mapped: &MappedFile) -> Option<BuildId> {
        let known = |id: &&Vec<u8>| id.iter().any(|&byte| byte != 0);
        let listed = self.listed.iter().find(|(path, _)| *path == mapped.path).map(|(_, id)| id);
        let id = mapped.build_id.as_ref().filter(known).or(listed.filter(known));
        id.and_then(|id| BuildId::from_bytes(id))
    }

    fn candidates(&self, path: &Path, id: Option<&BuildId>) -> Vec<PathBuf> {
        let inside = path.strip_prefix("/").unwrap_or(path);
        let mut all = vec![match &self.sysroot {
            Some(root) => root.join(inside),
            None => path.to_owned(),
        }];
        for directory in &self.directories {
            if let Some(id) = id {
                let digits = id.to_string();
                let (first, rest) = digits.split_at_checked(2).unwrap_or((&digits, ""));
                let by_id = directory.join(".build-id").join(first).join(rest);
                all.push(by_id.join("elf"));
                all.push(by_id.clone());
            }
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

fn opened(path: &Path, id: Option<&BuildId>) -> Result<Image, String> {
    let image = Image::open(path).map_err(|error| error.to_string())?;
    match (id, image.build_id()) {
        (Some(recorded), Some(found)) if !found.matches_padded(recorded.as_bytes()) => Err(
            format!("{}: the file at hand is another build than the recorded one", path.display()),
        ),
        _ => Ok(image),
    }
}
