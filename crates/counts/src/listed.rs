//! Which build IDs a recording states for a mapped file, under whatever name it lists them.
//!
//! A mapping record may carry the ID itself. Else the recording's list of IDs says it, by name:
//! perf lists the kernel as `[kernel.kallsyms]`, or, where it was told of one, as the path of a
//! vmlinux, and the mapping has the symbol at its begin behind the name. So a kernel is joined with
//! any entry that can only mean the kernel; a module with its module's name; a program with its
//! path, or, where no entry has that, with its file name.

use crate::model::base_name;
use address_spaces::{KernelPart, MappedFile, is_vmlinux, module_name};
use perfdata::{BuildIdEntry, CpuMode, Input};

/// An entry of the recording's list.
#[derive(Clone, Debug)]
pub struct ListedId {
    path: String,
    id: Vec<u8>,
    mode: CpuMode,
}

impl From<&BuildIdEntry> for ListedId {
    fn from(entry: &BuildIdEntry) -> ListedId {
        let (path, id) = (entry.path.clone(), entry.build_id.clone());
        ListedId { path, id, mode: CpuMode::of(entry.misc) }
    }
}

impl ListedId {
    /// What the entry names, where that is a part of a kernel.
    fn part(&self) -> Option<KernelPart> {
        let kernel = match self.mode {
            CpuMode::Kernel | CpuMode::GuestKernel => true,
            _ => {
                ["[kernel", "[guest.kernel"].iter().any(|own| self.path.starts_with(own))
                    || is_vmlinux(&self.path)
            }
        };
        let part = kernel.then(|| KernelPart::of(&self.path))?;
        Some(match part {
            KernelPart::Core { .. } if self.mode == CpuMode::GuestKernel => {
                KernelPart::Core { guest: true }
            }
            part => part,
        })
    }
}

/// All entries: of the header, and of the records that `perf inject` and pipes carry.
pub(crate) fn of(input: &Input, in_stream: &[ListedId]) -> Vec<ListedId> {
    input.features().build_ids.iter().map(ListedId::from).chain(in_stream.iter().cloned()).collect()
}

/// The build IDs that `file` may have; empty where the recording states none. Several where its
/// list is ambiguous.
pub(crate) fn ids_of<'a>(file: &'a MappedFile, listed: &'a [ListedId]) -> Vec<&'a [u8]> {
    let known = |id: &&[u8]| id.iter().any(|&b| b != 0);
    if let Some(own) = file.build_id.as_deref().filter(known) {
        return vec![own];
    }
    let matching = |fits: &dyn Fn(&ListedId) -> bool| -> Vec<&'a [u8]> {
        let mut ids: Vec<_> =
            listed.iter().filter(|e| fits(e)).map(|e| e.id.as_slice()).filter(known).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    let tiers: [&dyn Fn(&ListedId) -> bool; 2] = if file.side.is_kernel() {
        let part = KernelPart::of(&file.path);
        let module = move |e: &ListedId| module_name(&e.path) == module_name(&file.path);
        let by_perfs_name = move |e: &ListedId| e.part() == Some(part) && e.path.starts_with('[');
        let by_any = move |e: &ListedId| e.part() == Some(part);
        return match part {
            KernelPart::Module => matching(&module),
            // The name in brackets is of what ran; a path is of a file that perf was shown.
            KernelPart::Core { .. } => first_found([matching(&by_perfs_name), matching(&by_any)]),
        };
    } else {
        [&|e| e.path == file.path, &|e| {
            e.part().is_none() && base_name(lasting(&e.path)) == base_name(lasting(&file.path))
        }]
    };
    first_found(tiers.map(matching))
}

fn first_found<const N: usize>(tiers: [Vec<&[u8]>; N]) -> Vec<&[u8]> {
    tiers.into_iter().find(|ids| !ids.is_empty()).unwrap_or_default()
}

/// The path without the mark of files that were deleted.
pub(crate) fn lasting(path: &str) -> &str {
    path.strip_suffix(" (deleted)").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use address_spaces::Side;

    fn entry(path: &str, id: u8, mode: CpuMode) -> ListedId {
        ListedId { path: path.to_owned(), id: vec![id; 20], mode }
    }

    fn ids(path: &str, side: Side, listed: &[ListedId]) -> Vec<u8> {
        let file = MappedFile { path: path.to_owned(), build_id: None, side };
        ids_of(&file, listed).iter().map(|id| id[0]).collect()
    }

    #[test]
    fn a_kernel_has_the_id_that_is_listed_under_any_name_of_it() {
        use CpuMode::{GuestKernel, Kernel, Unknown, User};
        let module = entry("/lib/modules/6.1/snd-hda.ko", 9, Kernel);
        for (name, mode) in [
            ("[kernel.kallsyms]", Kernel),
            ("[kernel.kallsyms]_text", Kernel),
            ("[kernel.vmlinux]", Kernel),
            ("/tmp/vmlinux", Kernel),
            ("/tmp/vmlinux-6.1", User),
            ("vmlinux", Unknown),
            ("/usr/lib/debug/.build-id/07/07.debug", Kernel),
        ] {
            let listed = [
                module.clone(),
                entry(name, 7, mode),
                entry("[guest.kernel.kallsyms]", 5, GuestKernel),
            ];
            for begin in ["_text", "_stext", ""] {
                let kernel = format!("[kernel.kallsyms]{begin}");
                assert_eq!(ids(&kernel, Side::Kernel, &listed), [7], "{name} {begin}");
            }
            assert_eq!(ids("/boot/vmlinux", Side::Kernel, &listed), [7], "{name}");
            assert_eq!(ids("[guest.kernel.kallsyms]_text", Side::Kernel, &listed), [5], "{name}");
            assert_eq!(ids("[snd_hda]", Side::Kernel, &listed), [9], "{name}");
            assert_eq!(ids("[other]", Side::Kernel, &listed), [0u8; 0], "{name}");
        }
        let guest = [entry("/tmp/vmlinux", 7, GuestKernel)];
        assert_eq!(ids("[guest.kernel.kallsyms.5]_text", Side::Kernel, &guest), [7]);
        assert_eq!(ids("[kernel.kallsyms]_text", Side::Kernel, &guest), [0u8; 0]);
        let both = [entry("/tmp/vmlinux", 6, Kernel), entry("[kernel.kallsyms]", 7, Kernel)];
        assert_eq!(ids("[kernel.kallsyms]_text", Side::Kernel, &both), [7]);
    }

    #[test]
    fn a_program_has_the_id_of_its_path_and_else_of_its_file_name() {
        let user = |path: &str, id| entry(path, id, CpuMode::User);
        let listed = [user("/bin/a", 1), user("/opt/a", 2), user("/opt/b", 3), user("[vdso]", 4)];
        assert_eq!(ids("/bin/a", Side::Process, &listed), [1]);
        assert_eq!(ids("/usr/bin/a", Side::Process, &listed), [1, 2]);
        assert_eq!(ids("/tmp/b (deleted)", Side::Process, &listed), [3]);
        assert_eq!(ids("[vdso]", Side::Process, &listed), [4]);
        assert_eq!(ids("/bin/a_text", Side::Process, &listed), [0u8; 0]);
        assert_eq!(ids("/bin/c", Side::Process, &[user("/bin/c", 0)]), [0u8; 0]);
    }
}
