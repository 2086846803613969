//! Where is the program of a build, and its debug file: in a directory, in a bucket, on a debuginfod
//! server? In this order; what comes from a bucket lies in a directory for a while.

use super::remote::{Remote, open};
use crate::command::report::id_paths::{by_id, by_id_all, with_suffix};
use crate::command::report::servers::Servers;
use crate::progress;
use anyhow::Context as _;
use beside::scratch::Scratch;
use debuginfod::Kind;
use image::debug_files::{DebugSearch, has_debug_information};
use image::{BuildId, Image};
use std::path::{Path, PathBuf};
use stores::{Address, Error, Object, Store};

/// What follows the name of a program in that of its debug file.
const DEBUG: &str = ".debug";

/// Where the programs of builds are looked for.
pub struct AtHand {
    directories: Vec<PathBuf>,
    buckets: Vec<(Address, Store)>,
    servers: Option<Servers>,
    /// What came from buckets, by build ID.
    kept: Option<Scratch>,
    /// Most MiB of one file.
    most: u64,
    quiet: bool,
    search: DebugSearch,
}

impl AtHand {
    /// Directories and buckets with programs by build ID, which may have debug files, too.
    ///
    /// # Errors
    /// Where a bucket cannot be asked, or no server is named.
    pub fn new(
        places: &[PathBuf],
        debuginfod: Option<&str>,
        remote: &Remote,
        quiet: bool,
    ) -> anyhow::Result<AtHand> {
        let (mut directories, mut buckets) = (Vec::new(), Vec::new());
        for place in places {
            if Address::is_meant(place) {
                let address = Address::of(place)?;
                let store = open(&address, remote.retry)?;
                buckets.push((address, store));
            } else {
                directories.push(place.clone());
            }
        }
        let kept = (!buckets.is_empty()).then(Scratch::new).transpose();
        let kept = kept.context("a directory for programs of buckets")?;
        let servers = debuginfod.map(|url| Servers::new(url, quiet)).transpose()?;
        let mut search = DebugSearch::default();
        let fetched = kept.iter().map(|kept| kept.path().to_owned());
        let asked = servers.iter().map(|servers| servers.directory().to_owned());
        let roots = directories.iter().cloned().chain(fetched);
        search.roots.splice(0..0, roots);
        search.roots.extend(asked);
        let most = remote.disk;
        Ok(AtHand { directories, buckets, servers, kept, most, quiet, search })
    }

    /// Where debug files are looked for.
    pub fn search(&self) -> &DebugSearch {
        &self.search
    }

    /// The program of a build; `recorded` is where it lay on its host.
    ///
    /// # Errors
    /// Why there is none, in words.
    pub fn find(&self, id: &BuildId, recorded: &str) -> Result<Image, String> {
        let image = self.program(id, recorded)?;
        self.find_debug_file(&image);
        Ok(image)
    }

    fn program(&self, id: &BuildId, recorded: &str) -> Result<Image, String> {
        let places = self.directories.iter().flat_map(|directory| {
            let name = Path::new(recorded).file_name().map(|name| directory.join(name));
            by_id_all(directory, id).into_iter().chain(name)
        });
        if let Some(image) = places.into_iter().find_map(|place| opened(&place, id)) {
            return Ok(image);
        }
        let mut said = None;
        for (address, store) in &self.buckets {
            for below in by_id_all(Path::new(""), id).into_iter().rev() {
                match self.fetch(address, store, &below, &by_id(Path::new(""), id)) {
                    Ok(Some(place)) => match opened(&place, id) {
                        Some(image) => return Ok(image),
                        None => said = Some(format!("{}: is no program of it", below.display())),
                    },
                    Ok(None) => {}
                    Err(error) => said = Some(error.to_string()),
                }
            }
        }
        if let Some(servers) = &self.servers {
            match servers.find(id, Kind::Executable) {
                Ok(place) => {
                    if let Some(image) = opened(&place, id) {
                        return Ok(image);
                    }
                }
                Err(why) => said = said.or(Some(why)),
            }
        }
        Err(match said {
            Some(why) => format!("its program is not at hand: {why}"),
            None => "its program is not at hand (--binaries, --debuginfod)".to_owned(),
        })
    }

    /// Sees to it that the debug file of a program lies where it is looked for, if it needs one and
    /// anybody has it.
    pub fn find_debug_file(&self, image: &Image) {
        let is_there = || {
            has_debug_information(image)
                || self.search.find(image).is_ok_and(|found| found.image.is_some())
        };
        let Some(id) = image.build_id().filter(|_| !is_there()) else { return };
        let name = with_suffix(&by_id(Path::new(""), id), DEBUG);
        for (address, store) in &self.buckets {
            // Without one, the profile says what it lacks.
            if matches!(self.fetch(address, store, &name, &name), Ok(Some(_))) && is_there() {
                return;
            }
        }
        if let Some(servers) = &self.servers {
            let _ = servers.find(id, Kind::DebugInfo);
        }
    }

    /// Fetches an object below the address to a place below the directory of what was fetched; none
    /// where there is no such object.
    fn fetch(
        &self,
        address: &Address,
        store: &Store,
        name: &Path,
        place: &Path,
    ) -> Result<Option<PathBuf>, Error> {
        let Some(kept) = &self.kept else { return Ok(None) };
        let key = address.key_below(&name.to_string_lossy());
        let Some(found) = store.head(&key)? else { return Ok(None) };
        if found.bytes.div_ceil(1 << 20) > self.most {
            let why = format!("has {} bytes, more than --disk lets objects take", found.bytes);
            return Err(Error::Damaged { address: address.with_key(&key), why });
        }
        let place = kept.path().join(place);
        let failed = |source| Error::File { path: place.clone(), source };
        std::fs::create_dir_all(beside::directory_of(&place)).map_err(failed)?;
        let bar = progress::Bytes::new("fetch", found.bytes, self.quiet);
        let wanted = [(Object { key, bytes: found.bytes }, place.clone())];
        let done = store.fetch(&wanted, &|bytes| bar.add(bytes));
        done.into_iter().collect::<Result<Vec<()>, Error>>()?;
        Ok(Some(place))
    }
}

/// The image of a file, if it is of the build.
fn opened(place: &Path, id: &BuildId) -> Option<Image> {
    let image = place.is_file().then(|| Image::open(place).ok()).flatten()?;
    image.build_id().is_some_and(|own| own == id).then_some(image)
}
