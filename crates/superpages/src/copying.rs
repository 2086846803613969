//! What must be so before text can be copied into memory of a process, and how is that asked for?
//!
//! The library `libplanish_hugetext.so` does the copying in the program that it is preloaded into;
//! what it is to do stands in the environment as a [`Request`].

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::check::SUPERPAGE;
use crate::elf::Headers;
use crate::sys::{self, Advice, From, Map};
use crate::{Error, rewrite, verify};

const LIBRARY: &str = "libplanish_hugetext.so";
const PRELOAD: &str = "LD_PRELOAD";
const REQUEST: &str = "PLANISH_HUGETEXT_REQUEST";
const PRELOADED_BEFORE: &str = "PLANISH_HUGETEXT_PRELOADED";

/// Which memory takes the copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Memory {
    /// Transparent superpages.
    #[default]
    Anonymous,
    /// Superpages reserved beforehand (`vm.nr_hugepages`).
    Hugetlb,
}

impl Memory {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Memory::Anonymous => "anonymous",
            Memory::Hugetlb => "hugetlb",
        }
    }
}

/// What the library is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where the text goes.
    pub memory: Memory,
    /// Device and inode of the program that is meant; others on the way to it (a script's `env`)
    /// are left alone.
    pub program: (u64, u64),
    /// End the program where not all text can be copied.
    pub strict: bool,
    /// Say only what went wrong.
    pub quiet: bool,
    /// What `LD_PRELOAD` was before.
    pub preloaded: Option<OsString>,
}

impl Request {
    /// The request for a program, with what is preloaded now.
    ///
    /// # Errors
    /// When the program cannot be read, is started without a dynamic linker or with privileges for
    /// which the dynamic linker ignores `LD_PRELOAD`.
    pub fn new(
        program: &Path,
        memory: Memory,
        strict: bool,
        quiet: bool,
    ) -> Result<Request, Error> {
        let file = crate::read_elf::open(program)?;
        let headers = Headers::read(program, &file)?;
        let refuse =
            |reason: &str| Error::NotCopied { path: program.to_owned(), reason: reason.to_owned() };
        if headers.interpreter().is_none() {
            return Err(refuse(
                "it is linked statically, and copying needs a dynamic linker that loads a library \
                 into it; planish pages align and run without --copy do without",
            ));
        }
        if rewrite::privileges(program, &file)?.is_some() {
            return Err(refuse(
                "it is set-user-id or has file capabilities, and for such programs the dynamic \
                 linker loads no library that the environment names",
            ));
        }
        let about =
            file.metadata().map_err(|source| Error::Read { path: program.to_owned(), source })?;
        let program = (about.dev(), about.ino());
        Ok(Request { memory, program, strict, quiet, preloaded: env::var_os(PRELOAD) })
    }

    /// The variables that a program gets with the request; `library` is the library's path.
    ///
    /// # Errors
    /// When the path has a sign that separates paths there.
    pub fn variables(&self, library: &Path) -> Result<Vec<(&'static str, OsString)>, Error> {
        let path = library.as_os_str();
        if path.as_bytes().iter().any(|byte| b" :".contains(byte)) {
            let reason = "LD_PRELOAD separates paths by blanks and colons, and this one has such \
                          a sign"
                .into();
            return Err(Error::NotCopied { path: library.to_owned(), reason });
        }
        let mut preload = path.to_owned();
        if let Some(before) = self.preloaded.as_ref().filter(|before| !before.is_empty()) {
            preload.push(":");
            preload.push(before);
        }
        let (device, inode) = self.program;
        let request = format!(
            "{} {device} {inode} {} {}",
            self.memory.word(),
            u8::from(self.strict),
            u8::from(self.quiet)
        );
        let mut all = vec![(PRELOAD, preload), (REQUEST, request.into())];
        all.extend(self.preloaded.clone().map(|before| (PRELOADED_BEFORE, before)));
        Ok(all)
    }

    /// The request in the environment, when there is one that can be understood.
    pub fn from_environment() -> Option<Request> {
        parse(env::var_os(REQUEST)?.as_os_str(), env::var_os(PRELOADED_BEFORE))
    }

    /// The variables as they were before the request; `None` for those that were not there.
    pub fn restored(&self) -> [(&'static str, Option<OsString>); 3] {
        [(PRELOAD, self.preloaded.clone()), (REQUEST, None), (PRELOADED_BEFORE, None)]
    }
}

fn parse(text: &OsStr, preloaded: Option<OsString>) -> Option<Request> {
    let mut words = text.to_str()?.split(' ');
    let memory = match words.next()? {
        "anonymous" => Memory::Anonymous,
        "hugetlb" => Memory::Hugetlb,
        _ => return None,
    };
    let program = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let mut flag = || words.next().map(|word| word == "1");
    Some(Request { memory, program, strict: flag()?, quiet: flag()?, preloaded })
}

/// The library: where `PLANISH_HUGETEXT` says, else beside the running program, in `../lib/planish`
/// of an installed one, or in cargo's `deps` of a built one.
///
/// # Errors
/// When it is in none of these places.
pub fn copying_library() -> Result<PathBuf, Error> {
    let looked = match env::var_os("PLANISH_HUGETEXT") {
        Some(named) => vec![PathBuf::from(named)],
        None => {
            let program = env::current_exe().unwrap_or_default();
            let folder = program.parent().unwrap_or(Path::new("."));
            [folder.to_owned(), folder.join("../lib/planish"), folder.join("deps")]
                .map(|place| place.join(LIBRARY))
                .to_vec()
        }
    };
    let found = looked.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    found.ok_or(Error::NoLibrary { name: LIBRARY, looked })
}

/// Whether a process started by this one can have its text in such memory, by trying with one
/// superpage.
///
/// # Errors
/// What is missing, by name.
pub fn copying_works(memory: Memory) -> Result<(), Error> {
    let missing = |action: &str, source| Error::System { action: action.to_owned(), source };
    if sys::refuses_new_code() {
        return Err(missing(
            "PR_SET_MDWE is set for this process and those it starts: memory that was written \
             cannot be executed, so text cannot be copied",
            std::io::Error::from(std::io::ErrorKind::PermissionDenied),
        ));
    }
    let bytes = SUPERPAGE as usize;
    match memory {
        Memory::Hugetlb => {
            let map = Map::new(From::Hugetlb, bytes, bytes, true).map_err(|error| {
                missing("no superpages are reserved (sysctl vm.nr_hugepages=N)", error)
            })?;
            map.touch_to_write(bytes);
            Ok(())
        }
        Memory::Anonymous => {
            let map = Map::new(From::Anonymous, bytes, bytes, true)
                .map_err(|error| missing("no memory", error))?;
            let off = "the kernel gives no anonymous superpages (transparent superpages are off: \
                       /sys/kernel/mm/transparent_hugepage/enabled is never, or \
                       PR_SET_THP_DISABLE is set; or memory is fragmented)";
            map.advise(Advice::Huge).map_err(|error| missing(off, error))?;
            map.touch_to_write(bytes);
            match verify::own_superpage_bytes(map.address(), SUPERPAGE)? {
                SUPERPAGE => Ok(()),
                _ => Err(missing(off, std::io::Error::from(std::io::ErrorKind::OutOfMemory))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_through_the_environment_and_leaves_it_as_it_was() {
        let request = Request {
            memory: Memory::Hugetlb,
            program: (259, 77),
            strict: true,
            quiet: false,
            preloaded: Some("/lib/other.so".into()),
        };
        let variables = request.variables(Path::new("/lib/h.so")).unwrap();
        let value =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.clone());
        assert_eq!(value(PRELOAD).unwrap(), "/lib/h.so:/lib/other.so");
        assert_eq!(parse(&value(REQUEST).unwrap(), value(PRELOADED_BEFORE)).unwrap(), request);
        assert_eq!(request.restored()[0], (PRELOAD, Some("/lib/other.so".into())));
        assert!(parse(OsStr::new("shmem 1 2 0 0"), None).is_none());
        assert!(parse(OsStr::new("anonymous 1"), None).is_none());
        let error = request.variables(Path::new("/my lib/h.so")).unwrap_err().to_string();
        assert!(error.contains("/my lib/h.so") && error.contains("blanks"), "{error}");
    }
}
