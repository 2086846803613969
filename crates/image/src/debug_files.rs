//! Where the debug information of an image is when it is not in the image itself.
//!
//! Distributions strip programs and ship what was stripped in files of their own. Looked for, in
//! this order:
//! 1. the file the user named;
//! 2. the image itself, when it has `.debug_info`;
//! 3. `ROOT/.build-id/xx/yyyy.debug` for each root, xx being the first byte of the build ID;
//! 4. the program before it was stripped, or its debug file, by build ID as perf's cache has it
//!    (`ROOT/.build-id/xx/yyyy`, `…/elf`, `…/debug`);
//! 5. the name in `.gnu_debuglink`, beside the image, in `.debug/` beside it, and under each root;
//! 6. files of the image's name, with or without `.debug`, in directories that the user named.
//!
//! A link is a bare file name: a path in it is not followed, since a file from anywhere would else
//! choose what is opened. The shared file of dwz alone may be named by a path, into one of the
//! roots.
//!
//! A candidate counts only when it belongs to the image: same build ID, or the CRC that the link
//! states. Beside these stand the file that dwz moved shared entries to (`.gnu_debugaltlink`) and
//! split units (`.dwo`, packaged as `.dwp`). Source: gdb manual, "Debugging Information in Separate
//! Files"; DWARF 5, section 7.3.2 and appendix F.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};

use crate::{BuildId, Error, Image};

/// Where to look for separate debug files.
#[derive(Debug, Clone)]
pub struct DebugSearch {
    /// Directories with `.build-id/xx/yyyy.debug`; `/usr/lib/debug` by default.
    pub roots: Vec<PathBuf>,
    /// Directories in which a file of the image's name and build ID is a debug file, too.
    pub by_name: Vec<PathBuf>,
    /// The debug file, when the user named it.
    pub debug_file: Option<PathBuf>,
    /// The DWARF package (`.dwp`), when the user named it.
    pub dwp: Option<PathBuf>,
}

impl Default for DebugSearch {
    fn default() -> Self {
        DebugSearch {
            roots: vec![PathBuf::from("/usr/lib/debug")],
            by_name: Vec::new(),
            debug_file: None,
            dwp: None,
        }
    }
}

/// A file that was looked at and not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The file.
    pub path: PathBuf,
    /// Why it was not taken.
    pub reason: String,
}

/// What a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// The file; `None` when there is none, or none is needed.
    pub image: Option<Image>,
    /// Files that exist but do not belong to the image or cannot be read.
    pub rejected: Vec<Rejected>,
    /// Files that were looked for and do not exist.
    pub absent: Vec<PathBuf>,
}

impl Found {
    /// Opens `path` and takes it when `check` agrees. Returns whether it was taken.
    fn consider(
        &mut self,
        path: PathBuf,
        check: impl FnOnce(&Image) -> Result<(), String>,
    ) -> bool {
        if !path.is_file() {
            if !self.absent.contains(&path) {
                self.absent.push(path);
            }
            return false;
        }
        let opened = Image::open(&path).map_err(|error| error.to_string());
        match opened.and_then(|image| check(&image).map(|()| image)) {
            Ok(image) => {
                self.image = Some(image);
                true
            }
            Err(reason) => {
                self.rejected.push(Rejected { path, reason });
                false
            }
        }
    }
}

/// Whether a file holds debug information of its own.
pub fn has_debug_information(image: &Image) -> bool {
    let names = [".debug_info", ".zdebug_info"];
    names
        .iter()
        .any(|name| image.section_by_name(name).is_some_and(|section| !section.is_empty_in_file()))
}

impl DebugSearch {
    /// Finds the separate debug file of an image. An image with debug information of its own needs
    /// none.
    ///
    /// # Errors
    /// Only when the file the user named cannot be opened or belongs to another build.
    pub fn find(&self, image: &Image) -> Result<Found, Error> {
        let mut found = Found::default();
        if let Some(path) = &self.debug_file {
            let debug = Image::open(path)?;
            same_build(image, &debug).map_err(|reason| Error::DebugFileMismatch {
                image: image.path().to_owned(),
                debug: path.clone(),
                reason,
            })?;
            found.image = Some(debug);
        } else if !has_debug_information(image) {
            self.find_by_build_id(image.build_id(), &mut found);
            if found.image.is_none() {
                found.image = first_whole(image, self.cached(image));
            }
            if found.image.is_none() {
                self.find_by_link(image, &mut found);
            }
            if found.image.is_none() {
                found.image = first_whole(image, self.named(image));
            }
        }
        if let Some(debug) = &mut found.image {
            debug.adopt_addresses(image);
        }
        Ok(found)
    }

    /// Finds the file that dwz moved entries to that several files share; `file` is the image or
    /// its debug file.
    pub fn find_supplementary(&self, file: &Image) -> Found {
        let mut found = Found::default();
        let Some(link) = file.section(".gnu_debugaltlink") else { return found };
        let Some(end) = link.iter().position(|&byte| byte == 0) else { return found };
        let (name, id) = (link.get(..end).unwrap_or(&[]), link.get(end + 1..).unwrap_or(&[]));
        let id = BuildId::from_bytes(id);
        let name = Path::new(OsStr::from_bytes(name));
        let mut candidates: Vec<PathBuf> =
            self.roots.iter().filter_map(|root| Some(build_id_path(root, id.as_ref()?))).collect();
        let beside = directory(file);
        let named = plain(&beside.join(name));
        candidates
            .extend(named.filter(|path| self.roots.iter().any(|root| path.starts_with(root))));
        if let Some(bare) = name.file_name() {
            candidates.extend([beside.join(bare), beside.join(".dwz").join(bare)]);
            candidates.extend(self.roots.iter().map(|root| root.join(".dwz").join(bare)));
        }
        if bare_name(name).is_none() && !candidates.iter().any(|path| path.is_file()) {
            found.rejected.push(Rejected { path: name.to_owned(), reason: NOT_BARE.to_owned() });
        }
        for path in candidates {
            let check = |candidate: &Image| match (&id, candidate.build_id()) {
                (Some(wanted), Some(own)) if wanted == own => Ok(()),
                (Some(wanted), Some(own)) => {
                    Err(format!("expected build ID {wanted}, found {own}"))
                }
                _ => Err("cannot be verified: a build ID is missing".to_owned()),
            };
            if found.consider(path, check) {
                break;
            }
        }
        found
    }

    /// Finds the DWARF package: the one the user named, else `FILE.dwp` beside the image or its
    /// debug file.
    ///
    /// # Errors
    /// Only when the package the user named cannot be opened.
    pub fn find_package(&self, image: &Image, debug: Option<&Image>) -> Result<Found, Error> {
        let mut found = Found::default();
        if let Some(path) = &self.dwp {
            found.image = Some(Image::open(path)?);
            return Ok(found);
        }
        for file in [Some(image), debug].into_iter().flatten() {
            let mut appended = file.path().as_os_str().to_owned();
            appended.push(".dwp");
            let taken = found.consider(PathBuf::from(appended), |_| Ok(()));
            if taken || found.consider(file.path().with_extension("dwp"), |_| Ok(())) {
                break;
            }
        }
        Ok(found)
    }

    /// Where a split unit may be, best first: as the unit states it, and beside the image for a
    /// tree that was moved. Whether it is the right one, only its own identifier tells.
    pub fn split_unit_paths(
        &self,
        image: &Image,
        directory_of_unit: &Path,
        name: &Path,
    ) -> Vec<PathBuf> {
        let beside = directory(image);
        let mut paths = vec![directory_of_unit.join(name), beside.join(name)];
        paths.extend(name.file_name().map(|name| beside.join(name)));
        paths.dedup();
        paths
    }

    /// Where perf's cache has programs and debug files.
    fn cached(&self, image: &Image) -> Vec<PathBuf> {
        let Some(id) = image.build_id() else { return Vec::new() };
        let below = |root: &PathBuf| {
            let whole = build_id_path(root, id).with_extension("");
            [whole.join("debug"), whole.join("elf"), whole]
        };
        self.roots.iter().flat_map(below).collect()
    }

    fn named(&self, image: &Image) -> Vec<PathBuf> {
        let path = image.path();
        let Some(name) = path.file_name() else { return Vec::new() };
        let mut debug = name.to_owned();
        debug.push(".debug");
        let inside = path.strip_prefix("/").unwrap_or(path);
        let below = |directory: &PathBuf| {
            [directory.join(inside), directory.join(name), directory.join(&debug)]
        };
        self.by_name.iter().flat_map(below).collect()
    }

    fn find_by_build_id(&self, id: Option<&BuildId>, found: &mut Found) {
        let Some(id) = id else { return };
        for root in &self.roots {
            let check = |candidate: &Image| match candidate.build_id() {
                Some(own) if own == id => Ok(()),
                Some(own) => Err(format!("expected build ID {id}, found {own}")),
                None => Err(format!("expected build ID {id}, found none")),
            };
            if found.consider(build_id_path(root, id), check) {
                return;
            }
        }
    }

    fn find_by_link(&self, image: &Image, found: &mut Found) {
        let Some(link) = image.section(".gnu_debuglink") else { return };
        let Some(end) = link.iter().position(|&byte| byte == 0) else { return };
        let name = Path::new(OsStr::from_bytes(link.get(..end).unwrap_or(&[])));
        let Some(name) = bare_name(name) else {
            found.rejected.push(Rejected { path: name.to_owned(), reason: NOT_BARE.to_owned() });
            return;
        };
        let Some(crc) =
            (end + 1).checked_next_multiple_of(4).and_then(|at| image.number(&link, at, 4))
        else {
            return;
        };
        let beside = directory(image);
        let mut candidates = vec![beside.join(name), beside.join(".debug").join(name)];
        let inside = beside.strip_prefix("/").unwrap_or(&beside).to_owned();
        candidates.extend(self.roots.iter().map(|root| root.join(&inside).join(name)));
        let own = image.path().canonicalize().ok();
        for path in candidates {
            // A program that was stripped in place may name itself.
            if own.is_some() && path.canonicalize().ok() == own {
                continue;
            }
            if found.consider(path, |candidate| check_link(image, candidate, crc as u32)) {
                return;
            }
        }
    }
}

/// The first file of the same build that has symbols or debug information.
fn first_whole(image: &Image, places: Vec<PathBuf>) -> Option<Image> {
    let id = image.build_id()?;
    let files = places.into_iter().filter(|place| place.is_file());
    let mut whole = files.filter_map(|place| Image::open(&place).ok()).filter(|other| {
        let has_more = has_debug_information(other) || !other.has_only_dynamic_symbols();
        other.build_id() == Some(id) && other.arch() == image.arch() && has_more
    });
    whole.next()
}

/// Why a link is not followed.
const NOT_BARE: &str = "a debug link is a file name without directories; name the file yourself \
                        if it is the right one";

/// The name, if it is a file's without directories.
fn bare_name(name: &Path) -> Option<&Path> {
    (name.file_name() == Some(name.as_os_str())).then_some(name)
}

/// The path without `.` and `..`, which go up by name; none if they go above the root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    Some(plain)
}

/// Build IDs decide where both files have one; reading the whole file for its CRC is then not
/// needed.
fn check_link(image: &Image, candidate: &Image, crc: u32) -> Result<(), String> {
    if image.build_id().is_some() && candidate.build_id().is_some() {
        return same_build(image, candidate);
    }
    // The CRC-32 of zlib, over the whole file.
    let own = crc32fast::hash(candidate.bytes());
    if own == crc {
        Ok(())
    } else {
        Err(format!("expected CRC {crc:08x} as .gnu_debuglink states, found {own:08x}"))
    }
}

fn same_build(image: &Image, debug: &Image) -> Result<(), String> {
    if image.arch() != debug.arch() {
        return Err(format!("expected code for {:?}, found {:?}", image.arch(), debug.arch()));
    }
    match (image.build_id(), debug.build_id()) {
        (Some(wanted), Some(own)) if wanted != own => Err(format!(
            "expected build ID {wanted}, found {own}; give the debug file of the same build"
        )),
        _ => Ok(()),
    }
}

fn build_id_path(root: &Path, id: &BuildId) -> PathBuf {
    let digits = id.to_string();
    let (first, rest) = digits.split_at_checked(2).unwrap_or((&digits, ""));
    root.join(".build-id").join(first).join(format!("{rest}.debug"))
}

/// The directory a file really stands in, symbolic links followed, as debuggers do it.
fn directory(file: &Image) -> PathBuf {
    let path = file.path().canonicalize().unwrap_or_else(|_| file.path().to_owned());
    path.parent().map(Path::to_owned).unwrap_or_default()
}
