//! Records of what exists before a recording begins: processes, threads, mappings, the kernel's own text.

use crate::Error;
use crate::file::Output;
use planish_qemu_branches::records::{self, Mapping, Stamp};
use planish_qemu_branches::{elf, maps};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Writes the records of existing processes, with time 0: they were there before anything else.
pub(crate) struct Synthesizer<'o> {
    output: &'o mut Output,
    id: u64,
    build_ids: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl<'o> Synthesizer<'o> {
    pub(crate) fn new(output: &'o mut Output, id: u64) -> Synthesizer<'o> {
        Synthesizer { output, id, build_ids: HashMap::new() }
    }

    /// All threads and mappings of a process. One that ends meanwhile is left out, as far as it is gone.
    pub(crate) fn process(&mut self, pid: i32) -> Result<(), Error> {
        for tid in threads(pid) {
            let stamp = Stamp { pid, tid, time: 0, id: self.id };
            if tid != pid {
                self.output.records(&records::fork(stamp, (pid, pid)))?;
            }
            if let Ok(name) = std::fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
                self.output.records(&records::comm(stamp, name.trim_ascii_end(), false))?;
            }
        }
        let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else { return Ok(()) };
        let stamp = Stamp { pid, tid: pid, time: 0, id: self.id };
        for line in text.split(|byte| *byte == b'\n').filter_map(maps::parse_line) {
            if !line.executable {
                continue;
            }
            let path = if line.path.is_empty() { b"//anon".to_vec() } else { line.path.to_vec() };
            let mapping = Mapping {
                start: line.start,
                len: line.end - line.start,
                file_offset: line.file_offset,
                device: line.device,
                inode: line.inode,
                build_id: self.build_id(&path),
                path,
            };
            self.output.records(&records::mmap2(stamp, &mapping))?;
        }
        Ok(())
    }

    fn build_id(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        if path.first() != Some(&b'/') || path.starts_with(b"//") {
            return None;
        }
        let read = |path: &[u8]| {
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(path));
            let regular = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
            let file = if regular { File::open(&path).ok() } else { None };
            file.and_then(|file| elf::read(&file))?.build_id
        };
        self.build_ids.entry(path.to_vec()).or_insert_with(|| read(path)).clone()
    }

    /// The kernel's text as perf names it, where kallsyms shows addresses (root, or kptr_restrict 0).
    pub(crate) fn kernel(&mut self) -> Result<(), Error> {
        let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let Some((start, end)) = kernel_text(&text) else { return Ok(()) };
        let record = records::kernel_mmap(
            Stamp { pid: -1, tid: 0, time: 0, id: self.id },
            start,
            end - start,
            b"[kernel.kallsyms]_text",
        );
        self.output.records(&record)
    }
}

/// Start and end of the kernel's text.
fn kernel_text(kallsyms: &str) -> Option<(u64, u64)> {
    let (mut start, mut end) = (None, None);
    for line in kallsyms.lines() {
        let mut words = line.split(' ');
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        match name {
            "_text" => start = u64::from_str_radix(address, 16).ok(),
            "_etext" => end = u64::from_str_radix(address, 16).ok(),
            _ => continue,
        }
        if let (Some(start), Some(end)) = (start, end) {
            return (start != 0 && end > start).then_some((start, end));
        }
    }
    None
}

/// Threads of a process, in order.
pub(crate) fn threads(pid: i32) -> Vec<i32> {
    numbers_in(Path::new(&format!("/proc/{pid}/task")))
}

/// All processes, in order.
pub(crate) fn processes() -> Vec<i32> {
    numbers_in(Path::new("/proc"))
}

fn numbers_in(dir: &Path) -> Vec<i32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_text_is_found_only_where_addresses_are_shown() {
        let text = "ffffffff81000000 T _text\nffffffff81000000 T _stext\nffffffff82000000 T _etext\n";
        assert_eq!(kernel_text(text), Some((0xffff_ffff_8100_0000, 0xffff_ffff_8200_0000)));
        assert_eq!(kernel_text("0000000000000000 T _text\n0000000000000000 T _etext\n"), None);
        assert_eq!(kernel_text(""), None);
    }
}
