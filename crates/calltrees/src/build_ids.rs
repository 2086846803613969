//! Which build ID does a recording state for a file, in its mapping or in its list?

use address_spaces::{KernelPart, MappedFile, is_vmlinux, module_name};
use image::BuildId;

/// The list of a recording, which stands beside its mappings.
#[derive(Clone, Debug, Default)]
pub struct BuildIds(Vec<(String, Vec<u8>)>);

impl BuildIds {
    /// That of `input`.
    pub fn of(input: &perfdata::Input) -> BuildIds {
        let all = input.features().build_ids.iter();
        BuildIds(all.map(|entry| (entry.path.clone(), entry.build_id.clone())).collect())
    }

    /// The ID of a file; none where the recording states none.
    pub fn id_of(&self, mapped: &MappedFile) -> Option<BuildId> {
        let own = mapped.build_id.as_deref().filter(|id| is_known(id));
        if let Some(id) = own {
            return BuildId::from_bytes(id);
        }
        if !mapped.side.is_kernel() {
            return self.find(|path| path == mapped.path);
        }
        match KernelPart::of(&mapped.path) {
            KernelPart::Core { guest: false } => self.kernel(),
            KernelPart::Core { guest: true } => None,
            KernelPart::Module => {
                let name = module_name(&mapped.path);
                self.find(|path| is_module(path) && module_name(path) == name)
            }
        }
    }

    /// The ID of the kernel that ran, under whatever name it is listed.
    pub fn kernel(&self) -> Option<BuildId> {
        // The name in brackets is of what ran; a path is of a file that perf was shown.
        self.find(|path| path.starts_with("[kernel")).or_else(|| self.find(is_vmlinux))
    }

    fn find(&self, fits: impl Fn(&str) -> bool) -> Option<BuildId> {
        let (_, id) = self.0.iter().find(|(path, id)| is_known(id) && fits(path))?;
        BuildId::from_bytes(id)
    }
}

/// perf writes zeros where it could not read one.
fn is_known(id: &[u8]) -> bool {
    id.iter().any(|&byte| byte != 0)
}

fn is_module(path: &str) -> bool {
    KernelPart::of(path) == KernelPart::Module
}

#[cfg(test)]
mod tests {
    use super::*;
    use address_spaces::Side;

    #[test]
    fn files_kernels_and_modules_are_found_under_the_names_they_are_listed_by() {
        let entry = |path: &str, id: u8| (path.to_owned(), vec![id; 20]);
        let listed = BuildIds(vec![
            entry("/usr/lib/libc.so.6", 1),
            entry("/boot/vmlinux-6.1", 2),
            entry("[kernel.kallsyms]", 3),
            entry("/lib/modules/6.1/snd-hda.ko.xz", 4),
            entry("/empty", 0),
        ]);
        let find = |path: &str, side, build_id: Option<u8>| {
            let build_id = build_id.map(|id| vec![id; 20]);
            let id = listed.id_of(&MappedFile { path: path.to_owned(), build_id, side })?;
            id.as_bytes().first().copied()
        };
        assert_eq!(find("/usr/lib/libc.so.6", Side::Process, None), Some(1));
        assert_eq!(find("/usr/lib/libc.so.6", Side::Process, Some(9)), Some(9));
        assert_eq!(find("/other/libc.so.6", Side::Process, None), None);
        assert_eq!(find("/empty", Side::Process, Some(0)), None);
        assert_eq!(find("[kernel.kallsyms]_text", Side::Kernel, None), Some(3));
        assert_eq!(find("[guest.kernel.kallsyms]", Side::Kernel, None), None);
        assert_eq!(find("[snd_hda]", Side::Kernel, None), Some(4));
    }
}
