//! What of Debian's packages does a guest need to run their programs? The packages that are named with all their files, and of
//! those that they depend on the shared libraries that the programs load.
//!
//! apt says what depends on what and fetches it, dpkg-deb unpacks; nothing is installed. In the archive links are followed,
//! so each file stands for itself, and libraries lie where the dynamic loader looks.

use crate::Error;
use crate::architecture::Architecture;
use object::Endianness;
use object::elf::{DT_NEEDED, PT_INTERP};
use object::read::elf::{Dyn as _, ElfFile64, FileHeader as _, ProgramHeader as _};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Directories whose files nobody runs in a guest.
const LEFT_OUT: [&str; 8] = [
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/include",
    "usr/lib/debug",
    "lib/systemd",
];
/// Directories of programs, as the guest's PATH has them.
pub const PROGRAMS: [&str; 5] = ["usr/bin", "bin", "usr/sbin", "sbin", "usr/games"];
/// Most links that are followed from one file.
const MOST_LINKS: usize = 16;

/// A file of the guest: its path without the leading slash, and its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// Where it lies in the guest.
    pub path: String,
    /// What it holds.
    pub contents: Vec<u8>,
}

/// Fetches packages and what they depend on, and gives the files that a guest needs to run their programs, by path.
///
/// # Errors
/// Where apt or dpkg-deb is missing or fails, a package does not exist, or a library that a program needs is in none of them.
pub fn files(packages: &[String], architecture: Architecture) -> Result<Vec<GuestFile>, Error> {
    if Architecture::of_host().is_some_and(|host| host != architecture) {
        return Err(Error::Wanted(format!(
            "packages for {} are taken on machines with such a processor alone; planish's own \
             workload needs none",
            architecture.name()
        )));
    }
    let fits = |name: &String| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || "+-.:".contains(c))
            && name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric())
    };
    if let Some(name) = packages.iter().find(|name| !fits(name)) {
        return Err(Error::Wanted(format!(
            "--package '{name}': expected the name of a Debian package"
        )));
    }
    let scratch = tempfile::Builder::new().prefix("planish-packages-").tempdir();
    let scratch = scratch.map_err(Error::io(std::env::temp_dir()))?;
    let (debs, named, needed) =
        (scratch.path().join("debs"), scratch.path().join("named"), scratch.path().join("needed"));
    for directory in [&debs, &named, &needed] {
        std::fs::create_dir_all(directory).map_err(Error::io(directory))?;
    }
    let mut ask = vec![OsString::from("depends")];
    ask.extend(
        [
            "--recurse",
            "--no-recommends",
            "--no-suggests",
            "--no-conflicts",
            "--no-breaks",
            "--no-replaces",
            "--no-enhances",
        ]
        .map(OsString::from),
    );
    ask.extend(packages.iter().map(OsString::from));
    let names = || format!("packages {}", packages.join(", "));
    let all =
        depended(&said("apt-cache", &ask, &debs).map_err(|error| Error::doing(names())(error))?);
    // Where it knows one of several, it says nothing of the others.
    if let Some(name) = packages.iter().find(|name| !all.contains(*name)) {
        return Err(Error::Wanted(format!(
            "--package {name}: apt knows no package of this name (apt-get update reads the lists of its sources)"
        )));
    }
    for (of, into) in [(packages.to_vec(), &named), (others(&all, packages), &needed)] {
        if of.is_empty() {
            continue;
        }
        fetch(&of, &debs)?;
        unpack(&debs, into)?;
    }
    gathered(&named, &needed, architecture)
}

/// Names that apt-cache prints without a blank before them, except for virtual ones.
fn depended(text: &str) -> BTreeSet<String> {
    let is_name = |line: &&str| line.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    text.lines().filter(is_name).map(|line| line.trim().to_owned()).collect()
}

fn others(all: &BTreeSet<String>, named: &[String]) -> Vec<String> {
    all.iter().filter(|name| !named.contains(name)).cloned().collect()
}

fn fetch(packages: &[String], into: &Path) -> Result<(), Error> {
    // As another user apt could not write here, and would say so each time.
    let mut words: Vec<OsString> =
        ["-q", "-o", "APT::Sandbox::User=root", "download"].map(OsString::from).into();
    words.extend(packages.iter().map(OsString::from));
    said("apt-get", &words, into).map(drop)
}

/// Unpacks the packages of a directory, and removes them there.
fn unpack(debs: &Path, into: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(debs).map_err(Error::io(debs))? {
        let deb = entry.map_err(Error::io(debs))?.path();
        if deb.extension().is_none_or(|ending| ending != "deb") {
            continue;
        }
        said("dpkg-deb", &[OsString::from("-x"), deb.clone().into(), into.into()], debs)?;
        std::fs::remove_file(&deb).map_err(Error::io(&deb))?;
    }
    Ok(())
}

/// What a command prints, run in a directory.
fn said(program: &str, words: &[OsString], directory: &Path) -> Result<String, Error> {
    let mut command = Command::new(program);
    command.args(words).current_dir(directory).env("LC_ALL", "C").stdin(Stdio::null());
    let done = command.output().map_err(|source| Error::Io { path: program.into(), source })?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let told = String::from_utf8_lossy(&done.stderr);
    // apt says which package it means as a notice, and then that there was an error.
    let telling = |line: &&str| line.starts_with("E:") || line.starts_with("N: Unable");
    let lines: Vec<_> = told.lines().filter(telling).take(3).map(crate::shortened).collect();
    let told = match lines.is_empty() {
        true => crate::shortened(told.lines().last().unwrap_or("no word")),
        false => lines.join("; "),
    };
    Err(Error::Wanted(format!(
        "{program}: {told} ({}); packages come from the sources of this machine's apt (apt-get update reads their lists)",
        done.status
    )))
}

/// The files of the named packages, and the libraries of these and the others that they load.
fn gathered(
    named: &Path,
    needed: &Path,
    architecture: Architecture,
) -> Result<Vec<GuestFile>, Error> {
    let mut found = BTreeMap::new();
    let mut open = VecDeque::new();
    for path in regular(named)? {
        let inside = path.to_string_lossy().into_owned();
        if LEFT_OUT.iter().any(|directory| path.starts_with(directory)) {
            continue;
        }
        let Some(real) = followed(named, needed, &path) else { continue };
        open.push_back((inside, real));
    }
    let mut loaded = BTreeSet::new();
    while let Some((inside, real)) = open.pop_front() {
        let contents = beside::given::read(&real, beside::given::DATA).map_err(Error::io(&real))?;
        for wanted in wants(&contents) {
            if !loaded.insert(wanted.clone()) {
                continue;
            }
            let (path, library) = library(named, needed, &wanted, architecture).ok_or_else(|| {
                Error::Wanted(format!(
                    "{inside} needs {wanted}, which is in none of the packages; name the package that has it, too"
                ))
            })?;
            open.push_back((path, library));
        }
        found.insert(inside, contents);
    }
    Ok(found.into_iter().map(|(path, contents)| GuestFile { path, contents }).collect())
}

/// The library or loader of a name, and where it goes in the guest.
fn library(
    named: &Path,
    needed: &Path,
    wanted: &str,
    architecture: Architecture,
) -> Option<(String, PathBuf)> {
    if let Some(loader) = wanted.strip_prefix('/') {
        return Some((loader.to_owned(), followed(named, needed, Path::new(loader))?));
    }
    let triple = architecture.triple();
    // Where shared libraries lie in packages, and where the loader looks.
    let directories = [format!("lib/{triple}"), format!("usr/lib/{triple}")];
    let directories = directories.iter().map(String::as_str).chain(["lib", "usr/lib"]);
    directories.map(Path::new).find_map(|directory| {
        let real = followed(named, needed, &directory.join(wanted))?;
        // One place where the loader looks.
        Some((format!("lib/{triple}/{wanted}"), real))
    })
}

/// The regular file that a path of the guest leads to, by links inside the trees.
fn followed(named: &Path, needed: &Path, path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let here = [named, needed]
            .iter()
            .map(|root| root.join(&path))
            .find(|here| here.symlink_metadata().is_ok_and(|about| !about.is_dir()))?;
        let Ok(target) = std::fs::read_link(&here) else { return Some(here) };
        path = match target.strip_prefix("/") {
            Ok(target) => target.to_owned(),
            Err(_) => normal(&path.parent().unwrap_or(Path::new("")).join(target))?,
        };
    }
    None
}

/// Without `..`; none for a path that leads out.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                parts.pop().then_some(())?;
            }
            std::path::Component::Normal(part) => parts.push(part),
            _ => {}
        }
    }
    Some(parts)
}

/// Files and links below a directory, as paths from there.
fn regular(root: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let directory = root.join(&inner);
        for entry in std::fs::read_dir(&directory).map_err(Error::io(&directory))? {
            let entry = entry.map_err(Error::io(&directory))?;
            let path = inner.join(entry.file_name());
            match entry.file_type().map_err(Error::io(&directory))? {
                kind if kind.is_dir() => open.push(path),
                kind if kind.is_file() || kind.is_symlink() => found.push(path),
                _ => {}
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// What a program or library is loaded with: its loader as a path with a leading slash, and names of libraries.
fn wants(bytes: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return Vec::new() };
    let endian = file.endian();
    let mut wanted = Vec::new();
    let headers = file.elf_header().program_headers(endian, bytes).unwrap_or_default();
    for header in headers {
        if header.p_type(endian) == PT_INTERP
            && let Ok(path) = header.data(endian, bytes)
        {
            let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
            wanted.push(String::from_utf8_lossy(path).into_owned());
        }
    }
    let sections = file.elf_header().sections(endian, bytes);
    let dynamic = sections.as_ref().ok().and_then(|sections| {
        let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
        let strings = sections.strings(endian, bytes, strings).ok()?;
        Some((entries, strings))
    });
    for entry in dynamic.iter().flat_map(|(entries, _)| entries.iter()) {
        if entry.d_tag(endian) != DT_NEEDED {
            continue;
        }
        if let Some(Ok(name)) = dynamic.as_ref().map(|(_, strings)| entry.string(endian, *strings))
        {
            wanted.push(String::from_utf8_lossy(name).into_owned());
        }
    }
    // A loader is no library of its own programs' lists, but some name it there.
    wanted.retain(|name| !name.is_empty() && (name.starts_with('/') || !name.contains('/')));
    wanted
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics fails")]
mod tests {
    use super::*;

    #[test]
    fn names_of_packages_are_told_from_what_apt_says_beside() {
        let text = "rt-tests\n  Depends: libc6\n  Depends: <python3:any>\nlibc6\n  Depends: libgcc-s1\n<python3:any>\n";
        let all = depended(text);
        assert_eq!(all, ["rt-tests", "libc6"].map(str::to_owned).into());
        assert_eq!(others(&all, &["rt-tests".to_owned()]), ["libc6"]);
    }

    #[test]
    fn links_are_followed_inside_the_trees_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let (named, needed) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::create_dir_all(named.join("usr/bin")).unwrap();
        std::fs::create_dir_all(needed.join("lib/x86_64-linux-gnu")).unwrap();
        let link = |to: &str, at: PathBuf| std::os::unix::fs::symlink(to, at).unwrap();
        std::fs::write(needed.join("lib/x86_64-linux-gnu/libx.so.1.2"), "x").unwrap();
        link("libx.so.1.2", needed.join("lib/x86_64-linux-gnu/libx.so.1"));
        link("/lib/x86_64-linux-gnu/libx.so.1", named.join("usr/bin/absolute"));
        link("../../lib/x86_64-linux-gnu/libx.so.1", named.join("usr/bin/relative"));
        link("../../../etc/passwd", named.join("usr/bin/out"));
        link("round", named.join("usr/bin/round"));
        let at = |path: &str| followed(&named, &needed, Path::new(path));
        let real = needed.join("lib/x86_64-linux-gnu/libx.so.1.2");
        assert_eq!(at("usr/bin/absolute"), Some(real.clone()));
        assert_eq!(at("usr/bin/relative"), Some(real.clone()));
        assert_eq!((at("usr/bin/out"), at("usr/bin/round"), at("missing")), (None, None, None));
        assert_eq!(
            library(&named, &needed, "libx.so.1", Architecture::X86_64),
            Some(("lib/x86_64-linux-gnu/libx.so.1".to_owned(), real))
        );
    }

    #[test]
    fn a_program_says_its_loader_and_its_libraries() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let wanted = wants(&own);
        assert!(wanted.iter().any(|name| name.starts_with("/lib64/ld-linux")), "{wanted:?}");
        assert!(wanted.iter().any(|name| name == "libc.so.6"), "{wanted:?}");
        assert!(wants(b"#!/bin/sh\n").is_empty());
        // Cut files and wrong numbers in them are no programs.
        for end in (0..own.len().min(4096)).step_by(7) {
            wants(own.get(..end).unwrap());
        }
    }
}
