//! The edits on real trees, where there are some: those that `PLANISH_KERNEL_TREES` names
//! (directories, separated by colons), else the files that are edited, out of
//! `/usr/src/linux-source-*.tar.xz` (Debian's packages linux-source-6.1 and linux-source-6.12).

#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

mod trees;

use kernel::edits::{EDITED_FILES, NEW_FILES};
use kernel::prepare::{Standing, standing};
use kernel::tree::{AUTOFDO, PROPELLER, Tree};
use kernel::{patch, write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The files that the edits concern or a tree is recognised by.
fn wanted() -> impl Iterator<Item = &'static str> {
    EDITED_FILES.iter().map(|file| file.path).chain(["Kbuild", "Kconfig"])
}

/// Copies of what is wanted of each real tree, in directories of their own.
fn copies() -> Vec<(String, tempfile::TempDir)> {
    let named = std::env::var("PLANISH_KERNEL_TREES").unwrap_or_default();
    let directories = named.split(':').filter(|name| !name.is_empty()).map(PathBuf::from);
    let mut copies: Vec<_> =
        directories.map(|tree| (tree.display().to_string(), copied(&tree))).collect();
    if copies.is_empty() {
        let sources = std::fs::read_dir("/usr/src").into_iter().flatten().flatten();
        let archives = sources.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            name.starts_with("linux-source-") && name.ends_with(".tar.xz")
        });
        copies.extend(
            archives.filter_map(|path| Some((path.display().to_string(), unpacked(&path)?))),
        );
    }
    if copies.is_empty() {
        eprintln!(
            "skipped: edits on real kernel trees; install linux-source-6.1 or linux-source-6.12, or name trees in \
             PLANISH_KERNEL_TREES"
        );
    }
    copies
}

fn copied(tree: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for path in wanted() {
        let to = copy.path().join(path);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(tree.join(path), to)
            .unwrap_or_else(|error| panic!("{}/{path}: {error}", tree.display()));
    }
    copy
}

/// The wanted files of an archive; `None`, with a sentence, where it is of a version without edits.
fn unpacked(archive: &Path) -> Option<tempfile::TempDir> {
    let name = archive.file_name()?.to_str()?.strip_suffix(".tar.xz")?.to_owned();
    if !["6.1", "6.6", "6.12"].iter().any(|version| name == format!("linux-source-{version}")) {
        eprintln!("skipped: {}: no edits for this version", archive.display());
        return None;
    }
    let copy = tempfile::tempdir().unwrap();
    let members = wanted().map(|path| format!("{name}/{path}"));
    let mut tar = Command::new("tar");
    tar.args(["-xJf"])
        .arg(archive)
        .arg("-C")
        .arg(copy.path())
        .arg("--strip-components=1")
        .args(members);
    assert!(tar.status().unwrap().success(), "{}", archive.display());
    Some(copy)
}

fn look(tree: &Path) -> Standing {
    standing(&Tree::open(tree).unwrap()).unwrap()
}

#[test]
fn a_real_tree_is_prepared_and_taken_back_byte_for_byte() {
    for (name, copy) in copies() {
        let root = copy.path();
        let before = trees::contents(root);
        let Standing::Plain { prepare, .. } = look(root) else { panic!("{name} can be prepared") };
        write::write(root, &prepare).unwrap();
        let tree = Tree::open(root).unwrap();
        assert!(tree.offers(AUTOFDO) && tree.offers(PROPELLER), "{name}");
        assert!(NEW_FILES.iter().all(|file| root.join(file.path).is_file()), "{name}");
        let Standing::Prepared { revert } = look(root) else { panic!("{name} is prepared") };
        write::write(root, &revert).unwrap();
        assert!(trees::contents(root) == before, "{name} is what it was");
        eprintln!("prepared and taken back: {name} ({} files)", prepare.len());
    }
}

#[test]
fn the_patch_of_a_real_tree_applies_and_makes_the_same_files() {
    for (name, copy) in copies() {
        let Standing::Plain { prepare, .. } = look(copy.path()) else {
            panic!("{name} can be prepared")
        };
        let diff = copy.path().join("planish.diff");
        std::fs::write(&diff, patch::unified(&prepare)).unwrap();
        let mut git = Command::new("git");
        let applied = git
            .current_dir(copy.path())
            .args(["apply", "planish.diff"])
            .stdin(Stdio::null())
            .output();
        let Ok(applied) = applied else { return eprintln!("skipped: git is not installed") };
        assert!(applied.status.success(), "{name}: {}", String::from_utf8_lossy(&applied.stderr));
        for change in &prepare {
            let text = std::fs::read_to_string(copy.path().join(change.path)).unwrap();
            assert_eq!(Some(text), change.after, "{name}: {}", change.path);
        }
        assert!(matches!(look(copy.path()), Standing::Prepared { .. }), "{name}");
    }
}
