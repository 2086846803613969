//! How is a kernel made faster? What its steps begin with, in which directory, and what became of
//! them.

mod plan;

pub use plan::{Wanted, image};

use crate::plan::STATE_DIRECTORY;
use crate::request::kernels::arch_word;
use crate::state::State;
use crate::{Plan, quoted};
use kernel::cost::{Counts, Outcome, sizes};
use kernel::requirements::{Purpose, fragment};
use kernel::workload::small_config;
use kernel::{Architecture, Error};
use plan::{CONFIG, TREE_STATE, counts, vmlinux};
use sha2::{Digest, Sha256};
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The configuration to begin with: the user's own text or a small one, with what profiles need.
pub fn configuration(own: Option<String>, architecture: Architecture) -> String {
    match own {
        Some(text) => text + "\n" + &fragment(Purpose::Both, architecture),
        None => small_config(Purpose::Both, architecture),
    }
}

/// The directory that everything goes to which is made, as an absolute name.
///
/// # Errors
/// Where it lies in the tree, is a file, or make cannot take its name.
pub fn directory(given: &Path, tree: &Path) -> Result<PathBuf, Error> {
    let output = std::path::absolute(given).map_err(Error::io(given))?;
    let output = output.canonicalize().unwrap_or(output);
    kernel::make::word(&output)?;
    let wrong = if output.starts_with(tree) {
        "-o must be another directory than the tree, and outside of it"
    } else if output.exists() && !output.is_dir() {
        "-o is not a directory; name one, or one to be made"
    } else {
        return Ok(output);
    };
    Err(Error::of_file(given, wrong))
}

/// The commands that a plan would run in `output`, for a tree and, where there is one, a
/// configuration of the user's.
pub fn described(
    plan: &Plan,
    tree: &Path,
    architecture: Architecture,
    config: Option<&Path>,
    output: &Path,
) -> String {
    let quoted = |path: &Path| quoted(&path.to_string_lossy());
    let (tree, output) = (quoted(tree), quoted(output));
    let arch: String = arch_word(architecture).map(|word| format!(" {word}")).unwrap_or_default();
    let start = match config {
        Some(path) => format!("{{ cat {}; planish kernel config {tree}{arch}; }}", quoted(path)),
        None => format!("planish kernel config {tree} --small{arch}"),
    };
    format!(
        "planish kernel prepare {tree}\nmkdir -p {output}/{STATE_DIRECTORY}; cd {output}\n{start} > \
         {CONFIG}; touch {TREE_STATE}\n\n{}",
        plan.describe(&[])
    )
}

/// Writes what the steps begin with into their directory: the configuration, and which state the
/// tree has.
///
/// # Errors
/// Where a file cannot be written, or the tree not be read.
pub fn begin(directory: &Path, configuration: &str, tree: &Path) -> Result<(), Error> {
    replace(&directory.join(CONFIG), configuration)?;
    replace(&directory.join(TREE_STATE), &tree_state(tree)?)
}

/// What became of the kernels, after all steps.
///
/// # Errors
/// Where what they left cannot be read.
pub fn outcome(directory: &Path) -> Result<Outcome, Error> {
    let path = directory.join(counts());
    let text = beside::given::read(&path, beside::given::DATA).map_err(Error::io(&path))?;
    let counts: Counts =
        serde_json::from_slice(&text).map_err(Error::doing(path.display().to_string()))?;
    let seconds: f64 = State::read(directory).steps.values().map(|done| done.seconds).sum();
    let sizes = sizes(&counts, |kernel| directory.join(vmlinux(kernel)))?;
    Ok(Outcome::of(counts, sizes, seconds))
}

/// Writes a file only where its content changes, so that what is made from it is not made again.
///
/// # Errors
/// Where it cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), Error> {
    match beside::given::read(path, beside::given::TEXT) {
        Ok(bytes) if bytes == text.as_bytes() => Ok(()),
        _ => beside::write(path, text).map_err(Error::io(path)),
    }
}

/// A hash over name, size and time of change of every source file.
fn tree_state(root: &Path) -> Result<String, Error> {
    let mut hash = Sha256::new();
    let mut files = 0u64;
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = std::fs::read_dir(&directory).and_then(Iterator::collect);
        let mut entries: Vec<DirEntry> = entries.map_err(Error::io(&directory))?;
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let about = entry.metadata().map_err(Error::io(&directory))?;
            if about.is_dir() {
                if entry.file_name() != ".git" {
                    open.push(path);
                }
                continue;
            }
            let changed =
                about.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            hash.update(path.strip_prefix(root).unwrap_or(&path).as_os_str().as_encoded_bytes());
            hash.update(about.len().to_le_bytes());
            hash.update(changed.map_or(0, |time| time.as_nanos()).to_le_bytes());
            files += 1;
        }
    }
    Ok(format!("{files} files {}\n", hex::encode(hash.finalize())))
}
