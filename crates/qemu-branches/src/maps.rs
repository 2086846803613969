//! Which files lie where in the guest's memory, executable part by executable part.
//!
//! qemu maps the guest's executable pages `r--p` and lets the kernel merge them with read-only
//! neighbours, so the host's `/proc/self/maps` says where a file lies but not which part of it is
//! code; the ELF program headers do.

use crate::elf;
use crate::records::Mapping;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const PAGE_BYTES: u64 = 4096;

/// One line of `/proc/self/maps`.
#[derive(Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Whether the host may execute it.
    pub executable: bool,
    /// Whether the host may write it.
    pub writable: bool,
    /// Offset of the first byte in the file.
    pub file_offset: u64,
    /// Major and minor number of the file's device.
    pub device: (u32, u32),
    /// The file's inode; 0 for memory without a file.
    pub inode: u64,
    /// The file, or a name in brackets, or nothing.
    pub path: &'a [u8],
}

/// Parses `START-END PERMS OFFSET MAJOR:MINOR INODE   PATH`.
pub fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let mut text = || fields.next().and_then(|field| std::str::from_utf8(field).ok());
    let (start, end) = text()?.split_once('-')?;
    let permissions = text()?;
    let file_offset = u64::from_str_radix(text()?, 16).ok()?;
    let (major, minor) = text()?.split_once(':')?;
    let inode = text()?.parse().ok()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    Some(Line {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        executable: permissions.as_bytes().get(2) == Some(&b'x'),
        writable: permissions.as_bytes().get(1) == Some(&b'w'),
        file_offset,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode,
        path,
    })
}

/// What was found: the executable parts of files, and the plain mapping around one address.
pub(crate) struct Scan {
    pub code: Vec<Mapping>,
    pub around: Option<Mapping>,
}

/// Reads the guest's mappings; `address` is the guest address that the caller wants to see covered.
pub(crate) fn scan(guest_base: u64, address: u64) -> Option<Scan> {
    let text = std::fs::read("/proc/self/maps").ok()?;
    // What the host may execute is qemu itself; the guest's code never is.
    let lines: Vec<Line<'_>> = text
        .split(|byte| *byte == b'\n')
        .filter_map(parse_line)
        .filter(|line| !line.executable && line.start >= guest_base)
        .map(|line| Line { start: line.start - guest_base, end: line.end - guest_base, ..line })
        .collect();
    let mut by_file: BTreeMap<&[u8], Vec<&Line<'_>>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.path.first() == Some(&b'/') && line.inode != 0) {
        by_file.entry(line.path).or_default().push(line);
    }
    let around =
        lines.iter().find(|line| (line.start..line.end).contains(&address)).map(whole_line);
    let mut found = Scan { code: Vec::new(), around };
    for (path, lines) in by_file {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        // Opening a device could have effects; only regular files have program headers.
        let regular = std::fs::metadata(path).is_ok_and(|found| found.is_file());
        let file = if regular { File::open(path).ok() } else { None };
        if let Some(file) = file.and_then(|file| elf::read(&file)) {
            found.code.extend(code_in(&lines, &file));
        }
    }
    Some(found)
}

/// A mapping as the kernel tells it, for code that lies in no ELF file (or in a file whose map is
/// unusual).
fn whole_line(line: &Line<'_>) -> Mapping {
    let path = if line.path.is_empty() { b"//anon".to_vec() } else { line.path.to_vec() };
    Mapping {
        start: line.start,
        len: line.end - line.start,
        file_offset: line.file_offset,
        device: line.device,
        inode: line.inode,
        path,
        build_id: None,
    }
}

/// The executable segments of one file, wherever it is loaded.
///
/// One page of a small file can be mapped several times (the end of the code, and the start of the
/// data after it), so a line alone does not say which segment it is: a bias counts when all
/// segments lie where it puts them.
fn code_in(lines: &[&Line<'_>], file: &elf::ElfFile) -> Vec<Mapping> {
    let page = |address: u64| address & !(PAGE_BYTES - 1);
    let holds = |line: &Line<'_>, address: u64, offset: u64| {
        (line.start..line.end).contains(&address)
            && line.file_offset.wrapping_add(address - line.start) == page(offset)
    };
    let mut found: Vec<Mapping> = Vec::new();
    let Some(first) = file.segments.first() else { return found };
    for line in lines {
        let Some(into_line) = page(first.file_offset).checked_sub(line.file_offset) else {
            continue;
        };
        let bias = line.start.wrapping_add(into_line).wrapping_sub(page(first.address));
        let at = |segment: &elf::Segment| bias.wrapping_add(page(segment.address));
        let all_there = file
            .segments
            .iter()
            .all(|segment| lines.iter().any(|line| holds(line, at(segment), segment.file_offset)));
        if !all_there {
            continue;
        }
        for segment in file.segments.iter().filter(|segment| segment.executable) {
            let file_offset = page(segment.file_offset);
            let end = segment.file_offset.saturating_add(segment.file_bytes);
            let mapping = Mapping {
                start: at(segment),
                len: (end - file_offset).saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1),
                file_offset,
                device: line.device,
                inode: line.inode,
                path: line.path.to_vec(),
                build_id: file.build_id.clone(),
            };
            if !found.contains(&mapping) {
                found.push(mapping);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_maps_is_read_with_spaces_in_the_path() {
        let line = parse_line(b"7f00-7f10 r--p 0001000 fe:01 123      /a b/c").unwrap();
        assert_eq!(line.path, b"/a b/c");
        assert_eq!(
            (line.start, line.end, line.device, line.inode),
            (0x7f00, 0x7f10, (0xfe, 1), 123)
        );
        assert_eq!(parse_line(b"7f00-7f10 rw-p 00000000 00:00 0 ").unwrap().path, b"");
        assert_eq!(parse_line(b""), None);
    }

    fn segment(file_offset: u64, address: u64, executable: bool) -> elf::Segment {
        elf::Segment { file_offset, file_bytes: 0x800, address, executable }
    }

    #[test]
    fn code_is_found_inside_a_merged_read_only_mapping() {
        let line = parse_line(b"10000-20000 r--p 0000000 fe:01 123 /x").unwrap();
        let segments = vec![segment(0, 0, false), segment(0x3040, 0x3040, true)];
        let found = code_in(&[&line], &elf::ElfFile { segments, build_id: None });
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].start, found[0].len, found[0].file_offset), (0x13000, 0x1000, 0x3000));
    }

    #[test]
    fn a_page_that_is_mapped_for_code_and_data_does_not_give_two_biases() {
        let text = b"200000-201000 r--p 0 fe:01 1 /x\n201000-202000 r--p 0 fe:01 1 /x\n202000-203000 rw-p 0 fe:01 1 /x";
        let lines: Vec<_> = text.split(|byte| *byte == b'\n').filter_map(parse_line).collect();
        let segments = vec![
            segment(0, 0x200000, false),
            segment(0x1a0, 0x2011a0, true),
            segment(0x300, 0x202300, false),
        ];
        let found =
            code_in(&lines.iter().collect::<Vec<_>>(), &elf::ElfFile { segments, build_id: None });
        assert_eq!(found.iter().map(|mapping| mapping.start).collect::<Vec<_>>(), [0x201000]);
    }
}
