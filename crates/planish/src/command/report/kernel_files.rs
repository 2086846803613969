//! Where are the files of a recorded kernel: vmlinux, modules, lists of its symbols?

use super::id_paths::by_id;
use beside::given;
use calltrees::{KernelSymbols, module_name};
use image::BuildId;
use std::path::{Component, Path, PathBuf};

/// Most bytes of a list of symbols; that of a distribution's kernel has 10 MiB.
const SYMBOLS_BYTES: u64 = 256 << 20;

/// Where to look.
pub struct KernelPlaces<'p> {
    /// Root of the recorded machine's files.
    pub sysroot: Option<&'p Path>,
    /// The user's directories.
    pub directories: &'p [PathBuf],
    /// Release of the recorded kernel.
    pub release: Option<&'p str>,
}

impl KernelPlaces<'_> {
    /// The release, where it is one file's name: it is part of paths.
    fn release(&self) -> Option<&str> {
        let release = self.release?;
        let mut parts = Path::new(release).components();
        let plain = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
        plain.then_some(release)
    }

    fn roots(&self) -> impl Iterator<Item = &Path> {
        let root = self.sysroot.unwrap_or(Path::new("/"));
        std::iter::once(root).chain(self.directories.iter().map(PathBuf::as_path))
    }

    /// Names that the kernel's image has where distributions and developers put it.
    pub fn vmlinux(&self) -> Vec<PathBuf> {
        let asked = self.sysroot.into_iter().chain(self.directories.iter().map(PathBuf::as_path));
        let mut all: Vec<PathBuf> = asked.map(|root| root.join("vmlinux")).collect();
        let Some(release) = self.release() else { return all };
        for root in self.roots() {
            all.extend([
                root.join(format!("vmlinux-{release}")),
                root.join(format!("boot/vmlinux-{release}")),
                root.join(format!("usr/lib/debug/boot/vmlinux-{release}")),
                root.join(format!("usr/lib/debug/lib/modules/{release}/vmlinux")),
                root.join(format!("lib/modules/{release}/vmlinux")),
                root.join(format!("lib/modules/{release}/build/vmlinux")),
            ]);
        }
        all
    }

    /// The file of a module that the recording has as `path`: a file, or its name in brackets.
    pub fn module(&self, path: &str) -> Vec<PathBuf> {
        let wanted = module_name(path);
        let mut all = Vec::new();
        let recorded = Path::new(path);
        let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
        let is_file = recorded.is_absolute() && recorded.components().all(plain);
        let inside = recorded.strip_prefix("/").ok().filter(|_| is_file);
        for root in self.roots() {
            all.extend(inside.map(|inside| root.join(inside)));
            all.extend(inside.and_then(|inside| Some(root.join(inside.file_name()?))));
            let Some(release) = self.release() else { continue };
            let modules = root.join("lib/modules").join(release);
            all.extend(listed_module(&modules, &wanted));
            let debug = root.join("usr/lib/debug/lib/modules").join(release);
            all.extend(listed_module(&modules, &wanted).and_then(|found| {
                let inside = found.strip_prefix(&modules).ok()?;
                Some(debug.join(inside))
            }));
        }
        for directory in self.directories {
            all.extend([directory.join(format!("{wanted}.ko"))]);
            all.push(directory.join(format!("{}.ko", wanted.replace('_', "-"))));
        }
        all
    }
}

/// The file of a module as `modules.dep` lists it, in the directory of a release.
fn listed_module(modules: &Path, wanted: &str) -> Option<PathBuf> {
    let text = given::read_text(&modules.join("modules.dep"), given::TEXT).ok()?;
    let mut files = text.lines().filter_map(|line| line.split(':').next());
    let file = Path::new(files.find(|file| module_name(file) == wanted)?);
    let plain = file.components().all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| modules.join(file))
}

/// Lists of symbols that may be the recorded kernel's: of the kernel that runs, and those in
/// directories, by build ID or, without one, under the name `kallsyms`.
pub fn symbols<'p>(
    recorded: Option<&BuildId>,
    directories: impl Iterator<Item = &'p Path>,
) -> Vec<KernelSymbols> {
    let all = lists_with_kind(recorded, directories).into_iter();
    all.filter_map(|(path, kind)| {
        let text = given::read(&path, SYMBOLS_BYTES).ok()?;
        let symbols = KernelSymbols::parse(&String::from_utf8_lossy(&text));
        Some(match kind {
            List::Running => symbols.of_running_kernel(),
            List::RunningRecorded => symbols.of_running_kernel().of_recorded_build(),
            List::Recorded => symbols.of_recorded_build(),
            List::Some => symbols,
        })
    })
    .collect()
}

/// Where those lists lie.
pub fn lists<'p>(
    recorded: Option<&BuildId>,
    directories: impl Iterator<Item = &'p Path>,
) -> Vec<PathBuf> {
    lists_with_kind(recorded, directories).into_iter().map(|(path, _)| path).collect()
}

/// What is known of whose a list is.
#[derive(Clone, Copy)]
enum List {
    /// The running kernel's.
    Running,
    /// The running kernel's, which is the recorded one.
    RunningRecorded,
    /// The recorded kernel's.
    Recorded,
    /// Only its addresses can tell.
    Some,
}

fn lists_with_kind<'p>(
    recorded: Option<&BuildId>,
    directories: impl Iterator<Item = &'p Path>,
) -> Vec<(PathBuf, List)> {
    let mut all = Vec::new();
    let running = record::running_kernel_id().and_then(|id| BuildId::from_bytes(&id));
    let same = match (recorded, &running) {
        (Some(recorded), Some(running)) => Some(running.matches_padded(recorded.as_bytes())),
        _ => None,
    };
    // Without the right to read it, kernel frames stay addresses.
    if same != Some(false) {
        let kind = if same == Some(true) { List::RunningRecorded } else { List::Running };
        all.push((PathBuf::from("/proc/kallsyms"), kind));
    }
    for directory in directories {
        let by_id = recorded.map(|id| by_id(directory, id).join("kallsyms"));
        all.extend(by_id.map(|path| (path, List::Recorded)));
        all.push((directory.join("kallsyms"), List::Some));
    }
    all.retain(|(path, _)| path.is_file());
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_that_is_a_path_names_no_file_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let modules = folder.path().join("lib/modules/6.1");
        std::fs::create_dir_all(&modules).unwrap();
        let listing = "kernel/fs/snd-hda.ko.xz: kernel/a.ko\nkernel/b.ko:\n../../../evil.ko:\n";
        std::fs::write(modules.join("modules.dep"), listing).unwrap();
        let of = |release| KernelPlaces {
            sysroot: Some(folder.path()),
            directories: &[],
            release: Some(release),
        };
        let found = of("6.1").module("[snd_hda]");
        assert!(found.contains(&modules.join("kernel/fs/snd-hda.ko.xz")), "{found:?}");
        assert!(of("6.1").module("[evil]").is_empty());
        assert!(of("6.1").vmlinux().contains(&folder.path().join("boot/vmlinux-6.1")));
        for wrong in ["../../etc", "/etc", "", "..", "a/b"] {
            assert_eq!(of(wrong).vmlinux(), [folder.path().join("vmlinux")], "{wrong}");
            assert!(of(wrong).module("[snd_hda]").is_empty(), "{wrong}");
        }
        assert!(of("6.1").module("/lib/../../x.ko").iter().all(|p| !p.ends_with("../x.ko")));
    }
}
