//! May the images of a project be called so? The program and its libraries are named by paths below
//! `$PLANISH_OUT`, and told apart by their file names.

use std::collections::BTreeSet;
use std::path::{Component, Path};

/// What is wrong with the paths of a project's images, with the way out.
pub(crate) fn check(binary: &str, libraries: &[String]) -> Result<(), String> {
    let below = |path: &str| {
        let plain = |part| matches!(part, Component::Normal(_));
        !path.is_empty() && !path.ends_with('/') && Path::new(path).components().all(plain)
    };
    if let Some(path) = libraries.iter().find(|path| !below(path) || path.contains(':')) {
        return Err(format!(
            "[build] libraries: {path:?}: give paths below the directory $PLANISH_OUT that the \
             build writes to, as lib/libapp.so.1, without `..` and colons"
        ));
    }
    let mut names = BTreeSet::new();
    for path in [binary].into_iter().chain(libraries.iter().map(String::as_str)) {
        if !names.insert(Path::new(path).file_name()) {
            return Err(format!(
                "[build] libraries: {path:?}: another image has the same file name; the program \
                 and its libraries are told apart by these"
            ));
        }
    }
    Ok(())
}
