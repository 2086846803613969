//! Does a program run with shared libraries of its own project that nobody named?
//!
//! All builds share one directory, and build systems write its name into programs. A library that is
//! not kept with its variant would be that of the last build in all of them.

use crate::Error;
use crate::request::LibraryRule;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use superpages::{Loading, files_of};

/// Refuses `program` where it is loaded with a library below `out`, the directory of all builds, that
/// is none of the `known` ones. `step` made it.
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
    // What is no program, or cannot be loaded, is told of by whoever runs it.
    let (Ok(root), Ok(loaded)) = (out.canonicalize(), files_of(program, None, Loading::Runs))
    else {
        return Ok(());
    };
    let known: BTreeSet<PathBuf> =
        known.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let is_known = |path: &Path| path.canonicalize().is_ok_and(|path| known.contains(&path));
    let others = loaded.iter().skip(1).filter(|library| !is_known(library));
    let found: BTreeSet<PathBuf> = others.filter_map(|library| below(library, &root)).collect();
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
