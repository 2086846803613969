//! What has to change in a tree so that it has the options, or so that it no longer has ours?
//!
//! Reads every file that is concerned, decides what each one's state is, and only then says what to
//! write: one file that does not fit means that none is written.

use crate::anchor::{self, Misfit, State};
use crate::architecture::Architecture;
use crate::edits::{DOCUMENTS, EDITED_FILES, EditedFile, NEW_FILES};
use crate::error::Error;
use crate::tree::{self, AUTOFDO, Known, PROPELLER, Tree};
use serde::Serialize;
use std::path::Path;

/// One file before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Its path in the tree.
    pub path: &'static str,
    /// What it holds; `None` where it does not exist.
    pub before: Option<String>,
    /// What it shall hold; `None` where it shall not exist.
    pub after: Option<String>,
}

/// How a tree stands to the edits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has the options from elsewhere: from Linux itself, or from a backport.
    HasTheOptions,
    /// It was prepared by planish.
    Prepared {
        /// What takes the edits back.
        revert: Vec<FileChange>,
    },
    /// It can be prepared.
    Plain {
        /// What prepares it.
        prepare: Vec<FileChange>,
    },
    /// Some files hold the edits, others do not; each is whole.
    Half {
        /// What takes back those that are there.
        revert: Vec<FileChange>,
        /// The files with the edits.
        done: Vec<&'static str>,
        /// The files without.
        open: Vec<&'static str>,
    },
}

/// What is done to a tree, as `planish kernel prepare --format json` prints it.
#[derive(Clone, Debug, Serialize)]
pub struct Done {
    /// The tree, as the user named it.
    pub tree: String,
    /// Its version.
    pub linux: String,
    /// `prepared`, `reverted`, `was-prepared`, `was-plain` or `has-the-options`.
    pub result: &'static str,
    /// Whether the edits were tried on a tree of its series; absent for one that needs none.
    pub tried: Option<bool>,
    /// The files that change.
    pub files: Vec<FileDone>,
}

/// What is done to a file.
#[derive(Clone, Debug, Serialize)]
pub struct FileDone {
    /// Its path in the tree.
    pub path: &'static str,
    /// `added`, `edited` or `removed`.
    pub change: &'static str,
}

/// What gives a tree the options, or with `revert` takes ours back: the changes, and what that does.
///
/// # Errors
/// Where the tree is half prepared, or its options are not ours to take back.
pub fn changes(tree: &Tree, revert: bool) -> Result<(Vec<FileChange>, Done), Error> {
    let (changes, result) = match (standing(tree)?, revert) {
        (Standing::Plain { prepare }, false) => (prepare, "prepared"),
        (Standing::Prepared { .. }, false) => (Vec::new(), "was-prepared"),
        (Standing::HasTheOptions, false) => (Vec::new(), "has-the-options"),
        (Standing::Half { done, open, .. }, false) => {
            return Err(Error::HalfPrepared {
                tree: tree.root.clone(),
                done: done.join(", "),
                open: open.join(", "),
            });
        }
        (Standing::Prepared { revert } | Standing::Half { revert, .. }, true) => {
            (revert, "reverted")
        }
        (Standing::Plain { .. }, true) => (Vec::new(), "was-plain"),
        (Standing::HasTheOptions, true) => {
            return Err(Error::NothingToRevert {
                tree: tree.root.clone(),
                reason: "its AUTOFDO_CLANG and PROPELLER_CLANG are not from planish",
            });
        }
    };
    let change = |change: &FileChange| match (&change.before, &change.after) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "edited",
    };
    let file = |file: &FileChange| FileDone { path: file.path, change: change(file) };
    let done = Done {
        tree: tree.root.display().to_string(),
        linux: tree.version.to_string(),
        result,
        tried: tree.version.known().map(|known| known == Known::Tried),
        files: changes.iter().map(file).collect(),
    };
    Ok((changes, done))
}

/// One file that is looked at.
enum Found {
    Plain(FileChange),
    Edited(FileChange),
    Unchanged,
}

/// How this tree stands to the edits.
pub fn standing(tree: &Tree) -> Result<Standing, Error> {
    match (tree.offers(AUTOFDO), tree.offers(PROPELLER)) {
        (false, false) => {}
        _ if is_ours(tree) => {}
        (true, true) => return Ok(Standing::HasTheOptions),
        (true, false) => return Err(half_a_feature(tree, AUTOFDO, PROPELLER)),
        (false, true) => return Err(half_a_feature(tree, PROPELLER, AUTOFDO)),
    }
    if tree.version.known().is_none() {
        return Err(Error::UnknownVersion {
            tree: tree.root.clone(),
            version: tree.version.to_string(),
        });
    }
    let (mut plain, mut edited) = (Vec::new(), Vec::new());
    // A tree without its documents, or without the sources for a processor, as a sparse checkout
    // leaves it, is prepared without ours.
    let there = |path: &str| tree.root.join(path).exists();
    let lacks_processor = |path: &str| {
        let directory = Architecture::ALL.map(Architecture::directory);
        let directory = directory.into_iter().find(|directory| path.starts_with(directory));
        directory.is_some_and(|directory| !there(directory))
    };
    let documents = there(DOCUMENTS);
    let concerned =
        |path: &str| (documents || !path.starts_with("Documentation/")) && !lacks_processor(path);
    for file in NEW_FILES.iter().filter(|file| concerned(file.path)) {
        sort(new_file(tree, file.path, file.text)?, &mut plain, &mut edited);
    }
    for file in EDITED_FILES.iter().filter(|file| concerned(file.path)) {
        sort(edited_file(tree, file)?, &mut plain, &mut edited);
    }
    let names = |changes: &[FileChange]| changes.iter().map(|change| change.path).collect();
    Ok(match (plain.is_empty(), edited.is_empty()) {
        (_, true) => Standing::Plain { prepare: plain },
        (true, false) => Standing::Prepared { revert: edited },
        (false, false) => {
            Standing::Half { done: names(&edited), open: names(&plain), revert: edited }
        }
    })
}

fn sort(found: Found, plain: &mut Vec<FileChange>, edited: &mut Vec<FileChange>) {
    match found {
        Found::Plain(change) => plain.push(change),
        Found::Edited(change) => edited.push(change),
        Found::Unchanged => {}
    }
}

fn half_a_feature(tree: &Tree, there: &'static str, missing: &'static str) -> Error {
    Error::HalfAFeature { tree: tree.root.clone(), there, missing }
}

fn holds(tree: &Tree, path: &str, text: &str) -> bool {
    beside::given::read(&tree.root.join(path), beside::given::TEXT)
        .is_ok_and(|bytes| bytes == text.as_bytes())
}

/// Whether any file is or holds ours; what cannot be read holds nothing here, and is an error
/// later.
fn is_ours(tree: &Tree) -> bool {
    let new = NEW_FILES.iter().any(|file| holds(tree, file.path, file.text));
    new || EDITED_FILES.iter().any(|file| {
        let text = tree::read(&tree.root.join(file.path));
        text.is_ok_and(
            |text| matches!(anchor::state(&text, file.edits), State::Edited { ref plain } if *plain != text),
        )
    })
}

fn new_file(tree: &Tree, path: &'static str, ours: &str) -> Result<Found, Error> {
    let full = tree.root.join(path);
    clean(&full, None)?;
    if !full.exists() && !full.is_symlink() {
        return Ok(Found::Plain(FileChange { path, before: None, after: Some(ours.to_owned()) }));
    }
    match tree::read(&full)? {
        text if text == ours => {
            Ok(Found::Edited(FileChange { path, before: Some(text), after: None }))
        }
        _ => Err(Error::Foreign { path: full }),
    }
}

fn edited_file(tree: &Tree, file: &EditedFile) -> Result<Found, Error> {
    let path = tree.root.join(file.path);
    let text = tree::read(&path)?;
    clean(&path, Some(&text))?;
    let change = |after: String| FileChange {
        path: file.path,
        before: Some(text.clone()),
        after: Some(after),
    };
    let joined = |names: Vec<&str>| names.join(", ");
    match anchor::state(&text, file.edits) {
        // A file that is only looked at.
        State::Plain { edited } if edited == text => Ok(Found::Unchanged),
        State::Plain { edited } => Ok(Found::Plain(change(edited))),
        State::Edited { plain } => Ok(Found::Edited(change(plain))),
        State::Unfit { construct, misfit } => Err(unfit(path, construct, misfit)),
        State::Half { there, missing } => Err(Error::HalfEdited {
            path,
            there: joined(there),
            missing: if missing.is_empty() { "none".to_owned() } else { joined(missing) },
        }),
    }
}

pub(crate) fn unfit(path: std::path::PathBuf, construct: &'static str, misfit: Misfit) -> Error {
    match misfit {
        Misfit::Anchor { expected, found } => Error::Anchor { path, construct, expected, found },
        Misfit::Present { text, reason } => Error::Unfit { path, construct, found: text, reason },
    }
}

/// Refuses a file that a patch or a merge has left open.
fn clean(path: &Path, text: Option<&str>) -> Result<(), Error> {
    let dirty = |what| Err(Error::Dirty { path: path.to_owned(), what });
    let mut rejected = path.as_os_str().to_owned();
    rejected.push(".rej");
    if Path::new(&rejected).exists() {
        return dirty("a patch did not apply to it (there is a .rej file beside it)");
    }
    let conflict = |line: &str| line.starts_with("<<<<<<< ") || line.starts_with(">>>>>>> ");
    match text {
        Some(text) if text.lines().any(conflict) => dirty("it holds the marks of a merge conflict"),
        _ => Ok(()),
    }
}
