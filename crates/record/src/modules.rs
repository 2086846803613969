//! The kernel's modules and its own build ID, from /proc and /sys.

use crate::seen::BuildId;
use perfdata::RuntimeAddr;
use qemu_branches::records::{self, Mapping, Stamp};
use std::path::{Path, PathBuf};

/// A loaded module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Its file, else its name in brackets.
    pub path: String,
    /// Where its text begins.
    pub start: u64,
    /// Bytes from there that may be its own.
    pub len: u64,
    /// Its build ID, where it is known.
    pub build_id: Option<Vec<u8>>,
}

impl Module {
    /// Its first run-time address, and one past its last.
    pub fn text(&self) -> (RuntimeAddr, RuntimeAddr) {
        (RuntimeAddr(self.start), RuntimeAddr(self.start.saturating_add(self.len)))
    }

    /// The record that tells where it lies.
    pub(crate) fn record(&self, stamp: Stamp) -> Vec<u8> {
        let mapping = Mapping {
            start: self.start,
            len: self.len,
            file_offset: 0,
            device: (0, 0),
            inode: 0,
            path: self.path.clone().into_bytes(),
            build_id: self.build_id.clone(),
        };
        let mut record = records::mmap2(stamp, &mapping);
        in_kernel(&mut record);
        record
    }

    /// Its file by its build ID, where that is known.
    pub(crate) fn file(&self) -> Option<BuildId> {
        let (path, kernel) = (self.path.clone().into_bytes(), true);
        self.build_id.clone().map(|id| BuildId { path, id, kernel })
    }
}

/// Says of a record that it speaks of the kernel: the low three bits of `misc`.
fn in_kernel(record: &mut [u8]) {
    const MODE: u8 = 7;
    const KERNEL: u8 = 1;
    let low = if cfg!(target_endian = "little") { 4 } else { 5 };
    record.get_mut(low).into_iter().for_each(|misc| *misc = *misc & !MODE | KERNEL);
}

/// Modules whose addresses are shown, by address. Since Linux 6.4 a module's parts lie apart, and its
/// size is that of all of them: what lies behind the next one's begin is not its own.
pub(crate) fn apart(mut modules: Vec<Module>) -> Vec<Module> {
    modules.retain(|module| module.start != 0);
    modules.sort_by_key(|module| module.start);
    let ends = modules.iter().skip(1).map(|next| next.start).chain([u64::MAX]);
    let ends: Vec<u64> = ends.collect();
    for (module, next) in modules.iter_mut().zip(ends) {
        module.len = module.len.min(next.saturating_sub(module.start));
    }
    modules.retain(|module| module.len > 0);
    modules
}

/// Where the kernel describes itself, and where its modules' files are.
pub(crate) struct Places {
    pub modules: PathBuf,
    pub sys: PathBuf,
    pub kallsyms: PathBuf,
    pub iomem: PathBuf,
    pub files: PathBuf,
}

impl Places {
    pub(crate) fn here() -> Places {
        Places {
            modules: "/proc/modules".into(),
            sys: "/sys".into(),
            kallsyms: "/proc/kallsyms".into(),
            iomem: "/proc/iomem".into(),
            files: Path::new("/lib/modules").join(crate::sys::host().release),
        }
    }

    /// The kernel's build ID.
    pub(crate) fn kernel_build_id(&self) -> Option<Vec<u8>> {
        note_build_id(&std::fs::read(self.sys.join("kernel/notes")).ok()?)
    }

    /// How many bytes of text the kernel has, from where they lie in memory (`01000000-023fffff :
    /// Kernel code`), which is shown as 0 to users who may not know.
    pub(crate) fn kernel_code_bytes(&self) -> Option<u64> {
        let text = std::fs::read_to_string(&self.iomem).ok()?;
        let line = text.lines().find_map(|line| line.trim().strip_suffix(" : Kernel code"))?;
        let (start, last) = line.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let bytes = number(last)?.checked_sub(number(start)?)?;
        (bytes > 0).then_some(bytes + 1)
    }

    /// All loaded modules whose addresses are shown, by address.
    pub(crate) fn loaded(&self) -> Vec<Module> {
        let Ok(text) = std::fs::read_to_string(&self.modules) else { return Vec::new() };
        let found: Vec<(u64, u64, &str)> = text
            .lines()
            .filter_map(|line| parse_line(line))
            .map(|module| self.refine(module))
            .collect();
        if found.is_empty() {
            return Vec::new();
        }
        let files = module_files(&self.files);
        let modules = found.into_iter().map(|(start, len, name)| {
            let notes = self.sys.join("module").join(name).join("notes/.note.gnu.build-id");
            let file = files.iter().find(|(known, _)| known == name).map(|(_, path)| path.clone());
            Module {
                path: file.unwrap_or_else(|| format!("[{name}]")),
                start,
                len,
                build_id: std::fs::read(notes).ok().and_then(|bytes| note_build_id(&bytes)),
            }
        });
        apart(modules.collect())
    }

    /// Where /proc/modules hides the address, the sections may show it.
    fn refine<'t>(&self, (start, size, name): (u64, u64, &'t str)) -> (u64, u64, &'t str) {
        let text = || {
            let file = self.sys.join("module").join(name).join("sections/.text");
            hex(std::fs::read_to_string(file).ok()?.trim())
        };
        if start != 0 { (start, size, name) } else { (text().unwrap_or(0), size, name) }
    }
}

fn hex(text: &str) -> Option<u64> {
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

/// `name size users dependants state address`
pub(crate) fn parse_line(line: &str) -> Option<(u64, u64, &str)> {
    let mut words = line.split(' ');
    let (name, size) = (words.next()?, words.next()?.parse().ok()?);
    let safe = !name.is_empty() && !name.contains(['/', '\0']) && !name.starts_with('.');
    let start = words.nth(3).and_then(hex)?;
    safe.then_some((start, size, name))
}

/// Name (with `_` for `-`) and path of all modules of this kernel, sorted.
fn module_files(root: &Path) -> Vec<(String, String)> {
    /// Deeper trees are none of ours.
    const DEEPEST: usize = 12;
    let mut found = Vec::new();
    let mut open = vec![(root.to_owned(), 0)];
    while let Some((dir, depth)) = open.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            // `build` and `source` are links to other trees.
            if kind.is_dir() && depth < DEEPEST {
                open.push((entry.path(), depth + 1));
            }
            let file = entry.file_name();
            let name = file.to_str().and_then(|name| {
                let (stem, end) = name.split_once(".ko")?;
                matches!(end, "" | ".gz" | ".xz" | ".zst").then_some(stem)
            });
            if let (true, Some(name), Some(path)) = (kind.is_file(), name, entry.path().to_str()) {
                found.push((name.replace('-', "_"), path.to_owned()));
            }
        }
    }
    found.sort();
    found
}

/// The build ID of the kernel that runs; none where it has none or hides it.
pub fn running_kernel_id() -> Option<Vec<u8>> {
    Places::here().kernel_build_id()
}

/// The GNU build ID among the notes.
fn note_build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const GNU_BUILD_ID: u32 = 3;
    let word = |bytes: &[u8], at: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
    };
    loop {
        let (name_bytes, id_bytes, kind) =
            (word(notes, 0)? as usize, word(notes, 4)? as usize, word(notes, 8)?);
        let id_at = 12usize.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
        let name = notes.get(12..12usize.checked_add(name_bytes)?)?;
        let id_end = id_at.checked_add(id_bytes)?;
        if kind == GNU_BUILD_ID && name == b"GNU\0" {
            return notes
                .get(id_at..id_end)
                .filter(|id| (1..=20).contains(&id.len()))
                .map(<[u8]>::to_vec);
        }
        notes = notes.get(id_at.checked_add(id_bytes.checked_next_multiple_of(4)?)?..)?;
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn note(kind: u32, name: &[u8], id: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = [name.len() as u32, id.len() as u32, kind]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        for part in [name, id] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    /// A machine with two modules, one of them with a file.
    pub(crate) fn machine(dir: &Path) -> Places {
        let places = Places {
            modules: dir.join("modules"),
            sys: dir.join("sys"),
            kallsyms: dir.join("kallsyms"),
            iomem: dir.join("iomem"),
            files: dir.join("lib"),
        };
        let write = |path: PathBuf, bytes: &[u8]| {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        let text = "snd_hda 20480 0 - Live 0xffffffffc0003000 (E)\nfat 8192 1 vfat, Live \
                    0xffffffffc0001000\n";
        write(places.modules.clone(), text.as_bytes());
        write(places.files.join("kernel/fs/fat/fat.ko.xz"), b"");
        write(places.files.join("kernel/sound/snd-hda.ko"), b"");
        write(
            places.sys.join("module/fat/notes/.note.gnu.build-id"),
            &note(3, b"GNU\0", &[0xfa; 20]),
        );
        write(
            places.sys.join("module/snd_hda/notes/.note.gnu.build-id"),
            &note(3, b"GNU\0", &[0x5d; 20]),
        );
        let notes = [note(0x100, b"Xen\0", &[1, 2]), note(3, b"GNU\0", &[0xee; 20])].concat();
        write(places.sys.join("kernel/notes"), &notes);
        places
    }

    #[test]
    fn modules_have_their_file_their_build_id_and_do_not_overlap() {
        let dir = tempfile::tempdir().unwrap();
        let places = machine(dir.path());
        let found = places.loaded();
        let shown: Vec<_> =
            found.iter().map(|module| (module.start & 0xffff, module.len)).collect();
        assert_eq!(shown, [(0x1000, 8192), (0x3000, 20480)]);
        assert!(
            found[0].path.ends_with("/kernel/fs/fat/fat.ko.xz")
                && found[1].path.ends_with("snd-hda.ko")
        );
        assert_eq!(found[1].build_id, Some(vec![0x5d; 20]));
        assert_eq!(places.kernel_build_id(), Some(vec![0xee; 20]));
        assert_eq!(places.kernel_code_bytes(), None);
        std::fs::write(
            &places.iomem,
            "00100000-5fffffff : System RAM\n  01000000-023fffff : Kernel code\n",
        )
        .unwrap();
        assert_eq!(places.kernel_code_bytes(), Some(0x140_0000));
        std::fs::write(
            &places.modules,
            "a 65536 0 - Live 0x1000\nb 4096 0 - Live 0x2000\n../c 1 0 - Live 0x1\n",
        )
        .unwrap();
        let found = places.loaded();
        assert_eq!(
            found.iter().map(|module| (module.path.as_str(), module.len)).collect::<Vec<_>>(),
            [("[a]", 0x1000), ("[b]", 4096)]
        );
    }

    #[test]
    fn hidden_addresses_come_from_the_sections_or_leave_the_module_out() {
        let dir = tempfile::tempdir().unwrap();
        let places = machine(dir.path());
        std::fs::write(
            &places.modules,
            "fat 8192 1 - Live 0x0000000000000000\nx 1 0 - Live 0x0000000000000000\n",
        )
        .unwrap();
        let sections = places.sys.join("module/fat/sections");
        std::fs::create_dir_all(&sections).unwrap();
        std::fs::write(sections.join(".text"), "0xffffffffc0001000\n").unwrap();
        let found = places.loaded();
        assert_eq!(
            found.iter().map(|module| module.start).collect::<Vec<_>>(),
            [0xffff_ffff_c000_1000]
        );
    }

    #[test]
    fn damaged_notes_have_no_build_id() {
        let whole = note(3, b"GNU\0", &[7; 20]);
        for end in 0..whole.len() {
            assert_eq!(note_build_id(&whole[..end]), None);
        }
        assert_eq!(note_build_id(&[0xff; 64]), None);
    }
}
