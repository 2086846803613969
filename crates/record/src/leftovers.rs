//! What killed recorders left in a directory: the spools of emulators and the parts of recordings,
//! removed by the next.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What every perf.data begins with.
const MAGIC: &[u8] = b"PERFILE2";

/// Removes spools and parts whose recorder is gone: no process has the number, and nobody holds the
/// lock (a recorder in another container may have a number that is none here).
pub(crate) fn remove(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((pid, magic)) = owner(&name) else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        let directory = kind.is_dir() && !magic.is_empty() && is_recording(&entry.path());
        if Path::new("/proc").join(pid.to_string()).exists() || !(kind.is_file() || directory) {
            continue;
        }
        let data = if directory { entry.path().join("data") } else { entry.path() };
        // Only what is the caller's own, and nothing that could keep a recorder waiting.
        let Ok(mut file) = beside::read_own(&data) else { continue };
        if begins_with(&mut file, magic) && crate::sys::lock(&file) {
            // It may be another user's; then it stays.
            let _ = if directory {
                std::fs::remove_dir_all(entry.path())
            } else {
                std::fs::remove_file(entry.path())
            };
        }
    }
}

/// The process in the name of a spool or a part, and how the file begins.
fn owner(name: &OsStr) -> Option<(u32, &'static [u8])> {
    let bytes = name.as_bytes();
    let spool = bytes.strip_prefix(b".planish-").and_then(|rest| rest.strip_suffix(b".spool"));
    if let Some((pid, count)) =
        spool.and_then(|middle| std::str::from_utf8(middle).ok()?.split_once('-'))
    {
        known(count)?;
        return Some((pid.parse().ok()?, b""));
    }
    let stem = bytes.strip_suffix(b".part")?;
    let mut words = stem.rsplit(|byte| *byte == b'.').map(std::str::from_utf8);
    let (last, before) = (words.next()?.ok()?, words.next()?.ok());
    // `NAME.PID.RANDOM`, and `NAME.PID` of older recorders.
    let new = before.and_then(|pid| pid.parse().ok()).filter(|_| {
        last.len() == beside::RANDOM && known(last).is_some() && words.next().is_some()
    });
    let old = || last.parse().ok().filter(|_| before.is_some_and(|name| !name.is_empty()));
    Some((new.or_else(old)?, MAGIC))
}

/// What makes names unlike any other: letters and digits.
fn known(random: &str) -> Option<()> {
    let fits = !random.is_empty() && random.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then_some(())
}

/// An empty file begins with everything.
fn begins_with(file: &mut File, magic: &[u8]) -> bool {
    let mut begin = Vec::new();
    let read = file.by_ref().take(magic.len() as u64).read_to_end(&mut begin);
    read.is_ok() && (begin.is_empty() || begin == magic)
}

/// Whether a directory holds the files of a recording and nothing else.
pub(crate) fn is_recording(dir: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(dir) else { return false };
    let mut names = entries.flatten().map(|entry| entry.file_name());
    let known = |name: &std::ffi::OsStr| {
        name.to_str().is_some_and(|name| name == "data" || name.starts_with("data."))
    };
    dir.join("data").is_file() && names.all(|name| known(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leftovers_of_dead_recorders_go_and_all_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let alive = format!("a.{}.part", std::process::id());
        let kept = [
            (alive.as_str(), "PERFILE2"),
            ("movie.999999996.part", "not a recording"),
            ("a.part", ""),
            (".999999995.part", ""),
            ("a.x.part", ""),
            (".planish-1.spool", ""),
        ];
        let gone = [
            ("a.999999999.part", ""),
            ("a.b.999999992.x1Yz09aB.part", "PERFILE2"),
            (".planish-999999991-x1Yz09aB.spool", ""),
            ("b.data.999999998.part", "PERFILE2 and more"),
            (".planish-999999997-0.spool", "anything"),
        ];
        for (name, text) in kept.iter().chain(&gone) {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let part = dir.path().join("d.999999993.part");
        std::fs::create_dir(&part).unwrap();
        std::fs::write(part.join("data"), "PERFILE2").unwrap();
        std::fs::write(part.join("data.0"), "").unwrap();
        let in_use = File::create(dir.path().join("c.999999994.part")).unwrap();
        assert!(crate::sys::lock(&in_use));
        remove(dir.path());
        for (name, _) in kept {
            assert!(dir.path().join(name).exists(), "{name}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), kept.len() + 1);
    }
}
