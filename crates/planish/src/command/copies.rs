//! Did what was recorded run with its own libraries, or with other copies of them?

use anyhow::bail;
use counts::aggregate::Aggregated;
use image::{BuildId, Image};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to do where another copy was found.
const NEXT: &str = "programs must find their libraries by LD_LIBRARY_PATH or by a RUNPATH with \
                    $ORIGIN, not by an RPATH, an absolute path or a copy of the system's; is the \
                    library named by its SONAME, and are all of the project's named?";

/// Refuses recordings in which a program that runs from one of `images` mapped another file of the
/// name of one of them, or in which anything mapped a copy of them.
///
/// # Errors
/// With both files.
pub fn refuse(found: &Aggregated, images: &[Arc<Image>]) -> anyhow::Result<()> {
    images.iter().try_for_each(|image| named_as_loaded(image))?;
    let places: Vec<PathBuf> = images.iter().map(|image| real(image.path())).collect();
    let places = || images.iter().zip(&places);
    // Of executables: other programs may load the libraries too.
    let own: BTreeSet<i32> = found
        .namesakes
        .iter()
        .filter(|mapped| {
            let place = real(Path::new(&mapped.path));
            places().any(|(image, own)| image.soname().is_none() && *own == place)
        })
        .map(|mapped| mapped.pid)
        .collect();
    for mapped in &found.namesakes {
        let path = Path::new(&mapped.path);
        let place = real(path);
        let namesake = places().find(|(_, own)| own.file_name() == path.file_name());
        let Some((image, _)) = namesake.filter(|(_, own)| **own != place) else { continue };
        let same = |own: &BuildId| {
            mapped.build_id.as_deref().is_some_and(|recorded| own.matches_padded(recorded))
        };
        let copied = image.build_id().is_some_and(same);
        if copied || own.contains(&mapped.pid) {
            let what = if copied { "a copy of it" } else { "another file" };
            bail!(
                "{}: expected that this file ran, found that {} did, {what}: {NEXT}",
                image.path().display(),
                path.display()
            );
        }
    }
    Ok(())
}

/// Refuses a library whose file is called differently from what programs look for.
fn named_as_loaded(image: &Image) -> anyhow::Result<()> {
    let path = image.path();
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match image.soname().filter(|soname| *soname != name) {
        Some(soname) => bail!(
            "{}: programs look for it by its SONAME {soname}; name it so: [build] libraries = \
             [\"…/{soname}\"]",
            path.display()
        ),
        None => Ok(()),
    }
}

/// The path without links, where there is such a file.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
