//! Which files did a recording map that are called like an image that was asked for?
//!
//! A program may find another copy of its library than the one that is meant: the system's, or the
//! one of another build. Which file is the right one is for the caller to say, who knows where
//! files lie.

use crate::listed::lasting;
use crate::model::base_name;
use address_spaces::Change;
use image::Image;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A file that a process mapped executable, of the name of an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namesake {
    /// The process.
    pub pid: i32,
    /// Its path as recorded.
    pub path: String,
    /// The build ID that the mapping record carried.
    pub build_id: Option<Vec<u8>>,
}

/// The namesakes of `images` in `changes`, the images themselves among them, each once for a
/// process. Cost: linear in the changes.
pub(crate) fn namesakes(changes: &[(u64, Change)], images: &[Arc<Image>]) -> Vec<Namesake> {
    let name = |image: &Arc<Image>| base_name(&image.path().to_string_lossy()).to_owned();
    let names: BTreeSet<String> = images.iter().map(name).collect();
    let mut found = BTreeSet::new();
    for (_, change) in changes {
        let Change::Map { pid, file, .. } = change else { continue };
        let path = lasting(&file.path);
        if !file.side.is_kernel() && names.contains(base_name(path)) {
            let (path, build_id) = (path.to_owned(), file.build_id.clone());
            found.insert(Namesake { pid: *pid, path, build_id });
        }
    }
    found.into_iter().collect()
}
