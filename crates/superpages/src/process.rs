//! Which text has a process mapped, and what does `/proc` say about it?
//!
//! Source: Documentation/filesystems/proc.rst, `maps` and `smaps`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// One executable mapping with the sizes that `smaps` states, in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    /// The file as the kernel names it, `[…]` for special memory, empty for anonymous memory.
    pub(crate) name: String,
    pub(crate) resident: u64,
    pub(crate) file_pmd: u64,
    /// Anonymous, shared-memory and hugetlb superpages.
    pub(crate) other_huge: u64,
}

impl Mapping {
    /// Text, as opposed to what the kernel maps into every process.
    fn is_text(&self) -> bool {
        !self.name.starts_with("[v") && !self.name.starts_with("[uprobes")
    }
}

/// Reads the executable mappings of a process.
pub(crate) fn text_mappings(pid: u32) -> Result<Vec<Mapping>, Error> {
    let failed = |source: io::Error| {
        let what = match source.kind() {
            io::ErrorKind::NotFound => "there is none of this number".to_owned(),
            io::ErrorKind::PermissionDenied => {
                "its memory map may not be read; be its owner or the superuser".to_owned()
            }
            kind => format!("its memory map cannot be read: {kind}"),
        };
        Error::Process { pid, what }
    };
    let text = fs::read(format!("/proc/{pid}/smaps")).map_err(failed)?;
    let found = parse(&String::from_utf8_lossy(&text));
    if found.is_empty() {
        let what = "it has no program text (a kernel thread, or it has just ended)".to_owned();
        return Err(Error::Process { pid, what });
    }
    Ok(found)
}

fn parse(smaps: &str) -> Vec<Mapping> {
    let mut found: Vec<Mapping> = Vec::new();
    let mut inside = false;
    for line in smaps.lines() {
        let first = line.split(' ').next().unwrap_or_default();
        if let Some(key) = first.strip_suffix(':') {
            let Some(mapping) = found.last_mut().filter(|_| inside) else { continue };
            let kib: u64 =
                line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
            let bytes = kib.saturating_mul(1024);
            match key {
                "Rss" => mapping.resident = bytes,
                "FilePmdMapped" => mapping.file_pmd = bytes,
                "AnonHugePages" | "ShmemPmdMapped" | "Shared_Hugetlb" | "Private_Hugetlb" => {
                    mapping.other_huge = mapping.other_huge.saturating_add(bytes);
                }
                _ => {}
            }
        } else {
            inside = false;
            if let Some(mapping) = head(line) {
                inside = true;
                found.push(mapping);
            }
        }
    }
    found
}

/// The first line of an executable mapping of text: `start-end perms offset device inode name`.
fn head(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hex(words.next()?)?;
    let rest = words.nth(2).unwrap_or_default();
    let name = rest.trim_start().to_owned();
    let mapping =
        Mapping { start: hex(start)?, end: hex(end)?, offset, name, ..Mapping::default() };
    (permissions.as_bytes().get(2) == Some(&b'x') && mapping.is_text()).then_some(mapping)
}

/// The files whose text a process has mapped, sorted; deleted ones are left out and counted.
///
/// # Errors
/// When there is no such process or it may not be looked at.
pub fn text_files(pid: u32) -> Result<(Vec<PathBuf>, usize), Error> {
    let mappings = text_mappings(pid)?;
    let names: BTreeSet<&str> =
        mappings.iter().map(|m| m.name.as_str()).filter(|n| n.starts_with('/')).collect();
    let (gone, there): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| name.ends_with(" (deleted)"));
    Ok((there.into_iter().map(PathBuf::from).collect(), gone.len()))
}

/// A process that has a file mapped.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct User {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
}

/// The processes that have a file mapped, as far as they may be looked at; this one is left out.
pub fn users(path: &Path) -> Vec<User> {
    let Ok(wanted) = fs::canonicalize(path) else { return Vec::new() };
    let wanted = wanted.to_string_lossy().into_owned();
    let Ok(listing) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let mut found: Vec<User> = pids
        .filter(|&pid| pid != std::process::id())
        .filter(|pid| {
            let maps = fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
            let maps = String::from_utf8_lossy(&maps);
            maps.lines().any(|line| {
                line.splitn(6, ' ').nth(5).is_some_and(|name| name.trim_start() == wanted)
            })
        })
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            User { pid, name: name.trim().to_owned() }
        })
        .collect();
    found.sort_by_key(|user| user.pid);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_mappings_are_read_with_all_kinds_of_superpages() {
        let smaps = "\
400000-402000 r--p 00000000 08:01 12                         /a b
Rss:                   8 kB
7f0000200000-7f0000600000 r-xp 00200000 08:01 12                         /a b
Size:               4096 kB
Rss:                4096 kB
FilePmdMapped:      2048 kB
AnonHugePages:      1024 kB
VmFlags: rd ex mr
7ffd0000-7ffd1000 r-xp 00000000 00:00 0                          [vdso]
Rss:                   4 kB
7f0000800000-7f0000a00000 r-xp 00000000 00:00 0
Private_Hugetlb:    2048 kB
";
        let found = parse(smaps);
        assert_eq!(found.len(), 2);
        let first = &found[0];
        assert_eq!(
            (first.start, first.end, first.offset),
            (0x7f00_0020_0000, 0x7f00_0060_0000, 0x20_0000)
        );
        assert_eq!((first.name.as_str(), first.resident), ("/a b", 4 << 20));
        assert_eq!((first.file_pmd, first.other_huge), (2 << 20, 1 << 20));
        assert_eq!((found[1].name.as_str(), found[1].other_huge), ("", 2 << 20));
    }

    #[test]
    fn this_process_has_text_and_a_number_without_process_is_named() {
        let (files, _) = text_files(std::process::id()).unwrap();
        assert!(files.contains(&std::env::current_exe().unwrap()), "{files:?}");
        assert!(text_files(u32::MAX).unwrap_err().to_string().contains("there is none"));
    }
}
