//! The archive that lld writes of a link with `--reproduce`: read, checked and unpacked.

use std::fs;
use std::path::Path;

use beside::given;
use object::read::archive::ArchiveFile;

use crate::error::Error;
use crate::inputs::Work;
use crate::linker::Linker;
use crate::response::{Refused, Response};
use crate::{reach, tar};

/// Most bytes of an archive of a link, which is held in memory: 16 GiB.
const MOST_OF_ARCHIVE: u64 = 16 << 30;

/// The archive of a link, checked, as it lies in memory.
pub(crate) struct Kept {
    pub(crate) linker: Linker,
    pub(crate) bytes: Vec<u8>,
    pub(crate) entries: Vec<tar::Entry>,
    pub(crate) response: Response,
    /// Whether a file of it is LLVM bitcode.
    pub(crate) bitcode: bool,
}

impl Kept {
    /// Reads it; nothing is unpacked.
    pub(crate) fn open(archive: &Path) -> Result<Kept, Error> {
        let linker = Linker::find()?;
        let bytes = given::read(archive, MOST_OF_ARCHIVE).map_err(Error::file(archive, "read"))?;
        let damaged = |damage: tar::Damage| Error::Archive {
            path: archive.to_owned(),
            offset: damage.offset,
            found: damage.found,
        };
        let entries = tar::entries(&bytes).map_err(damaged)?;
        let text = entries.iter().find(|entry| entry.path == Path::new("response.txt"));
        let Some(text) =
            text.and_then(|entry| std::str::from_utf8(bytes.get(entry.bytes.clone())?).ok())
        else {
            let found = "it holds no response.txt, so lld did not write it".to_owned();
            return Err(damaged(tar::Damage { offset: 0, found }));
        };
        let refused = |refused: Refused| Error::Option {
            path: archive.to_owned(),
            option: refused.option,
            why: refused.why,
        };
        let response = Response::parse(text).map_err(refused)?;
        if response.has(&["relocatable"]) {
            return Err(Error::Relocatable { path: archive.to_owned() });
        }
        let bitcode = reach::check(&bytes, &entries).map_err(damaged)?;
        let response = if bitcode { response.without_dependent_libraries() } else { response };
        Ok(Kept { linker, bytes, entries, response, bitcode })
    }

    /// The lld that wrote it; empty where it does not say.
    pub(crate) fn written_by(&self) -> String {
        let version = self.entries.iter().find(|entry| entry.path == Path::new("version.txt"));
        let text = version.and_then(|entry| self.bytes.get(entry.bytes.clone()));
        String::from_utf8_lossy(text.unwrap_or_default()).trim().to_owned()
    }

    /// Writes its files below `home/root`, unless they are there.
    pub(crate) fn unpack(&self, home: &Path) -> Result<(), Error> {
        let root = home.join("root");
        if root.is_dir() {
            return Ok(());
        }
        let work = Work::new(home)?;
        let base = work.path().join("root");
        fs::create_dir_all(&base).map_err(Error::file(&base, "create"))?;
        for entry in &self.entries {
            let path = base.join(&entry.path);
            let directory = path.parent().unwrap_or(&base);
            fs::create_dir_all(directory).map_err(Error::file(directory, "create"))?;
            let bytes = self.bytes.get(entry.bytes.clone()).unwrap_or_default();
            beside::write(&path, bytes).map_err(Error::file(&path, "write"))?;
        }
        work.publish("root", &root)
    }

    /// The objects in it, those of static libraries too; what else it holds is among them.
    pub(crate) fn objects(&self) -> Vec<&[u8]> {
        let mut found = Vec::new();
        for entry in &self.entries {
            let bytes = self.bytes.get(entry.bytes.clone()).unwrap_or_default();
            match ArchiveFile::parse(bytes) {
                Ok(library) => {
                    let members = library.members();
                    found.extend(members.filter_map(|member| member.ok()?.data(bytes).ok()));
                }
                Err(_) => found.push(bytes),
            }
        }
        found
    }
}
