//! How much of the disk does a directory take?

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that a directory takes on the disk, as far as it can be read.
pub fn bytes(directory: &Path) -> u64 {
    /// The unit of stat(2).
    const BLOCK: u64 = 512;
    let mut sum = 0u64;
    let mut open = vec![directory.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            // Of links it is the link itself.
            let Ok(about) = entry.metadata() else { continue };
            sum = sum.saturating_add(about.blocks().saturating_mul(BLOCK));
            open.extend(about.is_dir().then(|| entry.path()));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_takes_what_its_files_take_and_links_are_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let empty = bytes(dir.path());
        std::fs::write(inner.join("c"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", inner.join("root")).unwrap();
        let full = bytes(dir.path());
        assert!((100_000..200_000).contains(&(full - empty)), "{empty} {full}");
        assert_eq!(bytes(&dir.path().join("none")), 0);
    }
}
