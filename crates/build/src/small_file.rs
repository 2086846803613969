//! How is a script or a configuration of a project read, if it has one?

use std::io::Read;
use std::path::Path;

/// A larger file is no script and no configuration.
const MOST_BYTES: u64 = 4 << 20;

/// The text of a file; `None` where it is missing, no regular file, larger than [`MOST_BYTES`], or cannot
/// be read.
pub(crate) fn text(path: &Path) -> Option<String> {
    let file = path.metadata().ok().filter(|m| m.is_file() && m.len() <= MOST_BYTES);
    let mut text = Vec::new();
    file.and_then(|_| std::fs::File::open(path).ok())?
        .take(MOST_BYTES)
        .read_to_end(&mut text)
        .ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}
