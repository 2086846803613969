//! Why may the names of a file be wrong, or lack?

use image::Image;
use image::debug_files::Rejected;
use std::fs::Metadata;
use std::path::Path;
use std::time::SystemTime;

/// When a recording was written last; of a directory its first file.
pub fn written(path: &Path) -> Option<SystemTime> {
    let data = path.join("data");
    let file = if path.is_dir() { &data } else { path };
    std::fs::metadata(file).ok().filter(Metadata::is_file)?.modified().ok()
}

/// Why a file that was found by its name alone may be another build than the recorded one, which lay
/// at `recorded`; `packed` tells whether it lies in the recording's own archive, and `written` when
/// the recording was made.
pub fn found_by_name(
    image: &Image,
    recorded: &str,
    packed: bool,
    written: Option<SystemTime>,
) -> Option<String> {
    let own = image.path();
    // What lies in memory was written by nobody since.
    std::fs::metadata(own).ok()?;
    let symbols = image.symbols_path();
    let mut of = "the file of its name".to_owned();
    let mut newer = false;
    // An archive says the same as the machine where it was made.
    if !packed {
        let changed = std::fs::metadata(symbols).ok().and_then(|file| file.modified().ok());
        newer = changed.zip(written).is_some_and(|(changed, written)| changed > written);
        if symbols != Path::new(recorded) {
            of = symbols.display().to_string();
        }
    }
    Some(format!(
        "the recording has no build ID of it, so its names are those of {of}{}{}",
        if newer { ", which is newer than the recording" } else { "" },
        if image.build_id().is_none() { " (-Wl,--build-id gives a program one)" } else { "" },
    ))
}

/// Why a program has no names but those of the functions that it exports; `rejected` are files that
/// could have been its debug file.
pub fn lacks_symbols(rejected: &[Rejected]) -> String {
    let own = "the program is stripped";
    match rejected.first() {
        Some(Rejected { path, reason }) => {
            format!("{own}, and {} is not its debug file: {reason}", path.display())
        }
        None => format!("{own}, and no debug file of it is at hand (--symbols, --debuginfod)"),
    }
}
