//! Which text has this process mapped, and from which files? Source:
//! Documentation/filesystems/proc.rst, `maps`.

use std::io;
use std::ops::Range;

use superpages::SUPERPAGE;

/// A readable, executable, private mapping of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// Runtime addresses.
    pub(crate) addresses: Range<u64>,
    /// Where in the file it begins, in bytes.
    pub(crate) offset: u64,
    /// Device, as major and minor number, and inode of the file.
    pub(crate) identity: (u32, u32, u64),
    /// The file.
    pub(crate) path: String,
}

impl Mapping {
    /// Its whole superpages, where it has one.
    pub(crate) fn superpages(&self) -> Option<Range<u64>> {
        let start = self.addresses.start.checked_next_multiple_of(SUPERPAGE)?;
        let end = self.addresses.end - self.addresses.end % SUPERPAGE;
        (start < end).then_some(start..end)
    }
}

/// The text mappings of this process.
pub(crate) fn own() -> io::Result<Vec<Mapping>> {
    let text = std::fs::read("/proc/self/maps")?;
    Ok(String::from_utf8_lossy(&text).lines().filter_map(mapping).collect())
}

/// `start-end perms offset major:minor inode path`, when it is text of a file.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let readable_text = words.next()? == "r-xp";
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hex(words.next()?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = |text: &str| u32::from_str_radix(text, 16).ok();
    let inode = words.next()?.parse().ok()?;
    let path = words.next()?.trim_start().to_owned();
    let addresses = hex(start)?..hex(end)?;
    let identity = (device(major)?, device(minor)?, inode);
    (readable_text && path.starts_with('/')).then_some(Mapping {
        addresses,
        offset,
        identity,
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_of_files_is_taken_with_its_whole_superpages() {
        let text = "\
7f0000000000-7f0000100000 r--p 00000000 08:01 12                         /lib/a b.so
7f0000100000-7f0000700000 r-xp 00100000 08:01 12                         /lib/a b.so
7f0000700000-7f0000800000 r-xp 00000000 00:00 0
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]
7f0001100000-7f0001200000 --xp 00100000 08:01 12                         /lib/only-run.so
";
        let found: Vec<Mapping> = text.lines().filter_map(mapping).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].path.as_str(), found[0].identity), ("/lib/a b.so", (8, 1, 12)));
        assert_eq!(found[0].superpages(), Some(0x7f00_0020_0000..0x7f00_0060_0000));
    }

    #[test]
    fn text_that_is_smaller_than_a_superpage_or_lies_across_a_boundary_has_none() {
        let at =
            |addresses| Mapping { addresses, offset: 0, identity: (0, 0, 0), path: String::new() };
        assert_eq!(at(0x10_0000..0x30_0000).superpages(), None);
        assert_eq!(at(0x20_0000..0x40_0000).superpages(), Some(0x20_0000..0x40_0000));
        assert_eq!(at(u64::MAX - 4096..u64::MAX).superpages(), None);
    }
}
