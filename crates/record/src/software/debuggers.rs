//! Which programs may trace what they start: those that import `ptrace`, and static ones, which do
//! not say.

use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol, ReadCache, elf};
use qemu_branches::maps;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Files whose answer is remembered.
const MOST_FILES: usize = 4096;

/// Remembers what files import.
#[derive(Default)]
pub(crate) struct Debuggers {
    /// By device and inode.
    files: HashMap<(u32, u32, u64), bool>,
}

/// What matters of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    imports: bool,
    is_static: bool,
}

/// Looks into a file; `None` where it is no 64-bit ELF file.
fn look(path: &Path) -> Option<Seen> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
    let endian = file.endian();
    let mut headers = file.elf_header().program_headers(endian, &cache).ok()?.iter();
    let is_static = !headers.any(|header| header.p_type(endian) == elf::PT_INTERP);
    let mut symbols = file.dynamic_symbols();
    let imports =
        symbols.any(|symbol| symbol.is_undefined() && symbol.name_bytes() == Ok(b"ptrace"));
    Some(Seen { imports, is_static })
}

impl Debuggers {
    /// Whether a process's program may ask for children that are traced. One that gets at `ptrace`
    /// by other ways is not known.
    pub(crate) fn is_one(&mut self, pid: i32) -> bool {
        if look(Path::new(&format!("/proc/{pid}/exe")))
            .is_some_and(|seen| seen.is_static || seen.imports)
        {
            return true;
        }
        let Ok(text) = std::fs::read(format!("/proc/{pid}/maps")) else { return false };
        let lines = text.split(|byte| *byte == b'\n').filter_map(maps::parse_line);
        lines.filter(|line| line.executable && line.inode != 0).any(|line| {
            if self.files.len() >= MOST_FILES {
                self.files.clear();
            }
            let key = (line.device.0, line.device.1, line.inode);
            *self.files.entry(key).or_insert_with(|| {
                look(Path::new(OsStr::from_bytes(line.path))).is_some_and(|seen| seen.imports)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_imports_it_and_a_shell_does_not() {
        // The tracer is linked into this test where something points to it.
        std::hint::black_box(crate::software::probe as fn() -> _);
        let here = look(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(here, Seen { imports: true, is_static: false });
        assert!(Debuggers::default().is_one(i32::try_from(std::process::id()).unwrap()));
        let shell = look(Path::new("/bin/sh")).unwrap();
        assert!(!shell.imports);
        assert_eq!(look(Path::new("/dev/null")), None);
    }
}
