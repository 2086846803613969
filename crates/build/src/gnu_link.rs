//! How does gcc come by lld, which alone repeats a link in other layouts?

use crate::{Error, STATE_DIRECTORY};
use std::path::{Path, PathBuf};

/// Holds a link `ld.lld` to the linker: gcc knows lld by this name alone, and Debian has it under
/// names with a version.
pub(crate) fn folder() -> PathBuf {
    Path::new(STATE_DIRECTORY).join("linker")
}

/// The flags that make gcc link by what `folder` holds.
pub(crate) fn flags(folder: &str) -> String {
    format!("-B{folder} -fuse-ld=lld")
}

/// Makes the link, in a project's directory.
///
/// # Errors
/// Where there is no lld, or the directory cannot be written to.
pub(crate) fn name_linker(directory: &Path) -> Result<(), Error> {
    let linker = relink::Linker::find()?;
    let folder = directory.join(folder());
    let unread = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { path, action: "cannot create", source }
    };
    std::fs::create_dir_all(&folder).map_err(unread(&folder))?;
    let link = folder.join("ld.lld");
    if std::fs::read_link(&link).ok().as_deref() != Some(linker.path()) {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(linker.path(), &link).map_err(unread(&link))?;
    }
    Ok(())
}
