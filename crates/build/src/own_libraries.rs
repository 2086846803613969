//! Does a program run with shared libraries of its own project that nobody named?
//!
//! All builds share one directory, and build systems write its name into programs. A library that is
//! not kept with its variant would be that of the last build in all of them.

use crate::Error;
use crate::request::LibraryRule;
use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DynamicTag};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What stands for the directory of the file in a search path.
const ORIGIN: [&str; 2] = ["$ORIGIN", "${ORIGIN}"];

/// Refuses `program` where it, or a library that it runs with, is loaded with a library below `out`,
/// the directory of all builds, that is none of the `known` ones. `step` made it.
///
/// # Errors
/// Where there is such a library.
pub(crate) fn check(
    step: &str,
    out: &Path,
    (program, rule): (&Path, LibraryRule),
    known: &[PathBuf],
) -> Result<(), Error> {
    if rule == LibraryRule::Any {
        return Ok(());
    }
    // What is not there is found by nobody.
    let Ok(root) = out.canonicalize() else { return Ok(()) };
    let mut seen: BTreeSet<PathBuf> =
        known.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut left: Vec<PathBuf> = [program.to_owned()].into_iter().chain(seen.clone()).collect();
    let mut found = BTreeSet::new();
    while let Some(file) = left.pop() {
        for library in loaded(&file) {
            let Some(below) = below(&library, &root) else { continue };
            let Ok(library) = library.canonicalize() else { continue };
            if seen.insert(library.clone()) {
                found.insert(below);
                left.push(library);
            }
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = found.iter().map(|path| path.display().to_string()).collect();
    let next = match rule {
        LibraryRule::Kept => format!(
            "name them, and each variant keeps its own, optimised like the program: libraries = {names:?} in \
             [build] of planish.toml (--library {})",
            names.join(" --library ")
        ),
        _ => "build the variants yourself and compare them with `planish compare --library-path`"
            .to_owned(),
    };
    Err(Error::OwnLibraries {
        step: step.to_owned(),
        program: program.to_owned(),
        found: names.join(", "),
        next,
    })
}

/// The path of a library from `root`, by the name that programs load it by; none where it lies
/// elsewhere.
fn below(library: &Path, root: &Path) -> Option<PathBuf> {
    let folder = library.parent()?.canonicalize().ok()?;
    Some(folder.strip_prefix(root).ok()?.join(library.file_name()?))
}

/// Where the search path of a file leads to a library that it needs.
fn loaded(file: &Path) -> Vec<PathBuf> {
    let Some((needed, paths)) = elf(file).and_then(|bytes| dynamic(&bytes)) else {
        return Vec::new();
    };
    let origin = file.parent().unwrap_or(Path::new(".")).to_string_lossy();
    let folders: Vec<PathBuf> = paths
        .iter()
        .flat_map(|list| list.split(':'))
        .map(|path| ORIGIN.iter().fold(path.to_owned(), |path, word| path.replace(word, &origin)))
        .map(PathBuf::from)
        .collect();
    let first = |name: &String| {
        // A library without a SONAME that was named by its path.
        if name.contains('/') {
            return Some(PathBuf::from(name)).filter(|path| path.is_absolute() && path.is_file());
        }
        folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    needed.iter().filter_map(first).collect()
}

/// The bytes of an ELF file; none of another, which may be large.
fn elf(path: &Path) -> Option<Vec<u8>> {
    let mut start = [0; 4];
    std::fs::File::open(path).ok()?.read_exact(&mut start).ok()?;
    if start == *b"\x7fELF" { std::fs::read(path).ok() } else { None }
}

/// The names of the libraries that an ELF file needs, and where it has them looked for. None where it
/// is no such file, or cannot be read: whoever runs it tells why.
fn dynamic(bytes: &[u8]) -> Option<(Vec<String>, Vec<String>)> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let endian = file.endian();
    let sections = file.elf_header().sections(endian, bytes).ok()?;
    let (entries, strings) = sections.dynamic(endian, bytes).ok()??;
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let of = |tags: &[DynamicTag]| -> Vec<String> {
        let entries = entries.iter().filter(|entry| tags.contains(&entry.d_tag(endian)));
        let names = entries.filter_map(|entry| entry.string(endian, strings).ok());
        names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    };
    let runpath = of(&[DT_RUNPATH]);
    let path = if runpath.is_empty() { of(&[DT_RPATH]) } else { runpath };
    Some((of(&[DT_NEEDED]), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_library_of_the_build_is_found_through_others_and_known_ones_are_none() {
        if Command::new("cc").arg("--version").output().is_err() {
            return eprintln!("skipped: cc is not installed");
        }
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path();
        let make = |text: &str, words: &[&str]| {
            std::fs::write(out.join("a.c"), text).unwrap();
            let mut cc = Command::new("cc");
            assert!(cc.args(words).current_dir(out).status().unwrap().success());
        };
        std::fs::create_dir(out.join("lib")).unwrap();
        let path = format!("-Wl,-rpath,{}", out.join("lib").display());
        make(
            "int deep(void) { return 1; }",
            &["-shared", "-fPIC", "a.c", "-o", "lib/libdeep.so", "-Wl,-soname,libdeep.so"],
        );
        make(
            "int deep(void); int work(void) { return deep(); }",
            &[
                "-shared",
                "-fPIC",
                "a.c",
                "-o",
                "lib/libwork.so",
                "lib/libdeep.so",
                "-Wl,-soname,libwork.so,-rpath,$ORIGIN/../lib",
            ],
        );
        make(
            "int work(void); int main(void) { return work(); }",
            &["a.c", "-o", "app", "lib/libwork.so", "lib/libdeep.so", &path],
        );
        let at = |name: &str| out.join(name);
        let known =
            |names: &[&str]| -> Vec<PathBuf> { names.iter().map(|name| at(name)).collect() };
        let refused_by = |rule, names: &[&str]| {
            let found = check("build", out, (&at("app"), rule), &known(names));
            found.err().map(|error| error.to_string())
        };
        let refused = |names: &[&str]| refused_by(LibraryRule::Kept, names);
        assert_eq!(refused_by(LibraryRule::Any, &[]), None);
        assert!(refused_by(LibraryRule::Never, &[]).unwrap().contains("--library-path"));
        let all = refused(&[]).unwrap();
        assert!(all.contains("\"lib/libdeep.so\", \"lib/libwork.so\""), "{all}");
        let one = refused(&["lib/libwork.so"]).unwrap();
        assert!(one.contains("libraries = [\"lib/libdeep.so\"]"), "{one}");
        assert_eq!(refused(&["lib/libwork.so", "lib/libdeep.so"]), None);
        // Libraries of other directories are nobody's business.
        assert!(check("build", &at("lib"), (&at("a.c"), LibraryRule::Kept), &[]).is_ok());
        std::fs::create_dir(at("other")).unwrap();
        assert!(check("build", &at("other"), (&at("app"), LibraryRule::Kept), &[]).is_ok());
    }
}
