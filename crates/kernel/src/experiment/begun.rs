//! What of a build does another variant need not make again? A variant that is built for the first time begins as a copy of one
//! that is there: kbuild compiles what has another command or another configuration, and keeps the other objects.

use super::stamp::Stamp;
use crate::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Copies a whole build of the same tree out of `directory` to `build`, if there is one, that which was made with most of
/// the same `words`; times are kept, which make looks at. A copy that is not finished has another name.
pub(super) fn from_another(
    directory: &Path,
    tree: &Path,
    words: &[String],
    build: &Path,
) -> Result<(), Error> {
    let Some(other) = another(directory, tree, words)? else { return Ok(()) };
    let Some(name) = build.file_name() else { return Ok(()) };
    let partial = directory.join(format!(".copy-of-{}", name.to_string_lossy()));
    if partial.exists() {
        std::fs::remove_dir_all(&partial).map_err(Error::io(&partial))?;
    }
    let mut copy = Command::new("cp");
    copy.args(["-a", "--reflink=auto", "--"]).arg(&other).arg(&partial);
    let copied = copy.stdin(Stdio::null()).stderr(Stdio::null()).status();
    if !copied.is_ok_and(|status| status.success()) {
        // Without a copy all is compiled.
        drop(std::fs::remove_dir_all(&partial));
        return Ok(());
    }
    // What was made of the other: its images, orders and logs.
    let own = partial.join(crate::make::DIRECTORY);
    std::fs::remove_dir_all(&own).map_err(Error::io(&own))?;
    std::fs::rename(&partial, build).map_err(Error::io(&partial))
}

/// The build of the tree that was finished once and has most of the words; of several the first by name.
fn another(directory: &Path, tree: &Path, words: &[String]) -> Result<Option<PathBuf>, Error> {
    let mut builds = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(Error::io(directory))? {
        let entry = entry.map_err(Error::io(directory))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let Some(stamp) = Stamp::of(&entry.path()) else { continue };
        if stamp.tree == tree && !stamp.image.is_empty() {
            let others = words.iter().filter(|word| !stamp.words.contains(word)).count();
            let more = stamp.words.iter().filter(|word| !words.contains(word)).count();
            builds.push((others + more, entry.path()));
        }
    }
    builds.sort_unstable();
    Ok(builds.into_iter().next().map(|(_, build)| build))
}
